// Texts that no compiler writes are refused with an error that names what is wrong.
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class HostileTextTest : public KernelTest {
 protected:
  /// The message that translating the first kernel of a module throws.
  std::string refusal(const std::string& text) {
    try {
      compile(text);
    } catch (const ptx::Error& error) {
      return error.what();
    }
    return "nothing";
  }
  std::string refusal_of_body(const std::string& body, const std::string& before = {}) {
    return refusal(before + ".entry k(.param .u64 out) { .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>;\n" +
                   body + "\nret; }");
  }
};

TEST_F(HostileTextTest, ParametersAboveTheLimitOfAKernelAreRefused) {
  EXPECT_NE(refusal(".entry k(.param .b8 large[4294967297]) { ret; }").find("`large` of 4294967297 bytes does not fit"),
            std::string::npos);
  EXPECT_NE(refusal(".entry k(.param .b32 small, .param .align 2147483648 .b8 far[4]) { ret; }").find("`far`"),
            std::string::npos);
  EXPECT_EQ(compile(".entry k(.param .b8 most[32764]) { ret; }").parameter_bytes, 32764u);
}

TEST_F(HostileTextTest, LocalVariablesAboveTheLimitOfAThreadAreRefused) {
  EXPECT_NE(refusal_of_body(".local .b8 depot[4294967296];").find("`depot` of 4294967296 bytes does not fit"),
            std::string::npos);
  const std::string functions =
      ".func g() { .local .b8 half[300000]; ret; } .func h() { .local .b8 rest[300000]; ret; } ";
  EXPECT_NE(refusal_of_body("call g; call h;", functions).find("take 600"), std::string::npos);
}

TEST_F(HostileTextTest, SharedVariablesAboveTheMemoryOfABlockAreRefused) {
  EXPECT_NE(refusal_of_body("mov.b32 %r1, tile;", ".shared .b8 tile[4294967296]; ").find("`tile` of 4294967296 bytes"),
            std::string::npos);
  EXPECT_NE(refusal_of_body("mov.b32 %r1, tile; mov.b32 %r2, dynamic;",
                            ".shared .b8 tile[4]; .extern .shared .align 2147483648 .b8 dynamic[]; ")
                .find("`dynamic`"),
            std::string::npos);
}

TEST_F(HostileTextTest, CallParametersThatFillTheRegisterFileAreRefused) {
  EXPECT_NE(refusal_of_body("{ .param .b8 large[4294967280]; st.param.b32 [large], %r1; }").find("`large` of"),
            std::string::npos);
  std::string many;
  for (int i = 0; i < 100; ++i) many += fmt::format(".param .b8 large{}[32000];\n", i);
  EXPECT_NE(refusal_of_body(many).find("take more than 64 MiB for a warp"), std::string::npos);
}

// ptxas 13.0 refuses each of these, too.
TEST_F(HostileTextTest, CallsThatDoNotSuitTheFunctionAreRefused) {
  const std::string functions =
      ".func none() { ret; } .func one(.param .b32 a) { ret; }\n"
      ".func (.param .b32 r) gives() { st.param.b32 [r], 1; ret; }\n";
  const auto refused = [&](const std::string& body, const std::string& words) {
    const std::string message =
        refusal_of_body("{ .param .b32 x; .param .b32 y; .param .b64 z;\n" + body + " }", functions);
    EXPECT_NE(message.find(words), std::string::npos) << body << "\n" << message;
  };
  refused("call (x), none;", "the call takes 1 result, and `none` has 0");
  refused("call (%r1), none;", "the call takes 1 result, and `none` has 0");
  refused("call gives;", "the call takes 0 results, and `gives` has 1");
  refused("call (x, y), gives;", "the call takes 2 results, and `gives` has 1");
  refused("call (z), gives;", "result 1 of the call, `z`, has 8 bytes, and that of `gives` has 4");
  refused("call one;", "the call passes 0 arguments, and `one` has 1");
  refused("call one, (x, y);", "the call passes 2 arguments, and `one` has 1");
  refused("call one, (z);", "argument 1 of the call, `z`, has 8 bytes, and that of `one` has 4");
  refused("call one, (%rd1);", "argument 1 of the call, `%rd1`, has 8 bytes, and that of `one` has 4");
  refused("call k, (z);", "`k` is a kernel; a .func may be called");
  for (const char* body : {"call (_), gives;", "call one, (5);", "call one, (%r1);", "call one, (x);"}) {
    EXPECT_EQ(refusal_of_body(std::string("{ .param .b32 x; ") + body + " }", functions), "nothing") << body;
  }
}

