// Around a generated function body (GDN_FUZZ_INCLUDE, by fuzz_generator.cpp): compiled by the
// host's compiler and by clang for gfx906.
#pragma once

#include <stdint.h>

// Without the HIP headers, which take longer to read than a function to compile.
#if defined(__HIP__)
#define GDN_FUZZ static __attribute__((device, always_inline)) inline
#else
#define GDN_FUZZ static inline
#endif

/// Two words for each value that is compared; 7 types, 6 values each.
constexpr int kWords = 84;

/// Floats of all signs and exponents from 2^-7 to 2^0 or so, from random bits.
GDN_FUZZ float moderate(uint32_t x) {
  union {
    uint32_t bits;
    float value;
  } c;
  c.bits = (x & 0x80ffffffu) | (0x3c000000u + ((x >> 5) & 0x03000000u));
  return c.value;
}
GDN_FUZZ float small(uint32_t x) { return (float)(int32_t)(x & 0xffff) * 0x1p-13f - 3.0f; }
GDN_FUZZ int32_t to_integer(float f) { return f > -1e9f && f < 1e9f ? (int32_t)f : 7; }
/// Which NaN an operation gives is not specified.
GDN_FUZZ uint32_t bits_of(float f) {
  union {
    uint32_t bits;
    float value;
  } c;
  c.value = f;
  return f != f ? 0x7fc00000u : c.bits;
}

GDN_FUZZ void put(uint32_t* out, uint32_t x) {
  out[0] = x;
  out[1] = 0;
}
GDN_FUZZ void put(uint32_t* out, int32_t x) { put(out, (uint32_t)x); }
GDN_FUZZ void put(uint32_t* out, uint64_t x) {
  out[0] = (uint32_t)x;
  out[1] = (uint32_t)(x >> 32);
}
GDN_FUZZ void put(uint32_t* out, int64_t x) { put(out, (uint64_t)x); }
GDN_FUZZ void put(uint32_t* out, float x) { put(out, bits_of(x)); }
GDN_FUZZ void put(uint32_t* out, _Float16 x) { put(out, bits_of((float)x)); }
GDN_FUZZ void put(uint32_t* out, double x) {
  union {
    uint64_t bits;
    double value;
  } c;
  c.value = x;
  put(out, x != x ? (uint64_t)0x7ff8000000000000ull : c.bits);
}

GDN_FUZZ void body(const uint32_t* in, uint32_t* out, int l) {
#include GDN_FUZZ_INCLUDE
}

#if defined(__HIP__)
extern "C" __attribute__((global, launch_bounds(64))) void fuzz(const uint32_t* in, uint32_t* out) {
  body(in, out, (int)(__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x()));
}
#else
extern "C" void GDN_FUZZ_HOST(const uint32_t* in, uint32_t* out, int lanes) {
  for (int l = 0; l < lanes; ++l) body(in, out, l);
}
#endif
