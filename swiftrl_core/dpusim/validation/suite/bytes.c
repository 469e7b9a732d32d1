/* Bytes and halfwords: a checksum by shifts and tests of bits, copies by the runtime's memcpy and memset. */
#include <string.h>

#include "suite.h"

#define BYTES 256

__attribute__((noinline)) static uint16_t crc16(const uint8_t *data, uint32_t n) {
  uint16_t crc = 0xFFFF;
  for (uint32_t i = 0; i < n; i++) {
    crc ^= (uint16_t)(data[i] << 8);
    for (uint32_t bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (uint16_t)(crc << 1) ^ 0x1021 : (uint16_t)(crc << 1);
  }
  return crc;
}

int main(void) {
  static uint32_t words[BYTES / 4];
  static uint8_t copy[BYTES + 8];
  uint32_t seed = 47;
  fill(words, BYTES / 4, 53);
  memset(copy, 0, sizeof copy);
  for (uint32_t i = 0; i < 8; i++) memcpy(copy + i, words, BYTES - (draw(&seed) & 31));
  uint16_t crc = crc16(copy, sizeof copy);
  publish(&crc, sizeof crc);
  return 0;
}
