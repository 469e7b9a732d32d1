/* The debug run: finds bugs that a DPU would pass over in silence. Part of machine.c, only where SANITIZE is defined:
 * interface.py builds it as a library of its own, so the other runs carry nothing of it.
 *
 *   uninitialised reads  each byte of WRAM is known to be written or not: by load, by the host, by the kernel. A stack
 *                        frame is fresh whenever it is made, all stacks at every launch. Loads of which no byte was
 *                        ever written are told, and transfers to MRAM that hold 8 such bytes in a row; less than that
 *                        is padding. memcpy hands on what it does not know, as a structure's padding.
 *   data races           two tasklets use the same byte of WRAM or the same 8 bytes of MRAM, which a transfer moves as a
 *                        whole, one of them writes, and nothing orders the two. What
 *                        orders is found with vector clocks: each tasklet counts the times it has told others something
 *                        (unlock, barrier, sem_give, handshake) and keeps for every other tasklet the count that it
 *                        has been told of. An access is ordered after another if its tasklet has been told of it.
 *                        So a race is told even when the accesses were far apart in this run, and a program in order
 *                        is never blamed; a lockset would blame every hand-over by a barrier. What it misses: two
 *                        accesses that happened to have a lock's hand-over between them in this run.
 *   heap                 mem_reset and the use of the heap by others, where only the lock of the heap orders the two:
 *                        the barrier behind mem_reset is missing. Told as a data race of the two callers.
 *   transfers            misaligned, of a size that is no multiple of 8 from 8 to 2,048, or with an MRAM address that lacks
 *                        its base. Every run does them as a DPU would; only this one reports them. */
#ifndef DPUSIM_SANITIZE_H
#define DPUSIM_SANITIZE_H

#include "machine.h"

#ifndef SANITIZE

#define SANITIZER_NEW(machine) true
#define SANITIZER_FREE(machine)
#define SANITIZER_BOOT(machine)
#define CHECK(access, ...)
#define TELL(machine, t, channel)
#define LISTEN(machine, t, channel)

#else

#define SANITIZER_NEW(machine) sanitizer_new(machine)
#define SANITIZER_FREE(machine) sanitizer_free(machine)
#define SANITIZER_BOOT(machine) sanitizer_boot(machine)
#define CHECK(access, ...) check_##access(machine, t, (uint32_t)(op - ops), __VA_ARGS__)
#define TELL(machine, t, channel) sanitizer_tell(machine, t, channel)
#define LISTEN(machine, t, channel) sanitizer_listen(machine, t, channel)

enum {
  REPORTS = 256,               /* more are counted with the last */
  CHANNEL_LOCK = 1 << 30,      /* + number of the lock bit */
  CHANNEL_HANDSHAKE = 3 << 29, /* + tasklet that notifies; barriers and semaphores: their address */
};

enum report_kind { UNINITIALISED = 1, RACE, DMA_WRAM_ADDRESS, DMA_MRAM_ADDRESS, DMA_SIZE, DMA_MRAM_BASE };

/* One bug; read by sanitizer.py through a NumPy record of the same layout. */
struct report {
  int32_t kind, tasklet, other; /* other: the tasklet that came before, of a race */
  uint32_t pc, other_pc;        /* numbers of instructions in IRAM */
  uint32_t address, size;
  uint8_t writes, other_wrote, reserved[2];
  int64_t count;
};

/* What is known about a word of WRAM. Clocks are those of the tasklet at its access, 0 for none. */
struct word_shadow {
  uint8_t written; /* a bit a byte */
  int8_t writer[4];
  uint32_t write_clock[4], write_pc[4];
  uint8_t read_bytes[MAX_TASKLETS];
  uint32_t read_clock[MAX_TASKLETS], read_pc[MAX_TASKLETS];
};

/* What is known about an 8-byte word of MRAM: its last write, its last read, and the last read by another tasklet than
 * that. A race with an earlier read may be missed. */
