// Boxes of tensors in 1 to 5 dimensions, copied by tensor maps to shared memory and back: where every byte lands under
// each swizzle, and what happens at the edges.
#include <cstring>
#include <cuda/ptx>

#include "report.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_map.hpp"

using namespace stagecraft;
using namespace stagecraft::conformance;

constexpr int kSharedBytes = 5120;  // of the largest box, 33 rows of 128 bytes, and the largest offset
constexpr int kThreads = 128;

struct Coordinates {
  int at[5] = {};
};

namespace ptx = cuda::ptx;

template <int Rank>
__device__ void load_box(void* tile, const CUtensorMap& map, const Coordinates& c, uint64_t* barrier) {
  int32_t at[Rank];
  for (int i = 0; i < Rank; ++i) at[i] = c.at[i];
  ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &map, at, barrier);
}

template <int Rank>
__device__ void store_box(const CUtensorMap& map, const Coordinates& c, const void* tile) {
  int32_t at[Rank];
  for (int i = 0; i < Rank; ++i) at[i] = c.at[i];
  ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &map, at, tile);
}

/// Copies one box to `offset` bytes into shared memory, whose other bytes are 0xa5, and shows all of it.
/// @param bytes  what the copy must bring for the barrier's phase to end.
template <int Rank>
__global__ void show_box(const __grid_constant__ CUtensorMap map, Coordinates coordinates, int offset, uint32_t bytes,
                         uint8_t* shown) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barrier;
  for (int i = threadIdx.x; i < kSharedBytes; i += kThreads) shared[i] = 0xa5;
  ptx::fence_proxy_async(ptx::space_shared);
  if (threadIdx.x == 0) {
    init_barrier(&barrier, 1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    load_box<Rank>(shared + offset, map, coordinates, &barrier);
    expect_bytes(&barrier, bytes);
  }
  wait(&barrier, 0);
  for (int i = threadIdx.x; i < kSharedBytes; i += kThreads) shown[i] = shared[i];
}

enum class Action { store, add, min, bit_xor };

/// Copies shared memory, in which each 16-bit word is its own number, to a box, or combines it with what is there.
template <int Rank>
__global__ void write_box(const __grid_constant__ CUtensorMap map, Coordinates coordinates, int offset, Action action) {
  extern __shared__ __align__(1024) uint8_t shared[];
  for (int i = threadIdx.x; i < kSharedBytes / 2; i += kThreads) reinterpret_cast<uint16_t*>(shared)[i] = i + 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t at[Rank];
    for (int i = 0; i < Rank; ++i) at[i] = coordinates.at[i];
    switch (action) {
      case Action::store: store_box<Rank>(map, coordinates, shared + offset); break;
      case Action::add:
        ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &map, at, shared + offset);
        break;
      case Action::min:
        ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_min, &map, at, shared + offset);
        break;
      case Action::bit_xor:
        ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_xor_op, &map, at,
                                         shared + offset);
        break;
    }
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  }
}

/// A tensor in device memory, filled with random words.
template <typename T>
struct Tensor {
  Tensor(std::vector<TensorMapDimension> dimensions, uint64_t seed) : dimensions(std::move(dimensions)) {
    const TensorMapDimension& outermost = this->dimensions.back();
    const size_t bytes =
        this->dimensions.size() == 1 ? outermost.extent * sizeof(T) : outermost.extent * outermost.stride;
    Random random(seed);
    std::vector<uint8_t> contents(bytes);
    for (uint8_t& byte : contents) byte = static_cast<uint8_t>(random.bits() >> 32);
    memory.emplace_back(contents, "the tensor");
  }

  CUtensorMap map(Swizzle swizzle, OutOfBounds out_of_bounds = OutOfBounds::zero) const {
    return make_tensor_map(reinterpret_cast<const T*>(memory[0].data()), dimensions.data(), dimensions.size(), swizzle,
                           out_of_bounds);
  }

