// The kernel's configurations, and what is chosen among them, as contenders of a benchmark.
#include "contenders.hpp"
#include "twin.hpp"

namespace stagecraft {
namespace {

const AddContender chosen({.name = "twin",
                           .takes = [](const MatrixProduct& p) { return takes(TwinKind::by_threads, p); },
                           .prepare = [](const MatrixProduct& p) { return prepare_twin(choose_twin(p), p); }});

AddContender add(TwinKind kind) {
  return AddContender({.name = name_of(kind),
                       .takes = [kind](const MatrixProduct& p) { return takes(kind, p); },
                       .prepare = [kind](const MatrixProduct& p) { return prepare_twin({.kind = kind}, p); }});
}
const AddContender standard = add(TwinKind::standard), halved = add(TwinKind::halved), large = add(TwinKind::large),
                   thin = add(TwinKind::thin), flat = add(TwinKind::flat), by_threads = add(TwinKind::by_threads);

}  // namespace
}  // namespace stagecraft