struct far_access {
  uint32_t clock, pc; /* clock 0 for none */
  int8_t tasklet;
};
struct far_shadow {
  struct far_access write, reads[2];
};
enum { FAR_WORDS = PAGE_BYTES / 8 }; /* of a page */

/* Two orders of events: by all that orders, and by all but the lock of the heap. */
enum { BY_ALL, BUT_HEAP_LOCK, ORDERS };

struct channel {
  uint32_t name;
  uint32_t told[ORDERS][MAX_TASKLETS];
};

struct sanitizer {
  uint32_t clock[ORDERS][MAX_TASKLETS][MAX_TASKLETS]; /* [..][a][b]: what a has been told of b */
  struct far_shadow **pages;                          /* of MRAM, where it was touched in this launch */
  struct far_access reset, taken[MAX_TASKLETS];       /* the last mem_reset, and who has used the heap since boot */
  struct channel *channels;
  int32_t channel_count, report_count;
  struct report reports[REPORTS];
  struct word_shadow words[];
};

/* ---- reports ---- */

static void add_report(struct sanitizer *s, struct report report) {
  for (int32_t i = 0; i < s->report_count; i++) {
    struct report *known = &s->reports[i];
    if (known->kind != report.kind || known->pc != report.pc || known->other_pc != report.other_pc) continue;
    known->count++;
    return;
  }
  if (s->report_count == REPORTS) return;
  report.count = 1;
  s->reports[s->report_count++] = report;
}

/* ---- what was written ---- */

static struct word_shadow *word_at(const struct machine *machine, uint32_t address) {
  return &machine->sanitizer->words[address / 4];
}

static void mark_written(struct machine *machine, uint32_t address, uint32_t size, bool written) {
  for (uint32_t at = address; at < address + size; at++) {
    uint8_t bit = (uint8_t)(1u << at % 4);
    struct word_shadow *word = word_at(machine, at);
    word->written = (uint8_t)(written ? word->written | bit : word->written & ~bit);
  }
}

static bool nothing_written(const struct machine *machine, uint32_t address, uint32_t size) {
  for (uint32_t at = address; at < address + size; at++)
    if (word_at(machine, at)->written >> at % 4 & 1) return false;
  return true;
}

/* ---- who knows of whom ---- */

static struct channel *channel_named(struct sanitizer *s, uint32_t name) {
  for (int32_t i = 0; i < s->channel_count; i++)
    if (s->channels[i].name == name) return &s->channels[i];
  struct channel *more = realloc(s->channels, (size_t)(s->channel_count + 1) * sizeof *more);
  if (!more) return NULL; /* less is known to be in order: reports may be wrong, the run goes on */
  s->channels = more;
  more[s->channel_count] = (struct channel){.name = name};
  return &more[s->channel_count++];
}

static bool orders(const struct machine *machine, int32_t order, uint32_t channel) {
  return order == BY_ALL || channel != CHANNEL_LOCK + machine->program->heap_lock;
}

static void sanitizer_tell(struct machine *machine, const struct tasklet *t, uint32_t name) {
  struct sanitizer *s = machine->sanitizer;
  struct channel *channel = channel_named(s, name);
  if (!channel) return;
  for (int32_t order = 0; order < ORDERS; order++) {
    uint32_t *own = s->clock[order][t - machine->tasklets], *told = channel->told[order];
    if (!orders(machine, order, name)) continue;
    for (int32_t i = 0; i < MAX_TASKLETS; i++)
      if (told[i] < own[i]) told[i] = own[i];
    own[t - machine->tasklets]++;
  }
}

static void sanitizer_listen(struct machine *machine, const struct tasklet *t, uint32_t name) {
  const struct channel *channel = channel_named(machine->sanitizer, name);
  if (!channel) return;
  for (int32_t order = 0; order < ORDERS; order++) {
    uint32_t *own = machine->sanitizer->clock[order][t - machine->tasklets];
    if (!orders(machine, order, name)) continue;
    for (int32_t i = 0; i < MAX_TASKLETS; i++)
      if (own[i] < channel->told[order][i]) own[i] = channel->told[order][i];
  }
}

