/* NVRTC, CUDA's compiler in a library, comes without C headers. These are the types the shared headers use. */
#ifndef SWIFTRL_NVRTC_STDINT_H
#define SWIFTRL_NVRTC_STDINT_H

typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

#endif
