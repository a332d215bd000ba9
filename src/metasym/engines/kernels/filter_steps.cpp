// The inner steps of many tasks on one filter, and the way back through them, a task at a time: its A stays in the
// first cache while all steps read it. dense/closed_form.py has the equations, and the same computation in torch's
// operations, which is the oracle.
//
// contracted [tasks e m + tasks q m, k] holds A [e m, k] of every task and then B [q m, k] of every task; both are
// overwritten by their gradients. A task's sums are taken in a fixed order, and so are those over tasks: the result
// does not depend on the number of threads, which share the tasks.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr int64_t ROWS = 4;  // at a time: as many independent sums hide the latency of multiply-add

template <typename T>
struct Lanes {
  static constexpr int64_t count = 32 / sizeof(T);
  typedef T Vec __attribute__((vector_size(32)));
};

template <typename T>
typename Lanes<T>::Vec load(const T* p) {
  typename Lanes<T>::Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <typename T>
void store(T* p, typename Lanes<T>::Vec v) {
  std::memcpy(p, &v, sizeof v);
}

template <typename T>
T total(typename Lanes<T>::Vec v) {
  typedef T Half __attribute__((vector_size(16)));
  Half low, high;
  std::memcpy(&low, &v, sizeof low);
  std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
  low += high;
  if constexpr (sizeof(T) == 8) return low[0] + low[1];
  else return (low[0] + low[1]) + (low[2] + low[3]);
}

// A matrix [rows, k], padded with zeros to whole groups of rows and to whole vectors.
template <typename T>
struct Padded {
  int64_t k, wide;
  int64_t rows = 0, tall = 0;
  std::vector<T> values;

  explicit Padded(int64_t columns)
      : k(columns), wide((columns + Lanes<T>::count - 1) / Lanes<T>::count * Lanes<T>::count) {}

  static int64_t padded(int64_t rows) { return (rows + ROWS - 1) / ROWS * ROWS; }

  void read(const T* from, int64_t count) {
    rows = count;
    tall = padded(count);
    values.resize(tall * wide);  // zeros the first time; columns beyond k stay so
    for (int64_t i = 0; i < rows; ++i) std::memcpy(&values[i * wide], from + i * k, k * sizeof(T));
    std::fill(values.begin() + rows * wide, values.begin() + tall * wide, T(0));
  }

  // product [tall] = this times x [wide], minus y [tall] where given; back [wide] += product times this
  void through(const T* x, const T* y, T* product, T* back) const {
    for (int64_t i = 0; i < tall; i += ROWS) {
      const T *a = &values[i * wide], *b = a + wide, *c = b + wide, *d = c + wide;
      typename Lanes<T>::Vec s0 = {}, s1 = {}, s2 = {}, s3 = {};
      for (int64_t j = 0; j < wide; j += Lanes<T>::count) {
        const auto u = load(x + j);
        s0 += load(a + j) * u;
        s1 += load(b + j) * u;
        s2 += load(c + j) * u;
        s3 += load(d + j) * u;
      }
      T r[ROWS] = {total<T>(s0), total<T>(s1), total<T>(s2), total<T>(s3)};
      for (int64_t l = 0; l < ROWS; ++l) product[i + l] = r[l] = y ? r[l] - y[i + l] : r[l];
      if (!back) continue;
      for (int64_t j = 0; j < wide; j += Lanes<T>::count)
        store(back + j,
              load(back + j) + (load(a + j) * r[0] + load(b + j) * r[1] + load(c + j) * r[2] + load(d + j) * r[3]));
    }
  }
};

template <typename T>
T mean_square(const T* r, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double(r[i]) * r[i];
  return T(sum / count);
}

// What all tasks share. Rates are [steps, width], width 1 or k.
template <typename T>
struct Problem {
  int64_t tasks, em, qm, k, steps, m, width;
  bool first_order;
  T weight;
  const T *v, *rates;
};

// One task: losses (query, before, after), gradients by v [wide], the rates [steps, wide] and the bias [m]; A and B
// become their gradients.
template <typename T>
void task(const Problem<T>& p, Padded<T>& M, Padded<T>& N, const T* y, const T* y_query, T* A, T* B, T* losses, T* by_v, T* by_rates,
          T* by_bias) {
  const int64_t S = p.steps, k = p.k;
  const T c = T(2.0 / p.em);
  const int64_t wide = M.wide, tall = Padded<T>::padded(p.em), most = std::max(tall, Padded<T>::padded(p.qm));
  std::vector<T> v((S + 1) * wide), h(S * wide), factor(S * wide), by_h(S * wide), r((S + 1) * tall), by_r(S * tall);
  std::vector<T> target(most), residual(most);
  for (int64_t s = 0; s < S; ++s)
    for (int64_t j = 0; j < k; ++j) factor[s * wide + j] = -c * p.rates[s * p.width + (p.width > 1 ? j : 0)];

  std::copy_n(p.v, k, v.data());
  std::copy_n(y, p.em, target.data());
  M.read(A, p.em);
  for (int64_t s = 0; s < S; ++s) {
    const T* now = &v[s * wide];
    M.through(now, target.data(), &r[s * tall], &h[s * wide]);
    for (int64_t j = 0; j < wide; ++j) v[(s + 1) * wide + j] = now[j] + factor[s * wide + j] * h[s * wide + j];
  }
  const T* last = &v[S * wide];
  M.through(last, target.data(), &r[S * tall], nullptr);
  losses[1] = mean_square(r.data(), p.em);
  losses[2] = mean_square(&r[S * tall], p.em);

  N.read(B, p.qm);
  std::copy_n(y_query, p.qm, target.data());
  std::fill(target.begin() + p.qm, target.end(), T(0));
  const T slope = T(2.0 * p.weight / p.qm);  // of the loss by a residual
  N.through(last, target.data(), residual.data(), by_v);
  losses[0] = mean_square(residual.data(), p.qm);
  for (int64_t j = 0; j < k; ++j) by_v[j] *= slope;
  for (int64_t i = 0; i < p.qm; ++i) {
    const T g = slope * residual[i];
    for (int64_t j = 0; j < k; ++j) B[i * k + j] = g * last[j];
    if (by_bias) by_bias[i % p.m] += g;
  }

  for (int64_t s = S - 1; s >= 0; --s) {
    for (int64_t j = 0; j < k; ++j) by_rates[s * wide + j] = -c * h[s * wide + j] * by_v[j];
    if (p.first_order) continue;
    T* const g = &by_h[s * wide];
    for (int64_t j = 0; j < wide; ++j) g[j] = factor[s * wide + j] * by_v[j];
    M.through(g, nullptr, &by_r[s * tall], by_v);
    if (by_bias)
      for (int64_t i = 0; i < p.em; ++i) by_bias[i % p.m] += by_r[s * tall + i];
  }

  // A's gradient: the sum of the outer products r_s by_h_s and by_r_s v_s
  std::vector<T> sums(ROWS * wide);
  for (int64_t i = 0; i < p.em; i += ROWS) {
    for (int64_t j = 0; j < wide; j += Lanes<T>::count) {
      typename Lanes<T>::Vec s0 = {}, s1 = {}, s2 = {}, s3 = {};
      for (int64_t s = 0; s < (p.first_order ? 0 : S); ++s) {
        const T *left = &r[s * tall + i], *right = &by_r[s * tall + i];
        const auto g = load(&by_h[s * wide + j]), now = load(&v[s * wide + j]);
        s0 += g * left[0];
        s0 += now * right[0];
        s1 += g * left[1];
        s1 += now * right[1];
        s2 += g * left[2];
        s2 += now * right[2];
        s3 += g * left[3];
        s3 += now * right[3];
      }
      store(&sums[j], s0);
      store(&sums[wide + j], s1);
      store(&sums[2 * wide + j], s2);
      store(&sums[3 * wide + j], s3);
    }
    for (int64_t l = 0; l < std::min(ROWS, p.em - i); ++l)
      std::memcpy(A + (i + l) * k, &sums[l * wide], k * sizeof(T));
  }
}

// sum [rows, k] = the sum of parts [tasks, rows, wide] over tasks
template <typename T>
void join(const std::vector<T>& parts, int64_t tasks, int64_t rows, int64_t k, int64_t wide, T* sum) {
  std::fill_n(sum, rows * k, T(0));
  for (int64_t t = 0; t < tasks; ++t)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < k; ++j) sum[i * k + j] += parts[(t * rows + i) * wide + j];
}

