// Finds the fastest configuration of the Hopper twin for given shapes on the chip at hand, and writes the table that
// choose_twin() reads.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuning.hpp"

namespace {

using namespace stagecraft;

struct Options {
  std::vector<Shape> shapes;
  std::string output;
  TuningOptions tuning;
  int seed = 1;
};

std::string line_of(const std::string& device, const Shape& shape) {
  return "{\"" + device + "\", OperandType::" + (shape.type == OperandType::e4m3 ? "e4m3" : "bf16") + ", " +
         std::to_string(shape.m) + ", " + std::to_string(shape.n) + ", " + std::to_string(shape.k) + ", ";
}

/// Finds the fastest for a shape, with random matrices, and says what was found.
std::optional<Found> tune(const Shape& shape, const Options& options) {
  const auto sets = make_sets(shape, options.seed);
  std::vector<MatrixProduct> products;
  for (const auto& set : sets) products.push_back(set->product(shape));
  const std::optional<Found> found = find_fastest(products, options.tuning);
  if (!found) return found;
  std::printf("%s:", shape.name().c_str());
  for (const auto& [name, rate] : found->others) std::printf(" %s %.1f", name.c_str(), rate);
  std::printf(" -> %s%s\n", name_of(found->choice.kind),
              found->choice.band > 0 ? (" " + std::to_string(found->choice.band)).c_str() : "");
  std::fflush(stdout);
  return found;
}

/// Replaces the lines of the shapes that were tuned, and leaves all others as they are.
void write_table(const std::string& file, const std::map<std::string, std::string>& lines) {
  std::vector<std::string> kept;
  std::ifstream old(file);
  for (std::string line; std::getline(old, line);) {
    const bool replaced =
        std::any_of(lines.begin(), lines.end(), [&](const auto& one) { return line.starts_with(one.first); });
    if (!replaced) kept.push_back(line);
  }
  old.close();
  if (kept.empty()) {
    kept.push_back(
        "// Which configuration is the fastest for a product on a device. Written by `./stagecraft tune`; read by "
        "twin.cu.");
  }
  std::ofstream table(file);
  for (const std::string& line : kept) table << line << "\n";
  for (const auto& [key, rest] : lines) table << key << rest << "\n";
  table.flush();
  if (!table) throw std::runtime_error("cannot write " + file);
}

const char* const kUsage =
    "usage: ./stagecraft tune --shapes MxNxK,... [OPTIONS]\n\n"
    "  --types bf16,e4m3  of A and B; default bf16\n"
    "  --output FILE      the table; default common/stagecraft/hopper_gemm/tuned.inc, which the next build reads\n"
    "  --repeats N, --launches N, --pause MS, --finalists N, --seed N\n"
    "                     bursts, products in each, rest before each, configurations measured again; of the data\n";

Options parse(int argc, char** argv) {
  Options options;
  std::string types = "bf16", shapes;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(name + " needs a value; --help lists the options");
    const std::string value = argv[i + 1];
    const std::pair<const char*, int*> numbers[] = {{"--repeats", &options.tuning.repeats},
                                                    {"--launches", &options.tuning.launches},
                                                    {"--pause", &options.tuning.pause_ms},
                                                    {"--finalists", &options.tuning.finalists},
                                                    {"--seed", &options.seed}};
    const auto number =
        std::find_if(std::begin(numbers), std::end(numbers), [&](const auto& one) { return name == one.first; });
    if (name == "--shapes")
      shapes = value;
    else if (name == "--types")
      types = value;
    else if (name == "--output")
      options.output = value;
    else if (number != std::end(numbers))
      *number->second = parse_number(name, value, name == "--pause" || name == "--seed" ? 0 : 1);
    else
      throw std::invalid_argument("there is no option " + name + "; --help lists those that there are");
  }
  if (shapes.empty()) throw std::invalid_argument("which shapes? --shapes 8192x8192x8192,128x8192x8192");
  if (options.output.empty()) throw std::invalid_argument("where is the table? --output FILE");
  options.shapes = parse_shapes(types, shapes);
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  try {
    const Options options = parse(argc, argv);
    const GpuState gpu;
    const Machine machine(gpu);
    std::printf("%s\nTFLOP/s of the usual choice and the best others:\n", machine.description().c_str());
    std::map<std::string, std::string> lines;
    bool all_found = true;
    for (const Shape& shape : options.shapes) {
      const std::optional<Found> found = tune(shape, options);
      all_found = all_found && found.has_value();
      if (!found) {
        std::printf("%s: nothing was found\n", shape.name().c_str());
        continue;
      }
      char rates[160];
      std::snprintf(rates, sizeof rates, "  // %.0f TFLOP/s, usual %.0f; %s, driver %s, %u MHz at rest, memory %u MHz",
                    found->rate, found->usual_rate, machine.date.c_str(), machine.driver.c_str(), machine.clock,
                    machine.memory_clock);
      lines[line_of(machine.device, shape)] = std::string("{TwinKind::") + name_of(found->choice.kind) + ", " +
                                              std::to_string(found->choice.band) + "}}," + rates;
    }
    write_table(options.output, lines);
    std::printf("%zu lines in %s\n", lines.size(), options.output.c_str());
    return all_found ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tune: %s\n", error.what());
    return 2;
  }
}
