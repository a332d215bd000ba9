// The matrices B, G and A of F(4 x 4, r x r) and their transposes: of one row or column, and of a whole tile.
//
// The points are 0, +-p_i, infinity. With q_i(y) the product of y - p_k^2 over all k but i, q(y) that over all k, and
// N_i = 2 p_i^2 q_i(p_i^2), the rows are, a polynomial standing for its coefficients,
//
//     point      B^T                        G                               A
//     0          q(x^2)                     (1, 0, ...) / q(0)              (1, 0, ...)
//     +-p_i      (x^2 +- p_i x) q_i(x^2)    (1, +-p_i, p_i^2, ...) / N_i    (1, +-p_i, p_i^2, ...)
//     infinity   x q(x^2)                   (..., 0, 1)                     (..., 0, 1)
//
// so that the rows of p_i and -p_i have the same even entries, and odd entries of opposite sign.

#pragma once

#include <utility>

#include "vectors.h"

namespace metasym {
namespace {

// Of those tried, the points with the smallest rounding errors: in float32 about twice (3 x 3) and six times (5 x 5)
// those of torch's convolution. The customary 0, +-1, +-2 have twice the errors for 3 x 3.
template <int TAPS>
struct Points;
template <>
struct Points<3> {
  static constexpr double at[] = {0.70710678118654752440, 1.41421356237309504880}, squared[] = {0.5, 2};
};
template <>
struct Points<5> {
  static constexpr double at[] = {0.5, 1, 2}, squared[] = {0.25, 1, 4};
};

// f(0), ..., f(N - 1), each argument a constant to the compiler.
template <typename F, int... I>
inline void each(F f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}
template <int N, typename F>
inline void each(F f) {
  each(f, std::make_integer_sequence<int, N>{});
}

template <typename T, int TAPS>
struct Winograd {
  static constexpr int OUT = 4, SIDE = OUT + TAPS - 1;  // of a tile of outputs, of inputs
  static constexpr int PLANES = SIDE * SIDE, KERNEL = TAPS * TAPS, PAIRS = SIDE / 2 - 1, LAST = SIDE - 1;

  // p_i to the power of k.
  static constexpr double power(int i, int k) {
    double found = k % 2 ? Points<TAPS>::at[i] : 1;
    for (int m = 0; m < k / 2; ++m) found *= Points<TAPS>::squared[i];
    return found;
  }
  // Coefficient j of q_i; of q where i is -1.
  static constexpr double q(int i, int j) {
    double c[PAIRS + 1] = {1};
    for (int k = 0; k < PAIRS; ++k)
      for (int m = PAIRS; k != i && m >= 0; --m) c[m] = (m ? c[m - 1] : 0) - Points<TAPS>::squared[k] * c[m];
    return c[j];
  }
  // 1 / N_i; 1 / q(0) where i is -1.
  static constexpr double scale(int i) {
    if (i < 0) return 1 / q(-1, 0);
    double value = 0;
    for (int j = 0; j < PAIRS; ++j) value += q(i, j) * power(i, 2 * j);
    return 1 / (2 * power(i, 2) * value);
  }

