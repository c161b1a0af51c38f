// The line on the terminal that says how far a long launch has come. The terminal is a pseudo-terminal, whose screen
// the test keeps as a terminal would.
#include "emulator/runtime/model/progress_line.hpp"

#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "program.hpp"
#include "start_again.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;
using testing::HasSubstr;

/// Lines of text as they are on a terminal after some output, as far as the line needs it: its control sequences, line
/// feeds and carriage returns.
class Screen {
 public:
  void take(std::string_view output) {
    pending_ += output;
    size_t at = 0;
    while (at < pending_.size()) {
      const std::string_view rest = std::string_view(pending_).substr(at);
      const std::string_view sequence = leading_sequence(rest);
      if (sequence.empty()) break;  // the rest of it is still to come
      execute(sequence);
      at += sequence.size();
    }
    pending_.erase(0, at);
  }
  /// All lines, without blanks at their ends; empty lines at the end of the screen do not count.
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    return all.substr(0, all.find_last_not_of('\n') + 1);
  }

 private:
  static std::string_view leading_sequence(std::string_view rest) {
    if (rest[0] != '\033') return rest.substr(0, 1);
    if (rest.size() < 2) return {};
    if (rest[1] != '[') return rest.substr(0, 2);
    const size_t end = rest.find_first_not_of("0123456789;", 2);
    return end == std::string_view::npos ? std::string_view{} : rest.substr(0, end + 1);
  }
  void execute(std::string_view sequence) {
    if (sequence == "\n" || sequence == "\033D") {
      if (++row_ == lines_.size()) lines_.emplace_back();
    } else if (sequence == "\r") {
      column_ = 0;
    } else if (sequence == "\0337") {
      kept_ = {row_, column_};
    } else if (sequence == "\0338") {
      std::tie(row_, column_) = kept_;
    } else if (sequence == "\033[A") {
      if (row_ != 0) --row_;
    } else if (sequence == "\033[2K") {
      lines_[row_].clear();
    } else if (sequence.size() == 1) {
      std::string& line = lines_[row_];
      if (line.size() <= column_) line.resize(column_ + 1, ' ');
      line[column_++] = sequence[0];
    } else {
      ADD_FAILURE() << "a control sequence that this terminal does not have: ESC" << sequence.substr(1);
    }
  }

  std::string pending_;
  std::vector<std::string> lines_{""};
  size_t row_ = 0, column_ = 0;
  std::pair<size_t, size_t> kept_;
};

/// A process whose stdin, stdout and stderr are a terminal.
class TerminalProcess {
 public:
  explicit TerminalProcess(const std::function<void()>& run) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 100;
    id_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (id_ == 0) {
      setenv("TERM", "vt100", 1);
      std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // as on any terminal; the parent may have had another stdout
      run();
      std::fflush(stdout);
      _exit(0);
    }
  }
  ~TerminalProcess() {
    if (id_ > 0) {
      kill(id_, SIGKILL);
      waitpid(id_, nullptr, 0);
    }
    close(terminal_);
  }
  /// Follows the output until `text` is on the screen, or the process has ended.
  bool shows(std::string_view text, seconds patience = seconds(60)) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (screen_.text().find(text) == std::string::npos) {
      pollfd wanted{terminal_, POLLIN, 0};
      if (std::chrono::steady_clock::now() > end) return false;
      if (poll(&wanted, 1, 100) == 0) continue;
      char bytes[4096];
      const ssize_t count = read(terminal_, bytes, sizeof bytes);
      if (count <= 0) return false;
      written_.append(bytes, static_cast<size_t>(count));
      screen_.take({bytes, static_cast<size_t>(count)});
    }
    return true;
  }
  void send(int signal) const { kill(id_, signal); }
  /// What is on the screen when the process has ended.
  std::string final_screen() {
    shows("(a text that no process writes)");
    return screen_.text();
  }
  /// All that was written so far.
  const std::string& written() const { return written_; }

 private:
  int terminal_ = -1;
  pid_t id_ = -1;
  Screen screen_;
  std::string written_;
};

const char* const kEndless = ".visible .entry kernel() { .reg .b32 %r; L: add.u32 %r, %r, 1; bra L; }";
/// Counts until the host has written to `flag`, and prints.
const char* const kPrinting = R"(.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
  .global .align 1 .b8 text[8] = {104, 101, 108, 108, 111, 10, 0, 0};
  .visible .entry kernel(.param .u64 flag) { .reg .b32 %r<3>; .reg .b64 %rd<3>; .reg .pred %p;
  ld.param.u64 %rd1, [flag];
  L: add.u32 %r1, %r1, 1; ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p, %r2, 0; @%p bra L;
  mov.u64 %rd2, text; cvta.global.u64 %rd2, %rd2;
  { .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], %rd2; st.param.b64 [p1], 0;
    call.uni (q), vprintf, (p0, p1); }
  M: add.u32 %r1, %r1, 1; bra M; })";

void launch(const char* ptx, void* argument = nullptr) {
  Program program(Program::with_ptx(ptx));
  void* arguments[] = {&argument};
  cudaLaunchKernel(program.kernel, {1, 1, 1}, {1, 1, 1}, arguments, 0, nullptr);
}

std::string described(uint64_t done, uint64_t running, int elapsed, size_t width = 200) {
  return describe_progress("sum_rows", 512, done, running, seconds(elapsed), "warp 0 of block (0, 0, 0) at sum.cu:41",
                           width);
}

