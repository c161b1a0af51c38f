// Functions that stay functions: calls, recursion, pointers to functions, virtual functions; local memory, constant
// memory, structures by value, jump tables, dynamic shared memory.
#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kThreads = 96;

__constant__ uint32_t kTable[64];
__constant__ uint8_t kBytes[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ uint32_t global_counter = 5;
__device__ uint32_t global_words[4] = {10, 20, 30, 40};

__device__ __noinline__ uint32_t ackermann(uint32_t m, uint32_t n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ uint64_t fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

struct Vector {
  float x, y, z;
  short tag;
};

__device__ __noinline__ Vector combine(Vector a, Vector b, char sign) {
  return {a.x + sign * b.x, a.y - b.y, a.z * b.z, static_cast<short>(a.tag * 2 + b.tag)};
}

__device__ __noinline__ uint32_t twice(uint32_t v) { return v * 2; }
__device__ __noinline__ uint32_t square(uint32_t v) { return v * v; }
__device__ __noinline__ uint32_t scramble(uint32_t v) { return (v ^ 0x9e3779b9u) * 0x85ebca6bu; }
using Function = uint32_t (*)(uint32_t);
__device__ Function functions[3] = {twice, square, scramble};

struct Shape {
  __device__ virtual uint32_t area(uint32_t scale) const = 0;
};
struct Square : Shape {
  uint32_t side;
  __device__ explicit Square(uint32_t s) : side(s) {}
  __device__ uint32_t area(uint32_t scale) const override { return side * side * scale; }
};
struct Rectangle : Shape {
  uint32_t a, b;
  __device__ Rectangle(uint32_t x, uint32_t y) : a(x), b(y) {}
  __device__ uint32_t area(uint32_t scale) const override { return a * b + scale; }
};

__global__ void call(const uint32_t* in, uint32_t* out) {
  const uint32_t value = in[threadIdx.x];
  out += threadIdx.x * 8;
  out[0] = ackermann(2, value % 5);
  out[1] = static_cast<uint32_t>(fibonacci(value % 15));
  Vector v = combine({1.5f * (value % 7), 2, 3, static_cast<short>(value)},
                     {4, 0.25f, static_cast<float>(value % 11), 7}, value % 2 != 0 ? 1 : -1);
  out[2] = __float_as_uint(v.x) + __float_as_uint(v.y) * 3 + __float_as_uint(v.z) * 5 + v.tag;
  out[3] = functions[value % 3](value);  // the lanes of a warp diverge
  const Square square_shape(value % 100);
  const Rectangle rectangle(value % 13, value % 17);
  const Shape* shape = value % 2 != 0 ? static_cast<const Shape*>(&square_shape) : &rectangle;
  out[4] = shape->area(value % 5);
  out[5] = kTable[value % 64] + kTable[threadIdx.x % 64];
  out[6] = kBytes[value % sizeof kBytes] + global_words[value % 4];
  atomicAdd(&global_counter, value % 8);
  out[7] = functions[(value / 3) % 3](functions[threadIdx.x % 3](value));
}

/// An array that only memory can hold: it is indexed by values. Sorted, then searched.
__global__ void local_memory(const uint32_t* in, uint32_t* out) {
  uint32_t words[33];
  uint8_t bytes[40];
  for (int i = 0; i < 33; ++i) words[i] = in[(threadIdx.x + i * 5) % kThreads] ^ (i * 77);
  for (int i = 1; i < 33; ++i) {
    const uint32_t word = words[i];
    int j = i;
    for (; j > 0 && words[j - 1] > word; --j) words[j] = words[j - 1];
    words[j] = word;
  }
  for (int i = 0; i < 40; ++i) bytes[(i * 7) % 40] = static_cast<uint8_t>(words[i % 33] >> (i % 24));
  uint32_t sum = 0;
  for (int i = 0; i < 40; ++i) sum = sum * 31 + bytes[bytes[i] % 40];
  out[threadIdx.x * 3] = words[16];
  out[threadIdx.x * 3 + 1] = sum;
  const uint32_t* pointer = in[threadIdx.x] % 2 != 0 ? &words[in[threadIdx.x] % 33] : &in[threadIdx.x];
  out[threadIdx.x * 3 + 2] = *pointer;  // generic: local for some lanes, global for others
}

__device__ uint32_t decide(uint32_t value) {
  switch (value % 16) {
    case 0: return value + 11;
    case 1: return value * 13;
    case 2: return value ^ 0x5555;
    case 3: return value >> 3;
    case 4: return ~value;
    case 5: return value - 99;
    case 6: return value << 5;
    case 7: return __popc(value);
    case 8: return value % 1000;
    case 9: return __brev(value);
    case 10: return value & 0xff00ff;
    case 11: return value | 0x10101;
    case 12: return value / 7;
    default: return 1;
  }
}

__global__ void jump_table(const uint32_t* in, uint32_t* out) {
  uint32_t value = in[threadIdx.x];
  for (int i = 0; i < 20; ++i) value = decide(value) + i;
  out[threadIdx.x] = value;
}

extern __shared__ uint32_t dynamic[];

__global__ void dynamic_shared(const uint32_t* in, uint32_t* out, int words) {
  __shared__ uint32_t fixed[kThreads];
  fixed[threadIdx.x] = in[threadIdx.x];
  for (int i = threadIdx.x; i < words; i += kThreads) dynamic[i] = in[i % kThreads] + i;
  __syncthreads();
  uint32_t sum = fixed[kThreads - 1 - threadIdx.x];
  for (int i = threadIdx.x; i < words; i += 40) sum = sum * 3 + dynamic[words - 1 - i];
  out[threadIdx.x] = sum;
}

struct Large {
  uint32_t words[300];
};

__global__ void large_parameter(const __grid_constant__ Large large, int start, uint32_t* out) {
  out[threadIdx.x] = large.words[(threadIdx.x * 7 + start) % 300] + large.words[299];
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    Random random(report.seed());
    std::vector<uint32_t> values, table;
    for (int i = 0; i < kThreads; ++i) values.push_back(static_cast<uint32_t>(random.bits()));
    for (int i = 0; i < 64; ++i) table.push_back(static_cast<uint32_t>(random.bits()));
    check(cudaMemcpyToSymbol(kTable, table.data(), table.size() * 4), "fill the constant table");
    const DeviceBuffer<uint32_t> in(values, "the input");
    check(cudaDeviceSetLimit(cudaLimitStackSize, 16384), "reserve stack");

    DeviceBuffer<uint32_t> out(kThreads * 8, "the output");
    out.poison();
    call<<<1, kThreads>>>(in.data(), out.data());
    finish_kernel("call");
    report.section("calls", out.to_host());
    uint32_t counter = 0;
    check(cudaMemcpyFromSymbol(&counter, global_counter, 4), "read the counter");
    report.section("a variable in global memory", std::vector<uint32_t>{counter});

    DeviceBuffer<uint32_t> local(kThreads * 3, "the output");
    local_memory<<<1, kThreads>>>(in.data(), local.data());
    finish_kernel("local_memory");
    report.section("local memory", local.to_host());

    DeviceBuffer<uint32_t> jumps(kThreads, "the output");
    jump_table<<<1, kThreads>>>(in.data(), jumps.data());
    finish_kernel("jump_table");
    report.section("a jump table", jumps.to_host());

    for (const int bytes : {400, 48 * 1024 - kThreads * 4, 200 * 1024, 227 * 1024 - kThreads * 4}) {
      check(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "ask for memory");
      dynamic_shared<<<1, kThreads, bytes>>>(in.data(), jumps.data(), bytes / 4);
      finish_kernel("dynamic_shared");
      report.section(std::to_string(bytes) + " bytes of dynamic shared memory", jumps.to_host());
    }

    Large large;
    for (int i = 0; i < 300; ++i) large.words[i] = static_cast<uint32_t>(random.bits());
    large_parameter<<<1, kThreads>>>(large, 5, jumps.data());
    finish_kernel("large_parameter");
    report.section("a large parameter", jumps.to_host());
  });
}
