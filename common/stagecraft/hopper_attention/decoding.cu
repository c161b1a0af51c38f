#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "stagecraft/hopper_attention/decoding.cuh"
#include "stagecraft/hopper_attention/decoding.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

namespace {

void require(bool is_legal, const std::string& message) {
  if (!is_legal) throw std::invalid_argument("decoding: " + message);
}

void check_inputs(const DecodingInputs& inputs) {
  const auto text = [](auto value) { return std::to_string(value); };
  require(inputs.head_dim == 64 || inputs.head_dim == 128,
          "head_dim = " + text(inputs.head_dim) + "; 64 and 128 are legal");
  require(inputs.sequences >= 1 && inputs.key_heads >= 1, "there must be a sequence and a key head at least");
  require(inputs.heads % inputs.key_heads == 0 && inputs.heads / inputs.key_heads >= 1 &&
              inputs.heads / inputs.key_heads <= 16,
          text(inputs.heads) + " heads for " + text(inputs.key_heads) +
              " key heads; a key head can have 1 to 16 query heads, each as many");
  require(inputs.longest >= 0, "longest = " + text(inputs.longest) + "; it is a number of keys");
  require(inputs.page_tokens >= 1 && inputs.pages >= 1, "a cache needs a page of a token at least");
  if (inputs.page_table == nullptr) {
    require(inputs.pages >= inputs.sequences && inputs.page_tokens >= inputs.longest,
            "without a page table, each sequence has a page of its own, with room for `longest` tokens");
  } else {
    require(inputs.page_tokens % 16 == 0,
            "pages of " + text(inputs.page_tokens) + " tokens; multiples of 16 are legal");
    require(int64_t{inputs.pages_per_sequence} * inputs.page_tokens >= inputs.longest,
            "a row of the page table has fewer tokens than `longest`");
  }
  const int64_t tiles = (int64_t{inputs.longest} + 31) / 32 * inputs.sequences * inputs.key_heads;
  require(tiles < int64_t{1} << 31, "more than 2^31 tiles of 32 keys");
}

template <FragmentElement Element>
CUtensorMap map_of_cache(const DecodingInputs& inputs, const void* cache, int box_tokens) {
  const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements) * sizeof(Element); };
  using AnyTile = typename Decoding<Element, 64>::CacheTile;
  return make_tensor_map(static_cast<const Element*>(cache),
                         {{.extent = static_cast<uint64_t>(inputs.head_dim), .box = AnyTile::box_elements},
                          {.extent = static_cast<uint64_t>(inputs.page_tokens),
                           .stride = bytes(inputs.token_stride),
                           .box = static_cast<uint32_t>(box_tokens)},
                          {.extent = static_cast<uint64_t>(inputs.key_heads), .stride = bytes(inputs.head_stride)},
                          {.extent = static_cast<uint64_t>(inputs.pages), .stride = bytes(inputs.page_stride)}},
                         AnyTile::swizzle);
}

template <FragmentElement Element, int HeadDim>
std::function<void(cudaStream_t)> prepare(const DecodingInputs& inputs) {
  using D = Decoding<Element, HeadDim>;
  const LaunchOptions first{.block = D::kThreads, .dynamic_shared_bytes = sizeof(typename D::Shared)};
  uint32_t resident = 0;
  harness::check(find_resident_clusters(hopper_decode<Element, HeadDim>, first, resident), "ask how many blocks fit");
  const int64_t tiles = (int64_t{inputs.longest} + D::kKeys - 1) / D::kKeys * inputs.sequences * inputs.key_heads;
  const auto blocks = static_cast<int>(std::clamp<int64_t>(tiles, 1, resident));
  auto parts = std::make_shared<harness::DeviceBuffer<typename D::Part>>(2 * blocks, "parts of items");
  const auto items = static_cast<size_t>(inputs.sequences) * inputs.key_heads;
  auto delivered = std::make_shared<harness::DeviceBuffer<uint32_t>>(items, "numbers of parts");
  harness::check(cudaMemset(delivered->data(), 0, delivered->bytes()), "clear the numbers of parts");
  int box_tokens = D::kKeys;
  while (inputs.page_table != nullptr && inputs.page_tokens % box_tokens != 0) box_tokens /= 2;
  const DecodingProblem<Element> problem{
      .keys = map_of_cache<Element>(inputs, inputs.keys, box_tokens),
      .values = map_of_cache<Element>(inputs, inputs.values, box_tokens),
      .queries = static_cast<const Element*>(inputs.queries),
      .out = static_cast<Element*>(inputs.out),
      .logsumexp = inputs.logsumexp,
      .lengths = inputs.lengths,
      .page_table = inputs.page_table,
      .parts = parts->data(),
      .delivered = delivered->data(),
      .sequences = inputs.sequences,
      .heads = inputs.heads,
      .key_heads = inputs.key_heads,
      .longest = inputs.longest,
      .page_tokens = inputs.page_tokens,
      .pages_per_sequence = inputs.pages_per_sequence,
      .box_tokens = box_tokens,
      .scale_log2 = static_cast<float>(inputs.scale * M_LOG2E),
  };
  return [problem, parts, delivered, blocks, first](cudaStream_t stream) {
    LaunchOptions options = first;
    options.grid = static_cast<uint32_t>(blocks);
    options.stream = stream;
    harness::check(launch_kernel(hopper_decode<Element, HeadDim>, options, problem), "launch the decoding kernel");
  };
}

}  // namespace

std::function<void(cudaStream_t)> prepare_decoding(const DecodingInputs& inputs) {
  check_inputs(inputs);
  if (inputs.type == CacheType::bf16) {
    return inputs.head_dim == 64 ? prepare<__nv_bfloat16, 64>(inputs) : prepare<__nv_bfloat16, 128>(inputs);
  }
  return inputs.head_dim == 64 ? prepare<__half, 64>(inputs) : prepare<__half, 128>(inputs);
}

}  // namespace stagecraft
