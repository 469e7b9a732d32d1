/* Enough of CUDA to compile the GPU kernels as C and run them on the host: blocks and threads are loops.
 *
 * A thread runs from its first line to its last before the next one starts, which is one of the orders a GPU may choose
 * when threads do not wait for each other, as in these kernels. With -DBACKWARDS it is the opposite order: results that
 * are the same both ways do not depend on the order. Shared memory holds a pattern when a block starts. */
#ifndef CUDA_ON_HOST_H
#define CUDA_ON_HOST_H

#include <stdint.h>
#include <string.h>

#define __global__ static
#define __shared__
#define __restrict__ restrict

static struct {
  uint32_t x;
} blockIdx, blockDim, threadIdx;

/* Nobody else is there to write in between. So every third comparison that should succeed is made to fail, as if
 * somebody had: nothing is written, and another value is reported. */
static inline uint32_t atomicCAS(void *address, uint32_t expected, uint32_t wanted) {
  static uint32_t successes;
  uint32_t found;
  memcpy(&found, address, sizeof(found));
  if (found != expected) return found;
  if (successes++ % 3 == 0) return found ^ 1;
  memcpy(address, &wanted, sizeof(wanted));
  return found;
}

/* A function launch_KERNEL(blocks, threads, the kernel's parameters) that a test can call. */
#define LAUNCHER(KERNEL, PARAMETERS, ARGUMENTS)               \
  void launch_##KERNEL PARAMETERS {                           \
    blockDim.x = threads;                                     \
    for (uint32_t block = 0; block < blocks; block++) {       \
      blockIdx.x = block;                                     \
      FILL_SHARED_MEMORY;                                     \
      for (uint32_t thread = 0; thread < threads; thread++) { \
        threadIdx.x = IN_ORDER(thread, threads);              \
        KERNEL ARGUMENTS;                                     \
      }                                                       \
    }                                                         \
  }

#ifdef BACKWARDS
#define IN_ORDER(thread, threads) ((threads) - 1 - (thread))
#else
#define IN_ORDER(thread, threads) (thread)
#endif

#endif
