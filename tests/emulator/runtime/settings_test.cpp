#include "emulator/runtime/model/settings.hpp"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "emulator/runtime/model/recording.hpp"

namespace stagecraft::emulator::runtime {
namespace {

std::map<std::string, std::string> environment;

const char* variable(const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : found->second.c_str();
}

Settings settings_of(std::map<std::string, std::string> variables) {
  environment = std::move(variables);
  return read_settings(variable);
}

std::string error_of(std::map<std::string, std::string> variables) {
  try {
    settings_of(std::move(variables));
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(SettingsTest, AreThoseOfAB200WhenNothingIsSaid) {
  const Settings settings = settings_of({});
  EXPECT_EQ(settings.architecture, nullptr);  // what suits the program
  EXPECT_EQ(settings.seed, 0u);
  EXPECT_EQ(settings.preferred_clusters, machine::PreferredClusters::some);
  EXPECT_GE(settings.threads, 1u);
  EXPECT_EQ(settings.report_format, ReportFormat::text);
  EXPECT_TRUE(settings.progress);
  EXPECT_TRUE(settings.strict_exit_status);
  EXPECT_TRUE(settings.findings_are_errors);
}

TEST(SettingsTest, TakeSchedules) {
  const Settings settings = settings_of({{"STAGECRAFT_EXPLORE", "200,lanes"}, {"STAGECRAFT_SCHEDULE", "3:w1.17+64"}});
  EXPECT_EQ(settings.explore, 200u);
  EXPECT_TRUE(settings.explore_lanes);
  ASSERT_TRUE(settings.schedule);
  EXPECT_EQ(settings.schedule->launch, 3u);
  EXPECT_EQ(settings.schedule->schedule, (machine::Schedule{{0, 1, 17, 64}}));
  EXPECT_FALSE(settings_of({{"STAGECRAFT_EXPLORE", "200"}}).explore_lanes);
  EXPECT_TRUE(settings_of({{"STAGECRAFT_SCHEDULE", "1:"}}).schedule->schedule.empty());
}

TEST(SettingsTest, TakeEachVariable) {
  const Settings settings = settings_of({{"STAGECRAFT_DEVICE", "h200"},
                                         {"STAGECRAFT_SEED", "0xff"},
                                         {"STAGECRAFT_PREFERRED_CLUSTERS", "none"},
                                         {"STAGECRAFT_PTX", "one.ptx:a/two.ptx"},
                                         {"STAGECRAFT_THREADS", "3"},
                                         {"STAGECRAFT_LIMIT_CYCLES", "5000000000"},
                                         {"STAGECRAFT_PROGRESS", "none"},
                                         {"STAGECRAFT_REPORT", "json"},
                                         {"STAGECRAFT_REPORT_FILE", "report.json"},
                                         {"STAGECRAFT_CHECKS", "deadlock,race"},
                                         {"STAGECRAFT_EXIT_STATUS", "program"},
                                         {"STAGECRAFT_FINDINGS", "report"}});
  EXPECT_EQ(settings.architecture, &machine::h200());
  EXPECT_EQ(settings.seed, 255u);
  EXPECT_EQ(settings.preferred_clusters, machine::PreferredClusters::none);
  EXPECT_EQ(settings.ptx, (std::vector<std::string>{"one.ptx", "a/two.ptx"}));
  EXPECT_EQ(settings.threads, 3u);
  EXPECT_EQ(settings.limit_cycles, 5000000000u);
  EXPECT_FALSE(settings.progress);
  EXPECT_EQ(settings.report_format, ReportFormat::json);
  EXPECT_EQ(settings.report_file, "report.json");
  EXPECT_TRUE(settings.checks.race);
  EXPECT_FALSE(settings.strict_exit_status);
  EXPECT_FALSE(settings.findings_are_errors);
}

TEST(SettingsTest, LimitTheHostsMemory) {
  EXPECT_EQ(settings_of({}).host_memory, 0u);
  EXPECT_EQ(settings_of({{"STAGECRAFT_HOST_MEMORY", "123"}}).host_memory, 123u);
  EXPECT_EQ(settings_of({{"STAGECRAFT_HOST_MEMORY", "3M"}}).host_memory, 3u << 20);
  EXPECT_EQ(settings_of({{"STAGECRAFT_HOST_MEMORY", "8G"}}).host_memory, 8ull << 30);
}

TEST(SettingsTest, ChooseChecks) {
  EXPECT_FALSE(settings_of({}).checks.race);
  EXPECT_FALSE(settings_of({{"STAGECRAFT_CHECKS", "none"}}).checks.race);
  EXPECT_FALSE(settings_of({{"STAGECRAFT_CHECKS", "deadlock"}}).checks.race);
  EXPECT_TRUE(settings_of({{"STAGECRAFT_CHECKS", "all"}}).checks.race);
  EXPECT_TRUE(settings_of({{"STAGECRAFT_CHECKS", "all"}}).checks.global);
  EXPECT_FALSE(settings_of({{"STAGECRAFT_CHECKS", "race"}}).checks.global);
  EXPECT_TRUE(settings_of({{"STAGECRAFT_CHECKS", "deadlock,global"}}).checks.global);
  EXPECT_TRUE(settings_of({{"STAGECRAFT_CHECKS", "global"}}).checks.race);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "all, none, or a list of: deadlock, race, global",
                      error_of({{"STAGECRAFT_CHECKS", "race,typo"}}));
}

TEST(SettingsTest, ChooseWhatIsRecorded) {
  EXPECT_FALSE(settings_of({}).observes_memory());
  EXPECT_TRUE(settings_of({{"STAGECRAFT_COUNTERS", "bank_conflicts"}}).counters.bank_conflicts);
  EXPECT_TRUE(settings_of({{"STAGECRAFT_COUNTERS", "all"}}).observes_memory());
  EXPECT_FALSE(settings_of({{"STAGECRAFT_COUNTERS", "none"}}).observes_memory());
  EXPECT_EQ(settings_of({{"STAGECRAFT_TIMELINE", "line.svg"}}).timeline, "line.svg");
  EXPECT_EQ(settings_of({{"STAGECRAFT_TIMELINE", "run.json"}}).timeline, "run.json");
  EXPECT_EQ(settings_of({{"STAGECRAFT_TIMELINE", "run.html"}}).timeline, "run.html");
  EXPECT_TRUE(settings_of({{"STAGECRAFT_TIMELINE", "text"}}).observes_memory());
  EXPECT_EQ(settings_of({}).timing, Timing{});
  EXPECT_FALSE(settings_of({{"STAGECRAFT_TIMING", "off"}}).observes_memory());
  EXPECT_EQ(settings_of({{"STAGECRAFT_TIMING", "on"}}).timing, Timing{.on = true});
  EXPECT_TRUE(settings_of({{"STAGECRAFT_TIMING", "on"}}).observes_memory());
  EXPECT_EQ(settings_of({{"STAGECRAFT_TIMING", "part"}}).timing, (Timing{.on = true, .part = true}));
  EXPECT_EQ(settings_of({{"STAGECRAFT_TIMING", "cold"}}).timing, (Timing{.on = true, .cold = true}));
  EXPECT_EQ(settings_of({{"STAGECRAFT_TIMING", "part,cold"}}).timing, (Timing{.on = true, .part = true, .cold = true}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "on, off, or a list of: part, cold, used",
                      error_of({{"STAGECRAFT_TIMING", "yes"}}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "on, off, or a list of: part, cold, used",
                      error_of({{"STAGECRAFT_TIMING", "part,on"}}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "all, none, or bank_conflicts",
                      error_of({{"STAGECRAFT_COUNTERS", "registers"}}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "ends in .html, .json, .svg or .txt",
                      error_of({{"STAGECRAFT_TIMELINE", "line.png"}}));
  EXPECT_EQ(timeline_file("out/line.svg", 0), "out/line.svg");
  EXPECT_EQ(timeline_file("out/line.svg", 1), "out/line.2.svg");
}

TEST(SettingsTest, SayWhatIsLegalForAnUnknownValue) {
  const std::string device = error_of({{"STAGECRAFT_DEVICE", "a100"}});
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "STAGECRAFT_DEVICE is \"a100\"", device);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "b200, h200, rtx5090 or spark", device);
  for (const char* threads : {"x", "0", "-1", "1025", "2 "}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "STAGECRAFT_THREADS", error_of({{"STAGECRAFT_THREADS", threads}}))
        << threads;
  }
  for (const char* bytes : {"x", "0", "-1", "1K", "17179869184G"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "STAGECRAFT_HOST_MEMORY", error_of({{"STAGECRAFT_HOST_MEMORY", bytes}}))
        << bytes;
  }
  for (const char* limit : {"x", "0", "-1", "1 ", "18446744073709551616"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "STAGECRAFT_LIMIT_CYCLES", error_of({{"STAGECRAFT_LIMIT_CYCLES", limit}}))
        << limit;
  }
  for (const char* files : {":", "one.ptx:", ":one.ptx", "one.ptx::two.ptx"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "names of files, with colons", error_of({{"STAGECRAFT_PTX", files}}));
  }
  for (const char* explore : {"x", "0", "-1", "5 ", "5,", "5,lane", "2000000000"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "STAGECRAFT_EXPLORE", error_of({{"STAGECRAFT_EXPLORE", explore}}));
  }
  for (const char* schedule : {"x", "1", "0:w0.1", "1:w", ":w0.1", "1:w0.1,"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "STAGECRAFT_SCHEDULE", error_of({{"STAGECRAFT_SCHEDULE", schedule}}));
  }
  for (const char* seed : {"x", "-1", "1 ", "0x", "18446744073709551616"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "STAGECRAFT_SEED", error_of({{"STAGECRAFT_SEED", seed}})) << seed;
  }
  for (const char* level : {"garbage", "2", "5", "3 "}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "but must be 1, 3 or 4", error_of({{"STAGECRAFT_ISA_LEVEL", level}}));
  }
  EXPECT_EQ(error_of({{"STAGECRAFT_ISA_LEVEL", "1"}}), "");
  for (const char* sums : {"exact", "Fused", "fused "}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "but must be plain or fused", error_of({{"STAGECRAFT_MMA_SUMS", sums}}));
  }
  EXPECT_EQ(error_of({{"STAGECRAFT_MMA_SUMS", "fused"}}), "");
  EXPECT_EQ(error_of({{"STAGECRAFT_MMA_SUMS", "plain"}}), "");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "must be text or json", error_of({{"STAGECRAFT_REPORT", "xml"}}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "strict or program", error_of({{"STAGECRAFT_EXIT_STATUS", "0"}}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "line or none", error_of({{"STAGECRAFT_PROGRESS", "yes"}}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "error or report", error_of({{"STAGECRAFT_FINDINGS", "none"}}));
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
