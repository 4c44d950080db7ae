// real_t: the type of a program's wavefields. Define GPUZIP_REAL_DOUBLE for double, together with float_kind = "double".
#ifndef GPUZIP_DROPIN_COMMON_REAL_T_H
#define GPUZIP_DROPIN_COMMON_REAL_T_H

#ifdef GPUZIP_REAL_DOUBLE
typedef double real_t;
#else
typedef float real_t;
#endif

#endif
