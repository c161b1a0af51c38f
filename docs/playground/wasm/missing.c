// Functions that the emulated GPU calls and that have no library in WebAssembly. The page never needs what they do: its
// kernels come as plain PTX files, not as fat binaries whose images are compressed.
#define _GNU_SOURCE
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

// ---- zstd and LZ4: no compressed image can be read --------------------------------------------------------

unsigned long long ZSTD_getFrameContentSize(const void* image, size_t size) {
  (void)image, (void)size;
  return -2ULL;  // ZSTD_CONTENTSIZE_ERROR
}

size_t ZSTD_decompress(void* to, size_t capacity, const void* from, size_t size) {
  (void)to, (void)capacity, (void)from, (void)size;
  return -1;
}

unsigned ZSTD_isError(size_t code) { return code == (size_t)-1; }

const char* ZSTD_getErrorName(size_t code) {
  (void)code;
  return "there is no zstd in WebAssembly";
}

int LZ4_decompress_safe(const char* from, char* to, int size, int capacity) {
  (void)from, (void)to, (void)size, (void)capacity;
  return -1;
}

// ---- Linux: reading memory that may not be there ----------------------------------------------------------

// The emulated GPU asks the kernel to copy from host memory that a program names, because a bad address must not end
// the program. In WebAssembly all addresses of the heap can be read, and the others end the run with a message.
ssize_t process_vm_readv(pid_t process, const struct iovec* to, unsigned long to_count, const struct iovec* from,
                         unsigned long from_count, unsigned long flags) {
  (void)process, (void)flags;
  ssize_t copied = 0;
  size_t to_done = 0, from_done = 0;
  while (to_count > 0 && from_count > 0) {
    const size_t to_left = to->iov_len - to_done, from_left = from->iov_len - from_done;
    const size_t bytes = to_left < from_left ? to_left : from_left;
    memcpy((char*)to->iov_base + to_done, (const char*)from->iov_base + from_done, bytes);
    copied += (ssize_t)bytes, to_done += bytes, from_done += bytes;
    if (to_done == to->iov_len) ++to, --to_count, to_done = 0;
    if (from_done == from->iov_len) ++from, --from_count, from_done = 0;
  }
  return copied;
}
