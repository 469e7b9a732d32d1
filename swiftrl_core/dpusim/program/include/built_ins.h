/* Single instructions of a DPU as statements: products of two bytes. The names say which: signed or unsigned, the low
 * byte of a register or the next one (high). */
#ifndef DPUSIM_BUILT_INS_H
#define DPUSIM_BUILT_INS_H

#include <stdint.h>

#define __dpusim_sl(x) ((int32_t)(int8_t)(x))
#define __dpusim_sh(x) ((int32_t)(int8_t)((uint32_t)(x) >> 8))
#define __dpusim_ul(x) ((uint32_t)(uint8_t)(x))
#define __dpusim_uh(x) ((uint32_t)(uint8_t)((uint32_t)(x) >> 8))

#define __builtin_mul_sl_sl_rrr(rc, ra, rb) ((rc) = __dpusim_sl(ra) * __dpusim_sl(rb))
#define __builtin_mul_sl_sh_rrr(rc, ra, rb) ((rc) = __dpusim_sl(ra) * __dpusim_sh(rb))
#define __builtin_mul_sh_sl_rrr(rc, ra, rb) ((rc) = __dpusim_sh(ra) * __dpusim_sl(rb))
#define __builtin_mul_sh_sh_rrr(rc, ra, rb) ((rc) = __dpusim_sh(ra) * __dpusim_sh(rb))
#define __builtin_mul_sl_ul_rrr(rc, ra, rb) ((rc) = __dpusim_sl(ra) * (int32_t)__dpusim_ul(rb))
#define __builtin_mul_sl_uh_rrr(rc, ra, rb) ((rc) = __dpusim_sl(ra) * (int32_t)__dpusim_uh(rb))
#define __builtin_mul_sh_ul_rrr(rc, ra, rb) ((rc) = __dpusim_sh(ra) * (int32_t)__dpusim_ul(rb))
#define __builtin_mul_sh_uh_rrr(rc, ra, rb) ((rc) = __dpusim_sh(ra) * (int32_t)__dpusim_uh(rb))
#define __builtin_mul_ul_ul_rrr(rc, ra, rb) ((rc) = __dpusim_ul(ra) * __dpusim_ul(rb))
#define __builtin_mul_ul_uh_rrr(rc, ra, rb) ((rc) = __dpusim_ul(ra) * __dpusim_uh(rb))
#define __builtin_mul_uh_ul_rrr(rc, ra, rb) ((rc) = __dpusim_uh(ra) * __dpusim_ul(rb))
#define __builtin_mul_uh_uh_rrr(rc, ra, rb) ((rc) = __dpusim_uh(ra) * __dpusim_uh(rb))

#endif
