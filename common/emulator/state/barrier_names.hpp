// Names for mbarriers that are members of something: "storage.empty[1]", where PTX knows only the bytes of `storage`.
//
// They are read from the source: the expression by which the program's line initialises the barrier, with parameters of
// inlined functions replaced by what the call passes. A name is given only where the text leaves no choice: not where
// the source is missing or newer than the program, nor where the position in an array does not follow from a loop that
// counts from 0. What calls barriers by name is `Kernel::name_of_barrier`.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace stagecraft::emulator::machine {

class Kernel;

class BarrierNames {
 public:
  /// A launch begins: where its barriers are may depend on its arguments.
  void forget();
  /// Notes that an instruction has initialised a barrier. Blocks that run at the same time may call it.
  void note(uint32_t offset, uint32_t pc);
  /// The name of the barrier at an offset of shared memory; empty where none is certain.
  std::string name_of(const Kernel& kernel, uint32_t offset);

 private:
  std::mutex mutex_;
  std::map<uint32_t, std::set<uint32_t>> initialised_by_;  ///< pcs, by offset
  std::map<uint32_t, std::string> names_;                  ///< by offset
  bool is_current_ = true;                                 ///< names_ is of all of initialised_by_
};

}  // namespace stagecraft::emulator::machine
