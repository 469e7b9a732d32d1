"""The order of tasklets in the fast run: programs that rely on it end as in the exact run, at nearly the same time."""

import pytest

from swiftrl_core.dpusim import DpuSet, compile_kernel

#: Tasklets pass a number along, meet, and read a cursor that the last one moves on after a transfer of its own. Nothing
#: keeps a slow reader from reading the next value, but on a DPU the readers are hundreds of cycles earlier.
CURSOR = """
#include <attributes.h>
#include <barrier.h>
#include <defs.h>
#include <handshake.h>
#include <mram.h>
#include <stdint.h>
BARRIER_INIT(meeting, NR_TASKLETS);
static uint32_t passed[NR_TASKLETS + 1], cursor;
__host uint32_t misread;
__mram_noinit uint64_t blocks[NR_TASKLETS * 32];
int main(void) {
  static __dma_aligned uint64_t block[NR_TASKLETS][32];
  for (uint32_t step = 0; step < 5; step++) {
    if (me() > 0) handshake_wait_for(me() - 1);
    passed[me() + 1] = passed[me()] + 1;
    if (me() + 1 < NR_TASKLETS) handshake_notify();
    barrier_wait(&meeting);
    uint32_t read = cursor;
    if (read != step) misread++;
    mram_write(block[me()], &blocks[me() * 32], sizeof block[0]);
    if (me() == NR_TASKLETS - 1) cursor = read + 1;
  }
  return 0;
}
"""

#: Chains of items, each done once by whoever comes first; a taken item ends the chain.
CHAINS = """
#include <attributes.h>
#include <defs.h>
#include <mram.h>
#include <mutex.h>
#include <stdint.h>
#define ITEMS 768
MUTEX_INIT(guard);
static uint32_t started;
static uint8_t taken[ITEMS];
__host uint32_t done[NR_TASKLETS];
__mram_noinit uint64_t items[ITEMS * 2];
static uint32_t claim(uint32_t item) {
  mutex_lock(guard);
  uint32_t mine = !taken[item];
  taken[item] = 1;
  mutex_unlock(guard);
  return mine;
}
int main(void) {
  __dma_aligned uint64_t item[2];
  for (;;) {
    mutex_lock(guard);
    uint32_t at = started++;
    mutex_unlock(guard);
    if (at >= ITEMS) return 0;
    for (; claim(at); at = (at * 7 + 3) % ITEMS) {
      mram_read(&items[at * 2], item, sizeof item);
      item[0]++;
      mram_write(item, &items[at * 2], sizeof item);
      done[me()]++;
    }
  }
}
"""

#: One tasklet works and then raises a flag, for which the others look again and again.
FLAG = """
#include <attributes.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>
static volatile uint32_t raised;
__host uint32_t seen[NR_TASKLETS];
__mram_noinit uint64_t data[64];
int main(void) {
  __dma_aligned uint64_t block[64];
  if (me() == NR_TASKLETS - 1) {
    for (uint32_t i = 0; i < 200; i++) mram_read(data, block, sizeof block);
    raised = 1;
  }
  while (!raised);
  seen[me()] = 1;
  return 0;
}
"""


def run(tmp_path, text, tasklets, mode):
    source = tmp_path / "kernel.c"
    source.write_text(text)
    dpus = DpuSet(nr_dpus=1, binary=str(compile_kernel(source, nr_tasklets=tasklets)), mode=mode)
    dpus.exec()
    return dpus


@pytest.mark.parametrize("tasklets", range(2, 25))
def test_a_value_read_before_a_transfer_is_the_old_one(tmp_path, tasklets):
    for mode in ("fast", "exact"):
        with run(tmp_path, CURSOR, tasklets, mode) as dpu:
            assert dpu.misread.uint32() == 0, mode


@pytest.mark.parametrize("tasklets", [2, 8, 16, 24])
def test_work_shared_by_flags_is_shared_as_in_the_exact_run(tmp_path, tasklets):
    cycles, shares = [], []
    for mode in ("fast", "exact"):
        with run(tmp_path, CHAINS, tasklets, mode) as dpu:
            cycles.append(dpu.last_run[0].cycles)
            shares.append(sorted(dpu.done.uint32()))
            assert sum(shares[-1]) == 768
    assert cycles[0] == pytest.approx(cycles[1], rel=0.02)
    assert shares[0][0] == pytest.approx(shares[1][0], abs=0.15 * 768 / tasklets)


def test_who_looks_for_a_flag_does_not_look_for_long(tmp_path):
    cycles = []
    for mode in ("fast", "exact"):
        with run(tmp_path, FLAG, 8, mode) as dpu:
            assert list(dpu.seen.uint32()) == [1] * 8
            cycles.append(dpu.last_run[0].cycles)
    assert cycles[1] <= cycles[0] <= cycles[1] + 11 * (1 << 14) + 200
