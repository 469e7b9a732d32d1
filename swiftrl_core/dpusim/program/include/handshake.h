/* A rendezvous of two tasklets: one notifies, one waits for it; both go on once both have come. */
#ifndef DPUSIM_HANDSHAKE_H
#define DPUSIM_HANDSHAKE_H

#include <attributes.h>
#include <defs.h>
#include <intrinsics.h>

/* Sleep until another tasklet waits for this one. */
__dpusim_inline void handshake_notify(void) {
  uint32_t ignored;
  __dpusim_system(ignored, DPUSIM_NOTIFY, 0);
}

/* Sleep until the tasklet notifies. Returns 0, or 1 when another tasklet already waits for the same one. */
__dpusim_inline int handshake_wait_for(sysname_t tasklet) {
  int refused;
  __dpusim_system(refused, DPUSIM_WAIT_FOR, tasklet);
  return refused;
}

#endif
