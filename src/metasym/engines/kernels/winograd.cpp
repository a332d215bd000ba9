// Convolutions with kernels of 3 x 3 or 5 x 5, stride 1, by Winograd's minimal filtering F(4 x 4, r x r): a tile of 4 x 4
// outputs takes 36 multiplications a pair of channels instead of 144, or 64 instead of 400.
//
// With d a tile of 6 x 6 or 8 x 8 inputs, g a kernel, and the matrices B, G, A of the interpolation points (see
// winograd_transforms.h),
//
//     y = A^T [ (G g G^T) * (B^T d B) ] A,    * entry by entry, summed over input channels:
//
// a matrix product over channels for each entry ("plane"), and transforms of a few additions before and after.
// The derivatives are the adjoints of the same formula: with m = A dy A^T the gradient by the weight is
// G^T [ m * (B^T d B) ] G summed over tiles, that by the input B [ m * (G g G^T) ] B^T, tiles overlapping.
//
// Images are [n, h, w, c], contiguous, so that all transforms run over vectors of channels; a block of tiles is
// transformed, multiplied and transformed back while it is in the caches. Sums over tiles are taken in units of images
// whose number depends on sizes alone and joined in their order: the result does not depend on the number of threads.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "winograd_transforms.h"

namespace metasym {
namespace {

constexpr int UNIT = 256;       // tiles, at least, whose part of a weight's gradient is summed up by itself
constexpr int GROUP = 8;        // rows of a weight reordered at once: its entries lie far apart
constexpr int ROWS = 6;         // of a product kept in registers, by two vectors
// Tiles transformed at once: with 64 channels (3 x 3) or 128 (5 x 5), as many as the second cache holds. 48 are three
// images of 14 x 14.
template <int TAPS>
constexpr int BLOCK = TAPS == 3 ? 48 : 24;

// Memory that a thread keeps: fresh pages cost more than what is done with them.
template <typename T>
T* scratch(int which, int64_t entries) {
  struct Buffer {
    void* at = nullptr;
    size_t bytes = 0;
    ~Buffer() { std::free(at); }
  };
  static thread_local Buffer buffers[6];
  Buffer& b = buffers[which];
  const size_t wanted = (entries * sizeof(T) + 127) / 64 * 64;
  if (b.bytes < wanted) {
    std::free(b.at);
    b.at = std::aligned_alloc(64, wanted);
    b.bytes = b.at ? wanted : 0;
    if (!b.at) std::abort();
  }
  return static_cast<T*>(b.at);
}

template <typename T>
int64_t padded(int64_t channels) {
  return (channels + LANES<T> - 1) / LANES<T> * LANES<T>;
}
// Planes are an odd number of cache lines apart: otherwise all would compete for the same few places of the cache.
template <typename T>
int64_t plane(int64_t rows, int64_t width) {
  const int64_t line = 64 / sizeof(T), lines = (rows * width + line - 1) / line;
  return (lines | 1) * line;
}

template <int TAPS>
struct Shape {
  static constexpr int OUT = Winograd<float, TAPS>::OUT;
  int64_t n, h, w, ci, co, pad;
  int64_t oh() const { return h + 2 * pad - TAPS + 1; }
  int64_t ow() const { return w + 2 * pad - TAPS + 1; }
  int64_t ty() const { return (oh() + OUT - 1) / OUT; }
  int64_t tx() const { return (ow() + OUT - 1) / OUT; }
  int64_t tiles() const { return ty() * tx(); }  // of an image
  int64_t images() const { return std::max<int64_t>(1, UNIT / std::max<int64_t>(1, tiles())); }  // of a unit
  int64_t units() const { return (n + images() - 1) / images(); }
};

// The places of a window of an image, row by row; those outside are `beyond`.
template <typename T>
void places(T* image, int64_t h, int64_t w, int64_t c, int64_t row, int64_t col, int side, T* beyond, T** at) {
  for (int64_t i = 0; i < side; ++i)
    for (int64_t j = 0; j < side; ++j) {
      const int64_t r = row + i, q = col + j;
      at[i * side + j] = r >= 0 && r < h && q >= 0 && q < w ? image + (r * w + q) * c : beyond;
    }
}

// B^T d B of one tile, plane by plane, channels padded by zeros.
template <typename T, int TAPS>
void input_tile(const T* const* at, int64_t c, T* out, int64_t apart) {
  each_vector<T>(c, [&](int64_t k, auto lanes) {
    Winograd<T, TAPS>::TileToInput::of([&](int q) { return lanes.load(at[q] + k); },
                                       [&](int q, Vec<T> v) { store(out + q * apart + k, v); });
  });
}
// B v B^T added to the tile's places.
template <typename T, int TAPS>
void input_places(const T* in, int64_t apart, int64_t c, T* const* at) {
  each_vector<T>(c, [&](int64_t k, auto lanes) {
    Winograd<T, TAPS>::TileFromInput::of([&](int q) { return load(in + q * apart + k); },
                                         [&](int q, Vec<T> v) { lanes.store(at[q] + k, lanes.load(at[q] + k) + v); });
  });
}
// A^T m A to the places of a tile of outputs, or added to them.
template <typename T, int TAPS, bool ADD>
void output_places(const T* in, int64_t apart, int64_t c, T* const* at) {
  each_vector<T>(c, [&](int64_t k, auto lanes) {
    Winograd<T, TAPS>::TileToOutput::of(
        [&](int q) { return load(in + q * apart + k); },
        [&](int q, Vec<T> v) { lanes.store(at[q] + k, ADD ? lanes.load(at[q] + k) + v : v); });
  });
}
// A dy A^T of one tile.
template <typename T, int TAPS>
void output_tile(const T* const* at, int64_t c, T* out, int64_t apart) {
  each_vector<T>(c, [&](int64_t k, auto lanes) {
    Winograd<T, TAPS>::TileFromOutput::of([&](int q) { return lanes.load(at[q] + k); },
                                          [&](int q, Vec<T> v) { store(out + q * apart + k, v); });
  });
}

// W [co, ci, r, r] as matrices [ci, co], one a plane, or [co, ci] where they act backwards.
template <typename T, int TAPS>
void weight_planes(const Shape<TAPS>& s, const T* W, bool backwards, T* out, int64_t apart) {
  constexpr int KERNEL = TAPS * TAPS;
  const int64_t rows = backwards ? s.co : s.ci, columns = backwards ? s.ci : s.co, wide = padded<T>(columns);
  const int64_t by_row = backwards ? s.ci * KERNEL : KERNEL, by_column = backwards ? KERNEL : s.ci * KERNEL;
  std::vector<T> several(GROUP * KERNEL * wide, T(0));
  T* __restrict g = several.data();
  for (int64_t first = 0; first < rows; first += GROUP) {
    const int64_t count = std::min<int64_t>(GROUP, rows - first);
    for (int64_t k = 0; k < columns; ++k)
      for (int64_t r = 0; r < count; ++r)
        for (int q = 0; q < KERNEL; ++q)
          g[(r * KERNEL + q) * wide + k] = W[(first + r) * by_row + k * by_column + q];
    for (int64_t r = 0; r < count; ++r)
      for (int64_t k = 0; k < wide; k += LANES<T>)
        Winograd<T, TAPS>::TileToKernel::of(
            [&](int q) { return load(g + (r * KERNEL + q) * wide + k); },
            [&](int q, Vec<T> v) { store(out + q * apart + (first + r) * wide + k, v); });
  }
}
// The way back: matrices [ci, co], one a plane, to W's gradient, added to it where wanted.
template <typename T, int TAPS>
void weight_from_planes(const Shape<TAPS>& s, const T* in, int64_t apart, bool add, T* dW) {
  constexpr int KERNEL = TAPS * TAPS;
  const int64_t wide = padded<T>(s.co);
  std::vector<T> several(GROUP * KERNEL * wide);
  T* __restrict g = several.data();
  for (int64_t first = 0; first < s.ci; first += GROUP) {
    const int64_t count = std::min<int64_t>(GROUP, s.ci - first);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t k = 0; k < wide; k += LANES<T>)
        Winograd<T, TAPS>::TileFromKernel::of([&](int q) { return load(in + q * apart + (first + r) * wide + k); },
                                              [&](int q, Vec<T> v) { store(g + (r * KERNEL + q) * wide + k, v); });
    for (int64_t k = 0; k < s.co; ++k)
      for (int64_t r = 0; r < count; ++r) {
        T* to = dW + (k * s.ci + first + r) * KERNEL;
        for (int q = 0; q < KERNEL; ++q) to[q] = (add ? to[q] : T(0)) + g[(r * KERNEL + q) * wide + k];
      }
  }
}

// C [R, V vectors] = A B, or C += A B; row r of A begins at a + r * by_row, its entries are by_depth apart.
template <typename T, int R, int V, bool ADD>
inline void registers(const T* a, int64_t by_row, int64_t by_depth, const T* b, int64_t ldb, int64_t depth, T* c,
                      int64_t ldc) {
  Vec<T> sum[R][V];
  EACH(r, R) EACH(v, V) sum[r][v] = ADD ? load(c + r * ldc + v * LANES<T>) : Vec<T>{};
  for (int64_t k = 0; k < depth; ++k, a += by_depth, b += ldb) {
    Vec<T> row[V];
    EACH(v, V) row[v] = load(b + v * LANES<T>);
    EACH(r, R) EACH(v, V) sum[r][v] += row[v] * a[r * by_row];
  }
  EACH(r, R) EACH(v, V) store(c + r * ldc + v * LANES<T>, sum[r][v]);
}
template <typename T, int V, bool TRANSPOSED>
void column(const T* a, int64_t lda, const T* b, int64_t ldb, int64_t rows, int64_t depth, T* c, int64_t ldc) {
  const int64_t by_row = TRANSPOSED ? 1 : lda, by_depth = TRANSPOSED ? lda : 1;
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS)
    registers<T, ROWS, V, TRANSPOSED>(a + r * by_row, by_row, by_depth, b, ldb, depth, c + r * ldc, ldc);
  a += r * by_row;
  c += r * ldc;
  switch (rows - r) {
    case 5: return registers<T, 5, V, TRANSPOSED>(a, by_row, by_depth, b, ldb, depth, c, ldc);
    case 4: return registers<T, 4, V, TRANSPOSED>(a, by_row, by_depth, b, ldb, depth, c, ldc);
    case 3: return registers<T, 3, V, TRANSPOSED>(a, by_row, by_depth, b, ldb, depth, c, ldc);
    case 2: return registers<T, 2, V, TRANSPOSED>(a, by_row, by_depth, b, ldb, depth, c, ldc);
    case 1: return registers<T, 1, V, TRANSPOSED>(a, by_row, by_depth, b, ldb, depth, c, ldc);
  }
}
// C [rows, width] = A [rows, depth] B [depth, width], or (TRANSPOSED) C += A^T B with A [depth, rows].
template <typename T, bool TRANSPOSED>
void product(const T* a, int64_t lda, const T* b, int64_t rows, int64_t depth, int64_t width, T* c) {
  int64_t k = 0;
  for (; k + 2 * LANES<T> <= width; k += 2 * LANES<T>)
    column<T, 2, TRANSPOSED>(a, lda, b + k, width, rows, depth, c + k, width);
  if (k < width) column<T, 1, TRANSPOSED>(a, lda, b + k, width, rows, depth, c + k, width);
}

