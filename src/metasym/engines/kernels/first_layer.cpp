// A first convolution by patches with the batch norm, ReLU and max-pooling after it, as one: its output x, the largest
// array of a small network, is never written down.
//
// patches are [entries, n * h * w], W is [c, entries], x = W patches. The mean and variance of x are those of the patches
// between W and itself, in float64; then each pooling window is computed, normalised and pooled in registers. Backwards
// only the sums A of dy times the patch that each output was taken from are needed (first_layer.py says why).
//
// Sums over examples are taken image by image and joined in float64 in the order of the images.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "each_window.h"

namespace {

#define EACH(i, n) _Pragma("GCC unroll 9") for (int i = 0; i < n; ++i)
#define EACH_IMAGE(i) _Pragma("omp parallel for schedule(static) if (threads > 1) num_threads(threads)") \
  for (int64_t i = 0; i < s.n; ++i)

template <typename T, typename I>
struct Lanes {
  static constexpr int COUNT = 32 / sizeof(T);
  typedef T type __attribute__((vector_size(32)));
  typedef I index __attribute__((vector_size(32)));  // as wide as T: comparisons give these
};

struct Shape {
  int64_t n, h, w, c, p, entries;
  int64_t ph() const { return h / p; }
  int64_t pw() const { return w / p; }
  int64_t places() const { return h * w; }
  int64_t total() const { return n * h * w; }
};

template <typename V, typename T>
inline V load(const T* p) {
  typedef V anywhere __attribute__((aligned(sizeof(T)), may_alias));
  return *reinterpret_cast<const anywhere*>(p);
}
template <typename V, typename T>
inline void store(T* p, V v) {
  typedef V anywhere __attribute__((aligned(sizeof(T)), may_alias));
  *reinterpret_cast<anywhere*>(p) = v;
}
// The first `count` lanes at p, others zero.
template <typename V, typename T>
inline V load_some(const T* p, int64_t count) {
  V v = {};
  std::memcpy(&v, p, std::min<size_t>(sizeof v, count * sizeof(T)));
  return v;
}

// Means [entries] and the sums of products of deviations from them [entries, entries], over all patches.
template <typename T>
void moments(const Shape& s, const T* patches, std::vector<double>& mean, std::vector<double>& products, int threads) {
  const int64_t e = s.entries, places = s.places();
  std::vector<double> means(s.n * e), parts(s.n * e * e);
  EACH_IMAGE(i)
  for (int64_t a = 0; a < e; ++a) {
    const T* pa = patches + a * s.total() + i * places;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < places; ++j) sum += pa[j];
    const double ma = means[i * e + a] = sum / places;
    for (int64_t b = 0; b <= a; ++b) {
      const T* pb = patches + b * s.total() + i * places;
      const double mb = means[i * e + b];
      double product = 0;
#pragma omp simd reduction(+ : product)
      for (int64_t j = 0; j < places; ++j) product += (pa[j] - ma) * (pb[j] - mb);
      parts[(i * e + a) * e + b] = product;
    }
  }
  for (int64_t a = 0; a < e; ++a) {
    mean[a] = 0;
    for (int64_t i = 0; i < s.n; ++i) mean[a] += means[i * e + a] / s.n;
  }
  for (int64_t a = 0; a < e; ++a)
    for (int64_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (int64_t i = 0; i < s.n; ++i)
        sum += parts[(i * e + a) * e + b] + places * (means[i * e + a] - mean[a]) * (means[i * e + b] - mean[b]);
      products[a * e + b] = products[b * e + a] = sum;
    }
}

template <int P, typename T, typename I>
void forward(const Shape& s, const T* patches, const T* W, const T* scale, const T* shift, double eps, int relu, T* mean,
             T* inv, T* y, I* where, T* first, T* second, int threads) {
  typedef typename Lanes<T, I>::type V;
  typedef typename Lanes<T, I>::index N;
  constexpr int L = Lanes<T, I>::COUNT;
  const int64_t c = s.c, e = s.entries, wide = (c + L - 1) / L * L, total = s.total();
  std::vector<double> m(e), products(e * e);
  moments(s, patches, m, products, threads);
  for (int64_t a = 0; a < e; ++a) first[a] = T(m[a] * total);
  for (int64_t a = 0; a < e; ++a)
    for (int64_t b = 0; b < e; ++b) second[a * e + b] = T(products[a * e + b] + total * m[a] * m[b]);
  std::vector<T> weights((e + 1) * wide, T(0));  // W times the norm's factor, and what the norm adds
  for (int64_t k = 0; k < c; ++k) {
    double centre = 0, square = 0;
    for (int64_t a = 0; a < e; ++a) {
      centre += W[k * e + a] * m[a];
      for (int64_t b = 0; b < e; ++b) square += double(W[k * e + a]) * W[k * e + b] * products[a * e + b];
    }
    const double r = 1 / std::sqrt(std::max(square, 0.0) / total + eps), factor = r * scale[k];
    mean[k] = T(centre);
    inv[k] = T(r);
    for (int64_t a = 0; a < e; ++a) weights[a * wide + k] = T(W[k * e + a] * factor);
    weights[e * wide + k] = T(shift[k] - centre * factor);
  }
  const T least = relu ? T(0) : -std::numeric_limits<T>::infinity();
  EACH_IMAGE(i)
  for (int64_t a = 0; a < s.ph(); ++a)
    for (int64_t b = 0; b < s.pw(); ++b) {
      const T* at = patches + i * s.places() + a * P * s.w + b * P;
      const int64_t out = ((i * s.ph() + a) * s.pw() + b) * c;
      for (int64_t k = 0; k < c; k += L) {
        V z[P * P];
        EACH(q, P * P) z[q] = load<V>(&weights[e * wide + k]);
        for (int64_t j = 0; j < e; ++j) {
          const V w = load<V>(&weights[j * wide + k]);
          EACH(q, P * P) z[q] += w * at[j * total + (q / P) * s.w + q % P];
        }
        V best = z[0];
        N place = {};
        EACH(q, P * P) {
          const N larger = z[q] > best;
          place = larger ? N{} + I(q) : place;
          best = larger ? z[q] : best;
        }
        best = best < V{} + least ? V{} + least : best;  // keeps NaN
        if (k + L <= c) {
          store(y + out + k, best);
          store(where + out + k, place);
        } else {
          std::memcpy(y + out + k, &best, (c - k) * sizeof(T));
          std::memcpy(where + out + k, &place, (c - k) * sizeof(I));
        }
      }
    }
}