  // The transforms of one row or column: get(i) reads its entry i, put(i, v) takes that of the result.
  struct ToInput {  // B^T
    template <typename Get, typename Put>
    void operator()(Get get, Put put) const {
      Vec<T> first = get(LAST - 1), last = get(LAST);
      each<PAIRS>([&](auto j) {
        constexpr T c = T(q(-1, j));
        first += c * get(2 * j);
        last += c * get(2 * j + 1);
      });
      put(0, first);
      put(LAST, last);
      each<PAIRS>([&](auto i) {
        Vec<T> even = get(2 * PAIRS), odd = get(2 * PAIRS - 1);
        each<PAIRS - 1>([&](auto j) {
          constexpr T c = T(q(i, j));
          even += c * get(2 * j + 2);
          odd += c * get(2 * j + 1);
        });
        odd *= T(power(i, 1));
        put(2 * i + 1, even + odd);
        put(2 * i + 2, even - odd);
      });
    }
  };
  struct FromInput {  // B
    template <typename Get, typename Put>
    void operator()(Get get, Put put) const {
      Vec<T> sum[PAIRS], difference[PAIRS];
      const Vec<T> first = get(0), last = get(LAST);
      each<PAIRS>([&](auto i) {
        sum[i] = get(2 * i + 1) + get(2 * i + 2);
        difference[i] = (get(2 * i + 1) - get(2 * i + 2)) * T(power(i, 1));
      });
      each<PAIRS + 1>([&](auto j) {
        Vec<T> even = T(q(-1, j)) * first, odd = T(q(-1, j)) * last;
        each<PAIRS>([&](auto i) {
          if constexpr (j > 0) even += T(q(i, j - 1)) * sum[i];
          if constexpr (j < PAIRS) odd += T(q(i, j)) * difference[i];
        });
        put(2 * j, even);
        put(2 * j + 1, odd);
      });
    }
  };
  // The first COLUMNS powers of the points, a row a point: A, or (SCALED) G.
  template <int COLUMNS, bool SCALED>
  struct Powers {
    template <typename Get, typename Put>
    void operator()(Get get, Put put) const {
      put(0, get(0) * T(SCALED ? scale(-1) : 1));
      put(LAST, get(COLUMNS - 1));
      each<PAIRS>([&](auto i) {
        constexpr double s = SCALED ? scale(i) : 1;
        Vec<T> even = get(0) * T(s), odd = get(1) * T(s);
        each<COLUMNS - 2>([&](auto k) {
          constexpr T c = T(s * power(i, k / 2 * 2 + 2));
          (k % 2 ? odd : even) += c * get(k + 2);
        });
        odd *= T(power(i, 1));
        put(2 * i + 1, even + odd);
        put(2 * i + 2, even - odd);
      });
    }
  };
  template <int COLUMNS, bool SCALED>
  struct PowersTransposed {
    template <typename Get, typename Put>
    void operator()(Get get, Put put) const {
      Vec<T> part[2][PAIRS];  // sums, for even powers, and differences, for odd ones
      each<PAIRS>([&](auto i) {
        constexpr double s = SCALED ? scale(i) : 1;
        part[0][i] = (get(2 * i + 1) + get(2 * i + 2)) * T(s);
        part[1][i] = (get(2 * i + 1) - get(2 * i + 2)) * T(s * power(i, 1));
      });
      each<COLUMNS>([&](auto k) {
        Vec<T> found = part[k % 2][0] * T(power(0, k / 2 * 2));
        each<PAIRS - 1>([&](auto i) { found += T(power(i + 1, k / 2 * 2)) * part[k % 2][i + 1]; });
        if constexpr (k == 0) found += get(0) * T(SCALED ? scale(-1) : 1);
        if constexpr (k == COLUMNS - 1) found += get(LAST);
        put(k, found);
      });
    }
  };

  // Both directions of a tile: get(place) of a square of IN x IN vectors, put(place, v) of one of TO x TO.
  template <typename Transform, int IN, int TO>
  struct Twice {
    template <typename Get, typename Put>
    static inline void of(Get get, Put put) {
      const Transform transform;
      Vec<T> half[TO * IN];
      EACH(j, IN) transform([&](int i) { return get(i * IN + j); }, [&](int i, Vec<T> v) { half[i * IN + j] = v; });
      EACH(i, TO) transform([&](int j) { return half[i * IN + j]; }, [&](int j, Vec<T> v) { put(i * TO + j, v); });
    }
  };
  using TileToInput = Twice<ToInput, SIDE, SIDE>;
  using TileFromInput = Twice<FromInput, SIDE, SIDE>;
  using TileToOutput = Twice<PowersTransposed<OUT, false>, SIDE, OUT>;
  using TileFromOutput = Twice<Powers<OUT, false>, OUT, SIDE>;
  using TileToKernel = Twice<Powers<TAPS, true>, TAPS, SIDE>;
  using TileFromKernel = Twice<PowersTransposed<TAPS, true>, SIDE, TAPS>;
};

}  // namespace
}  // namespace metasym
