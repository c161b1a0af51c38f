// The chips that can be emulated: their limits and their latencies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::emulator::machine {

/// Bytes of each block's shared memory that the system uses: the first user byte of its window is at 0x400.
inline constexpr uint32_t kSharedReservedBytes = 1024;

/// Limits of one chip, from its data sheet and from the CUDA programming guide's table of compute capabilities.
struct Architecture {
  std::string name;    ///< as the device's name is reported
  std::string target;  ///< the PTX target it runs: "sm_100a"
  uint32_t major = 0, minor = 0;
  uint32_t multiprocessors = 0;
  uint32_t clock_khz = 0;  ///< the highest, as the device reports it
  uint32_t memory_clock_khz = 0;
  uint32_t memory_bus_bits = 0;
  uint64_t memory_bytes = 0;
  uint32_t l2_bytes = 0;
  uint32_t shared_per_multiprocessor = 0;
  uint32_t shared_per_block = 0;        ///< without opting in: 48 KiB
  uint32_t shared_per_block_optin = 0;  ///< 227 KiB, or 99
  uint32_t registers_per_multiprocessor = 0;
  uint32_t threads_per_multiprocessor = 0;
  uint32_t blocks_per_multiprocessor = 0;
  uint32_t threads_per_block = 0;
  uint32_t cluster_blocks = 0;  ///< portable limit: 8
  uint32_t cluster_blocks_nonportable = 0;
  uint32_t tensor_memory_columns = 0;  ///< 512, or 0 where there is no tensor memory
  uint32_t copy_engines = 0;
  uint32_t singles_per_double = 0;  ///< ratio of the rates of f32 and f64
  bool integrated = false;          ///< shares its memory with the host's processor

  bool has_tensor_memory() const { return tensor_memory_columns != 0; }
  /// A GeForce RTX 50, an RTX PRO Blackwell or a DGX Spark, which has Blackwell's formats and none of tcgen05.
  bool is_desktop_blackwell() const { return major == 12; }
};

//! [latencies]
/// Virtual cycles between the issue of an operation and its completion. These are rough figures, for the order of
/// events and for timelines; no claim about the chip's speed is based on them. Only the rate of multiply-accumulates is
/// that of the chip: NVIDIA's dense bf16 rates, 2.25 PFLOP/s for a B200 and 989 TFLOP/s for an H200, are so many on
/// each multiprocessor in each cycle of a clock somewhat below the highest.
struct Latencies {
  uint32_t global_load = 400;  ///< of a cp.async
  uint32_t bulk_copy = 700;    ///< until the first byte of a bulk or tensor copy
  uint32_t bulk_bytes_per_cycle = 32;
  uint32_t mma_setup = 40;             ///< of one tcgen05.mma or wgmma.mma_async, in addition to its arithmetic
  uint32_t mma_macs_per_cycle = 4096;  ///< of a multiprocessor, for 16-bit types; 2048 on an H200
  uint32_t try_wait_limit = 20'000;    ///< longest sleep of one mbarrier.try_wait without a hint
};
//! [latencies]

const Architecture& b200();
const Architecture& h200();
const Architecture& rtx5090();
/// The GB10 of a DGX Spark.
const Architecture& spark();
/// The chip of one of `architecture_names()`, in any case; null for another name.
const Architecture* find_architecture(std::string_view name);
/// `"b200"`, which is the default, and the others in the order in which they are offered.
std::vector<std::string> architecture_names();
const Latencies& latencies_of(const Architecture& architecture);

}  // namespace stagecraft::emulator::machine
