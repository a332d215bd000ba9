// Vectors of 32 bytes: channels, several at once.

#pragma once

#include <cstdint>
#include <cstring>

namespace metasym {
namespace {

// A short loop, unrolled.
#define EACH(i, n) _Pragma("GCC unroll 9") for (int i = 0; i < n; ++i)

template <typename T>
struct Vector;
#define VECTOR(T)                                                                                                   \
  template <>                                                                                                       \
  struct Vector<T> {                                                                                                \
    typedef T type __attribute__((vector_size(32)));                                                                \
    typedef T anywhere __attribute__((vector_size(32), aligned(sizeof(T)), may_alias)); /* in memory */             \
  };
VECTOR(float)
VECTOR(double)
template <typename T>
using Vec = typename Vector<T>::type;
template <typename T>
constexpr int LANES = 32 / sizeof(T);

template <typename T>
inline Vec<T> load(const T* p) {
  return *reinterpret_cast<const typename Vector<T>::anywhere*>(p);
}
template <typename T>
inline void store(T* p, Vec<T> v) {
  *reinterpret_cast<typename Vector<T>::anywhere*>(p) = v;
}
// A whole vector of channels, or the last ones where they do not fill it.
struct Whole {
  template <typename T>
  static Vec<T> load(const T* p) { return metasym::load(p); }
  template <typename T>
  static void store(T* p, Vec<T> v) { metasym::store(p, v); }
};
struct Part {
  int64_t count;
  template <typename T>
  Vec<T> load(const T* p) const {
    Vec<T> v = {};
    std::memcpy(&v, p, count * sizeof(T));
    return v;
  }
  template <typename T>
  void store(T* p, Vec<T> v) const { std::memcpy(p, &v, count * sizeof(T)); }
};
// f(first channel, Whole or Part) for every vector of c channels.
template <typename T, typename F>
inline void each_vector(int64_t c, F f) {
  int64_t k = 0;
  for (; k + LANES<T> <= c; k += LANES<T>) f(k, Whole{});
  if (k < c) f(k, Part{c - k});
}

}  // namespace
}  // namespace metasym