/* ---- accesses ---- */

struct access {
  int32_t tasklet;
  uint32_t pc;
  bool writes;
};

static void report_race(struct machine *machine, struct access now, uint32_t address, int32_t other, uint32_t other_pc,
                        bool other_wrote) {
  add_report(machine->sanitizer, (struct report){.kind = RACE,
                                                 .tasklet = now.tasklet,
                                                 .other = other,
                                                 .pc = now.pc,
                                                 .other_pc = other_pc,
                                                 .address = address,
                                                 .size = 4,
                                                 .writes = now.writes,
                                                 .other_wrote = other_wrote});
}

/* Compare an access to the bytes `bytes` of a word with what others did to them, and remember it. */
static void check_word(struct machine *machine, struct access now, uint32_t address, uint8_t bytes) {
  struct word_shadow *word = word_at(machine, address);
  const uint32_t *known = machine->sanitizer->clock[BY_ALL][now.tasklet];
  for (uint32_t b = 0; b < 4; b++) {
    if (!(bytes >> b & 1)) continue;
    int32_t writer = word->writer[b];
    if (word->write_clock[b] && writer != now.tasklet && word->write_clock[b] > known[writer])
      report_race(machine, now, address, writer, word->write_pc[b], true);
    if (now.writes)
      word->writer[b] = (int8_t)now.tasklet, word->write_clock[b] = known[now.tasklet], word->write_pc[b] = now.pc;
  }
  if (!now.writes) {
    bool same = word->read_clock[now.tasklet] == known[now.tasklet];
    word->read_bytes[now.tasklet] = (uint8_t)(same ? word->read_bytes[now.tasklet] | bytes : bytes);
    word->read_clock[now.tasklet] = known[now.tasklet], word->read_pc[now.tasklet] = now.pc;
    return;
  }
  for (int32_t reader = 0; reader < (int32_t)machine->program->nr_tasklets; reader++)
    if (reader != now.tasklet && word->read_clock[reader] > known[reader] && word->read_bytes[reader] & bytes)
      report_race(machine, now, address, reader, word->read_pc[reader], false);
}

static void check_range(struct machine *machine, struct access now, uint32_t address, uint32_t size) {
  for (uint32_t at = address, end = address + size; at < end;) {
    uint32_t within = at % 4, piece = 4 - within < end - at ? 4 - within : end - at;
    check_word(machine, now, at - within, (uint8_t)(((1u << piece) - 1) << within));
    at += piece;
  }
}

static struct access access_of(const struct machine *machine, const struct tasklet *t, uint32_t pc, bool writes) {
  return (struct access){(int32_t)(t - machine->tasklets), pc, writes};
}

static void report_uninitialised(struct machine *machine, struct access now, uint32_t address, uint32_t size) {
  add_report(
      machine->sanitizer,
      (struct report){
          .kind = UNINITIALISED, .tasklet = now.tasklet, .other = -1, .pc = now.pc, .address = address, .size = size});
}

/* ---- MRAM, in words of 8 bytes: what a transfer moves, and what a store of a scalar reads and writes back ---- */

static struct far_shadow *far_word(struct machine *machine, uint32_t offset) {
  struct far_shadow **page = &machine->sanitizer->pages[offset / PAGE_BYTES];
  if (!*page) *page = calloc(FAR_WORDS, sizeof **page);
  return *page ? *page + offset % PAGE_BYTES / 8 : NULL; /* without memory races are missed */
}

static void check_far_word(struct machine *machine, struct access now, uint32_t offset) {
  struct far_shadow *word = far_word(machine, offset);
  if (!word) return;
  const uint32_t *known = machine->sanitizer->clock[BY_ALL][now.tasklet];
  struct far_access this = {.clock = known[now.tasklet], .pc = now.pc, .tasklet = (int8_t)now.tasklet};
  const struct far_access *write = &word->write;
  if (write->clock && write->tasklet != now.tasklet && write->clock > known[write->tasklet])
    report_race(machine, now, MRAM_BASE + offset, write->tasklet, write->pc, true);
  if (!now.writes) {
    if (word->reads[0].clock && word->reads[0].tasklet != now.tasklet) word->reads[1] = word->reads[0];
    word->reads[0] = this;
    return;
  }
  for (int32_t i = 0; i < 2; i++) {
    const struct far_access *read = &word->reads[i];
    if (read->clock && read->tasklet != now.tasklet && read->clock > known[read->tasklet])
      report_race(machine, now, MRAM_BASE + offset, read->tasklet, read->pc, false);
  }
  word->write = this;
}

