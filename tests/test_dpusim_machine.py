"""One DPU: what kernels compute, what persists, what faults, and that both ways to run agree."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.dpusim.machine import Machine, run_machines
from swiftrl_core.dpusim.program.compile import CHIPS, compile_kernel
from swiftrl_core.dpusim.program.elf import load_program
from swiftrl_core.util.errors import SwiftRLError

MODES = pytest.mark.parametrize("mode", ["fast", "exact"])
HEADERS = "attributes defs mram alloc barrier mutex mutex_pool sem handshake seqread perfcounter"
HEADERS += " stdio stdlib string assert"
PRELUDE = "#include <stdint.h>\n" + "".join(f"#include <{name}.h>\n" for name in HEADERS.split())


@pytest.fixture
def build(tmp_path):
    """Make a machine for kernel text; keyword arguments go to compile_kernel."""

    def make(text: str, **arguments) -> Machine:
        source = tmp_path / "kernel.c"
        source.write_text(PRELUDE + text)
        return Machine(load_program(compile_kernel(source, **arguments)))

    return make


def launch(machine: Machine, mode: str = "fast", **arguments):
    machine.boot()
    (stats,) = run_machines([machine], mode=mode, **arguments)
    return stats


def run(machine: Machine, mode: str = "fast", **arguments):
    stats = launch(machine, mode, **arguments)
    assert machine.fault is None, str(machine.fault)
    return stats


# -- what kernels compute ----------------------------------------------------------------------------------------


def test_host_variables_go_in_and_out(build):
    machine = build(
        "__host uint32_t x; __host uint64_t y; int main(void) { y = (uint64_t)x * x + 1; return 0; }"
    )
    address, size = machine.program.symbols["x"]
    assert size == 4
    machine.write_wram(address, np.uint32(100_000))
    run(machine)
    assert machine.symbol("y", np.uint64)[0] == 10**10 + 1


def test_memory_is_fresh_not_zero_but_globals_are_as_written(build):
    machine = build("__host uint32_t zeros[4], seven = 7; int main(void) { return 0; }")
    assert machine.symbol("seven", np.uint32)[0] == 7
    assert machine.read_mram(5 << 20, 4) == b"\xa5" * 4
    assert machine.read_wram(65532, 4) == b"\xa5" * 4
    assert machine.symbol("zeros").tolist() == [0] * 16


def test_memory_persists_between_launches_and_load_writes_initialised_data_only(build):
    machine = build(
        """
        __host uint32_t launches = 10; static uint32_t *block; __host uint32_t address;
        __mram_noinit uint32_t kept; __mram uint32_t given = 5;
        int main(void) {
          launches++, given += 1;
          kept = launches, block = mem_alloc(8), address = (uintptr_t)block;
          return 0;
        }
        """
    )
    run(machine)
    first = machine.symbol("address", np.uint32)[0]
    run(machine)
    assert machine.symbol("launches", np.uint32)[0] == 12
    assert machine.symbol("given", np.uint32)[0] == 7
    assert machine.symbol("address", np.uint32)[0] == first + 8  # the heap pointer stays where it was
    machine.load(machine.program)
    assert machine.symbol("launches", np.uint32)[0] == 10
    assert machine.symbol("given", np.uint32)[0] == 5
    assert machine.symbol("kept", np.uint32)[0] == 12


def test_mram_is_streamed_by_dma(build):
    machine = build(
        """
        #define HEAP ((__mram_ptr uint32_t *)DPU_MRAM_HEAP_POINTER)
        __host uint32_t words; static __dma_aligned uint32_t block[512];
        int main(void) {
          for (uint32_t i = 0; i < words; i += 512) {
            uint32_t n = words - i < 512 ? words - i : 512;
            mram_read(HEAP + i, block, n * 4);
            for (uint32_t j = 0; j < n; j++) block[j] = block[j] * 3 + 1;
            mram_write(block, HEAP + i, n * 4);
          }
          return 0;
        }
        """
    )
    data = np.arange(20_002, dtype=np.uint32)
    heap = machine.program.symbols["__sys_used_mram_end"][0] - 0x08000000
    machine.write_mram(heap, data)
    machine.write_wram(machine.program.symbols["words"][0], np.uint32(len(data)))
    stats = run(machine)
    back = np.empty_like(data)
    machine.read_mram(heap, data.nbytes, into=back)
    assert (back == data * 3 + 1).all()
    sizes = np.array([2048] * 39 + [(len(data) - 39 * 512) * 4])
    assert stats.dma_bytes_read[0] == stats.dma_bytes_written[0] == sizes.sum() == data.nbytes
    assert stats.dma_transfers[0] == 80
    assert stats.dma_cycles[0] == (77 + 61 + sizes).sum()
    assert stats.cycles == 11 * stats.instructions[0] + stats.dma_cycles[0]


def test_scalars_in_mram_cost_a_dma_each(build):
    loop = """
        __host uint32_t sum; {} uint32_t v[64] = {{1, 2, 3}};
        int main(void) {{ for (int i = 0; i < 64; i++) sum += v[i]; return 0; }}
        """
    near, far = build(loop.format("volatile")), build(loop.format("__mram"))
    cheap, dear = run(near), run(far)
    assert far.symbol("sum", np.uint32)[0] == near.symbol("sum", np.uint32)[0] == 6
    assert dear.dma_transfers[0] == 64
    assert dear.dma_cycles[0] == 64 * 81
    assert dear.instructions[0] - cheap.instructions[0] == pytest.approx(3 * 64, abs=70)


def test_fixed_blocks_and_buddies(build):
    machine = build(
        """
        __host uint32_t ok[8];
        int main(void) {
          mem_reset();
          uint8_t *a = mem_alloc(13), *b = mem_alloc(1);
          ok[0] = b - a == 16 && (uintptr_t)a % 8 == 0 && mem_alloc(0) == b + 8;
          fsb_allocator_t f = fsb_alloc(12, 3);
          uint8_t *x = fsb_get(f), *y = fsb_get(f), *z = fsb_get(f);
          ok[1] = x && y && z && y - x == 16 && !fsb_get(f);
          fsb_free(f, y);
          ok[2] = fsb_get(f) == y;
          buddy_init(4096);
          uint8_t *p = buddy_alloc(100), *q = buddy_alloc(2048);
          ok[3] = p && q && !buddy_alloc(2048) && buddy_alloc(1024);
          buddy_reset();
          q = buddy_alloc(4096);
          ok[4] = q && !buddy_alloc(16);
          buddy_free(q);
          p = buddy_alloc(16);
          for (int i = 0; i < 16; i++) p[i] = i;
          p = buddy_realloc(p, 200);
          ok[5] = p[15] == 15;
          buddy_free(p);
          ok[6] = buddy_alloc(4096) == q;
          return 0;
        }
        """
    )
    run(machine)
    assert machine.symbol("ok", np.uint32)[:7].tolist() == [1] * 7


def test_a_sequential_reader_sees_every_item(build):
    machine = build(
        """
        __mram_noinit uint8_t data[4008]; __host uint32_t sum; __host uint32_t at;
        int main(void) {
          seqreader_t reader;
          uint8_t *item = seqread_init(seqread_alloc(), data + 3, &reader);
          for (int i = 0; i < 4000; i++, item = seqread_get(item, 1, &reader)) sum = sum * 31 + *item;
          at = (uintptr_t)seqread_tell(item, &reader) - (uintptr_t)data;
          return 0;
        }
        """
    )
    data = np.random.default_rng(3).integers(0, 256, 4008).astype(np.uint8)
    machine.write_mram(0, data)
    run(machine)
    expected = 0
    for value in data[3:4003].tolist():
        expected = (expected * 31 + value) & 0xFFFFFFFF
    assert machine.symbol("sum", np.uint32)[0] == expected
    assert machine.symbol("at", np.uint32)[0] == 4003


def test_printf_is_formatted_from_the_dpus_memory(build):
    machine = build(
        r"""
        int main(void) {
          printf("%d %u %5d|%-5d|%05d %x %X %c %s %%\n", -3, 4000000000u, 42, 42, 42, 255, 255, 'z', "text");
          printf("%lld %lu %llx %.2f %e\n", -5LL, 1ULL << 40, 1ULL << 40, 3.14159f, 0.5);
          printf("%ld %u %hhd|%*d|%p\n", -7L, (uint8_t)200, (int8_t)-1, 4, 5, (void *)0x40);
          printf("%g\n", 1.0);
          puts("end");
          putchar('!');
          return 0;
        }
        """
    )
    run(machine)
    lines = [
        "-3 4000000000    42|42   |00042 ff FF z text %",
        "-5 1099511627776 10000000000 3.14 5.000000e-01",
        "-7 200 -1|   5|0x00000040",
        "(no conversion %g on a DPU)",
        "end",
        "!",
    ]
    assert machine.log_text() == "\n".join(lines)
    assert machine.program.prints
    machine.boot()
    assert machine.log_text() == ""


def test_the_print_buffer_is_as_large_as_asked_for(build):
    text = '{} int main(void) {{ for (int i = 0; i < 40; i++) printf("%03d\\n", i); return 0; }}'
    small, usual = build(text.format("STDOUT_BUFFER_INIT(64)")), build(text.format(""))
    run(small)
    run(usual)
    assert small.log_text() == "".join(f"{i:03}\n" for i in range(24, 40))
    assert small.log_lost
    assert usual.log_text() == "".join(f"{i:03}\n" for i in range(40))
    assert not usual.log_lost
    heaps = [machine.program.symbols["__sys_used_mram_end"][0] for machine in (small, usual)]
    assert heaps[1] - heaps[0] == (1 << 20) - 64


def test_a_print_larger_than_its_buffer_is_a_fault(build):
    machine = build('STDOUT_BUFFER_INIT(16) int main(void) { printf("%020d", 1); return 0; }')
    launch(machine)
    assert machine.fault.code == 5
    assert "the print buffer overflowed" in str(machine.fault)


def test_the_counter_counts_in_units_of_16(build):
    text = """
        __host uint64_t count; __host uint32_t loops = 1000;
        int main(void) {{
          perfcounter_config({}, true);
          for (uint32_t i = 0; i < loops; i++) __asm__ volatile("" ::: "memory");
          count = perfcounter_get();
          return 0;
        }}
        """
    instructions, cycles = build(text.format("COUNT_INSTRUCTIONS")), build(text.format("COUNT_CYCLES"))
    run(instructions)
    run(cycles)
    counted = [int(machine.symbol("count", np.uint64)[0]) for machine in (instructions, cycles)]
    assert [count % 16 for count in counted] == [0, 0]
    assert counted[0] > 2000
    assert counted[1] == pytest.approx(11 * counted[0], rel=0.01)


@MODES
@pytest.mark.parametrize("tasklets", [1, 12])
def test_a_v1b_chip_counts_cycles_and_instructions_at_once(build, tasklets, mode):
    text = """
        __host perfcounter_pair_t both[2]; __host uint32_t loops = 1000;
        BARRIER_INIT(all, NR_TASKLETS);
        int main(void) {
          if (me() == 0) perfcounter_config(COUNT_ENABLE_BOTH, true);
          for (int k = 0; k < 2; k++) {
            barrier_wait(&all);
            for (uint32_t i = 0; i < loops; i++) __asm__ volatile("" ::: "memory");
            barrier_wait(&all);
            if (me() == 0) both[k] = perfcounter_get_both(true);
          }
          return 0;
        }
        """
    machine = build(text, nr_tasklets=tasklets, chip="v1B")
    stats = run(machine, mode)
    (cycles, instructions), (again, _) = machine.symbol("both", np.uint64).reshape(2, 2).tolist()
    assert cycles == pytest.approx(stats.cycles / 2, rel=0.02)
    assert again == pytest.approx(cycles, rel=0.02)
    assert instructions == pytest.approx(stats.instructions.sum() / 2, rel=0.02)
    with pytest.raises(SwiftRLError, match="perfcounter_get_both|perfcounter_pair_t"):
        build(text, nr_tasklets=tasklets)


@pytest.mark.parametrize("tasklets", [1, 16])
def test_stalls_take_issue_slots_and_are_no_instructions(build, tasklets):
    text = """
        __host uint64_t count; __host float factor = 3.1f, out[NR_TASKLETS];
        BARRIER_INIT(all, NR_TASKLETS);
        int main(void) {{
          if (me() == 0) perfcounter_config({}, true);
          barrier_wait(&all);
          float x = factor;
          for (uint32_t i = 0; i < 100; i++) x = x * factor / 2.9f;
          out[me()] = x;
          barrier_wait(&all);
          if (me() == 0) count = perfcounter_get();
          return 0;
        }}
        """
    for mode in ("fast", "exact"):
        instructions, cycles = (
            build(text.format(counted), nr_tasklets=tasklets)
            for counted in ("COUNT_INSTRUCTIONS", "COUNT_CYCLES")
        )
        stats = run(instructions, mode)
        run(cycles, mode)
        counted = [int(machine.symbol("count", np.uint64)[0]) for machine in (instructions, cycles)]
        assert stats.stalls[:tasklets].tolist() == [100 * (6 + 42)] * tasklets
        issued = stats.instructions.sum() + stats.stalls.sum()
        assert stats.cycles == pytest.approx(issued * max(1, 11 / tasklets), rel=0.01)
        assert counted[0] == pytest.approx(stats.instructions.sum(), rel=0.02)
        assert counted[1] == pytest.approx(stats.cycles, rel=0.02)


BYTES = (3, 44, 85, 126, 167, 208, 249, 34)
EXPRESSIONS = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a & b": lambda a, b: a & b,
    "a | b": lambda a, b: a | b,
    "a ^ b": lambda a, b: a ^ b,
    "a << (b & 31)": lambda a, b: a << (b & 31),
    "a >> (b & 31)": lambda a, b: a >> (b & 31),
    "(int32_t)a >> (b & 31)": lambda a, b: signed(a) >> (b & 31),
    "a < b": lambda a, b: a < b,
    "(int32_t)a < (int32_t)b": lambda a, b: signed(a) < signed(b),
    "(int32_t)a < 77": lambda a, b: signed(a) < 77,
    "a < 77": lambda a, b: a < 77,
    "a / (b | 1)": lambda a, b: a // (b | 1),
    "a % (b | 1)": lambda a, b: a % (b | 1),
    "(int8_t)a + (int16_t)b": lambda a, b: signed(a & 0xFF, 8) + signed(b & 0xFFFF, 16),
    "(uint8_t)a * (uint16_t)b": lambda a, b: (a & 0xFF) * (b & 0xFFFF),
    "a * 10 + b * 10000 - a * 24": lambda a, b: a * 10 + b * 10000 - a * 24,
    "(uint32_t)(((uint64_t)a * b) >> 32)": lambda a, b: a * b >> 32,
    "(uint32_t)((((uint64_t)b << 32 | a) - ((uint64_t)a << 20)) >> 17)": lambda a, b: (
        ((b << 32 | a) - (a << 20)) >> 17
    ),
    "(int32_t)a > (int32_t)b ? a : b": lambda a, b: a if signed(a) > signed(b) else b,
    "a & 4 ? b + 1 : a": lambda a, b: b + 1 if a & 4 else a,
    "bytes[a & 7] + ((int8_t *)bytes)[b & 7]": lambda a, b: BYTES[a & 7] + signed(BYTES[b & 7], 8),
}


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


@MODES
def test_expressions_of_c_are_what_they_are_on_any_machine(build, mode):
    rng = np.random.default_rng(5)
    pairs = rng.integers(0, 2**32, (200, 2), dtype=np.uint64).astype(np.uint32)
    pairs[::3] >>= rng.integers(0, 32, pairs[::3].shape).astype(np.uint32)
    pairs[:6] = [[0, 0], [2**31, 2**32 - 1], [2**32 - 1, 1], [2**31 - 1, 2**31], [1, 0], [77, 76]]
    stores = "".join(f"out[i][{k}] = {text};\n" for k, text in enumerate(EXPRESSIONS))
    machine = build(
        f"""
        __host uint32_t in[200][2], out[200][{len(EXPRESSIONS)}];
        uint8_t bytes[8] = {{{", ".join(map(str, BYTES))}}};
        int main(void) {{
          for (uint32_t i = me(); i < 200; i += NR_TASKLETS) {{
            uint32_t a = in[i][0], b = in[i][1];
            {stores}
          }}
          return 0;
        }}
        """,
        nr_tasklets=2,
    )
    machine.write_wram(machine.program.symbols["in"][0], pairs)
    run(machine, mode)
    got = machine.symbol("out", np.uint32).reshape(200, -1)
    for (a, b), row in zip(pairs.tolist(), got.tolist(), strict=True):
        for (text, value), result in zip(EXPRESSIONS.items(), row, strict=True):
            assert result == int(value(a, b)) & 0xFFFFFFFF, (text, a, b)


# -- several tasklets --------------------------------------------------------------------------------------------

TOGETHER = """
BARRIER_INIT(sync, NR_TASKLETS)
MUTEX_INIT(lock);
MUTEX_POOL_INIT(pool, 4);
SEMAPHORE_INIT(sem, 0)
__host uint32_t counter, hits[16], order[24], sums[24], refused;
static uint32_t next;
__mram_noinit uint32_t data[4096];
int main(void) {
  uint32_t id = me();
  static __dma_aligned uint32_t block[NR_TASKLETS][64];
  if (id == 0) {
    counter = next = 0;
    for (int i = 0; i < 16; i++) hits[i] = 0;
  }
  for (uint32_t i = id * 64; i < 4096; i += 64 * NR_TASKLETS) {
    for (int j = 0; j < 64; j++) block[id][j] = i + j;
    mram_write(block[id], &data[i], sizeof block[id]);
  }
  barrier_wait(&sync);
  for (uint32_t i = 0; i < 20 + id; i++) { mutex_lock(lock); counter++; mutex_unlock(lock); }
  for (uint32_t i = 0; i < 16; i++) { mutex_pool_lock(&pool, i); hits[i] += id + 1; mutex_pool_unlock(&pool, i); }
  if (id == 0) { for (int i = 1; i < NR_TASKLETS; i++) sem_give(&sem); } else sem_take(&sem);
  if (id) handshake_wait_for(id - 1);
  order[next++] = id;
  if (id + 1 < NR_TASKLETS) handshake_notify();
  barrier_wait(&sync);
  uint32_t sum = 0;
  for (uint32_t i = id * 64; i < 4096; i += 64 * NR_TASKLETS) {
    mram_read(&data[4032 - i], block[id], sizeof block[id]);
    for (int j = 0; j < 64; j++) sum += block[id][j];
  }
  sums[id] = sum;
  return 0;
}
"""


@pytest.mark.parametrize("tasklets", [1, 2, 7, 16, 24])
def test_tasklets_meet_lock_and_wait_alike_in_both_runs(build, tasklets):
    results = {}
    for mode in ("fast", "exact"):
        machine = build(TOGETHER, nr_tasklets=tasklets, stack_size=512)
        for _ in range(2):
            stats = run(machine, mode)
        results[mode] = machine, stats
        assert machine.symbol("counter", np.uint32)[0] == 20 * tasklets + tasklets * (tasklets - 1) // 2
        assert (machine.symbol("hits", np.uint32) == tasklets * (tasklets + 1) // 2).all()
        assert machine.symbol("order", np.uint32)[:tasklets].tolist() == list(range(tasklets))
        assert machine.symbol("sums", np.uint32)[:tasklets].sum() == 4095 * 2048
    (one, fast), (two, exact) = results.values()
    globals_ = one.program.stacks_start
    assert one.read_wram(0, globals_) == two.read_wram(0, globals_)
    assert one.read_mram(0, 16384) == two.read_mram(0, 16384)
    assert (fast.dma_cycles == exact.dma_cycles).all()


BALANCED = """
BARRIER_INIT(sync, NR_TASKLETS)
__host uint32_t out[24];
int main(void) {
  uint32_t x = me() + 1;
  for (int r = 0; r < 20; r++) {
    for (uint32_t i = 0; i < 200 + (me() * SKEW); i++) x = x * 1664525u + 1013904223u;
    barrier_wait(&sync);
  }
  out[me()] = x;
  return 0;
}
"""


def test_both_runs_count_every_instruction_alike(build):
    """Fused sequences, calls, selects and jumps of all kinds; no waiting, so the counts must be equal."""
    text = """
        __host int32_t out[2]; __host uint32_t n = 300; float scale = 0.5f;
        static __attribute__((noinline)) int32_t best(const int32_t *v, uint32_t n) {
          int32_t m = v[0];
          for (uint32_t k = 1; k < n; k++) m = v[k] > m ? v[k] : m;
          return m;
        }
        int main(void) {
          int32_t v[8], sum = 0;
          for (uint32_t i = 0, x = me() + 7; i < n; i++) {
            for (int k = 0; k < 8; k++) v[k] = (int32_t)((x = x * 1664525u + 1013904223u) >> (8 + k)) % 100 - 50;
            sum += best(v, 8) / (int32_t)(x % 7 + 1) + (int32_t)(v[1] * scale) + (x >> 30 ? v[2] * v[3] : 10 * v[4]);
          }
          out[me()] = sum;
          return 0;
        }
        """
    machines = {mode: build(text, nr_tasklets=2) for mode in ("fast", "exact")}
    fast, exact = (run(machine, mode) for mode, machine in machines.items())
    assert (fast.instructions == exact.instructions).all()
    assert fast.cycles == pytest.approx(exact.cycles, rel=1e-3)
    assert (machines["fast"].symbol("out") == machines["exact"].symbol("out")).all()


@pytest.mark.parametrize(("tasklets", "skew"), [(2, 15), (16, 0)])
def test_phases_between_barriers_are_counted(build, tasklets, skew):
    fast, exact = (
        run(build(BALANCED, nr_tasklets=tasklets, defines={"SKEW": skew}), mode) for mode in ("fast", "exact")
    )
    assert fast.cycles == pytest.approx(exact.cycles, rel=0.02)
    assert fast.instructions.sum() == pytest.approx(exact.instructions.sum(), rel=0.01)
    assert fast.phases == 21


def test_a_tasklet_that_spins_on_memory_lets_the_others_run(build):
    text = "volatile uint32_t flag; int main(void) { if (me() == 0) while (!flag); else flag = 1; return 0; }"
    for mode in ("fast", "exact"):
        run(build(text, nr_tasklets=2), mode)


@MODES
def test_many_machines_on_threads_give_what_one_gives(build, mode):
    first = build(TOGETHER, nr_tasklets=4)
    machines = [Machine(first.program) for _ in range(9)]
    alone = run(first, mode)
    for threads in (1, 2, None):
        for machine in machines:
            machine.boot()
        for stats in run_machines(machines, threads=threads, mode=mode):
            assert stats.cycles == alone.cycles
            assert (stats.instructions == alone.instructions).all()


def test_running_nothing_takes_no_time():
    assert run_machines([]) == []


# -- faults ------------------------------------------------------------------------------------------------------

#: A transfer that breaks the rules, and what a DPU makes of it: bytes moved, and their offsets in MRAM and in WRAM.
TOLERATED = {
    "a size of zero": ("mram_read(source, target, zero);", 2048, 0, 0),
    "a constant size below 8": ("mram_read(source, target, 4);", 2048, 0, 0),
    "a size that is no multiple of 8": ("mram_read(source, target, zero + 20);", 16, 0, 0),
    "a size beyond 2,048": ("mram_read(source, target, zero + 2056);", 8, 0, 0),
    "a misaligned MRAM address": ("mram_read(source + 13, target, 16);", 16, 8, 0),
    "a misaligned WRAM address": ("mram_read(source, target + 21, 16);", 16, 0, 16),
    "an MRAM address without its base": (
        "mram_read((__mram_ptr uint8_t *)(64 + zero), target, 8);",
        8,
        64,
        0,
    ),
}


@MODES
@pytest.mark.parametrize("case", TOLERATED)
def test_a_transfer_that_breaks_the_rules_is_done_as_a_dpu_would(build, case, mode):
    statement, moved, offset, into = TOLERATED[case]
    machine = build(
        f"""
        __mram_noinit uint8_t source[4096]; __host uint8_t target[4096]; __host uint32_t zero;
        int main(void) {{ {statement} return 0; }}
        """
    )
    data = np.random.default_rng(4).integers(1, 256, 4096).astype(np.uint8)
    machine.write_mram(0, data)
    stats = run(machine, mode)
    assert stats.dma_bytes_read[0] == moved
    found = machine.symbol("target")
    expected = np.zeros_like(found)
    expected[into : into + moved] = data[offset : offset + moved]
    np.testing.assert_array_equal(found, expected)


FAULTS = {
    "a store beyond WRAM": (17, "4 bytes at 0x20000", "*(volatile uint32_t *)0x20000 = 1;"),
    "a misaligned load": (18, "not a multiple of 4", "id = *(volatile uint32_t *)(id + 10);"),
    "a DMA beyond WRAM": (21, "leaves WRAM", "mram_read(DPU_MRAM_HEAP_POINTER, (void *)65528, 16);"),
    "a DMA beyond MRAM": (22, "leaves MRAM", "mram_write(block, (__mram_ptr void *)0x0bfffff8, 16);"),
    "a DMA outside MRAM": (22, "leaves MRAM", "mram_read((__mram_ptr void *)0x04000000, block, 8);"),
    "division by zero": (2, "division by zero", "id = 7 / zero;"),
    "64-bit division by zero": (2, "division by zero", "id = (uint64_t)7 % zero;"),
    "heap exhausted": (1, "the heap is full", "mem_alloc(60000); mem_alloc(60000);"),
    "halt": (4, "halted", "halt();"),
    "abort": (4, "halted", "abort();"),
    "a failed assertion": (3, "assertion failed", "assert(zero == 1);"),
    "a NULL function": (25, "NULL function pointer", "((void (*volatile *)(void))&zero)[0]();"),
    "a jump to data": (24, "outside the program", "zero = 64; ((void (*volatile *)(void))&zero)[0]();"),
    "an illegal instruction": (23, "illegal instruction 0x0000707f", '__asm__ volatile(".word 0x0000707f");'),
    "a hang": (26, "loop for ever", 'while (1) __asm__ volatile("");'),
    "a deadlock": (27, "deadlock", "sem_take(&sem);"),
    "a lock taken twice": (27, "deadlock", "mutex_lock(lock); mutex_lock(lock);"),
    "a stack too deep": (29, "its stack of 1024 bytes is full", "out = deep(1000);"),
    "a barrier never made": (28, "BARRIER_INIT did not make", "barrier_wait((barrier_t *)empty);"),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory) -> Path:
    """One kernel with all the faults, the host chooses one by number."""
    source = tmp_path_factory.mktemp("faulty") / "kernel.c"
    cases = "".join(
        f"case {i}: {{ {statement} }} break;\n" for i, (*_, statement) in enumerate(FAULTS.values())
    )
    source.write_text(
        f"""{PRELUDE}
        static __dma_aligned uint8_t block[4096]; volatile uint32_t zero; volatile uint32_t empty[2];
        SEMAPHORE_INIT(sem, 0) MUTEX_INIT(lock); BARRIER_INIT(sync, 2)
        __host uint32_t out, which;
        __attribute__((noinline)) uint32_t deep(uint32_t n) {{
          volatile uint32_t local = n;
          return n ? local * deep(n - 1) + local : 1;
        }}
        int main(void) {{
          uint32_t id = me();
          if (id == 1) switch (which) {{
            {cases}
          }}
          out = id + block[zero];
          return 0;
        }}
        """
    )
    return compile_kernel(source, nr_tasklets=2)


@MODES
@pytest.mark.parametrize("what", FAULTS)
def test_faults_say_what_and_where(faulty, what, mode):
    code, sentence, _ = FAULTS[what]
    if what == "a lock taken twice" and mode == "exact":
        code, sentence = 26, "loop for ever"  # the lock spins
    machine = Machine(load_program(faulty))
    machine.write_wram(machine.program.symbols["which"][0], np.uint32(list(FAULTS).index(what)))
    launch(machine, mode, instruction_budget=10**6)
    fault = machine.fault
    assert fault is not None
    assert (fault.code, fault.tasklet) == (code, 1), str(fault)
    assert sentence in str(fault) or sentence in fault.text
    assert fault.pc >= 0x80000000
    if code not in (1, 3, 4, 29):  # those are found in a function that main calls
        assert fault.function == "main"
    assert fault.line is not None
    assert fault.line.startswith(("kernel.c:", "runtime.c:", "runtime.S:"))


def test_a_failed_assertion_prints_its_text(build):
    machine = build("int main(void) { assert(me() == 5); return 0; }")
    launch(machine)
    assert machine.fault.code == 3
    assert "kernel.c:" in machine.log_text()
    assert "assertion failed: me() == 5" in machine.log_text()


def test_a_dpu_in_fault_does_not_run_again(build):
    machine = build("__host uint32_t runs; int main(void) { runs++; halt(); }")
    launch(machine)
    launch(machine)
    assert machine.symbol("runs", np.uint32)[0] == 1
    assert machine.fault.code == 4


# -- the Python face ---------------------------------------------------------------------------------------------


def test_an_idle_dpu_is_small_and_memory_comes_with_use(build):
    machine = build("int main(void) { return 0; }")
    idle = machine.host_bytes
    assert idle < 100_000
    machine.write_mram(40 << 20, b"x")
    assert 0 < machine.host_bytes - idle <= 32 << 10
    assert machine.read_mram((40 << 20) - 1, 3) == b"\xa5x\xa5"


@given(st.integers(0, (64 << 20) - 1), st.binary(max_size=100_000))
def test_mram_keeps_what_is_written(machine_for_copies, address, data):
    data = data[: (64 << 20) - address]
    machine_for_copies.write_mram(address, data)
    assert machine_for_copies.read_mram(address, len(data)) == data


@pytest.fixture(scope="module")
def machine_for_copies(tmp_path_factory) -> Machine:
    source: Path = tmp_path_factory.mktemp("copies") / "kernel.c"
    source.write_text("int main(void) { return 0; }\n")
    return Machine(load_program(compile_kernel(source)))


def test_accesses_outside_a_memory_are_refused(machine_for_copies):
    machine = machine_for_copies
    for access in (
        lambda: machine.read_wram(65530, 8),
        lambda: machine.write_wram(-1, b"x"),
        lambda: machine.read_mram((64 << 20) - 4, 8),
        lambda: machine.write_mram(64 << 20, b"x"),
    ):
        with pytest.raises(SwiftRLError, match="do not lie in"):
            access()
    with pytest.raises(SwiftRLError, match="cannot take 16 bytes"):
        machine.read_mram(0, 16, into=bytearray(8))
    with pytest.raises(SwiftRLError, match="no host-visible symbol 'absent'"):
        machine.symbol("absent")


def test_a_machine_is_of_one_chip(machine_for_copies):
    with pytest.raises(SwiftRLError, match="is linked for chip v1A, not v1B"):
        Machine(machine_for_copies.program, CHIPS["v1B"])


def test_an_unknown_mode(machine_for_copies):
    with pytest.raises(SwiftRLError, match="choose fast or exact"):
        run_machines([machine_for_copies], mode="approximate")


def test_views_of_wram_outlive_the_machine(build):
    view = build("__host uint32_t x = 0x12345678; int main(void) { return 0; }").wram
    assert (0x12345678).to_bytes(4, "little") in bytes(view)