  /// Bytes that one box counts for on a barrier: those out of bounds too.
  uint32_t box_bytes() const {
    uint32_t bytes = sizeof(T);
    for (size_t i = 0; i < dimensions.size(); ++i) {
      const uint32_t traversal = i == 0 ? 1 : dimensions[i].traversal;
      bytes *= (dimensions[i].box + traversal - 1) / traversal;
    }
    return bytes;
  }

  std::vector<TensorMapDimension> dimensions;
  std::vector<DeviceBuffer<uint8_t>> memory;
};

template <int Rank, typename T>
void load(Report& report, const std::string& name, const Tensor<T>& tensor, Swizzle swizzle, Coordinates at,
          int offset = 0, OutOfBounds out_of_bounds = OutOfBounds::zero) {
  DeviceBuffer<uint8_t> shown(kSharedBytes, "shared memory");
  shown.poison();
  show_box<Rank>
      <<<1, kThreads, kSharedBytes>>>(tensor.map(swizzle, out_of_bounds), at, offset, tensor.box_bytes(), shown.data());
  finish_kernel("show_box: " + name);
  const std::vector<uint8_t> bytes = shown.to_host();
  std::vector<uint16_t> words(kSharedBytes / 2);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  report.section(name, words);
}

template <int Rank, typename T>
void store(Report& report, const std::string& name, const Tensor<T>& tensor, Swizzle swizzle, Coordinates at,
           int offset = 0, Action action = Action::store) {
  check(cudaMemset(tensor.memory[0].data(), 0x33, tensor.memory[0].size()), "clear the tensor");
  write_box<Rank><<<1, kThreads, kSharedBytes>>>(tensor.map(swizzle), at, offset, action);
  finish_kernel("write_box: " + name);
  report.section(name, tensor.memory[0].to_host());
}

const char* name_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return "no swizzle";
    case Swizzle::bytes_32: return "32-byte swizzle";
    case Swizzle::bytes_64: return "64-byte swizzle";
    case Swizzle::bytes_128: return "128-byte swizzle";
    case Swizzle::bytes_128_atom_32: return "128-byte swizzle of 32-byte atoms";
  }
  return "";
}

void every_swizzle(Report& report) {
  constexpr uint64_t kColumns = 200, kRows = 70;
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::bytes_32, Swizzle::bytes_64, Swizzle::bytes_128}) {
    const uint32_t full = swizzle == Swizzle::none ? 24 : swizzle_span(swizzle) / 2;
    for (const uint32_t width : {full, full / 2}) {
      if (width * 2 % 16 != 0) continue;
      const Tensor<uint16_t> tensor(
          {{.extent = kColumns, .box = width}, {.extent = kRows, .stride = 2 * kColumns, .box = 33}}, report.seed());
      const std::string what = std::string(name_of(swizzle)) + ", " + std::to_string(width) + " columns, ";
      load<2>(report, what + "inside", tensor, swizzle, {{16, 5}});
      load<2>(report, what + "inside, 128 bytes on", tensor, swizzle, {{16, 5}}, 128);
      load<2>(report, what + "inside, 768 bytes on", tensor, swizzle, {{8, 30}}, 768);
      load<2>(report, what + "over the right and lower edge", tensor, swizzle, {{192, 60}});
      load<2>(report, what + "over the left and upper edge", tensor, swizzle, {{-8, -7}});
      load<2>(report, what + "outside", tensor, swizzle, {{400, -100}});
      store<2>(report, what + "stored inside", tensor, swizzle, {{16, 5}});
      store<2>(report, what + "stored from 384 bytes on", tensor, swizzle, {{32, 2}}, 384);
      store<2>(report, what + "stored over the right and lower edge", tensor, swizzle, {{192, 60}});
    }
  }
}

