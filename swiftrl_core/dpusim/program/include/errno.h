/* Why the last call failed. One variable for all tasklets. */
#ifndef DPUSIM_ERRNO_H
#define DPUSIM_ERRNO_H

extern int errno;

#define ENOMEM 12
#define EINVAL 22
#define EDOM 33
#define ERANGE 34

#endif