TEST_F(HostileTextTest, CallsThatDoNotSuitTheirPrototypeAreRefused) {
  const auto refused = [&](const std::string& body, const std::string& words) {
    const std::string message = refusal_of_body("{ .param .b32 x; .param .b64 z; mov.b64 %rd1, f;\n" + body + " }",
                                                ".func f(.param .b64 a) { ret; } ");
    EXPECT_NE(message.find(words), std::string::npos) << body << "\n" << message;
  };
  refused("call %rd1;", "ends with the name of a .callprototype or of .calltargets");
  refused("call %rd1, (x);", "ends with the name of a .callprototype or of .calltargets");
  refused("P: .callprototype _ (); call %rd1, (x), P;", "the call passes 1 argument, and `P` has 0");
  refused("P: .callprototype (.param .b32 _) _ (); call %rd1, P;", "the call takes 0 results, and `P` has 1");
  refused("P: .callprototype _ (.param .b64 _); call %rd1, (x), P;", "argument 1 of the call, `x`, has 4 bytes");
  refused("T: .calltargets f; call %rd1, (x), T;", "argument 1 of the call, `x`, has 4 bytes, and that of `T` has 8");
}

// ptxas 13.0 refuses each of these, too.
TEST_F(HostileTextTest, NumbersThatAnInstructionCannotHaveAreRefused) {
  EXPECT_NE(refusal_of_body("bar.sync 16;").find("barrier number 16 does not exist"), std::string::npos);
  EXPECT_NE(refusal_of_body("bar.sync 0, 33;").find("the count must be a multiple of 32"), std::string::npos);
  EXPECT_EQ(refusal_of_body("bar.sync 15, 64;"), "nothing");
  for (const char* alone : {"exit 5;", "trap 5;", "brkpt 5;", "ret 5;"}) {
    EXPECT_NE(refusal_of_body(alone).find("it has no operands"), std::string::npos) << alone;
  }
}

TEST_F(HostileTextTest, OffsetsWrapAroundLikeAddresses) {
  EXPECT_EQ(refusal_of_body("ld.global.b32 %r1, [table+0x7fffffffffffffff];", ".global .b32 table[4]; "), "nothing");
  EXPECT_EQ(refusal_of_body("ld.global.b32 %r1, [0x7fffffffffffffff];"), "nothing");
  EXPECT_NE(refusal_of_body("{ .param .b32 a; ld.param.b32 %r1, [a+0x7fffffffffffffff]; }")
                .find("4 bytes from byte 9223372036854775807 on of a parameter that has 16"),
            std::string::npos);
}

TEST_F(HostileTextTest, LocalVariablesOutsideOfFunctionsAreRefusedByName) {
  const std::string message = "`depot` is a .local variable outside of a function, which is not implemented";
  EXPECT_NE(refusal_of_body("ld.local.b32 %r1, [depot];", ".local .b32 depot[4]; ").find(message), std::string::npos);
  EXPECT_NE(refusal_of_body("mov.b64 %rd1, depot;", ".local .b32 depot[4]; ").find(message), std::string::npos);
}

TEST_F(HostileTextTest, AKernelsParameterIsNoArgument) {
  EXPECT_NE(
      refusal_of_body("call f, (out);", ".func f(.param .u64 a) { ret; } ").find("`out` is a parameter of the kernel"),
      std::string::npos);
}

TEST_F(HostileTextTest, PredicatesAreNotHandedOverInCalls) {
  EXPECT_NE(refusal_of_body("call f, (%r1);", ".func f(.reg .pred a) { ret; } ").find("`a` hands a predicate over"),
            std::string::npos);
  EXPECT_NE(refusal_of_body("call f, (%p1);", ".func f(.reg .b32 a) { ret; } ").find("a predicate as an argument"),
            std::string::npos);
}

TEST_F(HostileTextTest, TablesOfBranchesDoNotMultiplyTheKernelWithoutLimit) {
  std::string body = "here: cases: .branchtargets here";
  for (int i = 0; i < 9999; ++i) body += ",here";
  body += ";\n";
  for (int i = 0; i < 500; ++i) body += "brx.idx %r1, cases;\n";
  EXPECT_NE(refusal_of_body(body).find("become more than 4194304 operations"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