// Tile t of all, as image, row and column of its first output.
struct Place {
  int64_t image, row, col;
  template <int TAPS>
  Place(const Shape<TAPS>& s, int64_t t)
      : image(t / s.tiles()), row(t % s.tiles() / s.tx() * s.OUT), col(t % s.tx() * s.OUT) {}
};

// The part of the images that holds the tiles from `first` on. It is fetched into the cache while products run, a
// little with each plane: otherwise the transforms would spend most of their time waiting.
template <typename T, int TAPS>
struct Ahead {
  static constexpr int PLANES = Winograd<T, TAPS>::PLANES;
  const T *at, *end;
  Ahead(const Shape<TAPS>& s, const T* images, int64_t image, int64_t first, int64_t last) {
    at = images + first * image / s.tiles();
    end = images + std::max(first, last) * image / s.tiles();
  }
  void part(int q) const {
    const int64_t step = 64 / sizeof(T), lines = (end - at) / step;
    for (int64_t k = lines * q / PLANES; k < lines * (q + 1) / PLANES; ++k) __builtin_prefetch(at + k * step, 0, 2);
  }
};

template <typename T, int TAPS>
void forward(const Shape<TAPS>& s, const T* x, const T* W, int add, T* y, int threads) {
  constexpr int PLANES = Winograd<T, TAPS>::PLANES, SIDE = Winograd<T, TAPS>::SIDE, OUT = s.OUT;
  const int64_t total = s.n * s.tiles(), wi = padded<T>(s.ci), wo = padded<T>(s.co);
  const int64_t apart_u = plane<T>(s.ci, wo), apart_v = plane<T>(BLOCK<TAPS>, wi), apart_m = plane<T>(BLOCK<TAPS>, wo);
  T* U = scratch<T>(0, PLANES * apart_u);
  weight_planes<T>(s, W, false, U, apart_u);
  const std::vector<T> zeros(wi);
#pragma omp parallel for schedule(static) if (threads > 1) num_threads(threads)
  for (int64_t first = 0; first < total; first += BLOCK<TAPS>) {
    const int64_t count = std::min<int64_t>(BLOCK<TAPS>, total - first);
    T *V = scratch<T>(1, PLANES * apart_v), *M = scratch<T>(2, PLANES * apart_m), *nowhere = scratch<T>(3, wo);
    for (int64_t t = 0; t < count; ++t) {
      const Place p(s, first + t);
      const T* at[PLANES];
      places<const T>(x + p.image * s.h * s.w * s.ci, s.h, s.w, s.ci, p.row - s.pad, p.col - s.pad, SIDE,
                      zeros.data(), at);
      input_tile<T, TAPS>(at, s.ci, V + t * wi, apart_v);
    }
    const int64_t next = first + count;
    const Ahead<T, TAPS> in(s, x, s.h * s.w * s.ci, next, std::min(total, next + BLOCK<TAPS>));
    const Ahead<T, TAPS> out(s, y, s.oh() * s.ow() * s.co, first, next);
    for (int q = 0; q < PLANES; ++q) {
      in.part(q);
      out.part(q);
      product<T, false>(V + q * apart_v, wi, U + q * apart_u, count, s.ci, wo, M + q * apart_m);
    }
    for (int64_t t = 0; t < count; ++t) {
      const Place p(s, first + t);
      T* at[OUT * OUT];
      places<T>(y + p.image * s.oh() * s.ow() * s.co, s.oh(), s.ow(), s.co, p.row, p.col, OUT, nowhere, at);
      if (add) output_places<T, TAPS, true>(M + t * wo, apart_m, s.co, at);
      else output_places<T, TAPS, false>(M + t * wo, apart_m, s.co, at);
    }
  }
}

