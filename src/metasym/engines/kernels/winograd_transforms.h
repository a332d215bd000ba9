// The matrices B, G and A of F(4 x 4, 3 x 3) at the points 0, +-1/sqrt(2), +-sqrt(2), infinity, and their transposes:
// of one row or column, and of a whole tile.

#pragma once

#include "vectors.h"

namespace metasym {
namespace {

constexpr int SIDE = 6, OUT = 4;  // of a tile of inputs, of outputs
constexpr double ROOT = 1.41421356237309504880;

// The transforms of one row or column: get(i) reads its entry i, put(i, v) takes that of the result.
template <typename T, typename Get, typename Put>
inline void to_input(Get get, Put put) {  // B^T
  const T a = T(ROOT / 2), b = T(ROOT);
  const Vec<T> d1 = get(1), d2 = get(2), d3 = get(3), d4 = get(4);
  const Vec<T> ea = d4 - T(2) * d2, oa = (d3 - T(2) * d1) * a, eb = d4 - T(0.5) * d2, ob = (d3 - T(0.5) * d1) * b;
  put(0, get(0) + d4 - T(2.5) * d2);
  put(1, ea + oa);
  put(2, ea - oa);
  put(3, eb + ob);
  put(4, eb - ob);
  put(5, d1 + get(5) - T(2.5) * d3);
}
template <typename T, typename Get, typename Put>
inline void from_input(Get get, Put put) {  // B
  const T a = T(ROOT / 2), b = T(ROOT);
  const Vec<T> v0 = get(0), v1 = get(1), v2 = get(2), v3 = get(3), v4 = get(4), v5 = get(5);
  const Vec<T> sa = v1 + v2, da = (v1 - v2) * a, sb = v3 + v4, db = (v3 - v4) * b;
  put(0, v0);
  put(1, v5 - T(2) * da - T(0.5) * db);
  put(2, T(-2.5) * v0 - T(2) * sa - T(0.5) * sb);
  put(3, da + db - T(2.5) * v5);
  put(4, v0 + sa + sb);
  put(5, v5);
}
template <typename T, typename Get, typename Put>
inline void to_output(Get get, Put put) {  // A^T
  const T a = T(ROOT / 2), b = T(ROOT);
  const Vec<T> m1 = get(1), m2 = get(2), m3 = get(3), m4 = get(4);
  const Vec<T> sa = m1 + m2, da = (m1 - m2) * a, sb = m3 + m4, db = (m3 - m4) * b;
  put(0, get(0) + sa + sb);
  put(1, da + db);
  put(2, T(0.5) * sa + T(2) * sb);
  put(3, T(0.5) * da + T(2) * db + get(5));
}
template <typename T, typename Get, typename Put>
inline void from_output(Get get, Put put) {  // A
  const T a = T(ROOT / 2), b = T(ROOT);
  const Vec<T> y0 = get(0), y1 = get(1), y2 = get(2), y3 = get(3);
  const Vec<T> ea = y0 + T(0.5) * y2, oa = (y1 + T(0.5) * y3) * a;
  const Vec<T> eb = y0 + T(2) * y2, ob = (y1 + T(2) * y3) * b;
  put(0, y0);
  put(1, ea + oa);
  put(2, ea - oa);
  put(3, eb + ob);
  put(4, eb - ob);
  put(5, y3);
}
// Rows of G: (1, 0, 0), (1, p, p^2) / N(p) with N = -3/2 at +-1/sqrt(2) and 6 at +-sqrt(2), (0, 0, 1).
template <typename T, typename Get, typename Put>
inline void to_kernel(Get get, Put put) {  // G
  const T a = T(ROOT / 2), b = T(ROOT);
  const Vec<T> g0 = get(0), g1 = get(1), g2 = get(2);
  const Vec<T> ea = (g0 + T(0.5) * g2) * T(-2.0 / 3), oa = g1 * T(-2.0 / 3) * a;
  const Vec<T> eb = (g0 + T(2) * g2) * T(1.0 / 6), ob = g1 * T(1.0 / 6) * b;
  put(0, g0);
  put(1, ea + oa);
  put(2, ea - oa);
  put(3, eb + ob);
  put(4, eb - ob);
  put(5, g2);
}
template <typename T, typename Get, typename Put>
inline void from_kernel(Get get, Put put) {  // G^T
  const T a = T(ROOT / 2), b = T(ROOT);
  const Vec<T> u1 = get(1), u2 = get(2), u3 = get(3), u4 = get(4);
  const Vec<T> sa = (u1 + u2) * T(-2.0 / 3), da = (u1 - u2) * T(-2.0 / 3);
  const Vec<T> sb = (u3 + u4) * T(1.0 / 6), db = (u3 - u4) * T(1.0 / 6);
  put(0, get(0) + sa + sb);
  put(1, da * a + db * b);
  put(2, T(0.5) * sa + T(2) * sb + get(5));
}

// Both directions of a tile: get(place) of a square of IN x IN vectors, put(place, v) of one of TO x TO.
#define TWICE(NAME, TRANSFORM, IN, TO)                                                                               \
  template <typename T, typename Get, typename Put>                                                                  \
  inline void NAME(Get get, Put put) {                                                                               \
    Vec<T> half[TO * IN];                                                                                            \
    EACH(j, IN) TRANSFORM<T>([&](int i) { return get(i * IN + j); }, [&](int i, Vec<T> v) { half[i * IN + j] = v; }); \
    EACH(i, TO) TRANSFORM<T>([&](int j) { return half[i * IN + j]; }, [&](int j, Vec<T> v) { put(i * TO + j, v); });  \
  }
TWICE(tile_to_input, to_input, SIDE, SIDE)
TWICE(tile_from_input, from_input, SIDE, SIDE)
TWICE(tile_to_output, to_output, SIDE, OUT)
TWICE(tile_from_output, from_output, OUT, SIDE)
TWICE(tile_to_kernel, to_kernel, 3, SIDE)
TWICE(tile_from_kernel, from_kernel, SIDE, 3)

}  // namespace
}  // namespace metasym
