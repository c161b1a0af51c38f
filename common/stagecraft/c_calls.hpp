// What the implementations of the C interfaces of plans share: refusals in words, and no exception that a C program
// sees.
#pragma once

#include <exception>
#include <string>

#include "stagecraft/c_types.h"
#include "stagecraft/gemm/error.hpp"

namespace stagecraft {

/// Thrown where what came from C cannot be converted; it does not leave CCalls::guarded.
struct Refused {
  std::string message;
};

/// The calls of one thread to one interface, and why the last one that failed did so.
class CCalls {
 public:
  const char* message() const { return message_.c_str(); }

  /// Keeps the message. @returns the status that says the same.
  stagecraft_status report(const GemmError& error) {
    message_ = error.message;
    switch (error.failure) {
      case GemmFailure::bad_problem: return STAGECRAFT_BAD_PROBLEM;
      case GemmFailure::no_kernel: return STAGECRAFT_NO_KERNEL;
      case GemmFailure::bad_configuration:
      case GemmFailure::no_compiler: return STAGECRAFT_BAD_CONFIGURATION;
      case GemmFailure::bad_workspace: return STAGECRAFT_BAD_WORKSPACE;
      case GemmFailure::bad_device: return STAGECRAFT_BAD_DEVICE;
      case GemmFailure::launch_failed: return STAGECRAFT_LAUNCH_FAILED;
    }
    return STAGECRAFT_OUT_OF_MEMORY;
  }

  /// Calls what may throw, and returns its status.
  template <typename Work>
  stagecraft_status guarded(const Work& work) noexcept {
    try {
      return work();
    } catch (const Refused& refused) {
      return report({GemmFailure::bad_problem, refused.message});
    } catch (const std::exception& error) {
      try {
        message_ = error.what();
      } catch (const std::exception&) {
        message_.clear();
      }
      return STAGECRAFT_OUT_OF_MEMORY;
    }
  }

 private:
  std::string message_;
};

/// The enumerator of this number, up to the last one.
/// @param name  as in "the type of A". Throws Refused.
template <typename Enum>
Enum enumerator(const char* name, int value, Enum last) {
  if (value >= 0 && value <= static_cast<int>(last)) return static_cast<Enum>(value);
  throw Refused{std::string("the ") + name + " is " + std::to_string(value) + ". Legal are 0 to " +
                std::to_string(static_cast<int>(last)) + "."};
}

}  // namespace stagecraft
