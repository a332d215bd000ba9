// Batch norm, ReLU and max-pooling of one task's activations in as few passes over memory as there can be:
// forward, backward, and the tangents of both, which make up a product with the Hessian.
//
// Activations are [n, h, w, c], contiguous, so that all inner loops run over channels. Pooling windows are p x p
// with stride p; p = 1 is no pooling. A place of the pooled output remembers which place of its window was the
// largest (the first of equal ones, as torch does). Sums over examples are taken image by image and joined in
// float64 in the order of the images: the result does not depend on the number of threads.
//
// norm_pool.py says what each function computes and holds the same in torch's operations, the oracle.

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

struct Shape {
  int64_t n, h, w, c, p;
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

// Offset in an image of the largest place of the window at pooled place (a, b): index q counts row by row.
inline int64_t corner(const Shape& s, int64_t a, int64_t b) { return (a * s.p * s.w + b * s.p) * s.c; }

// mean and 1 / sqrt(var + eps) over examples and places, [c] each; Chan's formula joins the images.
template <typename T>
void moments(const Shape& s, const T* x, double eps, T* mean, T* inv, int threads) {
  const int64_t places = s.h * s.w, c = s.c;
  Sums<T> means(s.n * c), squares(s.n * c);
  EACH_IMAGE(i) {
    const T* xi = x + i * s.image();
    T* __restrict m = &means[i * c];
    T* __restrict q = &squares[i * c];
    for (int64_t r = 0; r < s.h; ++r) {  // row by row, so that few large sums meet many small terms
      std::vector<T> row(c, T(0));
      T* __restrict part = row.data();
      for (int64_t j = 0; j < s.w; ++j) {
        const T* v = xi + (r * s.w + j) * c;
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) part[k] += v[k];
      }
      for (int64_t k = 0; k < c; ++k) m[k] += part[k];
    }
    for (int64_t k = 0; k < c; ++k) m[k] /= T(places);
    for (int64_t r = 0; r < s.h; ++r) {
      std::vector<T> row(c, T(0));
      T* __restrict part = row.data();
      for (int64_t j = 0; j < s.w; ++j) {
        const T* v = xi + (r * s.w + j) * c;
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) part[k] += (v[k] - m[k]) * (v[k] - m[k]);
      }
      for (int64_t k = 0; k < c; ++k) q[k] += part[k];
    }
  }
  std::vector<double> total(c), spread(c);
  join(s, means, total.data());
  join(s, squares, spread.data());
  for (int64_t k = 0; k < c; ++k) {
    const double centre = total[k] / s.n;
    for (int64_t i = 0; i < s.n; ++i) {
      const double d = means[i * c + k] - centre;
      spread[k] += d * d * places;
    }
    mean[k] = T(centre);
    inv[k] = T(1 / std::sqrt(spread[k] / (double(s.n) * places) + eps));
  }
}

template <typename T, typename I>
void forward(const Shape& s, const T* x, const T* scale, const T* shift, double eps, int relu, T* mean, T* inv, T* y,
             I* where, int threads) {
  moments(s, x, eps, mean, inv, threads);
  const int64_t c = s.c;
  EACH_IMAGE(i) {
    const T* xi = x + i * s.image();
    for (int64_t a = 0; a < s.ph(); ++a)
      for (int64_t b = 0; b < s.pw(); ++b) {
        const int64_t out = i * s.pooled() + (a * s.pw() + b) * c;
        T* __restrict yo = y + out;
        I* __restrict wo = where + out;
        const T* first = xi + corner(s, a, b);
        for (int64_t q = 0; q < s.p * s.p; ++q) {
          const T* v = first + ((q / s.p) * s.w + q % s.p) * c;
          if (q == 0) {
#pragma omp simd
            for (int64_t k = 0; k < c; ++k) yo[k] = (v[k] - mean[k]) * inv[k] * scale[k] + shift[k], wo[k] = 0;
          } else {
#pragma omp simd
            for (int64_t k = 0; k < c; ++k) {
              const T z = (v[k] - mean[k]) * inv[k] * scale[k] + shift[k];
              const bool larger = z > yo[k];
              yo[k] = larger ? z : yo[k];
              wo[k] = larger ? I(q) : wo[k];
            }
          }
        }
        if (relu) {
#pragma omp simd
          for (int64_t k = 0; k < c; ++k) yo[k] = yo[k] < T(0) ? T(0) : yo[k];  // keeps NaN
        }
      }
  }
}

// The place of x that pooled place (a, b) was taken from, for every channel.
template <typename T, typename I>
inline void pick(const Shape& s, const T* first, const I* __restrict w, T* __restrict out) {
  const int64_t c = s.c;
#pragma omp simd
  for (int64_t k = 0; k < c; ++k) out[k] = first[k];
  for (int64_t q = 1; q < s.p * s.p; ++q) {
    const T* v = first + ((q / s.p) * s.w + q % s.p) * c;
#pragma omp simd
    for (int64_t k = 0; k < c; ++k) out[k] = w[k] == I(q) ? v[k] : out[k];
  }
}

