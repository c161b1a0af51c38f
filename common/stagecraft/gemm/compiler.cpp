#include "stagecraft/gemm/compiler.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>

#include "stagecraft/gemm/legal.hpp"

extern char** environ;

namespace stagecraft {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// A number for everything that a kernel is made from: FNV-1a, of 64 bits.
class Digest {
 public:
  void add(const std::string& bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    value_ = (value_ ^ 0x100) * 0x100000001b3;  // where it ends
  }
  std::string text() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
    return text;
  }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

std::optional<std::string> contents_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// ---- The source -----------------------------------------------------------------------------------------------------

/// A configuration in C++. The structured binding makes a member that is forgotten here an error.
std::string initialiser_of(const GemmConfig& config) {
  const auto& [a, b, d, a_major, b_major, tile_m, tile_n, k_group, accumulators, stages, cta_group, cluster_m,
               cluster_n, fallback_m, fallback_n, launch_control, divides_k, epilogue, groups, transposes_d, adds_c, c,
               bias, device_factors, gathers_c] = config;
  std::ostringstream text;
  const auto type = [](DataType type) {
    std::string name = name_of(type);
    std::ranges::replace(name, '-', '_');
    return "DataType::" + name;
  };
  const auto major = [](Major major) { return major == Major::k ? "Major::k" : "Major::mn"; };
  text << std::boolalpha << "{.a = " << type(a) << ", .b = " << type(b) << ", .d = " << type(d)
       << ", .a_major = " << major(a_major) << ", .b_major = " << major(b_major) << ", .tile_m = " << tile_m
       << ", .tile_n = " << tile_n << ", .k_group = " << k_group << ", .accumulators = " << accumulators
       << ", .stages = " << stages << ", .cta_group = " << cta_group << ", .cluster_m = " << cluster_m
       << ", .cluster_n = " << cluster_n << ", .fallback_m = " << fallback_m << ", .fallback_n = " << fallback_n
       << ", .launch_control = " << launch_control << ", .divides_k = " << divides_k << ", .epilogue = GemmEpilogue("
       << static_cast<int>(epilogue) << "), .groups = " << groups << ", .transposes_d = " << transposes_d
       << ", .adds_c = " << adds_c << ", .c = " << type(c) << ", .bias = " << type(bias)
       << ", .device_factors = " << device_factors << ", .gathers_c = " << gathers_c << "}";
  return text.str();
}

constexpr const char* kEntryPoint = "stagecraft_gemm_kernels";

/// What a loaded library says of itself. Its sizes must be those of this program, which may be older than the headers.
struct LoadedTable {
  size_t config_bytes, kernel_bytes, launch_bytes;
  std::span<const GemmKernel> kernels;
};

std::string source_of(std::span<const GemmConfig> configs) {
  std::string text =
      "#include \"stagecraft/gemm/launch.cuh\"\n"
      "namespace stagecraft {\n"
      "namespace {\n"
      "constexpr std::array<GemmConfig, " +
      std::to_string(configs.size()) + "> kConfigs{{\n";
  for (const GemmConfig& config : configs) text += "    " + initialiser_of(config) + ",\n";
  return text +
         "}};\n"
         "struct LoadedTable {\n"
         "  size_t config_bytes, kernel_bytes, launch_bytes;\n"
         "  std::span<const GemmKernel> kernels;\n"
         "};\n"
         "}  // namespace\n"
         "extern \"C\" __attribute__((visibility(\"default\"))) void " +
         kEntryPoint +
         "(LoadedTable& table) {\n"
         "  table = {sizeof(GemmConfig), sizeof(GemmKernel), sizeof(GemmLaunch), kernels_of<kConfigs>()};\n"
         "}\n"
         "}  // namespace stagecraft\n";
}

// ---- nvcc -----------------------------------------------------------------------------------------------------------

/// Runs a program with its output in a file.
/// @returns its exit status, or nothing where it could not be started.
std::optional<int> run(const std::vector<std::string>& command, const fs::path& output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t process = 0;
  const int error = posix_spawnp(&process, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(process, &status, 0) != process) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// What the first static_assert of types.hpp that failed says, which makes others fail after it; else the first
/// static_assert of any header; else the first error.
std::string error_in(const std::string& output) {
  for (const std::string start : {"static assertion failed with \"GEMM: ", "static assertion failed with \""}) {
    const size_t at = output.find(start);
    if (at == std::string::npos) continue;
    const size_t begin = at + start.size();
    return output.substr(begin, output.find('"', begin) - begin) + ".";
  }
  const size_t error = std::min(output.find("error"), output.size());
  const size_t line = output.rfind('\n', error) + 1;  // npos + 1 is 0
  return output.substr(line, output.find('\n', error) - line);
}

/// The files that a dependency file of make names after its target, whose spaces nvcc does not escape.
std::vector<std::string> inputs_in(const std::string& dependencies) {
  std::vector<std::string> files;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) files.push_back(word);
    word.clear();
  };
  const size_t colon = dependencies.find(" : ");
  for (size_t i = colon == std::string::npos ? 0 : colon + 3; i < dependencies.size(); ++i) {
    const char next = i + 1 < dependencies.size() ? dependencies[i + 1] : '\n';
    if (dependencies[i] == '\\' && (next == ' ' || next == '\n')) {
      if (next == ' ') word += ' ';
      ++i;
      if (next == '\n') end_word();
    } else if (std::isspace(static_cast<unsigned char>(dependencies[i])) != 0) {
      end_word();
    } else {
      word += dependencies[i];
    }
  }
  end_word();
  return files;
}

/// The contents of files, as a number; nothing where one of them is missing.
std::optional<std::string> digest_of(const std::vector<std::string>& files) {
  Digest digest;
  for (const std::string& file : files) {
    const auto contents = contents_of(file);
    if (!contents) return std::nullopt;
    digest.add(file);
    digest.add(*contents);
  }
  return digest.text();
}

