/* Quicksort with recursion, insertion below eight elements, records of 12 bytes moved whole. */
#include "suite.h"

#define N 200

struct record {
  int32_t key;
  uint32_t left, right;
};

static void insert(struct record *r, int32_t n) {
  for (int32_t i = 1; i < n; i++) {
    struct record moved = r[i];
    int32_t at = i;
    for (; at > 0 && r[at - 1].key > moved.key; at--) r[at] = r[at - 1];
    r[at] = moved;
  }
}

static void sort(struct record *r, int32_t n) {
  if (n < 8) {
    insert(r, n);
    return;
  }
  int32_t pivot = r[n / 2].key, low = 0, high = n - 1;
  while (low <= high) {
    while (r[low].key < pivot) low++;
    while (r[high].key > pivot) high--;
    if (low > high) break;
    struct record other = r[low];
    r[low++] = r[high];
    r[high--] = other;
  }
  sort(r, high + 1);
  sort(r + low, n - low);
}

int main(void) {
  static struct record records[N];
  fill((uint32_t *)records, 3 * N, 43);
  sort(records, N);
  publish(records, sizeof records);
  return 0;
}
