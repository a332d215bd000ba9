// Images of standard normal numbers, and their 3 x 3 convolution with a bank of filters, for many tasks.
//
// The numbers are those that NumPy's Generator(PCG64).standard_normal(dtype=float32) gives from the same state: the
// ziggurat of Marsaglia and Tsang with 256 layers. random_images.py compares the two before it trusts these.
//
// A layer i has the width x[i]; layer 0 is the base with the tail behind it. 32 random bits are the layer (8), the sign
// (1) and a whole number below 2^23 that is scaled to the width. Below inside[i] it lies under the curve for sure.

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr int LAYERS = 256;
constexpr double TAIL = 3.6541528853610087963519472518;
constexpr double AREA = 0.0049286732339746571;
constexpr double SCALE = 8388608.0;  // 2^23

struct Tables {
    float width[LAYERS], height[LAYERS];
    uint32_t inside[LAYERS];

    Tables() {
        auto curve = [](double x) { return std::exp(-0.5 * x * x); };
        const double base = AREA / curve(TAIL);
        double x = TAIL;
        inside[0] = static_cast<uint32_t>(TAIL / base * SCALE);
        width[0] = static_cast<float>(base / SCALE);
        height[0] = 1.0f;
        for (int i = LAYERS - 1; i > 0; --i) {
            width[i] = static_cast<float>(x / SCALE);
            height[i] = static_cast<float>(curve(x));
            const double next = i > 1 ? std::sqrt(-2.0 * std::log(AREA / x + curve(x))) : 0.0;
            inside[i] = static_cast<uint32_t>(next / x * SCALE);
            x = next;
        }
    }
};

const Tables TABLES;

// The permuted congruential generator with 128 bits of state (O'Neill): half of 64 bits at a time.
class Bits {
  public:
    Bits(const uint64_t *words)
        : state_(join(words[0], words[1])), step_(join(words[2], words[3])) {}

    uint32_t next() {
        if (kept_) {
            kept_ = false;
            return static_cast<uint32_t>(word_ >> 32);
        }
        state_ = state_ * join(2549297995355413924ULL, 4865540595714422341ULL) + step_;
        const uint64_t high = static_cast<uint64_t>(state_ >> 64), mixed = high ^ static_cast<uint64_t>(state_);
        const unsigned turn = static_cast<unsigned>(high >> 58);
        word_ = (mixed >> turn) | (mixed << ((64 - turn) & 63));
        kept_ = true;
        return static_cast<uint32_t>(word_);
    }

    float uniform() { return static_cast<float>(next() >> 8) * (1.0f / 16777216.0f); }

  private:
    using Wide = unsigned __int128;
    static Wide join(uint64_t high, uint64_t low) { return (static_cast<Wide>(high) << 64) | low; }

    Wide state_, step_;
    uint64_t word_ = 0;
    bool kept_ = false;
};

// Outside the sure part of a layer: true where the number is to be taken, perhaps another one.
__attribute__((noinline)) bool outside(Bits &bits, int layer, uint32_t whole, float &x) {
    if (layer == 0) {
        for (;;) {
            const float further = static_cast<float>(-1.0 / TAIL) * std::log1p(-bits.uniform());
            const float up = -std::log1p(-bits.uniform());
            if (up + up > further * further) {
                const float r = static_cast<float>(TAIL) + further;
                x = (whole >> 8) & 1 ? -r : r;
                return true;
            }
        }
    }
    // Not fused: the comparison has to round as NumPy's does.
    const volatile float part = (TABLES.height[layer - 1] - TABLES.height[layer]) * bits.uniform();
    const float y = part + TABLES.height[layer];
    return y < std::exp(-0.5 * x * x);
}

float normal(Bits &bits) {
    for (;;) {
        const uint32_t r = bits.next(), whole = (r >> 9) & 0x7fffff;
        const int layer = r & 0xff;
        float x = static_cast<float>(whole) * TABLES.width[layer];
        uint32_t sign = (r & 0x100) << 23, raw;
        std::memcpy(&raw, &x, 4);
        raw ^= sign;
        std::memcpy(&x, &raw, 4);
        if (__builtin_expect(whole < TABLES.inside[layer], 1) || outside(bits, layer, whole, x)) return x;
    }
}

