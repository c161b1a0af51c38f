#include "emulator/runtime/model/linked_image.hpp"

#include "emulator/fatbin/bytes.hpp"
#include "emulator/runtime/model/errors.hpp"

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

}  // namespace

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