static void check_far(struct machine *machine, const struct tasklet *t, uint32_t pc, uint32_t mram, uint32_t size,
                      bool writes) {
  uint32_t first = (mram - MRAM_BASE) & ~7u, end = mram - MRAM_BASE + size;
  for (uint32_t at = first; at < end; at += 8) check_far_word(machine, access_of(machine, t, pc, writes), at);
}

/* ---- the heap: mem_reset and who uses the heap must be kept apart by more than the lock that both take ---- */

static void report_heap(struct machine *machine, struct access now, const struct far_access *other, bool other_resets) {
  report_race(machine, now, machine->program->heap_pointer, other->tasklet, other->pc, other_resets);
}

/* An access to the pointer of the heap, by a function of the runtime; what counts is who called it. */
static void check_heap(struct machine *machine, const struct tasklet *t, uint32_t pc, bool writes) {
  const struct program *program = machine->program;
  struct sanitizer *s = machine->sanitizer;
  bool resets = pc >= program->reset_begin && pc < program->reset_end;
  if (writes != resets) return; /* what is taken is also written: once is enough */
  struct access now = access_of(machine, t, (t->x[1] - IRAM_BASE) / 4 - 1, resets);
  const uint32_t *known = s->clock[BUT_HEAP_LOCK][now.tasklet];
  struct far_access this = {.clock = known[now.tasklet], .pc = now.pc, .tasklet = (int8_t)now.tasklet};
  if (s->reset.clock && s->reset.tasklet != now.tasklet && s->reset.clock > known[s->reset.tasklet])
    report_heap(machine, now, &s->reset, true);
  for (int32_t i = 0; resets && i < MAX_TASKLETS; i++)
    if (i != now.tasklet && s->taken[i].clock > known[i]) report_heap(machine, now, &s->taken[i], false);
  if (resets)
    s->reset = this;
  else
    s->taken[now.tasklet] = this;
}

static void check_load(struct machine *machine, const struct tasklet *t, uint32_t pc, uint32_t address, uint32_t size) {
  struct access now = access_of(machine, t, pc, false);
  if (address == machine->program->heap_pointer) check_heap(machine, t, pc, false);
  if (nothing_written(machine, address, size)) report_uninitialised(machine, now, address, size);
  check_range(machine, now, address, size);
}

static void check_store(struct machine *machine, const struct tasklet *t, uint32_t pc, uint32_t address,
                        uint32_t size) {
  if (address == machine->program->heap_pointer) check_heap(machine, t, pc, true);
  mark_written(machine, address, size, true);
  check_range(machine, access_of(machine, t, pc, true), address, size);
}

/* The WRAM side of a transfer that has been done. */
static void check_transfer(struct machine *machine, const struct tasklet *t, uint32_t pc, uint32_t address,
                           uint32_t size, bool to_wram) {
  if (to_wram) {
    check_store(machine, t, pc, address, size);
    return;
  }
  struct access now = access_of(machine, t, pc, false);
  for (uint32_t at = address; at < address + size; at += 8)
    if (nothing_written(machine, at, 8)) report_uninitialised(machine, now, at, 8);
  check_range(machine, now, address, size);
}