TEST(ProgressLineTest, SaysHowManyBlocksAreDoneAndWhatIsLeft) {
  EXPECT_EQ(described(0, 148, 14),
            "stagecraft: kernel sum_rows: 0 of 512 blocks done, 14 s, warp 0 of block (0, 0, 0) at sum.cu:41");
  EXPECT_EQ(described(400, 100, 100),
            "stagecraft: kernel sum_rows: 400 of 512 blocks done, 1 min 40 s, about 29 s left");
  EXPECT_EQ(described(256, 64, 7260),
            "stagecraft: kernel sum_rows: 256 of 512 blocks done, 2 h 01 min, about 2 h 01 min left");
}

TEST(ProgressLineTest, EstimatesNothingWhileMuchOfWhatIsDoneIsInRunningBlocks) {
  EXPECT_EQ(described(100, 148, 14), "stagecraft: kernel sum_rows: 100 of 512 blocks done, 14 s");
}

TEST(ProgressLineTest, ShortensTheNameWhereTheTerminalIsNarrow) {
  EXPECT_EQ(described(100, 148, 14, 55), "stagecraft: kernel sum...: 100 of 512 blocks done, 14 s");
  EXPECT_LE(described(0, 1, 5, 20).size(), 20u);
  EXPECT_EQ(described(0, 1, 5, 0), "");
}

TEST(ProgressLineTest, ComesAfterThreeSeconds) {
  ProgressLine line("kernel", 1);
  EXPECT_FALSE(line.is_due());
}

TEST(ProgressLineTest, IsBelowALineThatTheProgramHasBegun) {
  TerminalProcess process([] {
    std::printf("first\nworking...");
    std::fflush(stdout);
    ProgressLine line("kernel", 10);
    for (uint64_t done = 1; done < 4; ++done) line.show(done, 8, "");
    std::this_thread::sleep_for(milliseconds(300));
    line.erase();
    line.erase();
    std::printf(" done\nlast");
  });
  EXPECT_TRUE(process.shows("first\nworking...\nstagecraft: kernel kernel: 3 of 10 blocks done, 0 s"))
      << process.written();
  EXPECT_EQ(process.final_screen(), "first\nworking... done\nlast");
}

/// Runs in a process of its own, which reads its settings again. One that is forked alone cannot use CUDA.
TEST(ProgressLineTest, DISABLED_RunsForEver) { launch(kEndless); }

TEST(ProgressLineTest, IsThereWhileALaunchRunsAndGoneBeforeItsReport) {
  TerminalProcess shown([] { start_again("*DISABLED_RunsForEver"); });
  TerminalProcess refused([] {
    setenv("STAGECRAFT_PROGRESS", "none", 1);
    start_again("*DISABLED_RunsForEver");
  });
  TerminalProcess dumb([] {
    setenv("TERM", "dumb", 1);
    start_again("*DISABLED_RunsForEver");
  });
  EXPECT_TRUE(shown.shows(" s, warp 0 of block (0, 0, 0) at "));
  EXPECT_THAT(shown.written(), HasSubstr("stagecraft: kernel kernel: 0 of 1 blocks done, "));
  std::this_thread::sleep_for(seconds(1));
  for (TerminalProcess* process : {&shown, &refused, &dumb}) process->send(SIGINT);
  const std::string screen = shown.final_screen();
  EXPECT_THAT(screen, HasSubstr("0 of 1 blocks are done"));
  EXPECT_THAT(screen, testing::Not(HasSubstr("blocks done")));
  for (TerminalProcess* process : {&refused, &dumb}) {
    EXPECT_THAT(process->final_screen(), HasSubstr("interrupted"));
    EXPECT_THAT(process->written(), testing::Not(HasSubstr("blocks done")));
  }
}

/// A program that loads PTX twice, of a length for which a line says that it is read.
TEST(ProgressLineTest, DISABLED_ReadsLongPtx) {
  const std::string ptx = ".visible .entry kernel() { ret; }\n" + std::string(9'000'000, '\n');
  launch(ptx.c_str());
  launch(ptx.c_str());
}

TEST(ProgressLineTest, OneSaysThatLongPtxIsRead) {
  const std::string said = "stagecraft: reading 9 MB of PTX, which takes a while\n";
  TerminalProcess shown([] { start_again("*DISABLED_ReadsLongPtx"); });
  TerminalProcess refused([] {
    setenv("STAGECRAFT_PROGRESS", "none", 1);
    start_again("*DISABLED_ReadsLongPtx");
  });
  const std::string screen = shown.final_screen();
  EXPECT_THAT(screen, HasSubstr(said));
  EXPECT_EQ(screen.find(said), screen.rfind(said));
  EXPECT_THAT(screen, HasSubstr("1 test from ProgressLineTest"));
  EXPECT_THAT(refused.final_screen(), testing::Not(HasSubstr("of PTX")));
}

TEST(ProgressLineTest, DISABLED_Prints) {
  int* flag = nullptr;
  cudaMallocManaged(reinterpret_cast<void**>(&flag), sizeof *flag);
  *flag = 0;
  std::thread([flag] {
    std::this_thread::sleep_for(milliseconds(4000));
    *static_cast<volatile int*>(flag) = 1;
  }).detach();
  launch(kPrinting, flag);
}

TEST(ProgressLineTest, IsErasedBeforeTheKernelPrints) {
  TerminalProcess process([] { start_again("*DISABLED_Prints"); });
  ASSERT_TRUE(process.shows("blocks done"));
  ASSERT_TRUE(process.shows("hello", seconds(10)));
  const size_t hello = process.written().find("hello");
  const std::string before = process.written().substr(0, hello);
  EXPECT_TRUE(before.ends_with("\033D\033[2K\033[A")) << before;
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
