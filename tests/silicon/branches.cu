// What a loop costs beside the work in it: turns of a few independent FFMA with a counter, a comparison and a branch,
// and loops whose lanes leave one after the other.
#include "silicon.hpp"

using namespace silicon;

/// N independent FFMA a turn. The counter is each lane's own, as where a loop ends differently for each.
template <int N>
struct Products {
  static constexpr int kInstructions = N + 3;  ///< with an addition, a comparison and the branch
  float sums[8] = {};
  __device__ void turn(float by) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(sums[i % 8]) : "f"(by));
  }
  __device__ bool goes_on() const { return true; }
  __device__ float result() const {
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
  }
};

/// The loop of a Mandelbrot set: seven operations on floats, a comparison of them, and the same counter.
struct Squares {
  static constexpr int kInstructions = 11;
  float a = 0, b = 0, aa = 0, bb = 0;
  __device__ void turn(float by) {
    const float next = by + (aa - bb);
    b = (a + a) * b + by;
    a = next;
    aa = a * a, bb = b * b;
  }
  __device__ bool goes_on() const { return aa + bb < 4; }
  __device__ float result() const { return a + b; }
};

/// Lane l does turns + l * more turns.
template <typename Work>
__global__ void __launch_bounds__(1024) run(Span* spans, float* sink, int turns, int more, float by) {
  Work work;
  const int own = turns + static_cast<int>(lane()) * more;
  __syncthreads();
  const uint64_t start = cycles();
#pragma unroll 1
  for (int i = 0; i < own && work.goes_on(); ++i) work.turn(by);
  const uint64_t stop = cycles();
  if (lane() == 0) spans[threadIdx.x / 32] = {start, stop};
  if (work.result() == 12345.678f) *sink = work.result();
}

/// Cycles of a sub-partition that one turn of one of its warps takes.
template <typename Work>
void measure(const char* name) {
  DeviceArray<Span> spans(32);
  DeviceArray<float> sink(1);
  for (const int warps : {1, 4, 8, 16, 32}) {
    for (const int more : {0, 1, 8}) {
      std::vector<double> samples;
      for (int repeat = 0; repeat < 11; ++repeat) {
        const auto time = [&](int turns) {
          run<Work><<<1, warps * 32>>>(spans.data(), sink.data(), turns, more, 0.0625f);
          finish_kernel("run");
          return span_cycles(spans.to_host(), warps);
        };
        time(64);
        // With lanes that leave, all the turns from the first lane's last to the last lane's count.
        const double cycles = more == 0 ? (time(1088) - time(64)) / 1024 : (time(64) - time(33)) / 31;
        const double leaving = more == 0 ? 0 : (time(64) - 64 * cycles) / (31 * more);
        samples.push_back((more == 0 ? cycles : leaving) / std::max(1.0, warps / 4.0));
      }
      char text[128];
      std::snprintf(text, sizeof text, "%s, %d warps%s", name, warps,
                    more == 0   ? ""
                    : more == 1 ? ", a lane leaves in each turn"
                                : ", a lane leaves in each eighth turn");
      report(text, samples, "cycles of a sub-partition for a warp's turn",
             "of " + std::to_string(Work::kInstructions) + " instructions");
    }
  }
}

BENCHMARK(products_2) { measure<Products<2>>("loop over 2 FFMA"); }
BENCHMARK(products_4) { measure<Products<4>>("loop over 4 FFMA"); }
BENCHMARK(products_8) { measure<Products<8>>("loop over 8 FFMA"); }
BENCHMARK(products_16) { measure<Products<16>>("loop over 16 FFMA"); }
BENCHMARK(products_32) { measure<Products<32>>("loop over 32 FFMA"); }
BENCHMARK(squares) { measure<Squares>("loop of a Mandelbrot set"); }

int main(int argc, char** argv) { return silicon::main(argc, argv); }
