// Finds tiles in shared memory that are not aligned: those whose swizzle begins elsewhere than its pattern does
// (misaligned tile), and those of copies that are at a right address only because of the variables beside them
// (misaligned address).
#pragma once

#include <cstdint>
#include <set>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class AlignmentCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) override;

 private:
  /// Holds what a copy needs against what is declared. Where the address is rounded, it is right wherever the variable
  /// is.
  void check_declaration(const ClusterRecord& cluster, const machine::AsyncOperation& copy);
  void report_misaligned(const ClusterRecord& cluster, const machine::AsyncOperation& operation,
                         const machine::MatrixRead& matrix, uint32_t period, uint32_t beyond);

  std::set<uint32_t> judged_;  ///< copies whose declaration is known, by pc
};

}  // namespace stagecraft::emulator::checks
