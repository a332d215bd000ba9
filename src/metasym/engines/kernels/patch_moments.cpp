// Second moments of the 3 x 3 patches of images, and of patches with targets, straight from the images: patches are
// never laid out, targets are read where they are.
//
// x [tasks, n, c, h, w], contiguous; y [tasks, n, out, h - 2, w - 2], each plane contiguous, with the strides given.
// For every task, with p = 9 c entries of a patch: S [p, p], C [out, p] and the sum of y^2, all in float64. Products are
// multiplied and added in float64, except in `moments_blocks`: for float32 data it first adds up to 30 products of
// y x, 15 of y^2 and 8 of x x in each lane in float32, and only these sums in float64, which takes half the time. The
// result is then off by about 1e-9 of |x| |y|, because each of many short sums is rounded in its own way.
// A task's sums are taken in a fixed order: the result does not depend on the number of threads, which share the tasks.
//
// patch_moments.py says what it computes; the tests hold the same in torch's operations, the oracle.

#include <cstdint>
#include <cstring>
#include <vector>
#if defined(__AVX__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace {

template <typename T>
struct Simd {
  typedef T Vec __attribute__((vector_size(32)));
  static constexpr int64_t LANES = 32 / sizeof(T);
};
typedef Simd<double>::Vec Wide;
template <typename T>
using VecOf = typename Simd<T>::Vec;

