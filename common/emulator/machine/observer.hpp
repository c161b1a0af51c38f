// Typed events of a run. The machine announces them; checks and traces listen. A run without observers announces none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/machine/lanes.hpp"

namespace stagecraft::emulator::machine {

struct Block;
struct Cluster;
struct Fragment;
struct Grid;
struct Fault;

/// Where something happened, ready to be printed.
struct Place {
  std::string kernel;       ///< demangled, without parameters
  std::string source_file;  ///< file of the kernel's first line; empty when unknown
  bool has_block = false;
  uint32_t block_x = 0, block_y = 0, block_z = 0;
  bool has_warp = false;
  uint32_t warp = 0;
  LaneMask lanes = 0;
  std::string source;       ///< "gemm.cu:88"; empty when unknown
  std::string instruction;  ///< "st.global.f32"
};

/// A finding about a program, for people and for tools.
struct Diagnostic {
  std::string kind;     ///< "deadlock", "illegal address", "tensor memory leak", ...
  std::string message;  ///< one line: what happened
  Place place;
  std::vector<std::string> details;  ///< what is legal, what was found nearby
  std::string likely_cause;          ///< empty when nothing can be said
};

enum class BarrierEventKind : uint8_t { init, invalidate, arrive, expect_tx, complete_tx, phase_complete, wait };

struct BarrierEvent {
  BarrierEventKind kind;
  Block* block;        ///< that holds the barrier
  uint32_t offset;     ///< of the barrier in the block's shared memory
  uint64_t phase;      ///< phases completed before the event
  uint32_t amount;     ///< arrivals or bytes
  Fragment* fragment;  ///< who did it; null for an asynchronous engine
  LaneMask lanes;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void grid_started(Grid&) {}
  virtual void grid_finished(Grid&) {}
  virtual void block_started(Block&) {}
  virtual void block_finished(Block&) {}
  virtual void fragment_blocked(Fragment&) {}
  virtual void fragment_woken(Fragment&) {}
  virtual void barrier(const BarrierEvent&) {}
  /// Nothing in the cluster can go on, and nothing outside it will change that.
  virtual void cluster_stuck(Cluster&) {}
  /// What the observer has found wrong, asked for once when the grid has ended.
  virtual std::vector<Diagnostic> findings() { return {}; }
};

}  // namespace stagecraft::emulator::machine
