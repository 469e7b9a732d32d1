/* Types of the DPU runtime. */
#ifndef DPUSIM_SYSDEF_H
#define DPUSIM_SYSDEF_H
#include <defs.h>
#endif