template <typename V, typename T>
inline V load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline VecOf<float> multiply_add(VecOf<float> a, VecOf<float> b, VecOf<float> c) {
#if defined(__AVX__) && defined(__FMA__)
  return (VecOf<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

inline Wide multiply_add(Wide a, Wide b, Wide c) {
#if defined(__AVX__) && defined(__FMA__)
  return (Wide)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}

// Keeps v in a register: by itself the compiler loads a number again for each product, and loads are the bottleneck.
template <typename V>
inline V held(V v) {
#if defined(__AVX__)
  asm("" : "+x"(v));
#endif
  return v;
}

inline double total(Wide v) { return (v[0] + v[1]) + (v[2] + v[3]); }

inline Wide widened(Wide v) { return v; }
inline Wide widely(const double* p) { return load<Wide>(p); }
#if defined(__AVX__)  // left to itself the compiler sends halves of vectors through memory
inline Wide widened(VecOf<float> v) {
  const __m256 all = (__m256)v;
  return (Wide)(_mm256_cvtps_pd(_mm256_castps256_ps128(all)) + _mm256_cvtps_pd(_mm256_extractf128_ps(all, 1)));
}
inline Wide widely(const float* p) { return (Wide)_mm256_cvtps_pd(_mm_loadu_ps(p)); }
#else
inline Wide widely(const float* p) { return Wide{double(p[0]), double(p[1]), double(p[2]), double(p[3])}; }
inline Wide widened(VecOf<float> v) {
  return Wide{double(v[0]), double(v[1]), double(v[2]), double(v[3])} +
         Wide{double(v[4]), double(v[5]), double(v[6]), double(v[7])};
}
#endif

constexpr int64_t GROUP = 4;    // planes at a time: twelve sums, three shifts and a plane's numbers fill 16 registers
constexpr int64_t CHUNK = 240;  // places at a time: up to 30 products in each lane of float32 before they are widened

// Places of GROUP planes: whole vectors at y, and the rest, filled up with zeros, at `rest`, 0 or 1 vector.
template <typename T>
struct Planes {
  const T *y[GROUP], *rest[GROUP];
  const char* soon[GROUP];  // where the same places of the next planes are
  int64_t count, rests;
};

// sums[g][3 a + b] += the products of the planes' numbers with the nine shifts of an image.
// Shift (a, b) begins at shifts[b] + a row.
template <typename T>
inline void correlate(const Planes<T>& planes, const T* const* shifts, int64_t row, Wide (*sums)[9]) {
  typedef VecOf<T> V;
  constexpr int64_t LANES = Simd<T>::LANES;
  for (int64_t a = 0; a < 3; ++a) {
    V s0[3] = {}, s1[3] = {}, s2[3] = {}, s3[3] = {};
    const T *x0 = shifts[0] + a * row, *x1 = shifts[1] + a * row, *x2 = shifts[2] + a * row;
    // The next planes are fetched a little at a time, two in each pass: many requests at once would hold up the loads.
    const int64_t half = planes.count / 2 * LANES;
    const char *early = planes.soon[a < 2 ? 2 * a : 3];
    const char *late = planes.soon[a < 2 ? 2 * a + 1 : 3] - 2 * sizeof(T) * half;
    for (int part = 0; part < 2; ++part) {
      const T* const* from = part ? planes.rest : planes.y;
      const T *p0 = from[0], *p1 = from[1], *p2 = from[2], *p3 = from[3];
      const int64_t end = (part ? planes.rests : planes.count) * LANES;
      for (int64_t j = 0; j < end; j += LANES) {
        __builtin_prefetch((j < half ? early : late) + 2 * sizeof(T) * j, 0, 2);
        const V u0 = held(load<V>(x0 + j)), u1 = held(load<V>(x1 + j)), u2 = held(load<V>(x2 + j));
        const V y0 = held(load<V>(p0 + j));
        s0[0] = multiply_add(y0, u0, s0[0]);
        s0[1] = multiply_add(y0, u1, s0[1]);
        s0[2] = multiply_add(y0, u2, s0[2]);
        const V y1 = held(load<V>(p1 + j));
        s1[0] = multiply_add(y1, u0, s1[0]);
        s1[1] = multiply_add(y1, u1, s1[1]);
        s1[2] = multiply_add(y1, u2, s1[2]);
        const V y2 = held(load<V>(p2 + j));
        s2[0] = multiply_add(y2, u0, s2[0]);
        s2[1] = multiply_add(y2, u1, s2[1]);
        s2[2] = multiply_add(y2, u2, s2[2]);
        const V y3 = held(load<V>(p3 + j));
        s3[0] = multiply_add(y3, u0, s3[0]);
        s3[1] = multiply_add(y3, u1, s3[1]);
        s3[2] = multiply_add(y3, u2, s3[2]);
      }
      x0 += end;
      x1 += end;
      x2 += end;
    }
    for (int b = 0; b < 3; ++b) {
      sums[0][3 * a + b] += widened(s0[b]);
      sums[1][3 * a + b] += widened(s1[b]);
      sums[2][3 * a + b] += widened(s2[b]);
      sums[3][3 * a + b] += widened(s3[b]);
    }
  }
}

// sums[g] += the squares of a plane's numbers, multiplied and added as in `correlate`, but half as many in a lane:
// squares are all positive, so that the sums, and with them the rounding errors, are larger.
template <typename T>
inline void squares(const Planes<T>& planes, Wide* sums) {
  typedef VecOf<T> V;
  constexpr int64_t LANES = Simd<T>::LANES;
  V even[GROUP] = {}, odd[GROUP] = {};
  int64_t j = 0;
  for (; j + 2 <= planes.count; j += 2)
    for (int64_t g = 0; g < GROUP; ++g) {
      const V v = held(load<V>(planes.y[g] + j * LANES)), w = held(load<V>(planes.y[g] + (j + 1) * LANES));
      even[g] = multiply_add(v, v, even[g]);
      odd[g] = multiply_add(w, w, odd[g]);
    }
  for (int64_t g = 0; g < GROUP; ++g) {
    const V v = j < planes.count ? load<V>(planes.y[g] + j * LANES) : V{};
    const V w = planes.rests ? load<V>(planes.rest[g]) : V{};
    sums[g] += widened(multiply_add(v, v, even[g])) + widened(multiply_add(w, w, odd[g]));
  }
}

template <typename T, typename A>
inline void copy(const T* from, int64_t count, A* to) {
  for (int64_t j = 0; j < count; ++j) to[j] = A(from[j]);
}
template <typename T>
inline void copy(const T* from, int64_t count, T* to) {
  std::memcpy(to, from, count * sizeof(T));
}

constexpr int64_t FEW = 8;  // products of x with itself in a lane of float32: large, and rounded alike in many entries

// sums[3 b + d] += <A_b, B_d>, where A_b begins at a + b step and B_d likewise; a vector beyond both may be read.
template <typename T>
void products(const T* a, const T* b, int64_t step, int64_t count, Wide* sums) {
  typedef VecOf<T> V;
  constexpr int64_t LANES = Simd<T>::LANES;
  static const T ones[2 * LANES] = {1, 1, 1, 1, LANES > 4, LANES > 4, LANES > 4, LANES > 4};
  const int64_t most = sizeof(T) == sizeof(double) ? count : FEW * LANES;
  for (int64_t j = 0; j < count;) {
    const int64_t end = j + most < count ? j + most : count;
    V s[9] = {};
    for (; j + LANES <= end; j += LANES) {
      const V b0 = held(load<V>(b + j)), b1 = held(load<V>(b + step + j)), b2 = held(load<V>(b + 2 * step + j));
      for (int k = 0; k < 3; ++k) {
        const V v = held(load<V>(a + k * step + j));
        s[3 * k] = multiply_add(v, b0, s[3 * k]);
        s[3 * k + 1] = multiply_add(v, b1, s[3 * k + 1]);
        s[3 * k + 2] = multiply_add(v, b2, s[3 * k + 2]);
      }
    }
    if (j < end) {  // whatever lies beyond the last number is multiplied by zero
      const V some = load<V>(ones + LANES - (end - j));
      for (int k = 0; k < 9; ++k)
        s[k] = multiply_add(load<V>(a + k / 3 * step + j) * some, load<V>(b + k % 3 * step + j), s[k]);
      j = end;
    }
    for (int k = 0; k < 9; ++k) sums[k] += widened(s[k]);
  }
}

// The products of patches with patches, for two channels and each distance d between two patch rows. The last span
// holds the sums over the image rows that all patch rows share; spans 2 a and 2 a + 1 hold the sums over the further
// rows that patch row a of the first channel takes before and after these.
constexpr int64_t SPANS = 7;
struct Own {
  Wide sums[3][SPANS][9];
};

// `shifts` holds three images for every channel: without the last two columns, without the first and the last,
// without the first two; rows are laid end to end. The products of rows u with rows u + d serve every pair of patch
// rows that lie d apart: the sums of such pairs differ only in which of the first and last image rows they leave out.
template <typename T>
void own(const T* shifts, int64_t step, int64_t c, int64_t count, int64_t used, Own* sums) {
  for (int64_t ci = 0; ci < c; ++ci)
    for (int64_t cj = 0; cj < c; ++cj)
      for (int64_t d = 0; d < 3; ++d) {
        if (d == 0 && ci > cj) continue;
        const T *u = shifts + ci * 3 * step, *v = shifts + cj * 3 * step + d * used;
        const int64_t last = 2 - d;  // the patch row `a` of u takes the rows a to a + count, a = 0 to last
        const bool shared = count > last;
        auto& mine = sums[ci * c + cj].sums[d];
        if (shared) products(u + last * used, v + last * used, step, (count - last) * used, mine[SPANS - 1]);
        for (int64_t a = 0; a <= last; ++a) {
          const int64_t spans[2][2] = {{a, shared ? last : a + count}, {count, shared ? a + count : count}};
          for (int64_t k = 0; k < 2; ++k)
            if (spans[k][0] < spans[k][1])
              products(u + spans[k][0] * used, v + spans[k][0] * used, step, (spans[k][1] - spans[k][0]) * used,
                       mine[2 * a + k]);
        }
      }
}

// S from the sums over all images.
void gather(const Own* sums, int64_t c, double* S) {
  const int64_t p = 9 * c;
  for (int64_t ci = 0; ci < c; ++ci)
    for (int64_t cj = 0; cj < c; ++cj)
      for (int64_t d = 0; d < 3; ++d) {
        if (d == 0 && ci > cj) continue;
        const auto& mine = sums[ci * c + cj].sums[d];
        for (int64_t a = 0; a + d < 3; ++a)
          for (int64_t k = 0; k < 9; ++k) {
            const int64_t row = 9 * ci + 3 * a + k / 3, column = 9 * cj + 3 * (a + d) + k % 3;
            const double sum = total((mine[2 * a][k] + mine[2 * a + 1][k]) + mine[SPANS - 1][k]);
            S[row * p + column] = S[column * p + row] = sum;
          }
      }
}

// T the type of the data, A that of the products in C.
template <typename T, typename A>
void task(const int64_t* sizes, const T* x, const T* y, int64_t example, int64_t output, double* S, double* C,
          double* square) {
  constexpr int64_t LANES = Simd<A>::LANES;
  const int64_t n = sizes[1], c = sizes[2], h = sizes[3], w = sizes[4], out = sizes[5];
  const int64_t count = h - 2, used = w - 2, places = count * used;
  const int64_t p = 9 * c, groups = (out + GROUP - 1) / GROUP, step = h * used + LANES;
  std::vector<A> shifts(3 * c * step, A(0));
  std::vector<Wide> sums(groups * c * GROUP * 9, Wide{});
  A rows[GROUP][CHUNK];
  std::vector<Own> own_sums(c * c, Own{});
  std::vector<Wide> square_sums(groups * GROUP, Wide{});
  for (int64_t e = 0; e < n; ++e) {
    for (int64_t ci = 0; ci < c; ++ci)
      for (int64_t b = 0; b < 3; ++b)
        for (int64_t i = 0; i < h; ++i)
          copy(x + ((e * c + ci) * h + i) * w + b, used, shifts.data() + (3 * ci + b) * step + i * used);
    own(shifts.data(), step, c, count, used, own_sums.data());
    for (int64_t o = 0; o < groups; ++o) {
      const T *from[GROUP], *soon[GROUP];
      for (int64_t g = 0; g < GROUP; ++g) {
        const int64_t i = GROUP * o + g;
        from[g] = y + e * example + (i < out ? i : out - 1) * output;  // beyond the last plane: not used
        soon[g] = o + 1 < groups ? from[g] + GROUP * output : y + (e + 1) * example + g * output;
      }
      for (int64_t first = 0; first < places; first += CHUNK) {
        const int64_t some = places - first < CHUNK ? places - first : CHUNK;
        Planes<A> planes;
        planes.count = some / LANES;
        planes.rests = some % LANES > 0;
        for (int64_t g = 0; g < GROUP; ++g) {
          planes.soon[g] = (const char*)(soon[g] + first);
          const bool direct = sizeof(T) == sizeof(A);
          const int64_t whole = planes.count * LANES, kept = direct ? whole : 0;
          if (kept < some) {
            copy(from[g] + first + kept, some - kept, rows[g] + kept);
            for (int64_t j = some; j < whole + planes.rests * LANES; ++j) rows[g][j] = 0;
          }
          planes.y[g] = direct ? (const A*)(from[g] + first) : rows[g];
          planes.rest[g] = rows[g] + whole;
        }
        squares(planes, square_sums.data() + o * GROUP);
        const A* at[3];
        for (int64_t ci = 0; ci < c; ++ci) {
          for (int64_t b = 0; b < 3; ++b) at[b] = shifts.data() + (3 * ci + b) * step + first;
          correlate<A>(planes, at, used, (Wide(*)[9])(sums.data() + (o * c + ci) * GROUP * 9));
        }
      }
    }
  }
  *square = 0;
  for (int64_t i = 0; i < out; ++i) {
    *square += total(square_sums[i]);
    for (int64_t q = 0; q < p; ++q)
      C[i * p + q] = total(sums[((i / GROUP * c + q / 9) * GROUP + i % GROUP) * 9 + q % 9]);
  }
  gather(own_sums.data(), c, S);
}

template <typename T, typename A>
void all(const int64_t* sizes, const T* x, const T* y, const int64_t* strides, double* S, double* C, double* square,
         int threads) {
  const int64_t tasks = sizes[0], n = sizes[1], c = sizes[2], h = sizes[3], w = sizes[4], out = sizes[5];
  const int64_t p = 9 * c;
#pragma omp parallel for schedule(static) if (threads > 1) num_threads(threads)
  for (int64_t t = 0; t < tasks; ++t)
    task<T, A>(sizes, x + t * n * c * h * w, y + t * strides[0], strides[1], strides[2], S + t * p * p,
               C + t * out * p, square + t);
}

}  // namespace

extern "C" {
void moments_blocks(const int64_t* sizes, const float* x, const float* y, const int64_t* strides, double* S, double* C,
                    double* square, int threads) {
  all<float, float>(sizes, x, y, strides, S, C, square, threads);
}
void moments_float(const int64_t* sizes, const float* x, const float* y, const int64_t* strides, double* S, double* C,
                   double* square, int threads) {
  all<float, double>(sizes, x, y, strides, S, C, square, threads);
}
void moments_double(const int64_t* sizes, const double* x, const double* y, const int64_t* strides, double* S,
                    double* C, double* square, int threads) {
  all<double, double>(sizes, x, y, strides, S, C, square, threads);
}
}
