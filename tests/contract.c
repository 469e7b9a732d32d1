/* Rules of the DPU's runtime, a case each: what holds is counted in `held`, in WRAM for the host. */
#include <alloc.h>
#include <attributes.h>
#include <barrier.h>
#include <ctype.h>
#include <defs.h>
#include <handshake.h>
#include <mram.h>
#include <mram_unaligned.h>
#include <mutex.h>
#include <mutex_pool.h>
#include <perfcounter.h>
#include <sem.h>
#include <seqread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vmutex.h>

BARRIER_INIT(meet, NR_TASKLETS)
MUTEX_INIT(lock);
MUTEX_POOL_INIT(pool, 4);
VMUTEX_INIT(virtual, 64, 2);
SEMAPHORE_INIT(room, 2)
SEMAPHORE_INIT(done, 0)
__host uint32_t rule, held, expected, inside, most_inside;
__host uint32_t order[NR_TASKLETS];
__host uint8_t small = 0x81;
__host void *blocks[NR_TASKLETS];
__mram_noinit uint8_t bytes[512];
__mram_noinit uint16_t shorts[8];
__mram_noinit uint64_t words[64];
__mram_noinit int32_t counters[8];
static uint32_t next, table[64];

enum choice { A, B };

/* Tasklets check in turn, so that `held` needs no lock of its own. */
static void check(int holds) {
  static uint32_t turn;
  barrier_wait(&meet);
  for (uint32_t i = 0; i < NR_TASKLETS; i++) {
    if (me() == i) held += holds != 0, expected++, turn++;
    barrier_wait(&meet);
  }
}

static void data_model(void) {
  check(sizeof(char) == 1 && sizeof(short) == 2 && sizeof(int) == 4 && sizeof(long long) == 8 && sizeof(void *) == 4 &&
        sizeof(size_t) == 4 && sizeof(float) == 4 && sizeof(double) == 8 && sizeof(enum choice) == 4);
  check(_Alignof(uint64_t) == 8 && _Alignof(double) == 8);
  check((char)-1 < 0 && *(volatile char *)&small < 0); /* char is signed */
  check(*(volatile uint16_t *)"\1\2" == 0x0201);       /* little endian */
}

static void mram_scalars(uint32_t id) {
  if (id == 0) {
    for (int i = 0; i < 16; i++) bytes[i] = i;
    bytes[3] = 77, shorts[1] = 0x1234, words[2] = 1ull << 40;
  }
  check(1);
  check(bytes[2] == 2 && bytes[3] == 77 && bytes[4] == 4 && shorts[1] == 0x1234 && words[2] == 1ull << 40);
}

static void heap(uint32_t id) {
  if (id == 0) mem_reset();
  barrier_wait(&meet);
  blocks[id] = mem_alloc(20); /* by all at once */
  barrier_wait(&meet);
  for (uint32_t i = 0; i < NR_TASKLETS; i++) {
    int apart = i == id || (uint8_t *)blocks[i] >= (uint8_t *)blocks[id] + 24 ||
                (uint8_t *)blocks[i] + 24 <= (uint8_t *)blocks[id];
    check(apart && (uintptr_t)blocks[i] % 8 == 0);
  }
}

static void mutexes(uint32_t id) {
  for (uint32_t i = 0; i < 30; i++) {
    mutex_lock(lock);
    uint32_t seen = ++inside;
    if (seen > most_inside) most_inside = seen;
    for (volatile uint32_t k = 0; k < id; k++);
    inside--;
    mutex_unlock(lock);
  }
  check(most_inside == 1);
  if (id == 0) mutex_lock(lock);
  barrier_wait(&meet);
  bool taken = mutex_trylock(lock); /* nobody has it twice, not even its owner */
  barrier_wait(&meet);
  if (id == 0) mutex_unlock(lock);
  check(!taken);
  mutex_pool_lock(&pool, 4 * id + 1); /* masked: all the same lock */
  uint32_t before = next;
  next = before + 1;
  mutex_pool_unlock(&pool, 4 * id + 1);
  barrier_wait(&meet);
  check(next == NR_TASKLETS);
}

static void virtual_mutexes(uint32_t id) {
  for (uint32_t i = 0; i < 64; i++) {
    vmutex_lock(&virtual, i);
    table[i] += id + 1;
    vmutex_unlock(&virtual, i);
  }
  barrier_wait(&meet);
  check(table[id] == table[63]);
  check(table[id] == NR_TASKLETS * (NR_TASKLETS + 1) / 2);
  vmutex_lock(&virtual, id);
  vmutex_unlock(&virtual, id);
  vmutex_lock(&virtual, id); /* free again, else it would hang */
  vmutex_unlock(&virtual, id);
  check(1);
}

