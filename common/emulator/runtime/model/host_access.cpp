#include "emulator/runtime/model/host_access.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stagecraft::emulator::runtime {

bool is_readable(const void* pointer, uint64_t bytes) {
  const auto first = reinterpret_cast<uint64_t>(pointer);
  if (bytes == 0) return true;
  if (first + bytes < first) return false;
  char ends[2];
  const iovec local{ends, 2};
  const iovec remote[2] = {{const_cast<void*>(pointer), 1}, {reinterpret_cast<void*>(first + bytes - 1), 1}};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, remote, 2, 0);
  return got == 2 || (got < 0 && errno != EFAULT);
}

bool is_mapped(const void* pointer, uint64_t bytes) {
  if (!is_readable(pointer, bytes)) return false;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = reinterpret_cast<uint64_t>(pointer), begin = first / page * page;
  // It writes nothing back; it fails where there is a hole.
  return msync(reinterpret_cast<void*>(begin), first + bytes - begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

size_t copy_values(std::span<const HostValue> values) {
  for (size_t begin = 0; begin < values.size();) {
    // One system call for all of them, where they are not too many.
    const auto some = values.subspan(begin, std::min<size_t>(values.size() - begin, 64));
    iovec local[64], remote[64];
    size_t bytes = 0;
    for (size_t index = 0; index < some.size(); ++index) {
      local[index] = {some[index].to, some[index].bytes};
      remote[index] = {const_cast<void*>(some[index].from), some[index].bytes};
      bytes += some[index].bytes;
    }
    const ssize_t got = process_vm_readv(getpid(), local, some.size(), remote, some.size(), 0);
    if (got < 0 && errno != EFAULT) {
      for (const HostValue& value : some) std::memcpy(value.to, value.from, value.bytes);
    } else if (got < 0 || static_cast<size_t>(got) != bytes) {
      size_t index = 0;
      for (size_t left = got < 0 ? 0 : static_cast<size_t>(got); left >= some[index].bytes; ++index) {
        left -= some[index].bytes;
      }
      return begin + index;
    }
    begin += some.size();
  }
  return values.size();
}

}  // namespace stagecraft::emulator::runtime
