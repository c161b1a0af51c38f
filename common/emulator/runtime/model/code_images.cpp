#include "emulator/runtime/model/code_images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "emulator/fatbin/bytes.hpp"
#include "emulator/fatbin/container.hpp"
#include "emulator/fatbin/locate.hpp"
#include "emulator/ptx/demangling.hpp"
#include "emulator/runtime/model/errors.hpp"
#include "emulator/runtime/model/state.hpp"

namespace stagecraft::emulator::runtime {
namespace {

constexpr uint64_t kHeaderBytes = 2 * sizeof(uint64_t);  // the magic number, and the size of what follows

[[noreturn]] void corrupt() {
  throw ApiError(cudaErrorInvalidKernelImage,
                 "the linked image is damaged: pass on what cuLinkComplete gave, before cuLinkDestroy");
}

void append(std::string& to, uint64_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }

/// Removes a string, which follows its length, from the front of `rest` and returns it.
std::string take_string(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof(uint64_t)) corrupt();
  const auto size = fatbin::read_at<uint64_t>(bytes, 0);
  bytes = bytes.subspan(sizeof size);
  if (size > bytes.size()) corrupt();
  std::string text(reinterpret_cast<const char*>(bytes.data()), size);
  bytes = bytes.subspan(size);
  return text;
}

// ---- Variants ----

using RegisteredImage = ModuleTable::RegisteredImage;
using Names = std::set<std::string>;

constexpr size_t kLongestSignature = 100;  // of those that messages show whole

Names without_file(const Names& names) {
  Names result;
  for (const std::string& name : names) result.insert(ptx::without_file(name));
  return result;
}

/// How names of this image or file name the file, by marker.
std::map<std::string_view, std::string> file_names(const Names& kernels, const Names& variables) {
  std::map<std::string_view, std::string> found;
  for (const Names* names : {&kernels, &variables}) {
    for (const std::string& name : *names) {
      for (const ptx::FilePart& part : ptx::file_parts(name))
        found.emplace(part.marker, name.substr(part.begin, part.size));
    }
  }
  return found;
}

/// For a person: with its parameters where that is short, because kernels may differ by them alone.
std::string called(const std::string& name) {
  const std::string whole = ptx::demangle(name);
  return whole.size() <= kLongestSignature ? whole : ptx::short_function_name(name);
}

std::string list_of(const Names& names) {
  std::vector<std::string> called_so;
  for (const std::string& name : names) called_so.push_back(called(name));
  return fmt::format("{}", fmt::join(called_so, ", "));
}

/// The kernels of an image; its variables where it has none.
std::string describe(const RegisteredImage& image) {
  return image.kernels.empty() ? fmt::format("(no kernel, but {})", list_of(image.variables)) : list_of(image.kernels);
}

std::string describe(const std::vector<const RegisteredImage*>& images) {
  std::vector<std::string> lines;
  for (const RegisteredImage* image : images) lines.push_back(describe(*image));
  return fmt::format("{}", fmt::join(lines, "; "));
}

/// PTX of a file.
struct Variant {
  std::string file;
  std::string text;
  std::shared_ptr<const ptx::Module> module;
  Names kernels, variables;
};

[[noreturn]] void refuse(const std::string& message) { throw ApiError(cudaErrorInvalidKernelImage, message); }

Variant read_variant(const std::string& file, const machine::Architecture& architecture) {
  Variant variant{.file = file, .text = read_image(file.c_str()), .module = {}, .kernels = {}, .variables = {}};
  if (variant.text.find(".version") == std::string::npos || variant.text.find('\0') != std::string::npos) {
    refuse(fmt::format("{} is no PTX, which begins with .version: nvcc -ptx writes it", file));
  }
  try {
    variant.module = parse_ptx(variant.text, variant.file, architecture);
  } catch (const ApiError& error) {
    throw ApiError(error.code(), fmt::format("{}: {}", file, error.what()));
  }
  for (const ptx::Function& function : variant.module->functions) {
    if (function.is_entry && !function.is_declaration) variant.kernels.insert(function.name);
  }
  for (const ptx::Variable& variable : variant.module->variables) {
    if (!variable.is_extern) variant.variables.insert(variable.name);
  }
  return variant;
}

bool shares(const Names& one, const Names& other) {
  return std::any_of(one.begin(), one.end(), [&](const std::string& name) { return other.contains(name); });
}

/// The image that registered what the file defines. The file may have more kernels, which nothing calls, and fewer
/// variables: nvcc leaves those out that nothing uses.
const RegisteredImage& find_image(const Variant& variant, const std::vector<RegisteredImage>& images) {
  const Names kernels = without_file(variant.kernels), variables = without_file(variant.variables);
  std::vector<const RegisteredImage*> equal, contained, all;
  const RegisteredImage* incomplete = nullptr;
  Names missing;
  for (const RegisteredImage& image : images) {
    const Names wanted = without_file(image.kernels);
    all.push_back(&image);
    if (!shares(wanted, kernels) && !(wanted.empty() && shares(without_file(image.variables), variables))) continue;
    if (wanted == kernels) equal.push_back(&image);
    if (std::includes(kernels.begin(), kernels.end(), wanted.begin(), wanted.end())) {
      contained.push_back(&image);
    } else if (incomplete == nullptr) {
      incomplete = &image;
      for (const std::string& name : image.kernels) {
        if (!kernels.contains(ptx::without_file(name))) missing.insert(name);
      }
    }
  }
  const std::vector<const RegisteredImage*>& fitting = equal.empty() ? contained : equal;
  if (fitting.size() == 1) return *fitting.front();
  if (fitting.size() > 1) {
    refuse(fmt::format("{} fits several images of the program, and it is not clear which is meant: {}", variant.file,
                       describe(fitting)));
  }
  if (incomplete != nullptr) {
    refuse(fmt::format("{} lacks {}, which the program has in the same image: {}", variant.file, list_of(missing),
                       describe(*incomplete)));
  }
  refuse(fmt::format("{} fits no image of the program: it defines {}; the program's images have {}", variant.file,
                     variant.kernels.empty() ? "no kernel" : list_of(variant.kernels),
                     all.empty() ? "no kernel" : describe(all)));
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// The file's program under the names that the image registered.
std::shared_ptr<const ptx::Module> with_names_of(const RegisteredImage& image, Variant& variant,
                                                 const machine::Architecture& architecture) {
  const auto own = file_names(variant.kernels, variant.variables), wanted = file_names(image.kernels, image.variables);
  bool changed = false;
  for (const auto& [marker, name] : wanted) {
    const auto found = own.find(marker);
    if (found == own.end() || found->second == name) continue;
    replace_all(variant.text, found->second, name);
    changed = true;
  }
  return changed ? parse_ptx(variant.text, variant.file, architecture) : variant.module;
}

}  // namespace

std::string copy_image(const void* image) {
  std::span<const std::byte> bytes = fatbin::readable_from(required(image, "image"));
  if (bytes.empty()) {
    throw ApiError(cudaErrorInvalidValue, fmt::format("the image {} cannot be read", fmt::ptr(image)));
  }
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    // A text may be shorter than the magic numbers of the other forms, none of which has a byte that is 0.
    const size_t most = std::min(sizeof(uint32_t), bytes.size());
    const uint32_t magic = strnlen(text, most) < sizeof magic ? 0 : fatbin::read_at<uint32_t>(bytes, 0);
    if (bytes.size() >= sizeof(uint64_t) && magic != 0 && fatbin::read_at<uint64_t>(bytes, 0) == kLinkedImageMagic) {
      bytes = bytes.first(linked_image_size(bytes));
    } else if (magic == fatbin::kWrapperMagic) {
      bytes = fatbin::container_of_wrapper(image);
    } else if (magic == fatbin::kContainerMagic) {
      const uint64_t size = fatbin::container_size(bytes);
      bytes = bytes.first(std::min<uint64_t>(size, bytes.size()));
    } else {
      bytes = bytes.first(strnlen(text, bytes.size()));
    }
  } catch (const fatbin::Error& error) {
    throw ApiError(cudaErrorInvalidKernelImage, error.what());
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Module& load_module(ModuleTable& modules, machine::Machine& machine, std::string image) {
  auto module = std::make_unique<Module>(std::move(image));
  module->load_all(machine);
  return modules.add(std::move(module));
}

Module& require_module(const ModuleTable& modules, const void* handle) {
  const auto* module = static_cast<const Module*>(handle);
  if (!modules.contains(module)) {
    throw ApiError(cudaErrorInvalidResourceHandle, fmt::format("{} is no module", fmt::ptr(handle)));
  }
  return *const_cast<Module*>(module);
}

Function& find_kernel(Module& module, const char* name, machine::Machine& machine) {
  if (!module.has_kernel(required(name, "name"), machine)) {
    throw ApiError(cudaErrorSymbolNotFound,
                   fmt::format("the module has no kernel {}; names are mangled unless declared extern \"C\"", name));
  }
  return module.function(name);
}

std::string read_image(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ApiError(cudaErrorFileNotFound, fmt::format("{} cannot be opened", path));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {  // which opens, and cannot be read
    throw ApiError(cudaErrorFileNotFound, fmt::format("{} is a directory", path));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void replace_images(const ModuleTable& modules, const std::vector<std::string>& files,
                    const machine::Architecture& architecture) {
  const std::vector<RegisteredImage> images = modules.registered_images();
  std::map<const RegisteredImage*, Variant> chosen;
  for (const std::string& file : files) {
    Variant variant = read_variant(file, architecture);
    const RegisteredImage& image = find_image(variant, images);
    const auto [place, is_new] = chosen.emplace(&image, std::move(variant));
    if (!is_new)
      refuse(fmt::format("{} and {} are both for the image of {}", place->second.file, file, describe(image)));
  }
  for (auto& [image, variant] : chosen) image->module->replace_text(with_names_of(*image, variant, architecture));
}

std::string pack_linked_image(const std::vector<PtxText>& inputs) {
  std::string content;
  for (const PtxText& input : inputs) {
    for (const std::string* part : {&input.name, &input.text}) {
      append(content, part->size());
      content += *part;
    }
  }
  std::string image;
  append(image, kLinkedImageMagic);
  append(image, content.size());
  return image + content;
}

uint64_t linked_image_size(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) corrupt();
  const auto size = fatbin::read_at<uint64_t>(bytes, sizeof(uint64_t));
  if (size > bytes.size() - kHeaderBytes) corrupt();
  return kHeaderBytes + size;
}

std::vector<PtxText> unpack_linked_image(std::span<const std::byte> image) {
  image = image.first(linked_image_size(image)).subspan(kHeaderBytes);
  std::vector<PtxText> inputs;
  while (!image.empty()) {
    PtxText& input = inputs.emplace_back();
    input.name = take_string(image);
    input.text = take_string(image);
  }
  return inputs;
}

}  // namespace stagecraft::emulator::runtime
