// Products of few rows with a large matrix, x [rows, k] W, for single sentences.
//
// Their time is that of reading W from memory. TensorFlow's and XLA's own copy each W into another
// order before they multiply; these read it once, in its own order, each thread a part of its own.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();  // of TensorFlow's library
}

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kLanes = 16;
// Rows of x whose sums fit in registers.
constexpr int kMostRows = 8;
// Rows of W that are read side by side, so that sums are loaded and stored once for all of them.
constexpr int64_t kStreams = 16;
// A thread with less to read than this costs more than it saves.
constexpr int64_t kLeastBytes = 128 << 10;

typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4)));

inline Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
inline void store(float* to, Lanes value) { *reinterpret_cast<Lanes*>(to) = value; }

inline float sum_of(Lanes value) {
  float parts[kLanes];
  store(parts, value);
  for (int64_t width = kLanes / 2; width; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) parts[lane] += parts[lane + width];
  return parts[0];
}

// Adds x[:, first .. first + kCount - 1] times those rows of W [k, n] to y [rows, n].
template <int kRows, int kCount>
void add_rows(const float* x, const float* w, float* y, int64_t k, int64_t n, int64_t first) {
  int64_t column = 0;
  for (; column + kLanes <= n; column += kLanes) {
    Lanes sums[kRows];
    for (int row = 0; row < kRows; ++row) sums[row] = load(y + row * n + column);
    for (int each = 0; each < kCount; ++each) {
      const Lanes weights = load(w + (first + each) * n + column);
      for (int row = 0; row < kRows; ++row) sums[row] += x[row * k + first + each] * weights;
    }
    for (int row = 0; row < kRows; ++row) store(y + row * n + column, sums[row]);
  }
  for (; column < n; ++column)
    for (int row = 0; row < kRows; ++row)
      for (int each = 0; each < kCount; ++each)
        y[row * n + column] += x[row * k + first + each] * w[(first + each) * n + column];
}

// y [rows, n] = x W, where only rows `first` to `last` - 1 of W [k, n] count.
template <int kRows>
void multiply(const float* x, const float* w, float* y, int64_t k, int64_t n, int64_t first,
              int64_t last) {
  std::fill(y, y + kRows * n, 0.0f);
  for (; first + kStreams <= last; first += kStreams)
    add_rows<kRows, kStreams>(x, w, y, k, n, first);
  for (; first < last; ++first) add_rows<kRows, 1>(x, w, y, k, n, first);
}

// Columns `first` to `last` - 1 of y [rows, n] = x W', where W' is the transposed W [n, k].
template <int kRows>
void multiply_transposed(const float* x, const float* w, float* y, int64_t k, int64_t n,
                         int64_t first, int64_t last) {
  for (int64_t column = first; column < last; ++column) {
    const float* weights = w + column * k;
    Lanes sums[kRows][2] = {};
    int64_t i = 0;
    for (; i + 2 * kLanes <= k; i += 2 * kLanes)
      for (int half = 0; half < 2; ++half) {
        const Lanes some = load(weights + i + half * kLanes);
        for (int row = 0; row < kRows; ++row)
          sums[row][half] += load(x + row * k + i + half * kLanes) * some;
      }
    for (int row = 0; row < kRows; ++row) {
      float sum = sum_of(sums[row][0] + sums[row][1]);
      for (int64_t rest = i; rest < k; ++rest) sum += x[row * k + rest] * weights[rest];
      y[row * n + column] = sum;
    }
  }
}

using Kernel = void (*)(const float*, const float*, float*, int64_t, int64_t, int64_t, int64_t);

template <bool kTransposed, int kRows>
void part(const float* x, const float* w, float* y, int64_t k, int64_t n, int64_t first,
          int64_t last) {
  if constexpr (kTransposed)
    multiply_transposed<kRows>(x, w, y, k, n, first, last);
  else
    multiply<kRows>(x, w, y, k, n, first, last);
}

template <bool kTransposed>
Kernel kernel(int64_t rows) {
  static constexpr Kernel kAll[kMostRows] = {
      part<kTransposed, 1>, part<kTransposed, 2>, part<kTransposed, 3>, part<kTransposed, 4>,
      part<kTransposed, 5>, part<kTransposed, 6>, part<kTransposed, 7>, part<kTransposed, 8>};
  return kAll[rows - 1];
}

// Calls work(0) to work(parts - 1), on as many of the pool's threads as are free.
template <typename Work>
void in_parts(ffi::ThreadPool& pool, int64_t parts, const Work& work) {
  struct Shared {
    std::atomic<int64_t> begun{0}, done{0};
  };
  // A thread that comes when all is done still looks at the numbers, but not at `work`.
  auto shared = std::make_shared<Shared>();
  auto help = [shared, parts, &work] {
    for (int64_t part; (part = shared->begun++) < parts; ++shared->done) work(part);
  };
  for (int64_t helper = 1; helper < parts; ++helper) pool.Schedule([help] { help(); });
  help();
  while (shared->done < parts) std::this_thread::yield();
}

using Floats = ffi::Buffer<ffi::F32>;

template <bool kTransposed>
ffi::Error product(ffi::ThreadPool pool, Floats x, Floats w, ffi::Result<Floats> y) {
  const int64_t rows = x.dimensions()[0], k = x.dimensions()[1], n = y->dimensions()[1];
  const int64_t whole = kTransposed ? n : k;
  const int64_t most = std::max<int64_t>(1, k * n * sizeof(float) / kLeastBytes);
  const int64_t parts = std::max<int64_t>(1, std::min({pool.num_threads(), most, whole}));
  // Each part of k has sums of its own, added in the same order whichever thread was first.
  std::vector<float> others(kTransposed ? 0 : (parts - 1) * std::min<int64_t>(rows, kMostRows) * n);
  for (int64_t done = 0; done < rows; done += kMostRows) {
    const int64_t some = std::min<int64_t>(rows - done, kMostRows), size = some * n;
    const float* from = x.typed_data() + done * k;
    float* to = y->typed_data() + done * n;
    in_parts(pool, parts, [&](int64_t part) {
      float* own = kTransposed || part == 0 ? to : others.data() + (part - 1) * size;
      const int64_t first = part * whole / parts, last = (part + 1) * whole / parts;
      kernel<kTransposed>(some)(from, w.typed_data(), own, k, n, first, last);
    });
    for (int64_t part = 1; part < parts && !kTransposed; ++part)
      for (int64_t i = 0; i < size; ++i) to[i] += others[(part - 1) * size + i];
  }
  return ffi::Error::Success();
}

auto binding() {
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Floats>().Ret<Floats>();
}
XLA_FFI_DEFINE_HANDLER(plain, product<false>, binding());
XLA_FFI_DEFINE_HANDLER(transposed, product<true>, binding());

}  // namespace

// Makes the two products known to XLA; returns 0 unless that failed.
extern "C" int register_products() {
  const XLA_FFI_Api* api = ffi::GetXlaFfiApi();
  return ffi::Ffi::RegisterStaticHandler(api, "t2t_few_rows", "Host", plain) ||
         ffi::Ffi::RegisterStaticHandler(api, "t2t_few_rows_transposed", "Host", transposed);
}
