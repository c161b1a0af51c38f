// Contexts of the driver API: the device's primary one, those that cuCtxCreate makes, and each thread's stack of them.
//
// There is one device, and memory, streams and events belong to it whatever the context; a context owns the modules
// that were loaded while it was current.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "emulator/runtime/model/cuda_headers.hpp"

namespace stagecraft::emulator::runtime {

struct Context {
  uint64_t id = 0;
  unsigned flags = 0;
};

/// Owner of all contexts. Every function that throws throws ApiError.
class Contexts {
 public:
  Context& primary() { return primary_; }
  /// Keeps the primary context active until it is released as often.
  void retain_primary() { ++primary_users_; }
  /// Throws (cudaErrorDeviceUninitialized) when nobody has retained it.
  void release_primary();
  bool primary_is_retained() const { return primary_users_ > 0; }

  Context& create(unsigned flags);
  /// Throws: cudaErrorInvalidValue for null, cudaErrorDeviceUninitialized for a pointer to no context.
  Context& require(CUcontext handle);
  /// Destroys the context and removes it from the top of this thread's stack. Throws for the primary context.
  void destroy(Context& context);

  /// This thread's current context, or null. A context that another thread destroyed is still current.
  Context* current() const;
  bool is_live(const Context* context) const;
  void push(Context& context);
  /// Throws (cudaErrorDeviceUninitialized) when the stack is empty.
  Context& pop();
  /// Replaces the current context; null only removes it.
  void set_current(Context* context);

 private:
  Context primary_{1, 0};
  uint64_t primary_users_ = 0;
  uint64_t next_id_ = 2;
  std::unordered_map<const Context*, std::unique_ptr<Context>> created_;
};

}  // namespace stagecraft::emulator::runtime