// dx[place] = a * (dy where the window's largest place is this one) [+ b * (ty likewise)] + u * x [+ t * tx] + d
template <typename T, typename I>
void spread(const Shape& s, const T* x, const T* tx, const T* y, const I* where, const T* dy, const T* ty, int relu,
            const T* a, const T* b, const T* u, const T* t, const T* d, T* dx, int threads) {
  const int64_t c = s.c;
  EACH_IMAGE(i) {
    std::vector<T> gate(c), second(c);
    for (int64_t r = 0; r < s.h; ++r)
      for (int64_t j = 0; j < s.w; ++j) {
        const int64_t at = i * s.image() + (r * s.w + j) * c;
        const T* xi = x + at;
        T* __restrict o = dx + at;
        if (tx) {
          const T* ti = tx + at;
#pragma omp simd
          for (int64_t k = 0; k < c; ++k) o[k] = u[k] * xi[k] + t[k] * ti[k] + d[k];
        } else {
#pragma omp simd
          for (int64_t k = 0; k < c; ++k) o[k] = u[k] * xi[k] + d[k];
        }
        const int64_t pa = r / s.p, pb = j / s.p;
        if (pa >= s.ph() || pb >= s.pw()) continue;  // places that no window covers
        const I q = I((r % s.p) * s.p + j % s.p);
        const int64_t from = i * s.pooled() + (pa * s.pw() + pb) * c;
        const T* g = dy + from;
        const T* yo = y + from;
        const I* wo = where + from;
        if (ty) {
          const T* h = ty + from;
#pragma omp simd
          for (int64_t k = 0; k < c; ++k)
            o[k] += (wo[k] == q && (!relu || yo[k] > T(0))) ? a[k] * g[k] + b[k] * h[k] : T(0);
        } else {
#pragma omp simd
          for (int64_t k = 0; k < c; ++k) o[k] += (wo[k] == q && (!relu || yo[k] > T(0))) ? a[k] * g[k] : T(0);
        }
      }
  }
}

template <typename T, typename I>
void backward(const Shape& s, const T* x, const T* mean, const T* inv, const T* scale, const T* y, const I* where,
              const T* dy, int relu, T* dscale, T* dshift, T* dx, int threads) {
  const int64_t c = s.c;
  Sums<T> scales(s.n * c), shifts(s.n * c);
  EACH_IMAGE(i) {
    std::vector<T> top(c);
    T* __restrict ds = &scales[i * c];
    T* __restrict db = &shifts[i * c];
    for (int64_t a = 0; a < s.ph(); ++a)
      for (int64_t b = 0; b < s.pw(); ++b) {
        const int64_t from = i * s.pooled() + (a * s.pw() + b) * c;
        const T* g = dy + from;
        const T* yo = y + from;
        pick(s, x + i * s.image() + corner(s, a, b), where + from, top.data());
        const T* v = top.data();
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) {
          const T open = (!relu || yo[k] > T(0)) ? g[k] : T(0);
          db[k] += open;
          ds[k] += open * (v[k] - mean[k]) * inv[k];
        }
      }
  }
  std::vector<double> ds(c), db(c);
  join(s, scales, ds.data());
  join(s, shifts, db.data());
  std::vector<T> a(c), u(c), d(c);
  const double places = double(s.n) * s.h * s.w;
  for (int64_t k = 0; k < c; ++k) {
    dscale[k] = T(ds[k]);
    dshift[k] = T(db[k]);
    const double step = double(inv[k]) * scale[k];
    a[k] = T(step);
    u[k] = T(-step * inv[k] * ds[k] / places);
    d[k] = T(-step * (db[k] - double(mean[k]) * inv[k] * ds[k]) / places);
  }
  spread<T, I>(s, x, nullptr, y, where, dy, nullptr, relu, a.data(), nullptr, u.data(), nullptr, d.data(), dx,
               threads);
}

// ty from tx (none where null) and the tangents of scale and shift; keeps the two means that the backward needs.
template <typename T, typename I>
void tangent(const Shape& s, const T* x, const T* tx, const T* mean, const T* inv, const T* scale, const T* tscale,
             const T* tshift, const T* y, const I* where, int relu, T* tmean, T* slope, T* ty, int threads) {
  const int64_t c = s.c;
  const double places = double(s.n) * s.h * s.w;
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
        for (int64_t k = 0; k < c; ++k) f[k] += t[k], g[k] += (v[k] - mean[k]) * inv[k] * t[k];
      }
    }
    std::vector<double> f(c), g(c);
    join(s, firsts, f.data());
    join(s, seconds, g.data());
    for (int64_t k = 0; k < c; ++k) tmean[k] = T(f[k] / places), slope[k] = T(g[k] / places);
  }
  EACH_IMAGE(i) {
    std::vector<T> top(c), ttop(c, T(0));
    for (int64_t a = 0; a < s.ph(); ++a)
      for (int64_t b = 0; b < s.pw(); ++b) {
        const int64_t out = i * s.pooled() + (a * s.pw() + b) * c;
        pick(s, x + i * s.image() + corner(s, a, b), where + out, top.data());
        if (tx) pick(s, tx + i * s.image() + corner(s, a, b), where + out, ttop.data());
        const T *v = top.data(), *t = ttop.data(), *yo = y + out;
        T* __restrict to = ty + out;
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) {
          const T normal = (v[k] - mean[k]) * inv[k];
          const T moved = inv[k] * (t[k] - tmean[k] - normal * slope[k]);
          const T z = scale[k] * moved + tscale[k] * normal + tshift[k];
          to[k] = (!relu || yo[k] > T(0)) ? z : T(0);
        }
      }
  }
}

