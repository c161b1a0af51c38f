// The container that nvcc and fatbinary write: a header and entries of PTX and machine code.
//
// The layout was read from programs built with nvcc 13.0.88; NVIDIA does not document it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/fatbin/error.hpp"

namespace stagecraft::emulator::fatbin {

inline constexpr uint32_t kWrapperMagic = 0x466243B1;
inline constexpr uint32_t kContainerMagic = 0xBA55ED50;

enum class EntryKind : uint16_t { ptx = 1, elf = 2 };
enum class Compression : uint8_t { none, lz4_block, zstd };

/// How far code compiled for a compute capability reaches: `sm_90` runs on it and on all later ones, `sm_100f` within
/// its family, `sm_100a` on that chip alone.
enum class TargetKind : uint8_t { generic, family, exact };

struct Target {
  uint32_t sm = 0;  ///< 100 for compute capability 10.0
  TargetKind kind = TargetKind::generic;

  std::string name() const;  ///< "sm_100a"
  bool operator==(const Target&) const = default;
};

/// One entry; `payload` points into the container.
struct Entry {
  uint32_t number = 0;  ///< place in the container, from 1, for messages
  EntryKind kind = EntryKind::ptx;
  Target target;
  Compression compression = Compression::none;
  std::span<const std::byte> payload;
  uint64_t uncompressed_size = 0;  ///< in bytes, of a compressed entry
};

/// Total bytes of the container that begins here, as its header says. Throws when the bytes do not begin with a header.
uint64_t container_size(std::span<const std::byte> bytes);

/// All entries of PTX and machine code; entries of other kinds (NVVM IR, options) are skipped. Never reads outside
/// `bytes`. Throws Error of kind `corrupt`.
std::vector<Entry> read_container(std::span<const std::byte> bytes);

/// The entry's content: PTX text without trailing zeros, or an ELF image. Throws Error of kind `corrupt`.
std::string read_payload(const Entry& entry);

}  // namespace stagecraft::emulator::fatbin
