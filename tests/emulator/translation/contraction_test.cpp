// Products and sums that become one operation, as ptxas was seen to do it.
#include "emulator/translation/contraction.hpp"

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "emulator/machine/instruction_set.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class ContractionTest : public KernelTest {
 protected:
  static Contractions find(const ptx::Module& module) {
    const ptx::Function& function = module.functions.at(0);
    return find_contractions(function, instruction_set().traits_of(function));
  }
  /// What the sums of a body become, by their index: "neg fma".
  static std::map<uint32_t, std::string> contracted(const std::string& body) {
    const ptx::Module module = ptx::parse(R"(.version 9.0
      .target sm_100a
      .address_size 64
      .visible .entry k() {
        .reg .f32 %a, %b, %c, %d, %r, %s, %t, %u; .reg .f64 %da, %db, %dc, %dt; .reg .pred %p; .reg .b64 %x;
    )" + body + "\n ret; }\n");
    std::map<uint32_t, std::string> result;
    for (const auto& [index, operations] : find(module).operations) {
      for (const ptx::Instruction& operation : operations) {
        result[index] += (result[index].empty() ? "" : " ") + operation.opcode;
      }
    }
    return result;
  }
  using Map = std::map<uint32_t, std::string>;
};

TEST_F(ContractionTest, AProductThatOnlyASumNeedsIsFused) {
  EXPECT_EQ(contracted("mul.f32 %t, %a, %b; add.f32 %r, %t, %c;"), (Map{{1, "fma"}}));
  EXPECT_EQ(contracted("mul.ftz.f32 %t, %a, 0f40400000; @%p add.ftz.sat.f32 %r, %c, %t;"), (Map{{1, "fma"}}));
  EXPECT_EQ(contracted("mul.f32 %t, %a, 0f40400000; div.rn.f32 %u, %c, %d; add.f32 %r, %t, %u;"), (Map{{2, "fma"}}));
  EXPECT_EQ(contracted("mul.f32 %t, %a, %b; div.full.f32 %u, %c, %d; add.f32 %r, %t, %u;"), (Map{{2, "fma"}}));
  EXPECT_EQ(contracted("mul.f64 %dt, %da, %db; sub.f64 %dc, %dt, %dc;"), (Map{{1, "neg fma"}}));
  EXPECT_EQ(contracted("mul.f32 %t, %a, %b; add.f32 %r, %t, %c; sub.f32 %s, %d, %t;"),
            (Map{{1, "fma"}, {2, "neg fma"}}));
}

TEST_F(ContractionTest, OfTwoProductsThatAreAddedTheFirstOperandIsFused) {
  EXPECT_EQ(contracted("mul.f32 %t, %a, %b; mul.f32 %u, %c, %d; sub.f32 %r, %u, %t;"), (Map{{2, "neg fma"}}));
  const ptx::Module module = ptx::parse(R"(.version 9.0
    .target sm_100a
    .address_size 64
    .visible .entry k() { .reg .f32 %a, %b, %r, %t, %u;
    mul.f32 %t, %a, %a; mul.f32 %u, %b, %b; add.f32 %r, %u, %t; ret; })");
  const Contractions found = find(module);
  EXPECT_EQ(found.products, (std::unordered_set<uint32_t>{1}));
}

TEST_F(ContractionTest, WhatElseNeedsTheProductOrSaysHowToRoundKeepsBoth) {
  for (const char* body : {
           "mul.rn.f32 %t, %a, %b; add.f32 %r, %t, %c;",
           "mul.f32 %t, %a, %b; add.rn.f32 %r, %t, %c;",
           "mul.f32 %t, %a, %b; add.ftz.f32 %r, %t, %c;",
           "mul.sat.f32 %t, %a, %b; add.f32 %r, %t, %c;",
           "mul.f32 %t, %a, %b; add.f32 %r, %t, %t;",
           "mul.f32 %t, %a, %b; add.f32 %r, %t, %c; st.global.f32 [%x], %t;",
           "mul.f32 %t, %a, %b; mov.f32 %a, %d; add.f32 %r, %t, %c;",
           "@%p mul.f32 %t, %a, %b; add.f32 %r, %t, %c;",
           "mul.f32 %t, %a, %b; @%p bra L; add.f32 %r, %t, %c; L:",
           "mul.f32 %t, %a, %b; L: add.f32 %r, %t, %c; @%p bra L;",
           "mul.f32 %t, %a, %b; add.f32 %r, %t, %c; mov.f32 %t, %d;",
           "mul.f32 %t, %a, %b; div.rn.f32 %u, %c, %d; sub.f32 %r, %t, %u;",
       }) {
    EXPECT_EQ(contracted(body), Map{}) << body;
  }
}

TEST_F(ContractionTest, TheResultIsRoundedOnce) {
  // (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24, of which a product alone loses the last.
  Kernel& kernel = compile_body(R"(
    mov.f32 %f1, 0f3F800800; mov.f32 %f2, 0f3F801000;
    mul.f32 %f3, %f1, %f1; sub.f32 %f4, %f3, %f2; st.global.f32 [%out], %f4;
    mul.f32 %f5, %f1, %f1; sub.f32 %f6, %f2, %f5; st.global.f32 [%out + 4], %f6;
    mul.f32 %f7, %f1, %f1; add.f32 %f8, %f7, 0fBF801000; st.global.f32 [%out + 8], %f8;
    mul.rn.f32 %f9, %f1, %f1; sub.f32 %f10, %f9, %f2; st.global.f32 [%out + 12], %f10;)");
  const uint64_t out = allocate<float>(4);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {1, 1, 1}, out).fault);
  EXPECT_EQ(read<float>(out, 4), (std::vector<float>{0x1p-24f, -0x1p-24f, 0x1p-24f, 0.0f}));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
