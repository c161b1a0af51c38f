// Prices of options, rays, means, running sums and a step of Adam, to compare the model of the chip with after it had
// learned to replay machine code: written then, modelled, and only then measured (docs/timing.md). Each is a benchmark
// of its own, so that the emulated GPU begins with an empty L2.
#include "kernel_timing.hpp"

using namespace silicon;

/// Prices of options by Black and Scholes, a call and a put to a thread.
__global__ void __launch_bounds__(256)
    option_prices(const float* spot, const float* strike, const float* years, float2* out) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  const float s = 5 + 25 * fabsf(spot[i]), x = 1 + 99 * fabsf(strike[i]), t = 0.25f + 9 * fabsf(years[i]);
  constexpr float kRate = 0.02f, kVolatility = 0.3f;
  const float root = sqrtf(t),
              d1 = (logf(s / x) + (kRate + 0.5f * kVolatility * kVolatility) * t) / (kVolatility * root);
  const float d2 = d1 - kVolatility * root, now = x * expf(-kRate * t);
  const float call = s * normcdff(d1) - now * normcdff(d2);
  out[i] = {call, call - s + now};
}

/// Means of 5 x 5 neighbours by a tile in shared memory; 2048 x 2048, the edges are those of the tile.
__global__ void __launch_bounds__(256) box_means(const float* in, float* out, int width) {
  __shared__ float tile[20][36];
  const int column0 = blockIdx.x * 32, row0 = blockIdx.y * 16;
  for (int i = threadIdx.x; i < 20 * 36; i += 256) {
    const int row = min(max(row0 + i / 36 - 2, 0), width - 1), column = min(max(column0 + i % 36 - 2, 0), width - 1);
    tile[i / 36][i % 36] = in[size_t(row) * width + column];
  }
  __syncthreads();
  for (int half = 0; half < 2; ++half) {
    const int y = threadIdx.x / 32 + half * 8, x = threadIdx.x % 32;
    float sum = 0;
    for (int dy = 0; dy < 5; ++dy)
      for (int dx = 0; dx < 5; ++dx) sum += tile[y + dy][x + dx];
    out[size_t(row0 + y) * width + column0 + x] = sum * 0.04f;
  }
}

/// C = A * B in fp32: 64 x 64 to a block, 4 x 4 to a thread, tiles of 16 along K that are fetched a turn ahead.
__global__ void __launch_bounds__(256) product_ahead(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[2][16][68], b_tile[2][16][64];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16, row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  const int a_row = threadIdx.x / 4, a_column = threadIdx.x % 4 * 4, b_row = threadIdx.x / 16,
            b_column = threadIdx.x % 16 * 4;
  float4 next_a, next_b;
  const auto load = [&](int k) {
    next_a = *reinterpret_cast<const float4*>(a + size_t(row0 + a_row) * n + k + a_column);
    next_b = *reinterpret_cast<const float4*>(b + size_t(k + b_row) * n + column0 + b_column);
  };
  const auto store = [&](int stage) {
    a_tile[stage][a_column][a_row] = next_a.x, a_tile[stage][a_column + 1][a_row] = next_a.y;
    a_tile[stage][a_column + 2][a_row] = next_a.z, a_tile[stage][a_column + 3][a_row] = next_a.w;
    *reinterpret_cast<float4*>(&b_tile[stage][b_row][b_column]) = next_b;
  };
  float sums[4][4] = {};
  load(0);
  store(0);
  __syncthreads();
  for (int k = 0, stage = 0; k < n; k += 16, stage ^= 1) {
    if (k + 16 < n) load(k + 16);
    for (int i = 0; i < 16; ++i) {
      const float4 of_a = *reinterpret_cast<const float4*>(&a_tile[stage][i][y * 4]);
      const float4 of_b = *reinterpret_cast<const float4*>(&b_tile[stage][i][x * 4]);
      const float left[4] = {of_a.x, of_a.y, of_a.z, of_a.w}, right[4] = {of_b.x, of_b.y, of_b.z, of_b.w};
      for (int j = 0; j < 4; ++j)
        for (int m = 0; m < 4; ++m) sums[j][m] += left[j] * right[m];
    }
    if (k + 16 < n) store(stage ^ 1);
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j)
    *reinterpret_cast<float4*>(c + size_t(row0 + y * 4 + j) * n + column0 + x * 4) = {sums[j][0], sums[j][1],
                                                                                      sums[j][2], sums[j][3]};
}

__constant__ float4 spheres[64];

/// The nearest of 64 spheres in constant memory that a ray from the origin meets.
__global__ void __launch_bounds__(256) nearest_sphere(const float2* rays, float* out) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  const float2 ray = rays[i];
  const float scale = rsqrtf(1 + ray.x * ray.x + ray.y * ray.y), dx = ray.x * scale, dy = ray.y * scale;
  float nearest = 1e30f;
  for (int s = 0; s < 64; ++s) {
    const float4 sphere = spheres[s];
    const float along = dx * sphere.x + dy * sphere.y + scale * sphere.z;
    const float inside = along * along - sphere.x * sphere.x - sphere.y * sphere.y - sphere.z * sphere.z + sphere.w;
    if (inside > 0) {
      const float distance = along - sqrtf(inside);
      if (distance > 0 && distance < nearest) nearest = distance;
    }
  }
  out[i] = nearest;
}