/* The operands of a transfer as the kernel gives them. */
static void check_request(struct machine *machine, const struct tasklet *t, uint32_t pc, uint32_t wram, uint32_t mram,
                          uint32_t size) {
  struct report found = {.tasklet = (int32_t)(t - machine->tasklets), .other = -1, .pc = pc, .size = size};
  if (size < 8 || size > 2048 || size % 8)
    found.kind = DMA_SIZE, found.address = mram, add_report(machine->sanitizer, found);
  if (wram % 8) found.kind = DMA_WRAM_ADDRESS, found.address = wram, add_report(machine->sanitizer, found);
  if (mram % 8) found.kind = DMA_MRAM_ADDRESS, found.address = mram, add_report(machine->sanitizer, found);
  if (mram < machine->program->mram_bytes)
    found.kind = DMA_MRAM_BASE, found.address = mram, add_report(machine->sanitizer, found);
}

static bool wram_holds(const struct machine *machine, uint32_t address, uint32_t size) {
  return size <= machine->program->wram_bytes && address <= machine->program->wram_bytes - size;
}

/* memcpy, memmove or memset about to be called. */
static void check_block(struct machine *machine, const struct tasklet *t, uint32_t pc, bool copies) {
  uint32_t to = t->x[10], from = t->x[11], size = t->x[12];
  bool known_source = copies && wram_holds(machine, from, size);
  if (known_source) check_range(machine, access_of(machine, t, pc, false), from, size);
  if (!wram_holds(machine, to, size)) return;
  check_range(machine, access_of(machine, t, pc, true), to, size);
  for (uint32_t i = 0; i < size; i++) {
    uint32_t at = to > from ? size - 1 - i : i; /* in the order that overlapping ranges need */
    mark_written(machine, to + at, 1, !known_source || !nothing_written(machine, from + at, 1));
  }
}

static void check_frame(struct machine *machine, const struct tasklet *t, uint32_t pc, uint32_t frame, uint32_t top) {
  (void)t, (void)pc;
  if (frame < top && top <= machine->program->wram_bytes) mark_written(machine, frame, top - frame, false);
}

/* ---- the sanitizer of a machine ---- */

static bool sanitizer_new(struct machine *machine) {
  size_t words = machine->program->wram_bytes / 4;
  struct sanitizer *s = calloc(1, sizeof(struct sanitizer) + words * sizeof(struct word_shadow));
  machine->sanitizer = s;
  if (s) s->pages = calloc(machine->page_count, sizeof *s->pages);
  return s && s->pages;
}

static void forget_mram(struct sanitizer *s, uint32_t pages) {
  for (uint32_t i = 0; i < pages; i++) free(s->pages[i]), s->pages[i] = NULL;
}

static void sanitizer_free(struct machine *machine) {
  struct sanitizer *s = machine->sanitizer;
  if (!s) return;
  if (s->pages) forget_mram(s, machine->page_count);
  free(s->pages);
  free(s->channels);
  free(s);
}

/* A launch comes after all that was before it. What was written stays so, but for the stacks. */
static void sanitizer_boot(struct machine *machine) {
  const struct program *program = machine->program;
  struct sanitizer *s = machine->sanitizer;
  for (uint32_t i = 0; i < program->wram_bytes / 4; i++)
    s->words[i] = (struct word_shadow){.written = s->words[i].written};
  memset(s->clock, 0, sizeof s->clock);
  for (int32_t i = 0; i < MAX_TASKLETS; i++) s->clock[BY_ALL][i][i] = s->clock[BUT_HEAP_LOCK][i][i] = 1;
  forget_mram(s, machine->page_count);
  s->reset.clock = 0, memset(s->taken, 0, sizeof s->taken);
  s->channel_count = 0;
  mark_written(machine, program->stacks_start, program->nr_tasklets * program->stack_bytes, false);
}

/* The host has written to WRAM. */
EXPORT void dpu_host_wrote(struct machine *machine, uint32_t address, uint32_t size) {
  mark_written(machine, address, size, true);
}

EXPORT const struct report *dpu_reports(const struct machine *machine, int32_t *count) {
  *count = machine->sanitizer->report_count;
  return machine->sanitizer->reports;
}

EXPORT void dpu_clear_reports(struct machine *machine) { machine->sanitizer->report_count = 0; }

#endif
#endif
