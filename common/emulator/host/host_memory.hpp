// How much memory the host has left, so that device memory is refused before the host's kernel ends the process.
//
// Device memory costs host memory only when it is touched. Code that is about to touch some of it asks first
// (`must_look`); a running kernel, of which nobody knows what it will touch, asks from time to time
// (`is_time_to_look`).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace stagecraft::emulator::machine {

class HostMemory {
 public:
  /// @param root  where proc/ and sys/ are; other than "" in tests.
  explicit HostMemory(std::string root = {});

  /// Limits the memory of the process, in bytes; 0: the host alone limits it.
  void limit(uint64_t bytes) { limit_ = bytes; }

  /// Bytes that the process can still touch and leave the host its reserve: the least of what the host has available
  /// with its swap space, what each control group of the process permits, and the limit. Reads files of the host's
  /// kernel, which takes some 0.1 ms. Without such files everything is available.
  uint64_t room() const;

  /// Whether to ask for `room` before `bytes` are touched. Small pieces are counted, and looked at together.
  bool must_look(uint64_t bytes);

  /// Whether what was left at the last look could be used up by now. May be called by several threads; takes some
  /// nanoseconds.
  bool is_time_to_look() const;
  /// Looks; returns whether there is room, and plans the next look.
  bool has_room_now();

 private:
  /// A folder of a control group that has a limit.
  struct Group {
    std::string folder;
    bool is_second_version = false;
  };
  void find_groups();
  uint64_t left_in(const Group& group, uint64_t swap_free) const;

  std::string root_;
  std::vector<Group> groups_;
  uint64_t limit_ = 0;
  uint64_t untested_ = 0;               ///< bytes of small pieces since the last look
  std::atomic<int64_t> next_look_ = 0;  ///< nanoseconds of the steady clock
};

/// Bytes of the pages of a range that are not in memory, so that touching them costs some.
uint64_t absent_bytes(const void* pointer, uint64_t bytes);

}  // namespace stagecraft::emulator::machine
