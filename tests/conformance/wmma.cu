// The fragments of mma.h: which element of a matrix each register of each lane holds after a load, which PTX leaves
// open, what a multiplication gives, and that a store writes it back. Sums of small integers are exact; D of sums that
// are rounded follows, of numbers of all sizes and special values.
#include <mma.h>

#include "matrix_codes.hpp"
#include "report.hpp"

using namespace stagecraft::conformance;
namespace wmma = nvcuda::wmma;

constexpr uint32_t kMostWords = 8 * 2;        // in a fragment of a lane
constexpr uint32_t kLeadingDimension = 512;   // in bits more than what a row needs: 16 bytes are the unit
constexpr uint32_t kMatrixWords = 128 * 128;  // more than any matrix takes

/// Writes a lane's registers one after the other; returns where those of the next fragment go.
template <typename Fragment>
__device__ uint32_t* dump(uint32_t* to, const Fragment& fragment) {
  constexpr uint32_t kWords = sizeof fragment.x / sizeof(uint32_t);
  static_assert(kWords <= kMostWords);
  uint32_t words[kWords];
  memcpy(words, fragment.x, sizeof words);
  for (uint32_t i = 0; i < kWords; ++i) to[i * 32 + threadIdx.x] = words[i];
  return to + kWords * 32;
}

/// The dumps of A, B, C and D, and how many words each has.
struct Dump {
  uint32_t counts[4];
  uint32_t words[4 * kMostWords * 32];
};

template <typename Form>
__global__ void multiply(const void* a, const void* b, const void* c, void* by_row, void* by_column, Dump* dumped) {
  using Element = typename Form::Element;
  using Sum = typename Form::Sum;
  wmma::fragment<wmma::matrix_a, Form::kM, Form::kN, Form::kK, typename Form::Type, typename Form::LayoutA> in_a;
  wmma::fragment<wmma::matrix_b, Form::kM, Form::kN, Form::kK, typename Form::Type, typename Form::LayoutB> in_b;
  wmma::fragment<wmma::accumulator, Form::kM, Form::kN, Form::kK, Sum> in_c, out;
  constexpr auto kOrder = Form::kColumns ? wmma::mem_col_major : wmma::mem_row_major;
  wmma::load_matrix_sync(in_a, static_cast<const Element*>(a), Form::kStride);
  wmma::load_matrix_sync(in_b, static_cast<const Element*>(b), Form::kStride);
  wmma::load_matrix_sync(in_c, static_cast<const Sum*>(c), 64, kOrder);
  Form::apply(out, in_a, in_b, in_c);
  wmma::store_matrix_sync(static_cast<Sum*>(by_row), out, 64, wmma::mem_row_major);
  wmma::store_matrix_sync(static_cast<Sum*>(by_column), out, 64, wmma::mem_col_major);
  uint32_t* const words = dumped->words;
  uint32_t* const ends[] = {dump(words, in_a), dump(words + kMostWords * 32, in_b), dump(words + kMostWords * 64, in_c),
                            dump(words + kMostWords * 96, out)};
  for (uint32_t i = 0; i < 4 && threadIdx.x == 0; ++i) {
    dumped->counts[i] = static_cast<uint32_t>(ends[i] - words) - i * kMostWords * 32;
  }
}

/// Bits of an element in memory.
template <typename T>
constexpr uint32_t kBits = 8 * sizeof(T);
template <>
constexpr uint32_t kBits<wmma::experimental::precision::u4> = 4;
template <>
constexpr uint32_t kBits<wmma::experimental::precision::s4> = 4;
template <>
constexpr uint32_t kBits<wmma::experimental::precision::b1> = 1;
template <>
constexpr uint32_t kBits<wmma::precision::tf32> = 32;

template <typename T>
struct ElementOf {
  using Type = T;
};
template <>
struct ElementOf<wmma::precision::tf32> {
  using Type = float;
};
template <>
struct ElementOf<wmma::experimental::precision::u4> {
  using Type = void;
};
template <>
struct ElementOf<wmma::experimental::precision::s4> {
  using Type = void;
};
template <>
struct ElementOf<wmma::experimental::precision::b1> {
  using Type = void;
};

enum class Operation { plain, saturated, exclusive_or, both };

template <int M, int N, int K, typename T, typename S, typename RowsOrColumnsA, typename RowsOrColumnsB, bool Columns,
          Operation How = Operation::plain>
struct Form {
  static constexpr int kM = M, kN = N, kK = K;
  static constexpr bool kColumns = Columns;
  static constexpr uint32_t kStride = (kLeadingDimension + 32 * 16) / kBits<T>;
  using Type = T;
  using Element = typename ElementOf<T>::Type;
  using Sum = S;
  using LayoutA = RowsOrColumnsA;
  using LayoutB = RowsOrColumnsB;
  template <typename D, typename A, typename B, typename C>
  static __device__ void apply(D& d, const A& a, const B& b, const C& c) {
    if constexpr (How == Operation::exclusive_or) {
      wmma::bmma_sync(d, a, b, c, wmma::experimental::bmmaBitOpXOR);
    } else if constexpr (How == Operation::both) {
      wmma::bmma_sync(d, a, b, c, wmma::experimental::bmmaBitOpAND);
    } else if constexpr (How == Operation::saturated) {
      wmma::mma_sync(d, a, b, c, true);
    } else {
      wmma::mma_sync(d, a, b, c);
    }
  }
};

