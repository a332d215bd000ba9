// Batch norm, ReLU and max-pooling of one task's activations in as few passes over memory as there can be:
// forward, backward, and the tangents of both, which make up a product with the Hessian.
//
// Activations are [n, h, w, c], contiguous, so that all inner loops run over channels. Pooling windows are P x P
// with stride P, P = 1 (no pooling), 2 or 3, known when compiled: all places of a window are handled in one loop.
// A place of the pooled output remembers which place of its window was the largest (the first of equal ones, as
// torch does). Sums over examples are taken image by image and joined in float64 in the order of the images: the
// result does not depend on the number of threads.
//
// norm_pool.py says what each function computes and holds the same in torch's operations, the oracle.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "each_window.h"

namespace {

struct Shape {
  int64_t n, h, w, c, p, shared;  // so many channels in a row share their statistics
  int64_t ph() const { return h / p; }
  int64_t pw() const { return w / p; }
  int64_t image() const { return h * w * c; }
  int64_t pooled() const { return ph() * pw() * c; }
};

template <typename T>
using Sums = std::vector<T>;

#define EACH_IMAGE(i) _Pragma("omp parallel for schedule(static) if (threads > 1) num_threads(threads)") \
  for (int64_t i = 0; i < s.n; ++i)

// Per-image sums [n, c], joined into out [c] in float64 in the order of the images.
template <typename T>
void join(const Shape& s, const Sums<T>& parts, double* out) {
  for (int64_t k = 0; k < s.c; ++k) out[k] = 0;
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t k = 0; k < s.c; ++k) out[k] += parts[i * s.c + k];
}

// Sums [c] of channels that share their statistics: each channel gets the sum over all of them.
void tie(const Shape& s, double* sums) {
  for (int64_t k = 0; k < s.c && s.shared > 1; k += s.shared) {
    double total = 0;
    for (int64_t j = 0; j < s.shared; ++j) total += sums[k + j];
    for (int64_t j = 0; j < s.shared; ++j) sums[k + j] = total;
  }
}

// The places of one window, [c] each.
template <int P, typename T>
struct Window {
  T* at[P * P];
  Window(const Shape& s, T* image, int64_t a, int64_t b) {
    for (int q = 0; q < P * P; ++q) at[q] = image + ((a * P + q / P) * s.w + b * P + q % P) * s.c;
  }
  template <typename I>
  std::remove_const_t<T> largest(I where, int64_t k) const {  // the place that the output was taken from
    std::remove_const_t<T> v = at[0][k];
    for (int q = 1; q < P * P; ++q) v = where == I(q) ? at[q][k] : v;
    return v;
  }
};

// Outputs above the floor let gradients through.
template <typename T>
T floor_of(int relu) {
  return relu ? T(0) : -std::numeric_limits<T>::infinity();
}

// mean and 1 / sqrt(var + eps) over examples and places, [c] each; Chan's formula joins the images.
template <typename T>
void moments(const Shape& s, const T* x, double eps, T* mean, T* inv, int threads) {
  const int64_t places = s.h * s.w, c = s.c;
  Sums<T> means(s.n * c), squares(s.n * c);
  EACH_IMAGE(i) {
    const T* xi = x + i * s.image();
    std::vector<T> row(c);
    T* __restrict m = &means[i * c];
    T* __restrict q = &squares[i * c];
    T* __restrict part = row.data();
    for (int pass = 0; pass < 2; ++pass) {
      T* __restrict total = pass ? q : m;
      for (int64_t r = 0; r < s.h; ++r) {  // row by row, so that few large sums meet many small terms
        const T* v = xi + r * s.w * c;
        for (int64_t k = 0; k < c; ++k) part[k] = 0;
        int64_t j = 0;
        for (; j + 4 <= s.w; j += 4, v += 4 * c) {
          const T *v1 = v + c, *v2 = v1 + c, *v3 = v2 + c;
          if (pass == 0) {
#pragma omp simd
            for (int64_t k = 0; k < c; ++k) part[k] += (v[k] + v1[k]) + (v2[k] + v3[k]);
          } else {
#pragma omp simd
            for (int64_t k = 0; k < c; ++k) {
              const T d0 = v[k] - m[k], d1 = v1[k] - m[k], d2 = v2[k] - m[k], d3 = v3[k] - m[k];
              part[k] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
            }
          }
        }
        for (; j < s.w; ++j, v += c) {
#pragma omp simd
          for (int64_t k = 0; k < c; ++k) part[k] += pass ? (v[k] - m[k]) * (v[k] - m[k]) : v[k];
        }
        for (int64_t k = 0; k < c; ++k) total[k] += part[k];
      }
      if (pass == 0)
        for (int64_t k = 0; k < c; ++k) m[k] /= T(places);
    }
  }
  std::vector<double> total(c), spread(c);
  join(s, means, total.data());
  join(s, squares, spread.data());
  std::vector<double> centre(c);
  for (int64_t k = 0; k < c; ++k) {
    total[k] /= s.n;
    for (int64_t i = 0; i < s.n; ++i) {
      const double d = means[i * c + k] - total[k];
      spread[k] += d * d * places;
    }
    centre[k] = total[k];
  }
  tie(s, centre.data());
  for (int64_t k = 0; k < c && s.shared > 1; ++k) {
    const double d = total[k] - (centre[k] /= s.shared);
    spread[k] += d * d * s.n * places;
  }
  tie(s, spread.data());
  for (int64_t k = 0; k < c; ++k) {
    mean[k] = T(centre[k]);
    inv[k] = T(1 / std::sqrt(spread[k] / (double(s.n) * places * s.shared) + eps));
  }
}

