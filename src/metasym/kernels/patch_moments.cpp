// Second moments of the 3 x 3 patches of images, and of patches with targets, in float64, straight from the images:
// patches are never laid out, float32 data are widened as they are read.
//
// x [tasks, n, c, h, w], contiguous; y [tasks, n, out, h - 2, w - 2], each plane contiguous, with the strides given.
// For every task, with p = 9 c entries of a patch: S [p, p], C [out, p] and the sum of y^2. A task's sums are taken
// plane by plane in a fixed order: the result does not depend on the number of threads, which share the tasks.
//
// patch_moments.py says what it computes and holds the same in torch's operations, the oracle.

#include <cstdint>
#include <cstring>
#include <vector>
#if defined(__AVX__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace {

constexpr int64_t LANES = 4;
typedef double Vec __attribute__((vector_size(32)));

inline Vec load(const double* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(__AVX__) && defined(__FMA__)
  return (Vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}

inline double total(Vec v) { return (v[0] + v[1]) + (v[2] + v[3]); }

constexpr int64_t GROUP = 3;   // planes at a time: nine sums, three shifts and a plane's numbers fill 16 registers
constexpr int64_t CHUNK = 10;  // rows at a time: those of a group and of the image stay in the first cache

// out[g][9] += the products of GROUP planes' rows (padded with zeros to whole vectors) with the shifts of an image.
void correlate(const double* rows, int64_t size, int64_t count, int64_t width, const double* image, int64_t stride,
               double* const* out) {
  for (int64_t a = 0; a < 3; ++a) {
    Vec s0[3] = {}, s1[3] = {}, s2[3] = {};
    for (int64_t i = 0; i < count; ++i) {
      const double *y = rows + i * width, *x = image + (i + a) * stride;
      for (int64_t j = 0; j < width; j += LANES) {
        const Vec x0 = load(x + j), x1 = load(x + j + 1), x2 = load(x + j + 2);
        const Vec y0 = load(y + j);
        s0[0] = multiply_add(y0, x0, s0[0]);
        s0[1] = multiply_add(y0, x1, s0[1]);
        s0[2] = multiply_add(y0, x2, s0[2]);
        const Vec y1 = load(y + size + j);
        s1[0] = multiply_add(y1, x0, s1[0]);
        s1[1] = multiply_add(y1, x1, s1[1]);
        s1[2] = multiply_add(y1, x2, s1[2]);
        const Vec y2 = load(y + 2 * size + j);
        s2[0] = multiply_add(y2, x0, s2[0]);
        s2[1] = multiply_add(y2, x1, s2[1]);
        s2[2] = multiply_add(y2, x2, s2[2]);
      }
    }
    for (int b = 0; b < 3; ++b) {
      out[0][3 * a + b] += total(s0[b]);
      out[1][3 * a + b] += total(s1[b]);
      out[2][3 * a + b] += total(s2[b]);
    }
  }
}

// rows [count, width] from a plane whose rows hold `used` numbers, the rest zero; gives the sum of squares.
template <typename T>
double widen(const T* plane, int64_t stride, int64_t count, int64_t used, int64_t width, double* rows) {
  Vec square = {};
  for (int64_t i = 0; i < count; ++i) {
    double* row = rows + i * width;
    for (int64_t j = 0; j < used; ++j) row[j] = double(plane[i * stride + j]);
    for (int64_t j = used; j < width; ++j) row[j] = 0;
    for (int64_t j = 0; j < width; j += LANES) {
      const Vec v = load(row + j);
      square = multiply_add(v, v, square);
    }
  }
  return total(square);
}

template <typename T>
void task(const int64_t* sizes, const T* x, const T* y, int64_t example, int64_t output, double* S, double* C,
          double* square) {
  const int64_t n = sizes[1], c = sizes[2], h = sizes[3], w = sizes[4], out = sizes[5];
  const int64_t count = h - 2, used = w - 2, width = (used + LANES - 1) / LANES * LANES, stride = width + 2;
  const int64_t p = 9 * c, plane = h * stride, size = CHUNK * width;
  std::vector<double> images(c * plane + LANES, 0.0), rows(GROUP * size, 0.0), unused(p);
  for (int64_t k = 0; k < p * p; ++k) S[k] = 0;
  for (int64_t k = 0; k < out * p; ++k) C[k] = 0;
  *square = 0;
  for (int64_t e = 0; e < n; ++e) {
    for (int64_t ci = 0; ci < c; ++ci)
      widen(x + (e * c + ci) * h * w, w, h, w, stride, images.data() + ci * plane);
    for (int64_t first = 0; first < count; first += CHUNK) {
      const int64_t some = count - first < CHUNK ? count - first : CHUNK;
      double* to[GROUP];
      for (int64_t o = 0; o < out; o += GROUP) {
        for (int64_t g = 0; g < GROUP; ++g)  // beyond the last plane an old one is worked off for nothing
          if (o + g < out)
            *square += widen(y + e * example + (o + g) * output + first * used, used, some, used, width,
                             rows.data() + g * size);
        for (int64_t ci = 0; ci < c; ++ci) {
          for (int64_t g = 0; g < GROUP; ++g) to[g] = o + g < out ? C + (o + g) * p + ci * 9 : unused.data();
          correlate(rows.data(), size, some, width, images.data() + ci * plane + first * stride, stride, to);
        }
      }
      for (int64_t q = 0; q < p; q += GROUP) {  // the patches' own products: shifted images in the place of y
        const double* row = images.data() + q / 9 * plane + (q % 9 / 3 + first) * stride;
        for (int64_t g = 0; g < GROUP; ++g) widen(row + g, stride, some, used, width, rows.data() + g * size);
        for (int64_t ci = 0; ci <= q / 9; ++ci) {
          for (int64_t g = 0; g < GROUP; ++g) to[g] = S + (q + g) * p + ci * 9;
          correlate(rows.data(), size, some, width, images.data() + ci * plane + first * stride, stride, to);
        }
      }
    }
  }
  for (int64_t a = 0; a < p; ++a)
    for (int64_t b = a + 1; b < p; ++b) S[a * p + b] = S[b * p + a];
}

template <typename T>
void all(const int64_t* sizes, const T* x, const T* y, const int64_t* strides, double* S, double* C, double* square,
         int threads) {
  const int64_t tasks = sizes[0], n = sizes[1], c = sizes[2], h = sizes[3], w = sizes[4], out = sizes[5];
  const int64_t p = 9 * c;
#pragma omp parallel for schedule(static) if (threads > 1) num_threads(threads)
  for (int64_t t = 0; t < tasks; ++t)
    task(sizes, x + t * n * c * h * w, y + t * strides[0], strides[1], strides[2], S + t * p * p, C + t * out * p,
         square + t);
}

}  // namespace

extern "C" {
void moments_float(const int64_t* sizes, const float* x, const float* y, const int64_t* strides, double* S, double* C,
                   double* square, int threads) {
  all(sizes, x, y, strides, S, C, square, threads);
}
void moments_double(const int64_t* sizes, const double* x, const double* y, const int64_t* strides, double* S,
                    double* C, double* square, int threads) {
  all(sizes, x, y, strides, S, C, square, threads);
}
}
