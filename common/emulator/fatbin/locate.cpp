#include "emulator/fatbin/locate.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>

#include "emulator/fatbin/bytes.hpp"
#include "emulator/fatbin/container.hpp"

namespace stagecraft::emulator::fatbin {

std::span<const std::byte> readable_from(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "r"), &std::fclose);
  if (!maps) return {};
  uintptr_t end_of_readable = 0;  // of the run of adjacent readable mappings that holds the address
  char line[512];
  bool at_line_start = true;
  while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
    const bool is_start = at_line_start;
    at_line_start = std::string_view(line).ends_with('\n');
    unsigned long begin = 0, end = 0;
    char readable = 0;
    if (!is_start || std::sscanf(line, "%lx-%lx %c", &begin, &end, &readable) != 3) continue;
    if (readable != 'r') {
      if (end_of_readable != 0) break;
      continue;
    }
    if (address >= begin && address < end) {
      end_of_readable = end;
    } else if (end_of_readable != 0) {
      if (begin != end_of_readable) break;
      end_of_readable = end;
    }
  }
  if (end_of_readable == 0) return {};
  return {static_cast<const std::byte*>(pointer), end_of_readable - address};
}

namespace {

struct Wrapper {
  uint32_t magic = 0, version = 0;
  const void* container = nullptr;
  const void* linked = nullptr;  ///< of version 2: pointers to further containers, the last one null
};

Wrapper read_wrapper(const void* wrapper) {
  const std::span<const std::byte> bytes = readable_from(wrapper);
  if (bytes.size() < sizeof(Wrapper)) {
    throw Error(
        ErrorKind::corrupt,
        fmt::format("fat binary: its wrapper at {} cannot be read; it is registered by code that nvcc generates",
                    fmt::ptr(wrapper)));
  }
  const auto result = read_at<Wrapper>(bytes, 0);
  if (result.magic != kWrapperMagic) {
    throw Error(ErrorKind::corrupt,
                fmt::format("fat binary: its wrapper begins with 0x{:08x} where 0x{:08x} should stand", result.magic,
                            kWrapperMagic));
  }
  return result;
}

std::span<const std::byte> container_at(const void* address) {
  const std::span<const std::byte> data = readable_from(address);
  const uint64_t size = container_size(data);
  if (size > data.size()) {
    throw Error(ErrorKind::corrupt,
                fmt::format("fat binary: says it has {} bytes, but only {} can be read; the program file is damaged",
                            size, data.size()));
  }
  return data.first(size);
}

}  // namespace

std::span<const std::byte> container_of_wrapper(const void* wrapper) {
  return container_at(read_wrapper(wrapper).container);
}

std::vector<std::span<const std::byte>> linked_containers(const void* wrapper) {
  constexpr uint32_t kLinkedVersion = 2;
  const Wrapper read = read_wrapper(wrapper);
  std::vector<std::span<const std::byte>> containers;
  if (read.version != kLinkedVersion || read.linked == nullptr) return containers;
  const std::span<const std::byte> list = readable_from(read.linked);
  for (uint64_t offset = 0;; offset += sizeof(void*)) {
    if (!has_range(list, offset, sizeof(void*))) {
      throw Error(ErrorKind::corrupt, "fat binary: the list of the objects that were linked has no end");
    }
    const auto* container = read_at<const void*>(list, offset);
    if (container == nullptr) return containers;
    containers.push_back(container_at(container));
  }
}

}  // namespace stagecraft::emulator::fatbin