template <int P, typename T, typename I>
void forward(const Shape& s, const T* x, const T* scale, const T* shift, double eps, int relu, T* mean, T* inv, T* y,
             I* where, int threads) {
  moments(s, x, eps, mean, inv, threads);
  const int64_t c = s.c;
  const T least = floor_of<T>(relu);
  EACH_IMAGE(i)
  for (int64_t a = 0; a < s.ph(); ++a)
    for (int64_t b = 0; b < s.pw(); ++b) {
      const Window<P, const T> in(s, x + i * s.image(), a, b);
      const int64_t out = i * s.pooled() + (a * s.pw() + b) * c;
      T* __restrict yo = y + out;
      I* __restrict wo = where + out;
#pragma omp simd
      for (int64_t k = 0; k < c; ++k) {
        T best = (in.at[0][k] - mean[k]) * inv[k] * scale[k] + shift[k];
        I place = 0;
        for (int q = 1; q < P * P; ++q) {
          const T z = (in.at[q][k] - mean[k]) * inv[k] * scale[k] + shift[k];
          place = z > best ? I(q) : place;
          best = z > best ? z : best;
        }
        yo[k] = best < least ? least : best;  // keeps NaN
        wo[k] = place;
      }
    }
}

// dx[place] = a * (dy where the window's largest place is this one) [+ b * (tdy likewise)] + u * x [+ t * tx] + d
template <int P, typename T, typename I>
void spread(const Shape& s, const T* x, const T* tx, const T* y, const I* where, const T* dy, const T* tdy, int relu,
            const T* a, const T* b, const T* u, const T* t, const T* d, T* dx, int threads) {
  const int64_t c = s.c;
  const T least = floor_of<T>(relu);
  EACH_IMAGE(i) {
    const int64_t start = i * s.image();
    for (int64_t pa = 0; pa < s.ph(); ++pa)
      for (int64_t pb = 0; pb < s.pw(); ++pb) {
        const Window<P, const T> in(s, x + start, pa, pb);
        const Window<P, T> out(s, dx + start, pa, pb);
        const int64_t from = i * s.pooled() + (pa * s.pw() + pb) * c;
        const T *g = dy + from, *yo = y + from;
        const I* wo = where + from;
        if (tdy && tx) {
          const Window<P, const T> moved(s, tx + start, pa, pb);
          const T* h = tdy + from;
#pragma omp simd
          for (int64_t k = 0; k < c; ++k) {
            const T up = yo[k] > least ? a[k] * g[k] + b[k] * h[k] : T(0);
            for (int q = 0; q < P * P; ++q)
              out.at[q][k] = u[k] * in.at[q][k] + t[k] * moved.at[q][k] + d[k] + (wo[k] == I(q) ? up : T(0));
          }
        } else {
          const T* h = tdy ? tdy + from : g;
          const T* second = tdy ? b : u;  // any finite numbers where there is no second part
          const T on = tdy ? T(1) : T(0);
#pragma omp simd
          for (int64_t k = 0; k < c; ++k) {
            const T up = yo[k] > least ? a[k] * g[k] + on * second[k] * h[k] : T(0);
            for (int q = 0; q < P * P; ++q)
              out.at[q][k] = u[k] * in.at[q][k] + d[k] + (wo[k] == I(q) ? up : T(0));
          }
        }
      }
    for (int64_t r = 0; r < s.h; ++r)  // places that no window covers
      for (int64_t j = r < s.ph() * P ? s.pw() * P : 0; j < s.w; ++j) {
        const int64_t at = start + (r * s.w + j) * c;
        for (int64_t k = 0; k < c; ++k) dx[at + k] = u[k] * x[at + k] + (tx ? t[k] * tx[at + k] : T(0)) + d[k];
      }
  }
}

