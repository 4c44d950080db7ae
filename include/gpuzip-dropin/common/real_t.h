// real_t: the type of a program's wavefields, float, or double if USE_DOUBLE (GPUZIP 2.x's name) or
// GPUZIP_REAL_DOUBLE is defined. A configuration whose float_kind is NULL has fields of real_t;
// otherwise float_kind names their type.
#ifndef GPUZIP_DROPIN_COMMON_REAL_T_H
#define GPUZIP_DROPIN_COMMON_REAL_T_H

/// The type of a program's wavefields: double if USE_DOUBLE or GPUZIP_REAL_DOUBLE is defined, otherwise float.
#if defined(USE_DOUBLE) || defined(GPUZIP_REAL_DOUBLE)
typedef double real_t;
#else
typedef float real_t;
#endif

#endif
