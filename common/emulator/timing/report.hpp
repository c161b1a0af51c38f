// The result of a replay as text and as JSON.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/result.hpp"

namespace stagecraft::emulator::timing {

/// Returns the source line of an instruction, "gemm.cu:88"; empty when unknown.
using DescribeSource = std::function<std::string(uint32_t pc)>;

/// A unit of the chip: what part of the launch it was busy, and what it achieved of what it can.
struct UnitUse {
  std::string name;  ///< "tensor cores"
  double share = 0;  ///< 0 to 1
  double achieved = 0, peak = 0;
  std::string unit;  ///< "GB/s"
};
/// The units, the busiest first.
std::vector<UnitUse> unit_uses(const Result& result, const ChipModel& chip);

/// "modelled: 123.4 us, 1112 TFLOP/s at 1.85 GHz, tensor cores 81% busy"; without products, bytes a second.
/// "not modelled: ..." where the replay did not come to the launch's end; the text has no other figures then.
std::string last_line(const Result& result);
std::string text_of(const Result& result, const ChipModel& chip, const std::string& kernel,
                    const DescribeSource& source);
nlohmann::json json_of(const Result& result, const ChipModel& chip, const std::string& kernel,
                       const DescribeSource& source);

}  // namespace stagecraft::emulator::timing
