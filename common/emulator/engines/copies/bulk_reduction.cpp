#include "emulator/engines/copies/bulk_reduction.hpp"

namespace stagecraft::emulator::machine {

bool bulk_reduction_exists(AtomicOperation operation, ptx::Type type, bool to_shared) {
  using ptx::Type;
  const bool half = type == Type::f16 || type == Type::bf16;
  switch (operation) {
    case AtomicOperation::add:
      if (type == Type::u32 || type == Type::s32 || type == Type::u64) return true;
      return !to_shared && (half || type == Type::f32 || type == Type::f64);
    case AtomicOperation::min:
    case AtomicOperation::max:
      if (type == Type::u32 || type == Type::s32) return true;
      return !to_shared && (half || type == Type::u64 || type == Type::s64);
    case AtomicOperation::inc:
    case AtomicOperation::dec: return type == Type::u32;
    case AtomicOperation::exch: return false;
    default: return type == Type::b32 || (!to_shared && type == Type::b64);
  }
}

}  // namespace stagecraft::emulator::machine
