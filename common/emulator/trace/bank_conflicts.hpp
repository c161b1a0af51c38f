// How shared memory serves a kernel's loads and stores: in how many passes over its banks.
//
// Shared memory has 32 banks; bank i holds the 4-byte words whose number is i modulo 32. In one pass, a *wavefront*,
// each bank delivers or takes one word, to or from all lanes that access that word. For accesses of 8 bytes per lane,
// each half of the warp is served separately; for 16 bytes, each quarter. Loads serve twice as many lanes at once when
// each even lane reads what the next one reads. ldmatrix and stmatrix serve the 8 rows of each matrix separately.
//
// Sources: CUDA C++ Programming Guide, "Shared Memory", for the banks and for words that several lanes read. The rest
// was measured on an H200, as the cycles that a request takes where 32 warps repeat one: loads of 4, 8 and 16 bytes and
// stores of 8 and 16, ten regular patterns and a hundred random ones each. Matrix transfers were not measured.
//
// Asynchronous copies and the tensor core are not counted, nor are atomic operations.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::trace {

inline constexpr uint32_t kBanks = 32;
inline constexpr uint32_t kBankBytes = 4;

/// Wavefronts that one instruction of a warp takes when these lanes access `bytes` bytes each.
/// @param addresses  by lane; shared addresses, multiples of `bytes`.
uint32_t wavefronts_of(const uint32_t* addresses, machine::LaneMask lanes, uint32_t bytes, bool load);
/// Wavefronts without any conflict, when all lanes access different bytes.
uint32_t fewest_wavefronts(machine::LaneMask lanes, uint32_t bytes);

/// The sum of the accesses of one line.
struct LineTraffic {
  std::string source;       ///< "transpose.cu:41"; empty when unknown
  std::string instruction;  ///< "ld.shared.f32"
  uint64_t requests = 0;    ///< executions by a warp
  uint64_t wavefronts = 0;
  uint64_t fewest = 0;  ///< wavefronts without any conflict
};

class BankConflicts : public machine::Observer {
 public:
  bool wants_memory_events() const override { return true; }
  void grid_started(const machine::Grid& grid) override;
  void memory_accessed(const machine::MemoryAccess& access) override;

  /// The lines of the last launch, in the order of the code.
  std::vector<LineTraffic> lines() const;
  /// A table; empty when shared memory was not accessed.
  std::string text() const;
  nlohmann::json json() const;

 private:
  struct Traffic {
    uint64_t requests = 0, wavefronts = 0, fewest = 0;
  };
  const machine::Kernel* kernel_ = nullptr;
  std::map<uint32_t, Traffic> by_pc_;
};

}  // namespace stagecraft::emulator::trace
