#include "parsing.hpp"

namespace stagecraft::emulator::ptx {
namespace {

using testing::module_failure;
using testing::parse_module;

TEST(LinesTest, GivesEveryInstructionTheLocationInForce) {
  const Module module = parse_module(
      ".entry k { nop; .loc 1 5 3\n nop; nop; .loc 1 6 0\n nop; .loc 1 5 3\n nop; }\n"
      ".entry l { nop; }\n.file 1 \"/src/a b.cu\", 1700000000, 42");
  const std::vector<Instruction>& body = module.functions[0].body;
  EXPECT_EQ(body[0].source, 0u);
  EXPECT_EQ(module.describe(body[0].source), "");
  EXPECT_EQ(module.describe(body[1].source), "a b.cu:5");
  EXPECT_EQ(body[2].source, body[1].source);
  EXPECT_EQ(module.describe(body[3].source), "a b.cu:6");
  EXPECT_EQ(body[4].source, body[1].source);
  EXPECT_EQ(module.functions[1].body[0].source, 0u);
  EXPECT_EQ(module.source_lines[body[1].source].column, 3u);
  EXPECT_EQ(module.files.at(1), "/src/a b.cu");
}

TEST(LinesTest, FollowsInliningThroughSeveralCalls) {
  const Module module = parse_module(
      ".entry k {\n"
      ".loc 1 11 3\n nop;\n"
      ".loc 1 6 3, function_name $L__info_string0, inlined_at 1 11 3\n nop;\n"
      ".loc 1 2 3, function_name $L__info_string0+7, inlined_at 1 6 3\n nop;\n"
      "}\n.file 1 \"x.cu\"\n"
      ".section .debug_str {\n$L__info_string0:\n.b8 109,105,100,100,108,101,0\n.b8 105,110,110,101,114,0\n}\n");
  const auto line = [&](size_t i) { return module.source_lines[module.functions[0].body[i].source]; };
  EXPECT_EQ(line(0).function, "");
  EXPECT_EQ(line(0).inlined_at, 0u);
  EXPECT_EQ(line(1).function, "middle");
  EXPECT_EQ(line(1).inlined_at, module.functions[0].body[0].source);
  EXPECT_EQ(line(2).function, "inner");
  EXPECT_EQ(line(2).inlined_at, module.functions[0].body[1].source);
}

TEST(LinesTest, MakesUpTheCallThatNoLocationDescribed) {
  const Module module = parse_module(
      ".entry k { .loc 1 2 3, function_name name, inlined_at 1 9 8\n nop; }\n"
      ".section .debug_str { name: .b8 102, 0 }");
  const SourceLine& line = module.source_lines[module.functions[0].body[0].source];
  EXPECT_EQ(line.function, "f");
  EXPECT_EQ(module.source_lines[line.inlined_at].line, 9u);
  EXPECT_EQ(module.source_lines[line.inlined_at].inlined_at, 0u);
}

TEST(LinesTest, SkipsOtherDebugSections) {
  EXPECT_NO_THROW(
      parse_module(".section .debug_info { .b32 12 .b8 4 .b32 .debug_abbrev .b64 $L__func_begin0 $L__here: .b8 0 }\n"
                   ".section .debug_loc { }"));
}

TEST(LinesTest, RefusesBrokenLocations) {
  EXPECT_TRUE(
      module_failure(".entry k { .loc 1 x 3\n }").starts_with("line 2, column 19: unexpected `x` instead of a line"));
  EXPECT_TRUE(
      module_failure(".entry k { .loc 1 2 3, inlined 1 }").starts_with("line 2, column 24: unexpected `inlined`"));
  EXPECT_EQ(module_failure(".entry k { .loc 1 2 3, function_name gone, inlined_at 1 1 1\n }"),
            "line 2, column 38: `gone` is not a label of .debug_str");
  EXPECT_TRUE(module_failure(".file 1 name").starts_with("line 2, column 9: unexpected `name` instead of the name of"));
  EXPECT_TRUE(module_failure(".section .debug_info {").starts_with("line 2, column 10: this section does not end"));
  EXPECT_TRUE(module_failure(".loc 5000000000 1 1").starts_with("line 2, column 6: unexpected `5000000000` instead"));
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