// dx and dW, each where it is not null.
template <typename T, int TAPS>
void backward(const Shape<TAPS>& s, const T* x, const T* W, const T* dy, int add, T* dx, T* dW, int threads) {
  constexpr int PLANES = Winograd<T, TAPS>::PLANES, SIDE = Winograd<T, TAPS>::SIDE, OUT = s.OUT;
  const int64_t wi = padded<T>(s.ci), wo = padded<T>(s.co), units = s.units();
  const int64_t apart_u = plane<T>(s.ci, wo), apart_t = plane<T>(s.co, wi);
  const int64_t apart_v = plane<T>(BLOCK<TAPS>, wi), apart_m = plane<T>(BLOCK<TAPS>, wo);
  T* U = dx ? scratch<T>(0, PLANES * apart_t) : nullptr;
  if (dx) weight_planes(s, W, true, U, apart_t);
  const std::vector<T> zeros(std::max(wi, wo));
  const int64_t entries = PLANES * apart_u;
  const bool together = threads == 1;  // the units' sums are joined as they come
  T* sums = dW ? scratch<T>(4, entries * (together ? 2 : units)) : nullptr;
#pragma omp parallel for schedule(static) if (threads > 1) num_threads(threads)
  for (int64_t unit = 0; unit < units; ++unit) {
    const int64_t begin = unit * s.images(), end = std::min(s.n, begin + s.images());
    T* sum = nullptr;
    if (dW) {
      sum = sums + (together ? std::min<int64_t>(unit, 1) : unit) * entries;
      std::fill(sum, sum + entries, T(0));
    }
    if (dx && !add) std::fill(dx + begin * s.h * s.w * s.ci, dx + end * s.h * s.w * s.ci, T(0));
    T *V = scratch<T>(1, PLANES * apart_v), *M = scratch<T>(2, PLANES * apart_m), *nowhere = scratch<T>(3, wi);
    std::fill(nowhere, nowhere + wi, T(0));
    for (int64_t first = begin * s.tiles(); first < end * s.tiles(); first += BLOCK<TAPS>) {
      const int64_t count = std::min<int64_t>(BLOCK<TAPS>, end * s.tiles() - first);
      for (int64_t t = 0; t < count; ++t) {
        const Place p(s, first + t);
        const T* at[PLANES];
        places<const T>(dy + p.image * s.oh() * s.ow() * s.co, s.oh(), s.ow(), s.co, p.row, p.col, OUT, zeros.data(),
                        at);
        output_tile<T, TAPS>(at, s.co, M + t * wo, apart_m);
        if (!dW) continue;
        places<const T>(x + p.image * s.h * s.w * s.ci, s.h, s.w, s.ci, p.row - s.pad, p.col - s.pad, SIDE,
                        zeros.data(), at);
        input_tile<T, TAPS>(at, s.ci, V + t * wi, apart_v);
      }
      const int64_t next = first + count, last = std::min(end * s.tiles(), next + BLOCK<TAPS>);
      const Ahead<T, TAPS> in(s, x, s.h * s.w * s.ci, next, last), out(s, dy, s.oh() * s.ow() * s.co, next, last);
      for (int q = 0; q < PLANES; ++q) {
        if (dW) in.part(q);
        out.part(q);
        if (dW) product<T, true>(V + q * apart_v, wi, M + q * apart_m, s.ci, count, wo, sum + q * apart_u);
        if (dx) product<T, false>(M + q * apart_m, wo, U + q * apart_t, count, s.co, wi, V + q * apart_v);
      }
      for (int64_t t = 0; dx && t < count; ++t) {
        const Place p(s, first + t);
        T* at[PLANES];
        places<T>(dx + p.image * s.h * s.w * s.ci, s.h, s.w, s.ci, p.row - s.pad, p.col - s.pad, SIDE, nowhere, at);
        input_places<T, TAPS>(V + t * wi, apart_v, s.ci, at);
      }
    }
    if (dW && together && unit > 0)
      for (int64_t k = 0; k < entries; ++k) sums[k] += sum[k];
  }
  if (!dW) return;
  for (int64_t unit = 1; unit < units && !together; ++unit)
    for (int64_t k = 0; k < entries; ++k) sums[k] += sums[unit * entries + k];
  weight_from_planes(s, sums, apart_u, add, dW);
}

}  // namespace
}  // namespace metasym

using namespace metasym;

// The sizes f: those of Shape, then the taps of the kernel's side, 3 or 5.
#define EXPORT(T, S)                                                                                                 \
  extern "C" void winograd_forward_##S(const int64_t* f, const T* x, const T* W, T* y, int add, int threads) {       \
    if (f[6] == 3) forward(Shape<3>{f[0], f[1], f[2], f[3], f[4], f[5]}, x, W, add, y, threads);                     \
    else forward(Shape<5>{f[0], f[1], f[2], f[3], f[4], f[5]}, x, W, add, y, threads);                               \
  }                                                                                                                  \
  extern "C" void winograd_backward_##S(const int64_t* f, const T* x, const T* W, const T* dy, T* dx, T* dW,         \
                                        int add, int threads) {                                                      \
    if (f[6] == 3) backward(Shape<3>{f[0], f[1], f[2], f[3], f[4], f[5]}, x, W, dy, add, dx, dW, threads);           \
    else backward(Shape<5>{f[0], f[1], f[2], f[3], f[4], f[5]}, x, W, dy, add, dx, dW, threads);                     \
  }

EXPORT(float, float)
EXPORT(double, double)
