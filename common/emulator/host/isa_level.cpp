#include "emulator/host/isa_level.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "emulator/host/processor_level.hpp"
#include "emulator/settings/table.hpp"

namespace stagecraft::emulator::machine {
namespace {

#define STAGECRAFT_LEVEL(level, isa, ...) level,
constexpr int kBuilt[] = {STAGECRAFT_EACH_ISA(STAGECRAFT_LEVEL, )};
#undef STAGECRAFT_LEVEL

/// Returns the highest built level that is not above `limit`, or the lowest one when all are.
int highest_up_to(int limit) {
  int level = kBuilt[0];
  for (const int built : kBuilt) {
    if (built <= limit) level = built;
  }
  return level;
}

int chosen_level() {
  const int processor = processor_level();
  if (processor < kBuilt[0]) {
    std::fprintf(
        stderr,
        "stagecraft: this emulated GPU was built for processors with %s, which this one is not. Build it on this "
        "machine in a new folder, or with -Disa_levels=all for every x86-64.\n",
        kBuilt[0] == 4 ? "AVX-512" : "AVX2");
    std::exit(1);
  }
  const std::string_view wish = settings::word_of(settings::Setting::isa_level);
  const int wished = wish.empty() ? processor : std::atoi(wish.data());
  return highest_up_to(wished < processor ? wished : processor);
}

}  // namespace

int isa_level() {
  static const int level = chosen_level();
  return level;
}

}  // namespace stagecraft::emulator::machine
