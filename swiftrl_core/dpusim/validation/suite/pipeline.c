/* A chain of tasklets: each waits for the one before it, does its part, and notifies the next; semaphores bound a
 * queue. */
#include <handshake.h>
#include <sem.h>

#include "suite.h"

#define ROUNDS 32

SEMAPHORE_INIT(room, 4);
SEMAPHORE_INIT(items, 0);
static uint32_t queue[4], made, taken, sum, total;

int main(void) {
  uint32_t id = me(), seed = 41;
  if (id == 0) {
    for (uint32_t i = 0; i < ROUNDS; i++) {
      sem_take(&room);
      queue[made++ % 4] = draw(&seed);
      sem_give(&items);
    }
  } else if (id == 1) {
    for (uint32_t i = 0; i < ROUNDS; i++) {
      sem_take(&items);
      sum += queue[taken++ % 4];
      sem_give(&room);
    }
  }
  if (id > 0) handshake_wait_for(id - 1);
  if (id == 1) total += sum;
  total = (total << 1) ^ id;
  if (id < NR_TASKLETS - 1)
    handshake_notify();
  else
    publish(&total, sizeof total);
  return 0;
}
