// The exception that an instruction throws when the chip would stop the kernel.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {

/// The kinds of fault, named for the CUDA error that a real driver returns (runtime/model/errors.cpp).
enum class FaultKind {
  illegal_address,        ///< cudaErrorIllegalAddress (700): outside every allocation, or freed
  misaligned_address,     ///< cudaErrorMisalignedAddress (716)
  illegal_instruction,    ///< cudaErrorIllegalInstruction (715): operands the instruction cannot have
  invalid_address_space,  ///< cudaErrorInvalidAddressSpace (717)
  invalid_pc,             ///< cudaErrorIllegalAddress (700), as an H200 said: a call through a bad function pointer
  stack_overflow,         ///< cudaErrorIllegalAddress (700), as an H200 said: recursion beyond the stack
  assertion,              ///< cudaErrorAssert (710)
  launch_failure,         ///< cudaErrorLaunchFailure (719): trap, and whatever the chip reports without a name
  deadlock,               ///< cudaErrorLaunchTimeout (702): the chip would hang
  host_memory,            ///< cudaErrorMemoryAllocation (2): the host has too little for what the kernel touches
  timeout,                ///< cudaErrorLaunchTimeout (702): it was stopped by the user, or by a limit
};

/// Is thrown by instruction handlers. The launch loop adds the place (kernel, block, warp, source line), ends the
/// kernel, and passes the result to the runtime; the host program goes on.
struct Fault : std::exception {
  FaultKind kind;
  std::string message;               ///< one line: what happened
  std::vector<std::string> details;  ///< further lines: what is legal, what was found nearby, what to try
  LaneMask lanes = 0;                ///< the lanes at fault; 0 when all the active ones are
  std::string name;                  ///< what the report calls it; when empty, the name of its kind
  std::string likely_cause;          ///< empty when unknown

  Fault(FaultKind kind, std::string message, std::vector<std::string> details = {}, LaneMask lanes = 0)
      : kind(kind), message(std::move(message)), details(std::move(details)), lanes(lanes) {}
  const char* what() const noexcept override { return message.c_str(); }
};

}  // namespace stagecraft::emulator::machine