/// A step of Adam for each parameter.
__global__ void __launch_bounds__(256)
    adam_step(float4* parameters, float4* means, float4* squares, const float4* gradients) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  float4 p = parameters[i], m = means[i], v = squares[i];
  const float4 g = gradients[i];
  const auto step = [](float& of_p, float& of_m, float& of_v, float of_g) {
    of_m = 0.9f * of_m + 0.1f * of_g;
    of_v = 0.999f * of_v + 0.001f * of_g * of_g;
    of_p -= 0.001f * of_m / (sqrtf(of_v) + 1e-8f);
  };
  step(p.x, m.x, v.x, g.x), step(p.y, m.y, v.y, g.y), step(p.z, m.z, v.z, g.z), step(p.w, m.w, v.w, g.w);
  parameters[i] = p, means[i] = m, squares[i] = v;
}

/// Running sums along rows of 1024, a row to a warp.
__global__ void __launch_bounds__(128) running_sums(const float* in, float* out) {
  const size_t row = (size_t{blockIdx.x} * 4 + threadIdx.x / 32) * 1024;
  float before = 0;
  for (int i = 0; i < 32; ++i) {
    float sum = in[row + i * 32 + lane()];
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_up_sync(~0u, sum, distance);
      if (lane() >= static_cast<unsigned>(distance)) sum += other;
    }
    out[row + i * 32 + lane()] = before + sum;
    before += __shfl_sync(~0u, sum, 31);
  }
}

/// Inverses of matrices of 3 x 3, one to a thread.
__global__ void __launch_bounds__(256) inverses(const float* in, float* out, int count) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float m[9];
  for (int j = 0; j < 9; ++j) m[j] = in[size_t(j) * count + i] + (j % 4 == 0 ? 2.f : 0.f);
  const float c0 = m[4] * m[8] - m[5] * m[7], c1 = m[5] * m[6] - m[3] * m[8], c2 = m[3] * m[7] - m[4] * m[6];
  const float scale = 1 / (m[0] * c0 + m[1] * c1 + m[2] * c2);
  const float result[9] = {c0, m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
                           c1, m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
                           c2, m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
  for (int j = 0; j < 9; ++j) out[size_t(j) * count + i] = result[j] * scale;
}

namespace {

/// Sets of operands, floats from -1 to 1, so many that none is in L2 when it is needed again.
struct Operands {
  int sets;
  std::vector<DeviceArray<float>> in, out;
  Operands(size_t floats_in, size_t floats_out)
      : sets(sets_of((floats_in + floats_out) * 4)),
        in(arrays<float>(sets, floats_in)),
        out(arrays<float>(sets, floats_out)) {
    std::vector<float> values(floats_in);
    uint32_t x = 11;
    for (float& each : values) {
      x = x * 1664525u + 1013904223u;
      each = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
    }
    for (auto& each : in) each.from_host(values);
  }
};

}  // namespace

BENCHMARK(options) {
  Operands operands(12 * kMi, 8 * kMi);
  time("4 Mi option prices", operands.sets, [&](cudaStream_t stream, int set) {
    const float* const in = operands.in[set].data();
    option_prices<<<16384, 256, 0, stream>>>(in, in + 4 * kMi, in + 8 * kMi,
                                             reinterpret_cast<float2*>(operands.out[set].data()));
  });
}
BENCHMARK(means) {
  Operands operands(4 * kMi, 4 * kMi);
  time("means of 5 x 5, 2048 x 2048", operands.sets, [&](cudaStream_t stream, int set) {
    box_means<<<dim3(64, 128), 256, 0, stream>>>(operands.in[set].data(), operands.out[set].data(), 2048);
  });
}
BENCHMARK(product) {
  Operands operands(2 * kMi, kMi);
  time("product in fp32, fetched a turn ahead, 1024 cubed", operands.sets, [&](cudaStream_t stream, int set) {
    product_ahead<<<dim3(16, 16), 256, 0, stream>>>(operands.in[set].data(), operands.in[set].data() + kMi,
                                                    operands.out[set].data(), 1024);
  });
}
BENCHMARK(rays) {
  Operands operands(2 * kMi, kMi);
  std::vector<float4> all(64);
  for (int i = 0; i < 64; ++i) all[i] = {i % 8 - 3.5f, i / 8 - 3.5f, 6, 0.2f};
  check(cudaMemcpyToSymbol(spheres, all.data(), sizeof(float4) * all.size()), "cudaMemcpyToSymbol");
  time("nearest of 64 spheres to 1 Mi rays", operands.sets, [&](cudaStream_t stream, int set) {
    nearest_sphere<<<4096, 256, 0, stream>>>(reinterpret_cast<const float2*>(operands.in[set].data()),
                                             operands.out[set].data());
  });
}
BENCHMARK(adam) {
  Operands operands(16 * kMi, 4);
  time("a step of Adam, 4 Mi parameters", operands.sets, [&](cudaStream_t stream, int set) {
    auto* const in = reinterpret_cast<float4*>(operands.in[set].data());
    adam_step<<<4096, 256, 0, stream>>>(in, in + kMi, in + 2 * kMi, in + 3 * kMi);
  });
}
BENCHMARK(sums) {
  Operands operands(8 * kMi, 8 * kMi);
  time("running sums of 8192 rows of 1024", operands.sets, [&](cudaStream_t stream, int set) {
    running_sums<<<2048, 128, 0, stream>>>(operands.in[set].data(), operands.out[set].data());
  });
}
BENCHMARK(matrices) {
  Operands operands(9 * kMi, 9 * kMi);
  time("1 Mi inverses of 3 x 3", operands.sets, [&](cudaStream_t stream, int set) {
    inverses<<<4096, 256, 0, stream>>>(operands.in[set].data(), operands.out[set].data(), 1 << 20);
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