template <typename T>
void all(const int64_t* f, double weight, const T* v, const T* rates, const T* y, const T* y_query, T* contracted,
         T* losses, T* by_v, T* by_rates, T* by_bias, int threads) {
  const Problem<T> p{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7] != 0, T(weight), v, rates};
  const int64_t wide = Padded<T>(p.k).wide;
  T* const queries = contracted + p.tasks * p.em * p.k;
  std::vector<T> of_v(p.tasks * wide), of_rates(p.tasks * p.steps * wide), of_bias(by_bias ? p.tasks * p.m : 0);
#pragma omp parallel if (threads > 1) num_threads(threads)
  {
    Padded<T> M(p.k), N(p.k);
#pragma omp for schedule(static)
    for (int64_t t = 0; t < p.tasks; ++t) {
      T found[3];
      task(p, M, N, y + t * p.em, y_query + t * p.qm, contracted + t * p.em * p.k, queries + t * p.qm * p.k, found,
           &of_v[t * wide], &of_rates[t * p.steps * wide], by_bias ? &of_bias[t * p.m] : nullptr);
      for (int64_t i = 0; i < 3; ++i) losses[i * p.tasks + t] = found[i];
    }
  }
  join(of_v, p.tasks, 1, p.k, wide, by_v);
  join(of_rates, p.tasks, p.steps, p.k, wide, by_rates);
  if (by_bias) join(of_bias, p.tasks, 1, p.m, p.m, by_bias);
}

}  // namespace

extern "C" {
void filter_steps_float(const int64_t* sizes, double weight, const float* v, const float* rates, const float* y,
                        const float* y_query, float* contracted, float* losses, float* by_v, float* by_rates,
                        float* by_bias, int threads) {
  all(sizes, weight, v, rates, y, y_query, contracted, losses, by_v, by_rates, by_bias, threads);
}
void filter_steps_double(const int64_t* sizes, double weight, const double* v, const double* rates, const double* y,
                         const double* y_query, double* contracted, double* losses, double* by_v, double* by_rates,
                         double* by_bias, int threads) {
  all(sizes, weight, v, rates, y, y_query, contracted, losses, by_v, by_rates, by_bias, threads);
}
}
