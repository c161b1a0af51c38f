// The GEMM for Hopper, for programs: the kernel's configurations, which of them suits a product, and how it is started.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "stagecraft/hopper_gemm/product.hpp"

namespace stagecraft {

/// A configuration of the kernel.
enum class TwinKind {
  standard,   ///< tiles of 128 x 256, pairs of blocks share a tile of B
  halved,     ///< the same, and those of the last round are halved
  large,      ///< tiles of 256 x 192, which move fewer bytes for each sum; those of the last round are halved
  tall_144,   ///< tiles of 256 x 144, in the same way as those of 256 x 192
  tall_160,   ///< tiles of 256 x 160
  tall_176,   ///< tiles of 256 x 176
  tall_200,   ///< tiles of 256 x 200
  thin,       ///< tiles of 128 x 128, pairs share a tile of A; cut along K where there are few, as all that follow
  thin_rows,  ///< the same, but pairs share a tile of B
  thin_112,   ///< tiles of 128 x 112, pairs share a tile of A
  thin_144,   ///< tiles of 128 x 144, pairs share a tile of B
  thin_144_columns,  ///< tiles of 128 x 144, pairs share a tile of A
  thin_160,          ///< tiles of 128 x 160, pairs share a tile of A
  quad_112,          ///< tiles of 128 x 112, four blocks share two tiles of A and two of B
  quad_176,          ///< tiles of 128 x 176, shared in the same way
  wide_176,          ///< tiles of 128 x 176, pairs share a tile of A; stored when they are finished
  wide_192,          ///< tiles of 128 x 192
  wide_208,          ///< tiles of 128 x 208, pairs share a tile of A
  wide_208_rows,     ///< tiles of 128 x 208, pairs share a tile of B
  wide_224,          ///< tiles of 128 x 224, pairs share a tile of A
  wide_224_rows,     ///< tiles of 128 x 224, pairs share a tile of B
  wide_256,          ///< tiles of 128 x 256, pairs share a tile of A
  flat,              ///< tiles of 128 x 64, by blocks alone: for few tiles in all
  low,               ///< tiles of 64 x 128, pairs share a tile of B: for few rows
  low_64,            ///< tiles of 64 x 64, pairs share a tile of B
  low_alone,         ///< tiles of 64 x 64, by blocks alone
  split,          ///< tiles of 64 x 128, each by two blocks, which compute half of K each and add up half of the rows
  split_64,       ///< tiles of 64 x 64, in the same way
  split_80,       ///< tiles of 64 x 80
  split_tall_64,  ///< tiles of 128 x 64
  split_tall_80,  ///< tiles of 128 x 80
  split_high_80,  ///< tiles of 256 x 80
  split_high_96,  ///< tiles of 256 x 96
  swapped_16,     ///< C transposed, by tiles of 16 rows and 64 columns of C: for fewer rows than a tile of A has
  swapped_32,     ///< 32 rows and 64 columns
  swapped_56,     ///< 56 rows and 64 columns, pairs share a tile of B
  swapped_72,     ///< 72 rows and 128 columns, pairs share a tile of B, as in the next two
  swapped_104,    ///< 104 rows and 128 columns
  swapped_136,    ///< 136 rows and 128 columns
  swapped_128,    ///< 128 rows and 64 columns, four blocks share a tile of A
  swapped_96,     ///< 96 rows and 128 columns, pairs share a tile of A
  swapped_112,    ///< 112 rows and 128 columns, four blocks share two tiles of A and two of B
  swapped_112_narrow,  ///< 112 rows and 64 columns, four blocks share two tiles of A and two of B
  swapped_160,         ///< 160 rows and 128 columns, pairs share a tile of A
  swapped_192,         ///< 192 rows and 64 columns
  swapped_208,         ///< 208 rows and 64 columns, four blocks share two tiles of A and two of B
  by_threads,          ///< as standard, but the threads store C: for rows that do not start on 16-byte boundaries
  thin_by_threads,     ///< as thin, stored in that way
  flat_by_threads,     ///< as flat, stored in that way
};

/// All of them.
inline constexpr auto kTwinKinds = [] {
  std::array<TwinKind, static_cast<size_t>(TwinKind::flat_by_threads) + 1> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<TwinKind>(i);
  return all;
}();

/// How a product is computed.
struct TwinChoice {
  TwinKind kind = TwinKind::standard;  ///< the configuration
  int band = 0;                        ///< rows of clusters that are gone through together; 0: what usually suits it

  /// The same choice.
  bool operator==(const TwinChoice&) const = default;
};

/// What the command `tune` found on a device for a product, if it was asked for this very one: tuned.inc.
/// @param device  its name.
std::optional<TwinChoice> find_tuned(std::string_view device, OperandType type, int64_t m, int64_t n, int64_t k);

/// The configuration that is expected to be the fastest, for products that were not tuned.
///
/// It counts how long a multiprocessor computes at most, in rounds and half rounds of tiles. Tiles of 256 rows are
/// expected to take 1 to 2.5% less for the same work, because the chip's clock is bound by its power and they use less
/// of it, but one and a half k-tiles more each, because they are not stored while the next is multiplied.
/// @param k_tiles          of 128 bytes along K.
/// @param multiprocessors  of the device.
TwinKind choose_twin(int64_t m, int64_t n, int64_t k_tiles, int multiprocessors);

/// What the current device is to do: as tuned, or else as expected.
TwinChoice choose_twin(const MatrixProduct& product);

/// Whether the threads of a configuration store C.
constexpr bool stores_by_threads(TwinKind kind) {
  return kind == TwinKind::by_threads || kind == TwinKind::thin_by_threads || kind == TwinKind::flat_by_threads;
}

/// Whether a configuration can compute a product: rows of C must be multiples of 16 bytes, unless the threads store
/// them. (Rows of A and B that are none are copied first: PaddedRows.)
bool takes(TwinKind kind, const MatrixProduct& product);

/// The name of a configuration, as in the enumeration.
const char* name_of(TwinKind kind);

/// Prepares a product by this choice, on the current device. Start it, and copies of it, on one
/// stream: they share memory of the device for partial sums.
/// @throws TensorMapError for sizes that TMA cannot take: see `takes()`.
/// @throws harness::CudaError when a call of CUDA fails; so does the launch.
Launch prepare_twin(const TwinChoice& choice, const MatrixProduct& product);

}  // namespace stagecraft
