#include "emulator/fatbin/container.hpp"

#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <limits>

#include "emulator/fatbin/bytes.hpp"

namespace stagecraft::emulator::fatbin {
namespace {

constexpr uint64_t kHeaderBytes = 16;
constexpr uint64_t kEntryFields = 0x40;  // bytes of an entry's header that are read here
constexpr uint64_t kFlagLz4 = 0x2000;
constexpr uint64_t kFlagZstd = 0x8000;
constexpr uint64_t kFlagExactTarget = 0x100000;
constexpr uint64_t kFlagFamilyTarget = 0x200000;
/// No PTX text or cubin comes near this size. A larger claim is damage, and must not be allocated.
constexpr uint64_t kLargestPayload = uint64_t{1} << 28;

[[noreturn]] void corrupt(std::string message) {
  throw Error(ErrorKind::corrupt, "fat binary: " + std::move(message) +
                                      "; the program file is damaged or was written by an unknown tool: rebuild it");
}

Entry read_entry(std::span<const std::byte> bytes, uint64_t begin, uint64_t header_size, uint64_t payload_size,
                 uint32_t number) {
  Entry entry;
  entry.number = number;
  entry.kind = static_cast<EntryKind>(read_at<uint16_t>(bytes, begin));
  entry.target.sm = read_at<uint32_t>(bytes, begin + 0x1c);
  const auto compressed_size = read_at<uint32_t>(bytes, begin + 0x10);
  const auto flags = read_at<uint64_t>(bytes, begin + 0x28);
  entry.uncompressed_size = read_at<uint64_t>(bytes, begin + 0x38);
  if ((flags & kFlagExactTarget) != 0) {
    entry.target.kind = TargetKind::exact;
  } else if ((flags & kFlagFamilyTarget) != 0) {
    entry.target.kind = TargetKind::family;
  }

  if ((flags & kFlagLz4) != 0 && (flags & kFlagZstd) != 0) {
    corrupt(fmt::format("entry {} is marked as compressed with both LZ4 and zstd", number));
  }
  entry.compression = (flags & kFlagLz4) != 0    ? Compression::lz4_block
                      : (flags & kFlagZstd) != 0 ? Compression::zstd
                                                 : Compression::none;
  uint64_t size = payload_size;
  if (entry.compression != Compression::none) {
    if (compressed_size > payload_size) {
      corrupt(fmt::format("entry {} says that {} of its {} payload bytes are compressed data", number, compressed_size,
                          payload_size));
    }
    size = compressed_size;
  } else if (compressed_size != 0) {
    corrupt(fmt::format("entry {} is compressed in an unknown way (flags 0x{:x}; known are zstd 0x{:x} and LZ4 0x{:x})",
                        number, flags, kFlagZstd, kFlagLz4));
  }
  entry.payload = bytes.subspan(begin + header_size, size);
  return entry;
}

}  // namespace

std::string Target::name() const {
  return fmt::format("sm_{}{}", sm, kind == TargetKind::exact ? "a" : kind == TargetKind::family ? "f" : "");
}

uint64_t container_size(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) {
    corrupt(fmt::format("its header needs {} bytes, but only {} are there", kHeaderBytes, bytes.size()));
  }
  const auto magic = read_at<uint32_t>(bytes, 0);
  if (magic != kContainerMagic) {
    corrupt(fmt::format("begins with 0x{:08x} where 0x{:08x} should stand", magic, kContainerMagic));
  }
  const auto version = read_at<uint16_t>(bytes, 4);
  const auto header_size = read_at<uint16_t>(bytes, 6);
  if (version != 1 || header_size < kHeaderBytes) {
    corrupt(fmt::format("has version {} and a header of {} bytes; known is version 1 with {} bytes", version,
                        header_size, kHeaderBytes));
  }
  const auto size = read_at<uint64_t>(bytes, 8);
  if (size > std::numeric_limits<uint64_t>::max() - header_size) corrupt(fmt::format("claims to have {} bytes", size));
  return header_size + size;
}

