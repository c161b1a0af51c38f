// The kernel's configurations, and which of them suits a product.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "contenders.hpp"

namespace stagecraft {

/// A configuration of the kernel.
enum class TwinKind {
  standard,   ///< tiles of 128 x 256, pairs of blocks share a tile of B
  halved,     ///< the same, and those of the last round are halved
  large,      ///< tiles of 256 x 192, which move fewer bytes for each sum; those of the last round are halved
  thin,       ///< tiles of 128 x 128, pairs share a tile of A; cut along K where there are few, as all that follow
  thin_rows,  ///< the same, but pairs share a tile of B
  thin_112,   ///< tiles of 128 x 112, pairs share a tile of A
  thin_144,   ///< tiles of 128 x 144, pairs share a tile of B
  thin_144_columns,  ///< tiles of 128 x 144, pairs share a tile of A
  thin_160,          ///< tiles of 128 x 160, pairs share a tile of A
  quad_112,          ///< tiles of 128 x 112, four blocks share two tiles of A and two of B
  wide_192,          ///< tiles of 128 x 192, pairs share a tile of A; stored when they are finished
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
  swapped_96,     ///< 96 rows and 128 columns, pairs share a tile of A
  swapped_160,    ///< 160 rows and 128 columns, pairs share a tile of A
  swapped_192,    ///< 192 rows and 64 columns
  by_threads,     ///< as standard, but the threads store C: for rows that do not start on 16-byte boundaries
};

/// All of them.
inline constexpr TwinKind kTwinKinds[] = {
    TwinKind::standard,      TwinKind::halved,        TwinKind::large,         TwinKind::thin,
    TwinKind::thin_rows,     TwinKind::thin_112,      TwinKind::thin_144,      TwinKind::thin_144_columns,
    TwinKind::thin_160,      TwinKind::quad_112,      TwinKind::wide_192,      TwinKind::wide_208,
    TwinKind::wide_208_rows, TwinKind::wide_224,      TwinKind::wide_224_rows, TwinKind::wide_256,
    TwinKind::flat,          TwinKind::low,           TwinKind::low_64,        TwinKind::low_alone,
    TwinKind::split,         TwinKind::split_64,      TwinKind::split_80,      TwinKind::split_tall_64,
    TwinKind::split_tall_80, TwinKind::split_high_80, TwinKind::split_high_96, TwinKind::swapped_16,
    TwinKind::swapped_32,    TwinKind::swapped_96,    TwinKind::swapped_160,   TwinKind::swapped_192,
    TwinKind::by_threads};

/// How a product is computed.
struct TwinChoice {
  TwinKind kind = TwinKind::standard;  ///< the configuration
  int band = 0;                        ///< rows of clusters that are gone through together; 0: what usually suits it

  /// The same choice.
  bool operator==(const TwinChoice&) const = default;
};

/// What `./stagecraft tune` found on a device for a product, if it was asked for this very one: tuned.inc.
/// @param device  its name.
std::optional<TwinChoice> find_tuned(std::string_view device, OperandType type, int64_t m, int64_t n, int64_t k);

/// The configuration that is expected to be the fastest, for products that were not tuned.
///
/// It counts how long a multiprocessor computes at most, in rounds and half rounds of tiles. Large tiles are expected
/// to take 2% less for the same work, because the chip's clock is bound by its power and they use less of it, but one
/// and a half k-tiles more each, because they are not stored while the next is multiplied.
/// @param k_tiles          of 128 bytes along K.
/// @param multiprocessors  of the device.
TwinKind choose_twin(int64_t m, int64_t n, int64_t k_tiles, int multiprocessors);

/// What the current device is to do: as tuned, or else as expected.
TwinChoice choose_twin(const MatrixProduct& product);

/// Whether a configuration can compute a product: rows of A and B must be multiples of 16 bytes, and those of C too,
/// unless the threads store them.
bool takes(TwinKind kind, const MatrixProduct& product);

/// The name of a configuration, as in the enumeration.
const char* name_of(TwinKind kind);

/// Prepares a product by this choice, on the current device.
/// @throws TensorMapError for sizes that the copy engine cannot take: see `takes()`.
Launch prepare_twin(const TwinChoice& choice, const MatrixProduct& product);

}  // namespace stagecraft
