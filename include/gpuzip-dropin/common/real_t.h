// real_t: the type of a program's wavefields. Define USE_DOUBLE (GPUZIP 2.x's name) or GPUZIP_REAL_DOUBLE for double: a configuration whose
// float_kind is NULL means real_t, one that names a type means that.
#ifndef GPUZIP_DROPIN_COMMON_REAL_T_H
#define GPUZIP_DROPIN_COMMON_REAL_T_H

#if defined(USE_DOUBLE) || defined(GPUZIP_REAL_DOUBLE)
typedef double real_t;
#else
typedef float real_t;
#endif

#endif
