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

#include "measurement.hpp"
#include "twin.hpp"

namespace {

using namespace stagecraft;

constexpr TwinKind kKinds[] = {TwinKind::standard, TwinKind::halved, TwinKind::large,
                               TwinKind::thin,     TwinKind::flat,   TwinKind::by_threads};
constexpr int kBands[] = {0, 4, 6, 8, 11, 16};  // 0: the usual one

/// Less than this is within the spread of two measurements.
constexpr double kWorthIt = 1.005;

struct Options {
  std::vector<Shape> shapes;
  std::string output;
  int repeats = 9, launches = 12, pause_ms = 20, finalists = 4, seed = 1;
};

/// A choice, ready for a shape.
struct Candidate {
  TwinChoice choice;
  Prepared prepared;
  std::string name() const {
    return std::string(name_of(choice.kind)) + (choice.band > 0 ? " " + std::to_string(choice.band) : "");
  }
};

/// What was found for a shape.
struct Found {
  TwinChoice choice;
  double rate;        ///< TFLOP/s
  double usual_rate;  ///< that of what the rule expects to be the fastest
};

std::string line_of(const std::string& device, const Shape& shape) {
  return "{\"" + device + "\", OperandType::" + (shape.type == OperandType::e4m3 ? "e4m3" : "bf16") + ", " +
         std::to_string(shape.m) + ", " + std::to_string(shape.n) + ", " + std::to_string(shape.k) + ", ";
}

/// What the rule says, without the table.
TwinChoice usual_choice(const Shape& shape) {
  int multiprocessors = 0;
  harness::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                 "ask the device for its multiprocessors");
  return {.kind = choose_twin(shape.m, shape.n, shape.k * shape.element_bytes() / 128, multiprocessors)};
}

/// Measures all candidates once, the best of them and the usual one again and again in turn.
/// @returns nothing where no configuration takes the shape, or one of the results is wrong.
std::optional<Found> tune(const Shape& shape, const Options& options) {
  const auto sets = make_sets(shape, options.seed);
  const double tera = shape.operations() * 1e-9;
  const int launches = shape.operations() > 4e12 ? 8 : options.launches;
  const TwinChoice usual = usual_choice(shape);
  std::vector<Candidate> all;
  bool right = true;
  for (const TwinKind kind : kKinds) {
    if (!takes(kind, sets[0]->product(shape))) continue;
    for (const int band : kBands) {
      // Few tiles are one band; and what stores by threads is measured only where nothing else can be.
      if (band > 0 && (band - 1) * 128 >= shape.m) continue;
      if (kind == TwinKind::by_threads && shape.n % 8 == 0) continue;
      Candidate candidate{.choice = {kind, band}, .prepared = {}};
      candidate.prepared.name = candidate.name();
      for (const auto& set : sets) {
        candidate.prepared.launches.push_back(prepare_twin(candidate.choice, set->product(shape)));
      }
      const Verdict verdict = verify(shape, *sets[0], candidate.prepared, nullptr);
      if (!verdict.right()) {
        std::printf("%s: %s is wrong in %lld of %lld elements\n", shape.name().c_str(), candidate.name().c_str(),
                    static_cast<long long>(verdict.in_double.wrong),
                    static_cast<long long>(verdict.in_double.compared));
        right = false;
        continue;
      }
      candidate.prepared.burst.push_back(tera / time_launches(candidate.prepared, std::max(2, launches / 3), 5));
      all.push_back(std::move(candidate));
    }
  }
  if (!right || all.empty()) return std::nullopt;

  std::sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    const bool a_is_usual = a.choice == usual, b_is_usual = b.choice == usual;  // the usual one stays in any case
    return a_is_usual != b_is_usual ? a_is_usual : a.prepared.burst[0] > b.prepared.burst[0];
  });
  all.resize(std::min<size_t>(all.size(), 1 + options.finalists));
  for (Candidate& candidate : all) candidate.prepared.burst.clear();
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (size_t i = 0; i < all.size(); ++i) {
      Prepared& prepared = all[(i + repeat) % all.size()].prepared;
      prepared.burst.push_back(tera / time_launches(prepared, launches, options.pause_ms));
    }
  }
  const auto rate = [](const Candidate& candidate) { return median(candidate.prepared.burst); };
  const Candidate& best =
      *std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) { return rate(a) < rate(b); });
  std::printf("%s:", shape.name().c_str());
  for (const Candidate& candidate : all) std::printf(" %s %.1f", candidate.name().c_str(), rate(candidate));
  const Candidate& chosen = rate(best) > kWorthIt * rate(all[0]) ? best : all[0];
  std::printf(" -> %s\n", chosen.name().c_str());
  std::fflush(stdout);
  return Found{chosen.choice, rate(chosen), rate(all[0])};
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
    "  --output FILE      the table; default solutions/15_hopper_twin/tuned.inc, which the next build reads\n"
    "  --repeats N, --launches N, --pause MS, --finalists N, --seed N\n"
    "                     bursts, products in each, rest before each, configurations measured again; of the data\n";

Options parse(int argc, char** argv) {
  Options options;
  std::string types = "bf16", shapes;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(name + " needs a value; --help lists the options");
    const std::string value = argv[i + 1];
    const std::pair<const char*, int*> numbers[] = {{"--repeats", &options.repeats},
                                                    {"--launches", &options.launches},
                                                    {"--pause", &options.pause_ms},
                                                    {"--finalists", &options.finalists},
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