template <int P, typename T, typename I>
void backward(const Shape& s, const T* x, const T* mean, const T* inv, const T* scale, const T* y, const I* where,
              const T* dy, int relu, T* dscale, T* dshift, T* dx, int threads) {
  const int64_t c = s.c;
  const T least = floor_of<T>(relu);
  Sums<T> scales(s.n * c), shifts(s.n * c);
  EACH_IMAGE(i) {
    T* __restrict ds = &scales[i * c];
    T* __restrict db = &shifts[i * c];
    for (int64_t a = 0; a < s.ph(); ++a)
      for (int64_t b = 0; b < s.pw(); ++b) {
        const Window<P, const T> in(s, x + i * s.image(), a, b);
        const int64_t from = i * s.pooled() + (a * s.pw() + b) * c;
        const T *g = dy + from, *yo = y + from;
        const I* wo = where + from;
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) {
          const T open = yo[k] > least ? g[k] : T(0);
          db[k] += open;
          ds[k] += open * (in.largest(wo[k], k) - mean[k]) * inv[k];
        }
      }
  }
  std::vector<double> ds(c), db(c);
  join(s, scales, ds.data());
  join(s, shifts, db.data());
  tie(s, ds.data());
  tie(s, db.data());
  std::vector<T> a(c), u(c), d(c);
  const double places = double(s.n) * s.h * s.w * s.shared;
  for (int64_t k = 0; k < c; ++k) {
    dscale[k] = T(ds[k]);
    dshift[k] = T(db[k]);
    const double step = double(inv[k]) * scale[k];
    a[k] = T(step);
    u[k] = T(-step * inv[k] * ds[k] / places);
    d[k] = T(-step * (db[k] - double(mean[k]) * inv[k] * ds[k]) / places);
  }
  spread<P, T, I>(s, x, nullptr, y, where, dy, nullptr, relu, a.data(), nullptr, u.data(), nullptr, d.data(), dx,
                  threads);
}

// ty from tx (zero where null) and the tangents of scale and shift; keeps the two means that the backward pass needs.
template <int P, typename T, typename I>
void tangent(const Shape& s, const T* x, const T* tx, const T* mean, const T* inv, const T* scale, const T* tscale,
             const T* tshift, const T* y, const I* where, int relu, T* tmean, T* slope, T* ty, int threads) {
  const int64_t c = s.c;
  const T least = floor_of<T>(relu);
  const double places = double(s.n) * s.h * s.w * s.shared;
  for (int64_t k = 0; k < c; ++k) tmean[k] = slope[k] = T(0);
  if (tx) {
    Sums<T> firsts(s.n * c), seconds(s.n * c);
    EACH_IMAGE(i) {
      T* __restrict f = &firsts[i * c];
      T* __restrict g = &seconds[i * c];
      for (int64_t j = 0; j < s.h * s.w; ++j) {
        const T* v = x + i * s.image() + j * c;
        const T* t = tx + i * s.image() + j * c;
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) {
          f[k] += t[k];
          g[k] += (v[k] - mean[k]) * inv[k] * t[k];
        }
      }
    }
    std::vector<double> f(c), g(c);
    join(s, firsts, f.data());
    join(s, seconds, g.data());
    tie(s, f.data());
    tie(s, g.data());
    for (int64_t k = 0; k < c; ++k) tmean[k] = T(f[k] / places), slope[k] = T(g[k] / places);
  }
  const T* moved = tx ? tx : x;
  const T on = tx ? T(1) : T(0);
  EACH_IMAGE(i)
  for (int64_t a = 0; a < s.ph(); ++a)
    for (int64_t b = 0; b < s.pw(); ++b) {
      const Window<P, const T> in(s, x + i * s.image(), a, b), along(s, moved + i * s.image(), a, b);
      const int64_t out = i * s.pooled() + (a * s.pw() + b) * c;
      const T* yo = y + out;
      const I* wo = where + out;
      T* __restrict to = ty + out;
#pragma omp simd
      for (int64_t k = 0; k < c; ++k) {
        const T normal = (in.largest(wo[k], k) - mean[k]) * inv[k];
        const T tn = inv[k] * (on * along.largest(wo[k], k) - tmean[k] - normal * slope[k]);
        const T z = scale[k] * tn + tscale[k] * normal + tshift[k];
        to[k] = yo[k] > least ? z : T(0);
      }
    }
}

