#include "emulator/runtime/reporting.hpp"

#include <gtest/gtest.h>

namespace stagecraft::emulator::runtime {
namespace {

/// How many of a plain finding and one that the chip tolerates count.
uint64_t counted(bool findings_are_errors) {
  Settings settings;
  settings.findings_are_errors = findings_are_errors;
  settings.report_file = "/dev/null";
  Reporter reporter;
  reporter.configure(settings);
  machine::Diagnostic race, tolerated;
  race.kind = "race";
  tolerated.kind = "missing wait";
  tolerated.tolerated = "kernels of a library end so";
  reporter.report(race);
  reporter.report(tolerated);
  return reporter.diagnosed();
}

TEST(ReportingTest, CountsWhatTheChipToleratesOnlyWhereFindingsAreErrors) {
  EXPECT_EQ(counted(true), 2u);
  EXPECT_EQ(counted(false), 1u);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
