// How a finding is reported: to people as an indented text, to tools as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// "all lanes", "lane 5", "lanes 0-3, 7"; "no lanes" for an empty mask.
std::string describe_lanes(machine::LaneMask lanes);

/// "a", "a and b", "a, b and c"
std::string join(const std::vector<std::string>& parts);

/// The report, with a newline at the end of each line:
///
///     stagecraft: deadlock in kernel gemm<128,128,64,4> (gemm.cu)
///       block (2,0,0) warp 1 [lanes 0-3] at gemm.cu:88: waits for full[2] to complete phase 1
///         full[2]: phase 0, 0 of 1 arrivals pending
///       likely cause: ...
std::string render_text(const machine::Diagnostic& diagnostic);

/// An object with the fields of Diagnostic; unknown fields are omitted.
nlohmann::json render_json(const machine::Diagnostic& diagnostic);

}  // namespace stagecraft::emulator::checks