// Of E entries of the patches from `patches` on, one vector of channels and one image: sums of dy times them, [E] vectors.
template <int P, int E, typename T, typename I>
void sums_of(const Shape& s, const T* patches, const T* y, const I* where, const T* dy, int64_t k, int64_t count, T least,
             T* out, int64_t apart) {
  typedef typename Lanes<T, I>::type V;
  typedef typename Lanes<T, I>::index N;
  constexpr int L = Lanes<T, I>::COUNT;
  V sum[E];
  EACH(j, E) sum[j] = V{};
  for (int64_t a = 0; a < s.ph(); ++a)
    for (int64_t b = 0; b < s.pw(); ++b) {
      const int64_t from = (a * s.pw() + b) * s.c + k;
      const bool whole = count >= L;
      const V above = whole ? load<V>(y + from) : load_some<V>(y + from, count);
      const N place = whole ? load<N>(where + from) : load_some<N>(where + from, count);
      V g = whole ? load<V>(dy + from) : load_some<V>(dy + from, count);
      g = above > V{} + least ? g : V{};
      const T* at = patches + a * P * s.w + b * P;
      EACH(q, P * P) {
        const V here = place == N{} + I(q) ? g : V{};
        EACH(j, E) sum[j] += here * at[j * s.total() + (q / P) * s.w + q % P];
      }
    }
  EACH(j, E) std::memcpy(out + j * apart, &sum[j], std::min<size_t>(sizeof(V), count * sizeof(T)));
}

template <int P, typename T, typename I>
void sums(const Shape& s, const T* patches, const T* y, const I* where, const T* dy, int relu, T* A, T* dshift,
          int threads) {
  constexpr int L = Lanes<T, I>::COUNT;
  const int64_t c = s.c, e = s.entries, pooled = s.ph() * s.pw() * c;
  const T least = relu ? T(0) : -std::numeric_limits<T>::infinity();
  std::vector<T> products(s.n * e * c), shifts(s.n * c);
  EACH_IMAGE(i) {
    const T *yi = y + i * pooled, *di = dy + i * pooled;
    const I* wi = where + i * pooled;
    T* db = &shifts[i * c];
    for (int64_t j = 0; j < pooled; j += c)
      for (int64_t k = 0; k < c; ++k) db[k] += yi[j + k] > least ? di[j + k] : T(0);
    for (int64_t k = 0; k < c; k += L)
      for (int64_t j = 0; j < e;) {
        const T* at = patches + j * s.total() + i * s.places();
        T* out = &products[(i * e + j) * c + k];
        if (e - j >= 9) sums_of<P, 9>(s, at, yi, wi, di, k, c - k, least, out, c), j += 9;
        else if (e - j >= 3) sums_of<P, 3>(s, at, yi, wi, di, k, c - k, least, out, c), j += 3;
        else sums_of<P, 1>(s, at, yi, wi, di, k, c - k, least, out, c), j += 1;
      }
  }
  std::vector<double> joined(e * c), db(c);
  for (int64_t i = 0; i < s.n; ++i) {
    for (int64_t k = 0; k < e * c; ++k) joined[k] += products[i * e * c + k];
    for (int64_t k = 0; k < c; ++k) db[k] += shifts[i * c + k];
  }
  for (int64_t k = 0; k < e * c; ++k) A[k] = T(joined[k]);
  for (int64_t k = 0; k < c; ++k) dshift[k] = T(db[k]);
}

}  // namespace

#define EXPORT(T, I, S)                                                                                              \
  extern "C" void first_forward_##S(const int64_t* f, const T* patches, const T* W, const T* scale, const T* shift,  \
                                    double eps, int relu, T* mean, T* inv, T* y, I* where, T* first, T* second,      \
                                    int threads) {                                                                   \
    EACH_WINDOW(forward, patches, W, scale, shift, eps, relu, mean, inv, y, where, first, second, threads)           \
  }                                                                                                                  \
  extern "C" void first_sums_##S(const int64_t* f, const T* patches, const T* y, const I* where, const T* dy,        \
                                 int relu, T* A, T* dshift, int threads) {                                           \
    EACH_WINDOW(sums, patches, y, where, dy, relu, A, dshift, threads)                                               \
  }

EXPORT(float, int32_t, float)
EXPORT(double, int64_t, double)