static void semaphores(uint32_t id) {
  sem_take(&room); /* two at a time */
  mutex_lock(lock);
  if (++inside > most_inside) most_inside = inside;
  mutex_unlock(lock);
  for (volatile uint32_t k = 0; k < 20; k++);
  mutex_lock(lock);
  inside--;
  mutex_unlock(lock);
  sem_give(&room);
  sem_give(&done);
  if (id == 0)
    for (uint32_t i = 0; i < NR_TASKLETS; i++) sem_take(&done);
  check(most_inside <= 2);
}

/* Of two that wait for the same tasklet, the second to come is refused. */
static void handshakes(uint32_t id) {
  int refused = 0;
  for (volatile uint32_t k = 0; k < 100 * id; k++); /* one after the other */
  if (id < 2) refused = handshake_wait_for(NR_TASKLETS - 1);
  if (id == NR_TASKLETS - 1) handshake_notify();
  check(id == 1 ? refused : !refused);
}

static void sequential_reader(uint32_t id) {
  if (id == 0)
    for (uint32_t i = 0; i < 512; i++) bytes[i] = i % 251;
  barrier_wait(&meet);
  seqreader_t reader;
  uint8_t *item = seqread_init(seqread_alloc(), bytes + 5, &reader);
  check(*item == 5);
  item = seqread_get(item, 200, &reader);
  check(*item == 205);
  item = seqread_get(item, 255, &reader);
  check(*item == 460 - 251);
  check(seqread_tell(item, &reader) == (__mram_ptr void *)(bytes + 460));
  item = seqread_seek(bytes + 9, &reader);
  check(*item == 9);
}

static void add(int *value, void *amount) { *value += *(int *)amount; }
static void add_byte(uint8_t *value, void *amount) { *value += *(uint8_t *)amount; }

static void unaligned_mram(uint32_t id) {
  static __dma_aligned uint8_t buffer[NR_TASKLETS][72];
  if (id == 0) {
    for (uint32_t i = 0; i < 512; i++) bytes[i] = i % 251;
    for (uint32_t i = 0; i < 8; i++) counters[i] = 0;
  }
  barrier_wait(&meet);
  uint8_t *read = mram_read_unaligned(bytes + 13 + id, buffer[id], 50);
  check(read[0] == 13 + id && read[49] == 62 + id);
  barrier_wait(&meet);
  for (uint32_t i = 0; i < 72; i++) buffer[id][i] = 100 + i;
  uint32_t at = 64 * (id % 4) + 3 + id; /* as far behind a multiple of 8 as the buffer */
  if (id < 4) mram_write_unaligned(buffer[id] + at % 8, bytes + at, 21);
  barrier_wait(&meet);
  check(id >= 4 || (bytes[at - 1] == (at - 1) % 251 && bytes[at] == 100 + at % 8 && bytes[at + 20] == 120 + at % 8 &&
                    bytes[at + 21] == (at + 21) % 251));
  int amount = (int)id + 1;
  uint8_t one = 1;
  for (uint32_t i = 0; i < 5; i++) mram_update_int_atomic(&counters[1], add, &amount);
  mram_update_byte_atomic(bytes + 300, add_byte, &one);
  if (id == 1) mram_write_int_atomic(&counters[2], -7);
  if (id == 2) mram_write_byte_atomic(bytes + 301, 9);
  barrier_wait(&meet);
  check(counters[1] == 5 * NR_TASKLETS * (NR_TASKLETS + 1) / 2);
  check(bytes[300] == 300 % 251 + NR_TASKLETS && bytes[301] == 9 && bytes[302] == 302 % 251);
  check(counters[0] == 0 && counters[2] == -7 && counters[3] == 0);
}

static __attribute__((noinline)) int stack_below(void) {
  volatile uint8_t frame[256];
  frame[me()] = 1; /* anywhere in it, so that all of it is there */
  return check_stack() + frame[me()] - 1;
}

static void stacks(void) {
  int here = check_stack();
  check(here > 0 && here <= STACK_SIZE_DEFAULT);
  check(here - stack_below() >= 256);
}

