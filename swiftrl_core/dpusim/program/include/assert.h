/* A failed assertion prints where, then stops the DPU with a fault. May be included again with another NDEBUG. */
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
void __assert_failed(const char *text, const char *file, int line) __attribute__((noreturn));
#define assert(condition) ((condition) ? (void)0 : __assert_failed(#condition, __FILE__, __LINE__))
#endif
#ifndef static_assert
#define static_assert _Static_assert
#endif