// Tangents of what backward gives, from the tangent tdy of dy and that tx of x (none where null).
template <typename T, typename I>
void tangent_backward(const Shape& s, const T* x, const T* tx, const T* mean, const T* inv, const T* scale,
                      const T* tscale, const T* tmean, const T* slope, const T* y, const I* where, const T* dy,
                      const T* tdy, const T* dscale, const T* dshift, int relu, T* tdscale, T* tdshift, T* tdx,
                      int threads) {
  const int64_t c = s.c;
  Sums<T> scales(s.n * c), shifts(s.n * c);
  EACH_IMAGE(i) {
    std::vector<T> top(c), ttop(c, T(0));
    T* __restrict ds = &scales[i * c];
    T* __restrict db = &shifts[i * c];
    for (int64_t a = 0; a < s.ph(); ++a)
      for (int64_t b = 0; b < s.pw(); ++b) {
        const int64_t from = i * s.pooled() + (a * s.pw() + b) * c;
        pick(s, x + i * s.image() + corner(s, a, b), where + from, top.data());
        if (tx) pick(s, tx + i * s.image() + corner(s, a, b), where + from, ttop.data());
        const T *v = top.data(), *t = ttop.data(), *yo = y + from, *g = dy + from, *tg = tdy + from;
#pragma omp simd
        for (int64_t k = 0; k < c; ++k) {
          const bool on = !relu || yo[k] > T(0);
          const T open = on ? g[k] : T(0), topen = on ? tg[k] : T(0);
          const T normal = (v[k] - mean[k]) * inv[k];
          const T moved = inv[k] * (t[k] - tmean[k] - normal * slope[k]);
          db[k] += topen;
          ds[k] += topen * normal + open * moved;
        }
      }
  }
  std::vector<double> ds(c), db(c);
  join(s, scales, ds.data());
  join(s, shifts, db.data());
  std::vector<T> a(c), b(c), u(c), t(c), d(c);
  const double places = double(s.n) * s.h * s.w;
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
  spread<T, I>(s, x, tx, y, where, dy, tdy, relu, a.data(), b.data(), u.data(), t.data(), d.data(), tdx, threads);
}

}  // namespace

#define EXPORT(T, I, S)                                                                                              \
  extern "C" void forward_##S(const int64_t* f, const T* x, const T* scale, const T* shift, double eps, int relu,    \
                              T* mean, T* inv, T* y, I* where, int threads) {                                        \
    forward<T, I>({f[0], f[1], f[2], f[3], f[4]}, x, scale, shift, eps, relu, mean, inv, y, where, threads);         \
  }                                                                                                                  \
  extern "C" void backward_##S(const int64_t* f, const T* x, const T* mean, const T* inv, const T* scale,            \
                               const T* y, const I* where, const T* dy, int relu, T* dscale, T* dshift, T* dx,       \
                               int threads) {                                                                        \
    backward<T, I>({f[0], f[1], f[2], f[3], f[4]}, x, mean, inv, scale, y, where, dy, relu, dscale, dshift, dx,      \
                   threads);                                                                                         \
  }                                                                                                                  \
  extern "C" void tangent_##S(const int64_t* f, const T* x, const T* tx, const T* mean, const T* inv,                \
                              const T* scale, const T* tscale, const T* tshift, const T* y, const I* where,          \
                              int relu, T* tmean, T* slope, T* ty, int threads) {                                    \
    tangent<T, I>({f[0], f[1], f[2], f[3], f[4]}, x, tx, mean, inv, scale, tscale, tshift, y, where, relu, tmean,    \
                  slope, ty, threads);                                                                               \
  }                                                                                                                  \
  extern "C" void tangent_backward_##S(                                                                              \
      const int64_t* f, const T* x, const T* tx, const T* mean, const T* inv, const T* scale, const T* tscale,       \
      const T* tmean, const T* slope, const T* y, const I* where, const T* dy, const T* tdy, const T* dscale,        \
      const T* dshift, int relu, T* tdscale, T* tdshift, T* tdx, int threads) {                                      \
    tangent_backward<T, I>({f[0], f[1], f[2], f[3], f[4]}, x, tx, mean, inv, scale, tscale, tmean, slope, y, where,  \
                           dy, tdy, dscale, dshift, relu, tdscale, tdshift, tdx, threads);                           \
  }

EXPORT(float, int32_t, float)
EXPORT(double, int64_t, double)