void every_rank(Report& report) {
  const uint64_t seed = report.seed() + 100;
  const Tensor<uint8_t> line({{.extent = 1000, .box = 64}}, seed);
  load<1>(report, "1 dimension of bytes", line, Swizzle::none, {{32}});
  load<1>(report, "1 dimension of bytes, over the end", line, Swizzle::none, {{960}});
  load<1>(report, "1 dimension of bytes, before the start", line, Swizzle::none, {{-16}});
  store<1>(report, "1 dimension of bytes, stored", line, Swizzle::none, {{128}});

  const Tensor<int32_t> block({{.extent = 20, .box = 8},
                               {.extent = 9, .stride = 80, .box = 5, .traversal = 2},
                               {.extent = 6, .stride = 720, .box = 4, .traversal = 3}},
                              seed + 1);
  load<3>(report, "3 dimensions of int, every second row of every third plane", block, Swizzle::bytes_32, {{4, 1, 0}});
  load<3>(report, "3 dimensions of int, over edges", block, Swizzle::none, {{16, -3, 4}});
  store<3>(report, "3 dimensions of int, stored", block, Swizzle::bytes_32, {{8, 2, 1}});

  const Tensor<float> hyper({{.extent = 12, .box = 8},
                             {.extent = 5, .stride = 48, .box = 3},
                             {.extent = 4, .stride = 240, .box = 2},
                             {.extent = 3, .stride = 960, .box = 3}},
                            seed + 2);
  load<4>(report, "4 dimensions of float", hyper, Swizzle::bytes_64, {{4, 1, 1, 0}});
  load<4>(report, "4 dimensions of float, over edges, NaN there", hyper, Swizzle::bytes_64, {{8, 3, -1, 2}}, 0,
          OutOfBounds::nan);

  const Tensor<double> five({{.extent = 6, .box = 4},
                             {.extent = 4, .stride = 48, .box = 2},
                             {.extent = 3, .stride = 192, .box = 3},
                             {.extent = 3, .stride = 576, .box = 2, .traversal = 2},
                             {.extent = 4, .stride = 1728, .box = 3}},
                            seed + 3);
  load<5>(report, "5 dimensions of double", five, Swizzle::bytes_32, {{2, 1, 0, 0, 1}});
  load<5>(report, "5 dimensions of double, over edges", five, Swizzle::none, {{4, 3, 1, -1, 2}});
  store<5>(report, "5 dimensions of double, stored over edges", five, Swizzle::none, {{2, 1, 1, 0, 2}});

  const Tensor<__nv_bfloat16> half({{.extent = 60, .box = 16}, {.extent = 20, .stride = 128, .box = 8}}, seed + 4);
  load<2>(report, "bf16, a row that ends inside 16 bytes, NaN there", half, Swizzle::bytes_32, {{48, 15}}, 0,
          OutOfBounds::nan);
  load<2>(report, "bf16, the same with zeros", half, Swizzle::bytes_32, {{48, 15}});
  store<2>(report, "bf16, stored to a row that ends inside 16 bytes", half, Swizzle::bytes_32, {{48, 15}});
  const Tensor<__half> fp16({{.extent = 40, .box = 16}, {.extent = 20, .stride = 96, .box = 8}}, seed + 5);
  load<2>(report, "f16, NaN beyond the edge", fp16, Swizzle::none, {{32, -4}}, 0, OutOfBounds::nan);
}

void reductions(Report& report) {
  const Tensor<uint32_t> words({{.extent = 24, .box = 8}, {.extent = 30, .stride = 96, .box = 16}}, report.seed());
  store<2>(report, "u32 added", words, Swizzle::bytes_32, {{8, 3}}, 0, Action::add);
  store<2>(report, "u32 minimum", words, Swizzle::none, {{0, 10}}, 0, Action::min);
  store<2>(report, "u32 exclusive or, over the edges", words, Swizzle::bytes_32, {{16, 20}}, 0, Action::bit_xor);
  const Tensor<int32_t> integers({{.extent = 24, .box = 8}, {.extent = 30, .stride = 96, .box = 16}}, report.seed());
  store<2>(report, "s32 minimum", integers, Swizzle::bytes_32, {{8, 3}}, 0, Action::min);
  const Tensor<uint64_t> wide({{.extent = 12, .box = 4}, {.extent = 30, .stride = 96, .box = 16}}, report.seed());
  store<2>(report, "u64 added", wide, Swizzle::bytes_32, {{4, 3}}, 0, Action::add);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    every_swizzle(report);
    every_rank(report);
    reductions(report);
  });
}
