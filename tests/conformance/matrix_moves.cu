// Eight-by-eight matrices between shared memory and the registers of a warp: ldmatrix, stmatrix, movmatrix.
#include "report.hpp"

using namespace stagecraft::conformance;

__global__ void load_matrices(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t shared[32 * 8];
  for (int i = threadIdx.x; i < 32 * 8; i += 32) shared[i] = in[i];
  __syncwarp();
  const uint32_t row = __cvta_generic_to_shared(shared + (threadIdx.x * 13 % 32) * 8 + threadIdx.x % 2 * 4);
  uint32_t r[14];
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[1]), "=r"(r[2])
               : "r"(row)
               : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6])
               : "r"(row)
               : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[7]) : "r"(row) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0, %1}, [%2];"
               : "=r"(r[8]), "=r"(r[9])
               : "r"(row)
               : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13])
               : "r"(row)
               : "memory");
  for (int i = 0; i < 14; ++i) out[i * 32 + threadIdx.x] = r[i];
}

__global__ void transpose_matrix(const uint32_t* in, uint32_t* out) {
  uint32_t moved;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(moved) : "r"(in[threadIdx.x]));
  out[threadIdx.x] = moved;
}

__global__ void store_matrices(const uint32_t* in, uint32_t* out, int form) {
  __shared__ alignas(16) uint32_t shared[32 * 8];
  for (int i = threadIdx.x; i < 32 * 8; i += 32) shared[i] = 0xa5a5a5a5;
  __syncwarp();
  const uint32_t row = __cvta_generic_to_shared(shared + (threadIdx.x * 11 % 32) * 8 + threadIdx.x % 2 * 4);
  const uint32_t a = in[threadIdx.x], b = in[threadIdx.x + 32], c = in[threadIdx.x + 64], d = in[threadIdx.x + 96];
  switch (form) {
    case 0: asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(a) : "memory"); break;
    case 1:
      asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(a), "r"(b) : "memory");
      break;
    case 2:
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b),
                   "r"(c), "r"(d)
                   : "memory");
      break;
    default:
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b),
                   "r"(c), "r"(d)
                   : "memory");
      break;
  }
  __syncwarp();
  for (int i = threadIdx.x; i < 32 * 8; i += 32) out[i] = shared[i];
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    Random random(report.seed());
    std::vector<uint32_t> values;
    for (int i = 0; i < 32 * 8; ++i) values.push_back(static_cast<uint32_t>(random.bits()));
    const DeviceBuffer<uint32_t> in(values, "the input");
    DeviceBuffer<uint32_t> loaded(14 * 32, "the registers"), stored(32 * 8, "shared memory");
    load_matrices<<<1, 32>>>(in.data(), loaded.data());
    finish_kernel("load_matrices");
    report.section("ldmatrix", loaded.to_host());
    DeviceBuffer<uint32_t> moved(32, "the registers");
    transpose_matrix<<<1, 32>>>(in.data(), moved.data());
    finish_kernel("transpose_matrix");
    report.section("movmatrix", moved.to_host());
    for (int form = 0; form < 4; ++form) {
      store_matrices<<<1, 32>>>(in.data(), stored.data(), form);
      finish_kernel("store_matrices");
      report.section("stmatrix, form " + std::to_string(form), stored.to_host());
    }
  });
}
