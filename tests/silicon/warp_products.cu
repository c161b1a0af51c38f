// What is left of the rate of mma.sync beside the ldmatrix that fills its fragments (its kinds: arithmetic.cu).
#include "silicon.hpp"

using namespace silicon;

/// A slice of a warp's tile: `Rows` fragments of 16 rows of A, `Columns` pairs of fragments of 8 columns of B, and
/// their products. With `Stages` of 2, the fragments of the next slice are loaded before.
template <int Rows, int Columns, int Stages>
struct Slice {
  uint32_t a[Stages][Rows][4], b[Stages][Columns][4], address;
  float sums[Rows][2 * Columns][4];
  __device__ Slice(uint32_t seed, uint8_t* shared) : a{}, b{}, sums{} {
    address = shared_address(shared) + lane() * 16 + (threadIdx.x / 32 + seed) % 2 * 512;
  }
  static __device__ void load(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  }
  __device__ void step(int i) {
    const int present = Stages == 1 ? 0 : i % 2, next = Stages == 1 ? 0 : (i + 1) % 2;
#pragma unroll
    for (int row = 0; row < Rows; ++row) load(a[next][row], address + 1024 * row);
#pragma unroll
    for (int column = 0; column < Columns; ++column) load(b[next][column], address + 1024 * (Rows + column));
#pragma unroll
    for (int row = 0; row < Rows; ++row)
#pragma unroll
      for (int column = 0; column < 2 * Columns; ++column) {
        float(&d)[4] = sums[row][column];
        const uint32_t(&x)[4] = a[present][row];
        const uint32_t* const y = &b[present][column / 2][column % 2 * 2];
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
      }
  }
  __device__ uint32_t result() {
    float all = 0;
    for (auto& row : sums)
      for (auto& fragment : row) all += fragment[0] + fragment[1] + fragment[2] + fragment[3];
    return __float_as_uint(all);
  }
};

/// As timed_loop, with as many registers as so few warps can have.
template <typename Body, int Warps, int Unroll>
__global__ void __launch_bounds__(32 * Warps, 1) timed_slices(Span* spans, uint32_t* sink, int turns, uint32_t seed) {
  extern __shared__ __align__(1024) uint8_t shared[];
  Body body(seed, shared);
  uint64_t start = 0, stop = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncthreads();
    start = cycles();
#pragma unroll 1
    for (int i = 0; i < turns; ++i) {
#pragma unroll
      for (int step = 0; step < Unroll; ++step) body.step(step);
    }
    stop = cycles_after(body.result());
  }
  if (lane() == 0) spans[threadIdx.x / 32] = {start, stop};
  if (body.result() == 0x12345678) sink[threadIdx.x] = 1;  // never taken; it keeps the results alive
}

template <typename Body, int Warps>
void slices(const char* name) {
  DeviceArray<Span> spans(32);
  DeviceArray<uint32_t> sink(1024);
  constexpr int kTurns = 200, kUnroll = 4, kBytes = 16 << 10;
  const auto time = [&](int turns) {
    timed_slices<Body, Warps, kUnroll><<<1, 32 * Warps, kBytes>>>(spans.data(), sink.data(), turns, 1);
    finish_kernel("timed_slices");
    return span_cycles(spans.to_host(), Warps);
  };
  std::vector<double> samples;
  for (int repeat = -1; repeat < 21; ++repeat) {
    const double shorter = time(kTurns), longer = time(2 * kTurns);
    if (repeat >= 0) samples.push_back((longer - shorter) / (kTurns * kUnroll * Warps));
  }
  report(std::string(name) + ", " + std::to_string(Warps) + " warps of an SM", samples, "cycles of the SM",
         "one slice of 16 of one warp: ldmatrix.x4 without conflicts, then mma.sync");
}

template <int Rows, int Columns, int Stages>
void slices(const char* name) {
  slices<Slice<Rows, Columns, Stages>, 4>(name);
  slices<Slice<Rows, Columns, Stages>, 8>(name);
}

BENCHMARK(products_of_slices) {
  slices<2, 4, 1>("slice of 32 x 64, loaded when needed");
  slices<2, 4, 2>("slice of 32 x 64, loaded ahead");
  slices<4, 4, 1>("slice of 64 x 64, loaded when needed");
  slices<4, 4, 2>("slice of 64 x 64, loaded ahead");
  slices<2, 2, 2>("slice of 32 x 32, loaded ahead");
  slices<Slice<2, 4, 2>, 12>("slice of 32 x 64, loaded ahead");
  slices<Slice<2, 2, 2>, 16>("slice of 32 x 32, loaded ahead");
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
