#include "emulator/chip/architecture.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace stagecraft::emulator::machine {

namespace {

// Limits per block and per multiprocessor: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability"; those of the H200 also as cudaGetDeviceProperties returns them on the chip. The B200's clock is the
// one at which SemiAnalysisAI/microbench-blackwell has measured.
Architecture make_b200() {
  Architecture chip;
  chip.name = "NVIDIA B200 (emulated)";
  chip.target = "sm_100a";
  chip.major = 10;
  chip.minor = 0;
  chip.multiprocessors = 148;
  chip.clock_khz = 1'965'000;
  chip.memory_clock_khz = 3'996'000;
  chip.memory_bus_bits = 7680;
  chip.memory_bytes = uint64_t{180} << 30;
  chip.l2_bytes = 126u << 20;
  chip.shared_per_multiprocessor = 228 * 1024;
  chip.shared_per_block = 48 * 1024;
  chip.shared_per_block_optin = 227 * 1024;
  chip.registers_per_multiprocessor = 65536;
  chip.threads_per_multiprocessor = 2048;
  chip.blocks_per_multiprocessor = 32;
  chip.threads_per_block = 1024;
  chip.cluster_blocks = 8;
  chip.cluster_blocks_nonportable = 16;
  chip.tensor_memory_columns = 512;
  chip.copy_engines = 3;  // measured on an H200
  chip.singles_per_double = 2;
  return chip;
}

Architecture make_h200() {
  Architecture chip = make_b200();
  chip.name = "NVIDIA H200 (emulated)";
  chip.target = "sm_90a";
  chip.major = 9;
  chip.multiprocessors = 132;
  chip.clock_khz = 1'980'000;
  chip.memory_clock_khz = 3'201'000;
  chip.memory_bus_bits = 6144;
  chip.memory_bytes = uint64_t{141} << 30;
  chip.l2_bytes = 60u << 20;
  chip.tensor_memory_columns = 0;
  return chip;
}

/// What chips of compute capability 12.x have in common. Blocks per multiprocessor: cuda_occupancy.h of CUDA 13.0 (the
/// Blackwell tuning guide says 32). A cluster of more than 8 blocks is refused: no source shows one that ran on 12.x,
/// and NVIDIA Warp's documentation has 8 for a Spark, and 16 "typically" for "Blackwell desktop parts".
Architecture make_consumer_blackwell() {
  Architecture chip = make_b200();
  chip.major = 12;
  chip.shared_per_multiprocessor = 100 * 1024;
  chip.shared_per_block_optin = 99 * 1024;
  chip.threads_per_multiprocessor = 1536;
  chip.blocks_per_multiprocessor = 24;
  chip.cluster_blocks_nonportable = 8;
  chip.tensor_memory_columns = 0;
  chip.singles_per_double = 64;
  return chip;
}

// Multiprocessors, memory and L2: NVIDIA RTX Blackwell GPU Architecture, appendix A. The clocks and the copy engines
// are what deviceQuery prints for NVIDIA's own card; other makers' report up to 2655 MHz, and all a little less than 32
// GiB.
Architecture make_rtx5090() {
  Architecture chip = make_consumer_blackwell();
  chip.name = "NVIDIA GeForce RTX 5090 (emulated)";
  chip.target = "sm_120a";
  chip.minor = 0;
  chip.multiprocessors = 170;
  chip.clock_khz = 2'407'000;
  chip.memory_clock_khz = 14'001'000;
  chip.memory_bus_bits = 512;
  chip.memory_bytes = uint64_t{32} << 30;
  chip.l2_bytes = 96u << 20;
  chip.copy_engines = 2;
  return chip;
}

// As deviceQuery prints it (blog.kubesimplify.com, 7 days of DGX Spark, day 3), which is 273 GB/s at one transfer in
// each cycle of the memory's clock, as NVIDIA's page of the DGX Spark says.
Architecture make_spark() {
  Architecture chip = make_consumer_blackwell();
  chip.name = "NVIDIA GB10 (emulated)";
  chip.target = "sm_121a";
  chip.minor = 1;
  chip.multiprocessors = 48;
  chip.clock_khz = 2'418'000;
  chip.memory_clock_khz = 8'533'000;
  chip.memory_bus_bits = 256;
  chip.memory_bytes = uint64_t{122'570} << 20;
  chip.l2_bytes = 24u << 20;
  chip.copy_engines = 1;
  chip.integrated = true;
  return chip;
}

}  // namespace

const Architecture& b200() {
  static const Architecture chip = make_b200();
  return chip;
}

const Architecture& h200() {
  static const Architecture chip = make_h200();
  return chip;
}

const Architecture& rtx5090() {
  static const Architecture chip = make_rtx5090();
  return chip;
}

const Architecture& spark() {
  static const Architecture chip = make_spark();
  return chip;
}

namespace {

using Chip = std::pair<std::string_view, const Architecture& (*)()>;
constexpr std::array<Chip, 4> kChips{{{"b200", b200}, {"h200", h200}, {"rtx5090", rtx5090}, {"spark", spark}}};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* found = std::find_if(kChips.begin(), kChips.end(), [&](const Chip& chip) { return chip.first == lower; });
  return found == kChips.end() ? nullptr : &found->second();
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Chip& chip : kChips) names.emplace_back(chip.first);
  return names;
}

const Latencies& latencies_of(const Architecture& architecture) {
  static const Latencies blackwell, hopper{.mma_macs_per_cycle = 2048};
  return architecture.major < 10 ? hopper : blackwell;
}

}  // namespace stagecraft::emulator::machine