std::vector<Entry> read_container(std::span<const std::byte> bytes) {
  const uint64_t total = container_size(bytes);
  if (total > bytes.size()) {
    corrupt(fmt::format("says it has {} bytes, but only {} are there", total, bytes.size()));
  }
  bytes = bytes.first(total);

  std::vector<Entry> entries;
  uint64_t begin = read_at<uint16_t>(bytes, 6);
  if (begin > total) corrupt(fmt::format("its header of {} bytes does not fit in its {} bytes", begin, total));
  for (uint32_t number = 1; begin < total; ++number) {
    if (!has_range(bytes, begin, kEntryFields)) {
      corrupt(fmt::format("entry {} at byte {} needs a header of {} bytes, but only {} remain", number, begin,
                          kEntryFields, total - begin));
    }
    const auto header_size = read_at<uint32_t>(bytes, begin + 4);
    const auto payload_size = read_at<uint64_t>(bytes, begin + 8);
    if (header_size < kEntryFields || !has_range(bytes, begin, header_size)) {
      corrupt(fmt::format("entry {} at byte {} says its header has {} bytes; legal are {} to the {} that remain",
                          number, begin, header_size, kEntryFields, total - begin));
    }
    const uint64_t remain = total - begin - header_size;
    if (payload_size > remain) {
      corrupt(fmt::format("entry {} says payload {} bytes but only {} remain", number, payload_size, remain));
    }
    const auto kind = read_at<uint16_t>(bytes, begin);
    if (kind == static_cast<uint16_t>(EntryKind::ptx) || kind == static_cast<uint16_t>(EntryKind::elf)) {
      entries.push_back(read_entry(bytes, begin, header_size, payload_size, number));
    }
    begin += header_size + payload_size;
  }
  return entries;
}

std::string read_payload(const Entry& entry) {
  std::string content;
  if (entry.compression == Compression::none) {
    content.assign(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
  } else {
    if (entry.uncompressed_size == 0 || entry.uncompressed_size > kLargestPayload) {
      corrupt(fmt::format("entry {} says it unpacks to {} bytes; legal are 1 to {}", entry.number,
                          entry.uncompressed_size, kLargestPayload));
    }
    if (entry.compression == Compression::zstd) {
      // A block of zstd takes at least 4 bytes and stands for at most 128 KiB.
      if (entry.uncompressed_size >> 17 > entry.payload.size() / 4) {
        corrupt(fmt::format("entry {} says its {} bytes of zstd unpack to {}", entry.number, entry.payload.size(),
                            entry.uncompressed_size));
      }
      const unsigned long long frame = ZSTD_getFrameContentSize(entry.payload.data(), entry.payload.size());
      if (frame == ZSTD_CONTENTSIZE_ERROR || (frame != ZSTD_CONTENTSIZE_UNKNOWN && frame != entry.uncompressed_size)) {
        corrupt(fmt::format("entry {} is not a zstd frame of {} bytes", entry.number, entry.uncompressed_size));
      }
      content.resize(entry.uncompressed_size);
      const size_t written =
          ZSTD_decompress(content.data(), content.size(), entry.payload.data(), entry.payload.size());
      if (ZSTD_isError(written) != 0 || written != content.size()) {
        corrupt(fmt::format("entry {} does not unpack with zstd: {}", entry.number,
                            ZSTD_isError(written) != 0 ? ZSTD_getErrorName(written) : "it is too short"));
      }
    } else {
      // A byte of LZ4 stands for at most 255 others.
      if (entry.uncompressed_size / 255 > entry.payload.size()) {
        corrupt(fmt::format("entry {} says its {} bytes of LZ4 unpack to {}", entry.number, entry.payload.size(),
                            entry.uncompressed_size));
      }
      content.resize(entry.uncompressed_size);
      const int written = LZ4_decompress_safe(reinterpret_cast<const char*>(entry.payload.data()), content.data(),
                                              static_cast<int>(entry.payload.size()), static_cast<int>(content.size()));
      if (written < 0 || static_cast<uint64_t>(written) != entry.uncompressed_size) {
        corrupt(fmt::format("entry {} does not unpack with LZ4 to {} bytes", entry.number, entry.uncompressed_size));
      }
    }
  }
  if (entry.kind == EntryKind::ptx) content.erase(content.find_last_not_of('\0') + 1);
  return content;
}

}  // namespace stagecraft::emulator::fatbin