// Tangents of what backward gives, from the tangents tdy of dy and tx of x (zero where null).
template <int P, typename T, typename I>
void tangent_backward(const Shape& s, const T* x, const T* tx, const T* mean, const T* inv, const T* scale,
                      const T* tscale, const T* tmean, const T* slope, const T* y, const I* where, const T* dy,
                      const T* tdy, const T* dscale, const T* dshift, int relu, T* tdscale, T* tdshift, T* tdx,
                      int threads) {
  const int64_t c = s.c;
  const T least = floor_of<T>(relu);
  const T* moved = tx ? tx : x;
  const T on = tx ? T(1) : T(0);
  Sums<T> scales(s.n * c), shifts(s.n * c);
  EACH_IMAGE(i) {
    T* __restrict ds = &scales[i * c];
    T* __restrict db = &shifts[i * c];
    for (int64_t a = 0; a < s.ph(); ++a)
      for (int64_t b = 0; b < s.pw(); ++b) {
        const Window<P, const T> in(s, x + i * s.image(), a, b), along(s, moved + i * s.image(), a, b);
        const int64_t from = i * s.pooled() + (a * s.pw() + b) * c;
        const T *yo = y + from, *g = dy + from, *tg = tdy + from;
        const I* wo = where + from;
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) {
          const T open = yo[k] > least ? g[k] : T(0), topen = yo[k] > least ? tg[k] : T(0);
          const T normal = (in.largest(wo[k], k) - mean[k]) * inv[k];
          const T tn = inv[k] * (on * along.largest(wo[k], k) - tmean[k] - normal * slope[k]);
          db[k] += topen;
          ds[k] += topen * normal + open * tn;
        }
      }
  }
  std::vector<double> ds(c), db(c);
  join(s, scales, ds.data());
  join(s, shifts, db.data());
  tie(s, ds.data());
  tie(s, db.data());
  std::vector<T> a(c), b(c), u(c), t(c), d(c);
  const double places = double(s.n) * s.h * s.w * s.shared;
  for (int64_t k = 0; k < c; ++k) {
    tdscale[k] = T(ds[k]);
    tdshift[k] = T(db[k]);
    // dx = step (dz - dshift / P - normal dscale / P), and normal = inv (x - mean): by the product rule.
    const double r = inv[k], m = mean[k], step = r * scale[k];
    const double tr = -r * r * slope[k], tstep = tr * scale[k] + r * tscale[k];
    const double g = dscale[k] / places, h = dshift[k] / places, tg = ds[k] / places, th = db[k] / places;
    a[k] = T(tstep);
    b[k] = T(step);
    // normal = r x - r m, its tangent = r tx + tr x - r tmean - tr m
    u[k] = T(-tstep * g * r - step * (tg * r + g * tr));
    t[k] = T(-step * g * r);
    d[k] = T(-tstep * (h - g * r * m) - step * (th - tg * r * m - g * (r * tmean[k] + tr * m)));
  }
  spread<P, T, I>(s, x, tx, y, where, dy, tdy, relu, a.data(), b.data(), u.data(), t.data(), d.data(), tdx, threads);
}

}  // namespace

#define EXPORT(T, I, S)                                                                                              \
  extern "C" void forward_##S(const int64_t* f, const T* x, const T* scale, const T* shift, double eps, int relu,    \
                              T* mean, T* inv, T* y, I* where, int threads) {                                        \
    EACH_WINDOW(forward, x, scale, shift, eps, relu, mean, inv, y, where, threads)                                   \
  }                                                                                                                  \
  extern "C" void backward_##S(const int64_t* f, const T* x, const T* mean, const T* inv, const T* scale,            \
                               const T* y, const I* where, const T* dy, int relu, T* dscale, T* dshift, T* dx,       \
                               int threads) {                                                                        \
    EACH_WINDOW(backward, x, mean, inv, scale, y, where, dy, relu, dscale, dshift, dx, threads)                      \
  }                                                                                                                  \
  extern "C" void tangent_##S(const int64_t* f, const T* x, const T* tx, const T* mean, const T* inv,                \
                              const T* scale, const T* tscale, const T* tshift, const T* y, const I* where,          \
                              int relu, T* tmean, T* slope, T* ty, int threads) {                                    \
    EACH_WINDOW(tangent, x, tx, mean, inv, scale, tscale, tshift, y, where, relu, tmean, slope, ty, threads)         \
  }                                                                                                                  \
  extern "C" void tangent_backward_##S(                                                                              \
      const int64_t* f, const T* x, const T* tx, const T* mean, const T* inv, const T* scale, const T* tscale,       \
      const T* tmean, const T* slope, const T* y, const I* where, const T* dy, const T* tdy, const T* dscale,        \
      const T* dshift, int relu, T* tdscale, T* tdshift, T* tdx, int threads) {                                      \
    EACH_WINDOW(tangent_backward, x, tx, mean, inv, scale, tscale, tmean, slope, y, where, dy, tdy, dscale, dshift,  \
                relu, tdscale, tdshift, tdx, threads)                                                                \
  }

EXPORT(float, int32_t, float)
EXPORT(double, int64_t, double)
