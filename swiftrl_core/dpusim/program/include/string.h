/* Strings and blocks of memory in WRAM. */
#ifndef DPUSIM_STRING_H
#define DPUSIM_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *at, int value, size_t size);
int memcmp(const void *left, const void *right, size_t size);
size_t strlen(const char *text);
size_t strnlen(const char *text, size_t limit);
int strcmp(const char *left, const char *right);
int strncmp(const char *left, const char *right, size_t limit);
char *strcpy(char *restrict to, const char *restrict from);
char *strncpy(char *restrict to, const char *restrict from, size_t limit);
char *strcat(char *restrict to, const char *restrict from);
char *strchr(const char *text, int character);
char *strrchr(const char *text, int character);
void *memchr(const void *at, int value, size_t size);
char *strncat(char *restrict to, const char *restrict from, size_t limit);
char *strstr(const char *text, const char *wanted);
size_t strspn(const char *text, const char *accepted);
size_t strcspn(const char *text, const char *rejected);
char *strpbrk(const char *text, const char *accepted);
char *strtok_r(char *restrict text, const char *restrict separators, char **restrict rest);
char *strsep(char **text, const char *separators);
char *stpcpy(char *restrict to, const char *restrict from);
char *stpncpy(char *restrict to, const char *restrict from, size_t limit);

#endif