/// A new folder beside those of other processes, which is deleted in the end; and so are those that processes have left
/// that were interrupted an hour ago or earlier.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& parent) {
    std::error_code ignored;
    fs::create_directories(parent, ignored);
    const auto an_hour_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
    for (const auto& entry : fs::directory_iterator(parent, ignored)) {
      if (!entry.path().filename().string().starts_with("work.")) continue;
      if (entry.last_write_time(ignored) < an_hour_ago) fs::remove_all(entry.path(), ignored);
    }
    std::string name = (parent / "work.XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (exists()) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  bool exists() const { return !path_.empty(); }
  const fs::path& path() const { return path_; }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Why nvcc has failed without a word: what it says goes to the same disk as what it makes.
std::string silent_failure(const std::string& folder) {
  std::error_code ignored;
  const uintmax_t left = fs::space(folder, ignored).available;
  return "nvcc failed and could not say why: the disk of " + folder + " has " + std::to_string(left >> 20) +
         " MiB left.";
}

GemmError no_compiler(std::string message) { return {GemmFailure::no_compiler, std::move(message)}; }

/// Loads a library of kernels, for as long as the process lives.
GemmExpected<CompiledGemms> load(const fs::path& file, std::span<const GemmConfig> configs) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return no_compiler("the compiled kernel cannot be loaded: " + std::string(dlerror()));
  const auto entry = reinterpret_cast<void (*)(LoadedTable&)>(dlsym(library, kEntryPoint));
  LoadedTable table{};
  if (entry != nullptr) entry(table);
  if (table.config_bytes != sizeof(GemmConfig) || table.kernel_bytes != sizeof(GemmKernel) ||
      table.launch_bytes != sizeof(GemmLaunch)) {
    return no_compiler("the kernel was compiled with other headers than this program. Build the program again.");
  }
  CompiledGemms compiled;
  for (const GemmKernel& kernel : table.kernels) compiled.kernels.push_back(&kernel);
  const bool as_wanted = std::ranges::equal(configs, table.kernels, {}, {}, &GemmKernel::config);
  if (!as_wanted) return no_compiler("the compiled kernel is for other options: delete " + file.string() + ".");
  return compiled;
}

}  // namespace

GemmExpected<CompiledGemms> GemmCompiler::compile(std::span<const GemmConfig> configs) const {
  for (const GemmConfig& config : configs) {
    if (const char* const reason = why_illegal(config)) {
      return GemmError{GemmFailure::bad_configuration, std::string(reason) + "."};
    }
  }
  const WorkFolder work(folder_);
  if (!work.exists()) return no_compiler("kernels cannot be kept: the folder " + folder_ + " cannot be written to.");
  const std::string source = source_of(configs);
  std::ofstream(work / "kernels.cu") << source;
  std::vector<std::string> command{nvcc_};
  command.insert(command.end(), arguments_.begin(), arguments_.end());
  for (const char* argument : {"-shared", "-cudart", "none", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-MD", "-MF"}) {
    command.emplace_back(argument);
  }
  command.insert(command.end(), {work / "kernels.d", work / "kernels.cu", "-o", work / "kernels.so"});

  // What is known before nvcc has run: which file says what the kernels depend on.
  if (run({nvcc_, "--version"}, work / "version") != 0) {
    return no_compiler("no kernel can be compiled, because there is no nvcc at " + nvcc_ + ".");
  }
  Digest wish;
  wish.add(source);
  wish.add(*contents_of(work / "version"));
  for (const std::string& argument : arguments_) wish.add(argument);
  for (const char* name : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH"}) {
    const char* value = std::getenv(name);
    wish.add(value != nullptr ? value : "");
  }
  const fs::path folder(folder_), list = folder / (wish.text() + ".inputs");
  const auto kept = [&](const std::string& digest) { return folder / (wish.text() + "-" + digest + ".so"); };
  if (std::ifstream lines(list); lines) {
    std::vector<std::string> inputs;
    for (std::string line; std::getline(lines, line);) inputs.push_back(line);
    const auto digest = digest_of(inputs);
    if (digest && fs::exists(kept(*digest))) return load(kept(*digest), configs);
  }

  const auto start = Clock::now();
  const auto started = fs::file_time_type::clock::now();
  const std::optional<int> status = run(command, work / "output");
  if (status != 0) {
    const std::string output = contents_of(work / "output").value_or("");
    if (output.empty()) return no_compiler(silent_failure(folder_));
    return GemmError{GemmFailure::bad_configuration, error_in(output)};
  }
  // The list and the library have names of their own until they are complete: another process may look for them.
  std::vector<std::string> inputs = inputs_in(contents_of(work / "kernels.d").value_or(""));
  std::erase_if(inputs, [&](const std::string& input) { return input.starts_with(work.path().string()); });
  {
    std::ofstream lines(work / "inputs");
    for (const std::string& input : inputs) lines << input << '\n';
  }
  const auto digest = digest_of(inputs);
  const bool changed_meanwhile = !digest || std::ranges::any_of(inputs, [&](const std::string& input) {
    std::error_code error;
    return fs::last_write_time(input, error) >= started || error;
  });
  auto compiled = load(work / "kernels.so", configs);
  if (!compiled) return compiled;
  if (!changed_meanwhile) {
    std::error_code ignored;  // a kernel that cannot be kept is compiled again next time
    fs::rename(work / "kernels.so", kept(*digest), ignored);
    fs::rename(work / "inputs", list, ignored);
  }
  return CompiledGemms{compiled->kernels, std::chrono::duration<double>(Clock::now() - start).count()};
}

}  // namespace stagecraft
