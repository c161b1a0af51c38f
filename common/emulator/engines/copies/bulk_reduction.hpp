// The arithmetic of bulk reductions: dst[i] = op(dst[i], src[i]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stagecraft::emulator::machine {

enum class ReductionOperation : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };
enum class ReductionType : uint8_t { u32, s32, u64, s64, b32, b64, f16, bf16, f32, f32_ftz, f64 };

/// "add", "and", ... as PTX spells them.
std::optional<ReductionOperation> reduction_operation(std::string_view name);
const char* name_of(ReductionOperation operation);
uint32_t size_of(ReductionType type);

/// Whether bulk reductions exist for the pair, to global memory or to the shared memory of a cluster (PTX ISA,
/// "cp.reduce.async.bulk").
bool is_legal(ReductionOperation operation, ReductionType type, bool to_shared);

/// Reduces `bytes` bytes, a multiple of the type's size, element by element. Sums of floats are rounded to nearest
/// even.
void reduce(ReductionOperation operation, ReductionType type, std::byte* target, const std::byte* source, size_t bytes);

}  // namespace stagecraft::emulator::machine
