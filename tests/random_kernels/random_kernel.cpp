#include "random_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "generator.hpp"

namespace stagecraft::random_kernels {

namespace {

constexpr uint32_t kOwnWords = 32;  // of `out` for each thread: its registers, and what it stores on the way
constexpr uint32_t kCells = 16;     // words that all threads update
constexpr uint32_t kStageBytes = 1024;

/// Words of `out` before those that bulk stores write, one after the other by block.
uint32_t words_before_sink(const RandomKernel& kernel) { return kernel.blocks * kernel.threads * kOwnWords + kCells; }

void spell(const std::vector<Statement>& statements, std::string& text) {
  for (const Statement& statement : statements) {
    text += statement.before;
    spell(statement.first, text);
    text += statement.between;
    spell(statement.second, text);
    text += statement.after;
  }
}

/// Calls `visit` with each list of statements that has one less.
void drop_one(std::vector<Statement>& statements, const std::function<void()>& visit) {
  for (size_t i = 0; i < statements.size(); ++i) {
    Statement dropped = std::move(statements[i]);
    statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(i));
    visit();
    statements.insert(statements.begin() + static_cast<std::ptrdiff_t>(i), std::move(dropped));
  }
  for (Statement& statement : statements) {
    drop_one(statement.first, visit);
    drop_one(statement.second, visit);
  }
}

}  // namespace

std::string RandomKernel::ptx() const {
  std::string body;
  spell(statements, body);
  std::string text =
      ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry kernel(.param .u64 in, .param .u64 out) {\n";
  text += fmt::format(
      ".shared .align 16 .b8 tile[{}];\n.shared .align 16 .b8 passed[1024];\n.shared .align 128 .b8 stage[{}];\n"
      ".shared .align 128 .b8 sink[1024];\n.shared .align 8 .b64 bars[6];\n.shared .align 4 .b8 cells[64];\n",
      threads * 16, kStageBytes);
  text += fmt::format(".reg .b32 %r<{}>;\n.reg .b64 %rd<{}>;\n.reg .f32 %f<{}>;\n.reg .pred %p<{}>;\n", kWords,
                      kDoubleWords, kFloats, kPredicates);
  text +=
      ".reg .b32 %t<2>;\n.reg .b64 %a<2>;\n.reg .b16 %h<4>;\n.reg .b32 %thread, %lane, %block, %rank, %tile, %passed, "
      "%sink, %phase<6>;\n"
      ".reg .b64 %in, %out, %own, %cells, %stored;\n.reg .b32 %c<999>;\n.reg .pred %q<999>;\n";
  // Where the thread's own memory is.
  text +=
      "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %thread, %tid.x;\nmov.u32 %lane, %laneid;\nmov.u32 "
      "%block, %ctaid.x;\nmov.u32 %rank, %cluster_ctarank;\n";
  text += fmt::format("mad.lo.u32 %t0, %block, {}, %thread;\nmul.wide.u32 %own, %t0, {};\nadd.u64 %own, %own, %out;\n",
                      threads, kOwnWords * 4);
  text += fmt::format("add.u64 %cells, %out, {};\n", blocks * threads * kOwnWords * 4);
  text +=
      fmt::format("mul.wide.u32 %stored, %block, {};\nadd.u64 %stored, %stored, %out;\nadd.u64 %stored, %stored, {};\n",
                  threads * 4, words_before_sink(*this) * 4);
  text +=
      "mov.u32 %tile, tile;\nshl.b32 %t1, %thread, 4;\nadd.u32 %tile, %tile, %t1;\nshl.b32 %t1, %thread, 2;\nmov.u32 "
      "%passed, passed;\n"
      "add.u32 %passed, %passed, %t1;\nmov.u32 %sink, sink;\nadd.u32 %sink, %sink, %t1;\n";
  for (uint32_t i = 0; i < 6; ++i) text += fmt::format("mov.u32 %phase{}, 0;\n", i);
  // Data that differ from thread to thread.
  for (uint32_t i = 0; i < kWords; ++i)
    text += fmt::format("mad.lo.u32 %r{}, %t0, {}, {};\n", i, 0x9e3779b1u * (i + 1), i * 77);
  for (uint32_t i = 0; i < kDoubleWords; ++i)
    text += fmt::format("mul.wide.u32 %rd{}, %r{}, {};\n", i, i, 0x85ebca6bu + i);
  for (uint32_t i = 0; i < kFloats; ++i) text += fmt::format("cvt.rn.f32.s32 %f{}, %r{};\n", i, i);
  for (uint32_t i = 0; i < kPredicates; ++i)
    text += fmt::format("setp.lt.u32 %p{}, %r{}, {};\n", i, i + 1, 0x40000000u * (i + 1) - 1);
  // Thread 0 prepares what all share.
  text += "st.shared.v4.u32 [%tile], {%r0, %r1, %r2, %r3};\nsetp.ne.u32 %q998, %thread, 0;\n@%q998 bra L_ready;\n";
  text += fmt::format("mbarrier.init.shared.b64 [bars], 1;\nmbarrier.init.shared.b64 [bars+8], {};\n", threads);
  text += fmt::format("mbarrier.init.shared.b64 [bars+16], {0};\nmbarrier.init.shared.b64 [bars+24], {0};\n",
                      std::max(threads / 2, 1u));
  text += fmt::format("mbarrier.init.shared.b64 [bars+32], {};\nmbarrier.init.shared.b64 [bars+40], 1;\n", threads);
  for (uint32_t i = 0; i < kCells; ++i) text += fmt::format("st.shared.u32 [cells+{}], {};\n", i * 4, i * 1000003u);
  text += "fence.mbarrier_init.release.cluster;\nL_ready:\nbar.sync 0;\n";
  const std::string met = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";  // no block ends while others need it
  if (cluster > 1) text += met;
  text += body;
  // All that can differ is stored.
  uint32_t at = 0;
  for (uint32_t i = 0; i < kWords; ++i, at += 4) text += fmt::format("st.global.u32 [%own+{}], %r{};\n", at, i);
  for (uint32_t i = 0; i < kDoubleWords; ++i, at += 8) text += fmt::format("st.global.u64 [%own+{}], %rd{};\n", at, i);
  for (uint32_t i = 0; i < kFloats; ++i, at += 4) text += fmt::format("st.global.f32 [%own+{}], %f{};\n", at, i);
  for (uint32_t i = 0; i < kPredicates; ++i, at += 4)
    text += fmt::format("selp.u32 %t0, 1, 0, %p{};\nst.global.u32 [%own+{}], %t0;\n", i, at);
  text += cluster > 1 ? met : "bar.sync 0;\n";
  text += "setp.ne.u32 %q998, %thread, 0;\n@%q998 bra L_done;\n";
  for (uint32_t i = 0; i < 8; ++i)
    text += fmt::format("ld.shared.u32 %t0, [cells+{0}];\nred.global.xor.b32 [%cells+{1}], %t0;\n", i * 4, 32 + i * 4);
  text += "L_done:\nret;\n}\n";
  return text;
}

uint32_t RandomKernel::out_words() const { return words_before_sink(*this) + blocks * threads; }

RandomKernel make_kernel(uint64_t seed) { return Generator(seed).make(); }

std::vector<RandomKernel> smaller_kernels(const RandomKernel& kernel) {
  std::vector<RandomKernel> smaller;
  RandomKernel work = kernel;
  drop_one(work.statements, [&] { smaller.push_back(work); });
  return smaller;
}

}  // namespace stagecraft::random_kernels