std::vector<uint32_t> matrix_words(const char* type, Random& random, Draw how, bool negated = false) {
  if (std::string(type) != "f64") return codes_of(type).words(random, kMatrixWords, how, negated);
  std::vector<uint32_t> words(kMatrixWords);
  for (size_t i = 0; i < kMatrixWords; i += 2) {
    const double value = (static_cast<int>(random.bits() % 4001) - 2000) / 256.0;
    memcpy(&words[i], &value, sizeof value);
  }
  return words;
}

template <typename Form>
void show(Report& report, const std::string& name, const char* type, const char* sum, Draw how = Draw::integers) {
  Random random(report.seed());
  const DeviceBuffer<uint32_t> a(matrix_words(type, random, how), "A"), b(matrix_words(type, random, how, true), "B");
  const std::string sums = sum;
  const DeviceBuffer<uint32_t> c(
      sums == "f64" ? matrix_words(sum, random, how) : accumulator_words(sum, random, kMatrixWords, how, type), "C");
  const std::vector<uint32_t> untouched(64 * 32, 0xcdcdcdcd);
  DeviceBuffer<uint32_t> by_row(untouched, "D by rows"), by_column(untouched, "D by columns");
  DeviceBuffer<Dump> dumped(1, "dump");
  multiply<Form><<<1, 32>>>(a.data(), b.data(), c.data(), by_row.data(), by_column.data(), dumped.data());
  finish_kernel(name);
  const Dump dump = dumped.to_host()[0];
  if (how != Draw::integers) {
    const uint32_t* const d = dump.words + 3 * kMostWords * 32;
    report.section(name, std::vector<uint32_t>(d, d + dump.counts[3]));
    return;
  }
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t* const first = dump.words + i * kMostWords * 32;
    report.section(name + ", " + "ABCD"[i], std::vector<uint32_t>(first, first + dump.counts[i]));
  }
  report.section(name + ", D stored by rows", by_row.to_host());
  report.section(name + ", D stored by columns", by_column.to_host());
}

template <int M, int N, int K, typename T, typename S>
void show_layouts(Report& report, const char* type, const char* sum) {
  using Row = wmma::row_major;
  using Col = wmma::col_major;
  std::string name = "m";
  name +=
      std::to_string(M) + "n" + std::to_string(N) + "k" + std::to_string(K) + " of " + type + ", sums of " + sum + ", ";
  show<Form<M, N, K, T, S, Row, Col, false>>(report, name + "row col row", type, sum);
  show<Form<M, N, K, T, S, Col, Row, true>>(report, name + "col row col", type, sum);
  show<Form<M, N, K, T, S, Row, Row, true>>(report, name + "row row col", type, sum);
  show<Form<M, N, K, T, S, Col, Col, false>>(report, name + "col col row", type, sum);
  if (sum[0] != 'f' || sum[1] == '6') return;
  for (const auto& [how, numbers] : kRounded) {
    show<Form<M, N, K, T, S, Row, Col, false>>(report, name + numbers, type, sum, how);
  }
}

template <typename T, typename S>
void show_shapes(Report& report, const char* type, const char* sum) {
  show_layouts<16, 16, 16, T, S>(report, type, sum);
  show_layouts<32, 8, 16, T, S>(report, type, sum);
  show_layouts<8, 32, 16, T, S>(report, type, sum);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    using Row = wmma::row_major;
    using Col = wmma::col_major;
    namespace tiny = wmma::experimental::precision;
    show_shapes<half, float>(report, "f16", "f32");
    show_shapes<half, half>(report, "f16", "f16");
    show_shapes<nv_bfloat16, float>(report, "bf16", "f32");
    show_shapes<signed char, int>(report, "s8", "s32");
    show_layouts<16, 16, 16, unsigned char, int>(report, "u8", "s32");
    show_layouts<16, 16, 8, wmma::precision::tf32, float>(report, "tf32", "f32");
    show_layouts<8, 8, 4, double, double>(report, "f64", "f64");
    show<Form<16, 16, 16, signed char, int, Row, Col, false, Operation::saturated>>(report, "s8 saturated", "s8",
                                                                                    "s32");
    show<Form<8, 8, 32, tiny::s4, int, Row, Col, false>>(report, "s4", "s4", "s32");
    show<Form<8, 8, 32, tiny::u4, int, Row, Col, true, Operation::saturated>>(report, "u4 saturated", "u4", "s32");
    show<Form<8, 8, 128, tiny::b1, int, Row, Col, false, Operation::exclusive_or>>(report, "b1 xor", "b1", "s32");
    show<Form<8, 8, 128, tiny::b1, int, Row, Col, true, Operation::both>>(report, "b1 and", "b1", "s32");
  });
}
