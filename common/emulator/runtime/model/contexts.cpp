#include "emulator/runtime/model/contexts.hpp"

#include <fmt/format.h>

#include <vector>

#include "emulator/runtime/model/errors.hpp"

namespace stagecraft::emulator::runtime {
namespace {

thread_local std::vector<Context*> stack;

}  // namespace

void Contexts::release_primary() {
  if (primary_users_ == 0) {
    throw ApiError(
        cudaErrorDeviceUninitialized,
        "the primary context was released as often as it was retained: one cuDevicePrimaryCtxRelease for each "
        "cuDevicePrimaryCtxRetain");
  }
  --primary_users_;
}

Context& Contexts::create(unsigned flags) {
  auto made = std::make_unique<Context>(Context{next_id_++, flags});
  Context* key = made.get();
  push(*created_.emplace(key, std::move(made)).first->second);
  return *key;
}

Context& Contexts::require(CUcontext handle) {
  if (handle == nullptr) throw ApiError(cudaErrorInvalidValue, "the context is a null pointer");
  auto* context = reinterpret_cast<Context*>(handle);
  if (!is_live(context)) {
    throw ApiError(cudaErrorDeviceUninitialized,
                   fmt::format("{} is no context: it was never created, or is already destroyed", fmt::ptr(handle)));
  }
  return *context;
}

void Contexts::destroy(Context& context) {
  if (&context == &primary_) {
    throw ApiError(cudaErrorDeviceUninitialized,
                   "the primary context is not destroyed but released, by cuDevicePrimaryCtxRelease");
  }
  if (current() == &context) stack.pop_back();
  created_.erase(&context);
}

Context* Contexts::current() const { return stack.empty() ? nullptr : stack.back(); }

bool Contexts::is_live(const Context* context) const { return context == &primary_ || created_.contains(context); }

void Contexts::push(Context& context) { stack.push_back(&context); }

Context& Contexts::pop() {
  if (stack.empty()) throw ApiError(cudaErrorDeviceUninitialized, "this thread has no current context to remove");
  Context& top = *stack.back();
  stack.pop_back();
  return top;
}

void Contexts::set_current(Context* context) {
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
}

}  // namespace stagecraft::emulator::runtime
