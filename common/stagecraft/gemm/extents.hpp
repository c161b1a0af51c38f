// Sizes in other units: how many tiles cover an extent, and how large it is with its padding.
#pragma once

#include <cstdint>

namespace stagecraft::detail {

/// How many parts of this size cover an extent.
constexpr int64_t ceil_div(int64_t extent, int64_t part) { return (extent + part - 1) / part; }

/// The extent, padded to a multiple.
constexpr int64_t padded_to(int64_t multiple, int64_t extent) { return ceil_div(extent, multiple) * multiple; }

}  // namespace stagecraft::detail