constexpr int LANES = 8, OUTPUTS = 3, CHUNKS = 4, SIDE = 3, TAPS = SIDE * SIDE;
typedef float Vector __attribute__((vector_size(4 * LANES)));

Vector load(const float *from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

// COUNT output channels of one row of places, 4 x 8 places at a time: three channels fill the registers. Where a row is
// not a multiple of eight, its end is computed as the last eight places, some of them a second time.
template <int COUNT>
void row(const float *image, int64_t size, int64_t places, const float *bank, float *y, int64_t channel) {
    for (int64_t x = 0; x < places; x += CHUNKS * LANES) {
        int64_t at[CHUNKS];
        for (int n = 0; n < CHUNKS; ++n) {
            const int64_t wanted = x + n * LANES;
            at[n] = wanted + LANES <= places ? wanted : places - LANES;
        }
        Vector sum[COUNT][CHUNKS] = {};
        for (int i = 0; i < SIDE; ++i)
            for (int j = 0; j < SIDE; ++j) {
                const float *pixels = image + i * size + j, *weights = bank + i * SIDE + j;
                for (int n = 0; n < CHUNKS; ++n) {
                    Vector pixel = load(pixels + at[n]);
#if defined(__AVX2__)
                    asm("" : "+x"(pixel));  // in a register: as an operand of each product it would be loaded again
#endif
                    for (int c = 0; c < COUNT; ++c) sum[c][n] += pixel * weights[c * TAPS];
                }
            }
        for (int c = 0; c < COUNT; ++c)
            for (int n = 0; n < CHUNKS; ++n) std::memcpy(y + c * channel + at[n], &sum[c][n], sizeof(Vector));
    }
}

void few_places(const float *image, int64_t size, int64_t places, const float *bank, float *y) {
    for (int64_t x = 0; x < places; ++x) {
        float sum = 0;
        for (int i = 0; i < SIDE; ++i)
            for (int j = 0; j < SIDE; ++j) sum += image[i * size + x + j] * bank[i * SIDE + j];
        y[x] = sum;
    }
}

}  // namespace

extern "C" {

// states [tasks, 4]: high and low word of the state and of the increment; into [tasks, examples]: where each image of
// ``count`` numbers goes.
void fill_normals(const int64_t *sizes, const uint64_t *states, float *const *into, int threads) {
    const int64_t tasks = sizes[0], examples = sizes[1], count = sizes[2];
#pragma omp parallel for num_threads(threads)
    for (int64_t t = 0; t < tasks; ++t) {
        Bits bits(states + 4 * t);
        for (int64_t e = 0; e < examples; ++e) {
            float *image = into[t * examples + e];
            for (int64_t i = 0; i < count; ++i) image[i] = normal(bits);
        }
    }
}

// sizes: tasks, examples, size, outputs. images [examples, tasks, size, size], banks [tasks, outputs, 3, 3],
// y [tasks, outputs, examples, size - 2, size - 2].
void convolve_banks(const int64_t *sizes, const float *images, const float *banks, float *y, int threads) {
    const int64_t tasks = sizes[0], examples = sizes[1], size = sizes[2], outputs = sizes[3];
    const int64_t places = size - SIDE + 1, channel = examples * places * places;
#pragma omp parallel for num_threads(threads)
    for (int64_t t = 0; t < tasks; ++t)
        for (int64_t o = 0; o < outputs; o += OUTPUTS)
            for (int64_t e = 0; e < examples; ++e)
                for (int64_t p = 0; p < places; ++p) {
                    const float *image = images + ((e * tasks + t) * size + p) * size;
                    const float *bank = banks + (t * outputs + o) * TAPS;
                    float *into = y + (t * outputs + o) * channel + (e * places + p) * places;
                    const int64_t left = outputs - o < OUTPUTS ? outputs - o : OUTPUTS;
                    if (left == OUTPUTS && places >= LANES) {
                        row<OUTPUTS>(image, size, places, bank, into, channel);
                        continue;
                    }
                    for (int64_t c = 0; c < left; ++c) {
                        if (places >= LANES)
                            row<1>(image, size, places, bank + c * TAPS, into + c * channel, channel);
                        else
                            few_places(image, size, places, bank + c * TAPS, into + c * channel);
                    }
                }
}
}