static void counter(uint32_t id) {
  perfcounter_t values[3];
  if (id == 0) {
    perfcounter_config(COUNT_INSTRUCTIONS, true);
    for (volatile uint32_t k = 0; k < 100; k++);
    values[0] = perfcounter_config(COUNT_SAME, false); /* goes on, and tells */
    for (volatile uint32_t k = 0; k < 100; k++);
    values[1] = perfcounter_get();
    perfcounter_config(COUNT_SAME, true); /* starts again */
    values[2] = perfcounter_get();
  }
  check(id || (values[0] > 300 && values[1] > values[0] + 300 && values[2] < 100));
  check(id || (values[0] % 16 == 0 && values[1] % 16 == 0));
  if (id == 0) {
    values[0] = perfcounter_config(COUNT_NOTHING, false); /* stands still */
    for (volatile uint32_t k = 0; k < 100; k++);
    values[1] = perfcounter_get();
    perfcounter_config(COUNT_NOTHING, true);
  }
  check(id || (values[0] > 0 && values[1] == values[0]));
  check(id || perfcounter_get() == 0);
  check(CLOCKS_PER_SEC >= 350000000);
}

static void library(void) {
  char text[16];
  check(atoi(" -12x") == -12 && atol("\t+31z") == 31 && atol("-") == 0 && abs(-3) == 3 && div(-7, 2).rem == -1);
  check(strlen(strcpy(text, "abc")) == 3 && strcmp(strcat(text, "d"), "abcd") == 0 && strncmp("abx", "aby", 2) == 0);
  check(strchr(text, 'c') == text + 2 && strrchr("abab", 'a')[1] == 'b' && memcmp("ab", "ac", 2) < 0);
  char words[] = " one, two", *rest, *at = words;
  check(!strcmp(strtok_r(words, " ,", &rest), "one") && !strcmp(strtok_r(NULL, " ,", &rest), "two"));
  check(!strtok_r(NULL, " ,", &rest) && !*strsep(&at, " ") && !strcmp(strsep(&at, " "), "one"));
  check(strstr("abcabd", "abd")[2] == 'd' && !strstr("abc", "ac") && *strstr("abc", "") == 'a');
  check(strspn("aab", "a") == 2 && strcspn("aab", "b") == 2 && *strpbrk("xyz", "zy") == 'y' && !strpbrk("x", "y"));
  check(memchr("abc", 'c', 3) && !memchr("abc", 'c', 2) && *stpcpy(text, "abc") == 0 &&
        stpncpy(text, "abc", 2)[0] == 'c');
  check(!strcmp(strncat(strcpy(text, "ab"), "cdef", 2), "abcd") && labs(-5L) == 5 && lldiv(-7, 2).quot == -3);
  check(isxdigit('F') && !isxdigit('g') && ispunct('!') && !ispunct('a') && isblank('\t') && iscntrl(0) &&
        !isgraph(' '));
  check(memcpy(text, "12345678", 9) == text && memmove(text + 1, text, 4) == text + 1 && !memcmp(text, "11234678", 8));
}

static void keeps_a_lock(void) {
  if (me() == 0) mutex_lock(lock); /* boot frees it: a second launch does not hang */
  check(1);
}

static void prints_too_much(uint32_t id) {
  char line[64];
  memset(line, 'x', 63), line[63] = 0;
  if (id == 0)
    for (uint32_t i = 0; i < 17000; i++) printf("%s\n", line);
  check(1);
}

static void loops_for_ever(void) { for (volatile uint32_t k = 0;; k++); }

int main(void) {
  uint32_t id = me();
  if (id == 0) held = expected = inside = most_inside = next = 0, mem_reset(), memset(table, 0, sizeof table);
  barrier_wait(&meet);
  order[id] = id;
  switch (rule) {
    case 0:
      data_model();
      break;
    case 1:
      mram_scalars(id);
      break;
    case 2:
      heap(id);
      break;
    case 3:
      mutexes(id);
      break;
    case 4:
      virtual_mutexes(id);
      break;
    case 5:
      semaphores(id);
      break;
    case 6:
      handshakes(id);
      break;
    case 7:
      sequential_reader(id);
      break;
    case 8:
      unaligned_mram(id);
      break;
    case 9:
      stacks();
      break;
    case 10:
      counter(id);
      break;
    case 11:
      library();
      break;
    case 12:
      keeps_a_lock();
      break;
    case 13:
      prints_too_much(id);
      break;
    case 14:
      loops_for_ever();
      break;
    case 15:
      exit(3); /* ends this tasklet, and no other */
  }
  return 5; /* dropped */
}
