#include "emulator/runtime/model/reporting.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "emulator/runtime/model/report_file.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// How many are counted of a plain finding and of one that the chip tolerates.
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

std::string report(bool findings_are_errors) {
  Settings settings;
  settings.findings_are_errors = findings_are_errors;
  Reporter reporter;
  reporter.configure(settings);
  machine::Diagnostic race;
  race.kind = "race";
  race.place.kernel = "add";
  race.identity = "race: a.cu:1 and a.cu:2";
  testing::internal::CaptureStderr();
  for (const char* block : {"first", "second", "third"}) {
    race.message = block;
    reporter.report(race);
  }
  race.place.kernel = "subtract";
  race.message = "other kernel";
  reporter.report(race);
  race.identity.clear();
  race.message = "stopped";
  reporter.report(race);
  race.message = "again";
  reporter.report(race);
  reporter.tell_summary();
  EXPECT_EQ(reporter.diagnosed(), 6u);
  return testing::internal::GetCapturedStderr();
}

TEST(ReportingTest, TellsAFindingOfAKernelOnceWhereTheProgramGoesOn) {
  const std::string text = report(false);
  for (const char* word : {"first", "other kernel", "stopped", "again", "later launches, 2 times"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, word, text);
  }
  for (const char* word : {"second", "third"}) EXPECT_PRED_FORMAT2(testing::IsNotSubstring, word, text);
}

TEST(ReportingTest, SaysAtTheEndWhatCountsAndWhatIsTolerated) {
  Settings settings;
  settings.findings_are_errors = false;
  Reporter reporter;
  reporter.configure(settings);
  testing::internal::CaptureStderr();
  machine::Diagnostic finding;
  finding.kind = "race";
  finding.identity = "race: 1";
  reporter.report(finding);
  finding.kind = "missing wait";
  finding.tolerated = "a library ends so";
  for (const char* line : {"a.cu:1", "a.cu:2", "a.cu:3"}) {
    finding.place.source = finding.identity = line;
    reporter.report(finding);
  }
  reporter.tell_summary();
  const std::string text = testing::internal::GetCapturedStderr();
  for (const char* words : {"stagecraft: missing wait", "1 finding counts (race 1); 3 findings do not (missing wait 3)",
                            "another missing wait like the one reported (a library ends so) at a.cu:2, a.cu:3\n"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, words, text);
  }
  EXPECT_EQ(text.find("stagecraft: missing wait"), text.rfind("stagecraft: missing wait"));
}

void refuse_into(const std::string& file) {
  Settings settings;
  settings.report_file = file;
  Reporter reporter;
  reporter.configure(settings);
  reporter.refuse("cudaMalloc", "too much", "cudaErrorMemoryAllocation");
}

TEST(ReportingTest, WritesToStderrWhatTheFileDoesNotTake) {
  testing::internal::CaptureStderr();
  refuse_into("/dev/full");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "stagecraft: STAGECRAFT_REPORT_FILE: the next report cannot be written to /dev/full: No space left on "
            "device\nstagecraft: cudaMalloc: too much [cudaErrorMemoryAllocation]\n");
}

TEST(ReportingTest, SaysWhyAFileCannotBeWritten) {
  try {
    refuse_into("/nowhere/report.txt");
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "STAGECRAFT_REPORT_FILE is \"/nowhere/report.txt\", which cannot be written: No such file or directory");
  }
  EXPECT_EQ(write_file("/dev/full", "text"), "No space left on device");
  const std::string file = testing::TempDir() + "written_twice.txt";
  EXPECT_EQ(write_file(file, "a long text"), "");
  EXPECT_EQ(write_file(file, "short"), "");
  std::ifstream written(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), "short");
  std::remove(file.c_str());
}

TEST(ReportingTest, SurvivesALimitOnTheSizeOfFiles) {
  const std::string file = testing::TempDir() + "report_beyond_the_limit.txt";
  const auto report_and_leave = [&] {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    refuse_into(file);
    std::_Exit(7);
  };
  EXPECT_EXIT(report_and_leave(), testing::ExitedWithCode(7), "");
  std::remove(file.c_str());
}

TEST(ReportingTest, TellsEveryFindingWhereItIsAnError) {
  const std::string text = report(true);
  for (const char* word : {"first", "second", "third"}) EXPECT_PRED_FORMAT2(testing::IsSubstring, word, text);
  EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "later launches", text);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
