#include "harness/reference_attention.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "harness/random.hpp"

namespace stagecraft::harness {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr double kUnit = 0x1p-24;  // half a unit of the last place of an f32 at 1
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a sum of products in f32 loses, relative to the largest running sum.
double loss_of_sum(int products, int mma_k) {
  return std::ceil(products / static_cast<double>(mma_k)) * (0x1p-23 + (mma_k + 1) * 0x1p-24);
}

/// A piece of the work: some queries of one head.
struct Piece {
  int batch, head, first_query, queries;
  int64_t queries_before, keys_before;  // of other sequences
};

/// Rows of an operand as a matrix.
/// @param row_of  the row that is the i-th.
template <typename RowOf>
Matrix gathered(std::span<const float> values, int rows, int heads, int head, int columns, const RowOf& row_of) {
  Matrix result(rows, columns);
  for (int row = 0; row < rows; ++row) {
    const float* const from = &values[(row_of(row) * heads + head) * columns];
    for (int column = 0; column < columns; ++column) result(row, column) = from[column];
  }
  return result;
}

class Attention {
 public:
  Attention(const AttentionBatch& batch, std::span<const float> q, std::span<const float> k, std::span<const float> v,
            std::span<const float> sinks, const AttentionPrecision& precision, AttentionReference& result)
      : batch_(batch), q_(q), k_(k), v_(v), sinks_(sinks), precision_(precision), result_(result) {}

  void compute(const Piece& piece) const {
    const auto& b = batch_;
    const int keys = b.key_lengths[piece.batch], group = b.query_heads / b.kv_heads, kv_head = piece.head / group;
    const auto key_row = [&](int key) { return b.key_row(piece.batch, piece.keys_before, key); };
    const auto query_row = [&](int query) { return piece.queries_before + piece.first_query + query; };
    const Matrix q = gathered(q_, piece.queries, b.query_heads, piece.head, b.head_dim, query_row);
    const Matrix k = gathered(k_, keys, b.kv_heads, kv_head, b.head_dim, key_row);
    Matrix v = gathered(v_, keys, b.kv_heads, kv_head, b.value_dim, key_row);

    // What is not finite in V is added to the results at the end.
    std::vector<std::pair<int, int>> not_finite;
    for (int key = 0; key < keys; ++key) {
      for (int column = 0; column < b.value_dim; ++column) {
        if (std::isfinite(v(key, column))) continue;
        not_finite.emplace_back(key, column);
        v(key, column) = 0;
      }
    }

    Matrix weights = q * k.transpose();  // products first
    Matrix errors(piece.queries, keys);  // of each weight, relative to the largest
    std::vector<Row> rows(piece.queries);
    const Eigen::VectorXd q_norms = q.rowwise().norm(), k_norms = k.rowwise().norm();
    for (int row = 0; row < piece.queries; ++row) {
      rows[row] = weigh(piece, row, q_norms(row), k_norms, row_of(weights, row), row_of(errors, row));
    }

    const Matrix v_size = v.cwiseAbs();
    const Matrix output = weights * v, size = weights * v_size, error = errors * v_size;
    const Matrix squares = rounding_of(weights).cwiseAbs2() * v.cwiseAbs2(), bounds = rounding_of(weights) * v_size;
    for (int row = 0; row < piece.queries; ++row) {
      const auto [sum, sum_error, logsumexp, logsumexp_error, is_number] = rows[row];
      const int64_t at = query_row(row) * b.query_heads + piece.head;
      const int64_t of_logsumexp = piece.head * b.queries() + query_row(row);
      result_.logsumexp[of_logsumexp] = logsumexp;
      result_.logsumexp_error[of_logsumexp] = logsumexp_error;
      for (int column = 0; column < b.value_dim; ++column) {
        const int64_t element = at * b.value_dim + column;
        if (!is_number) {
          result_.output[element] = NAN;
          result_.output_kind[element] = AttentionKind::not_number;
          continue;
        }
        if (sum == 0) continue;  // 0, exactly
        const double exact = output(row, column) / sum;
        const double rounding = precision_.is_random
                                    ? std::min(bounds(row, column), 8 * std::sqrt(squares(row, column)))
                                    : bounds(row, column);
        const double of_sums = (loss_of_sum(keys, precision_.mma_k_of_weights) + rescaling(keys)) * size(row, column);
        const double numerator = error(row, column) + rounding + of_sums;
        const double computed = numerator / sum + std::abs(exact) * (sum_error + 3 * kUnit);
        result_.output[element] = exact;
        result_.output_error[element] =
            computed + std::max((std::abs(exact) + computed) * precision_.output_rounding, precision_.output_smallest);
      }
    }
    for (const auto& [key, column] : not_finite) {
      for (int row = 0; row < piece.queries; ++row) {
        const int query = piece.first_query + row;
        const bool is_seen = key >= b.first_key(piece.batch, query) && key < b.end_of_keys(piece.batch, query);
        AttentionKind& kind = result_.output_kind[(query_row(row) * b.query_heads + piece.head) * b.value_dim + column];
        if (kind == AttentionKind::not_number) continue;
        if (is_seen) {
          kind = AttentionKind::not_finite;
        } else if (kind == AttentionKind::number) {
          kind = AttentionKind::anything;
        }
      }
    }
  }

 private:
  struct Row {
    double sum = 0, sum_error = 0;  // of the weights; the error is relative
    double logsumexp = 0, logsumexp_error = 0;
    bool is_number = true;
  };

  static std::span<double> row_of(Matrix& matrix, int row) {
    return {matrix.row(row).data(), static_cast<size_t>(matrix.cols())};
  }

  /// What the exponentials lose by which a kernel rescales its sums, relative to them.
  double rescaling(int keys) const {
    return std::ceil(keys / static_cast<double>(precision_.key_tile)) * (precision_.exponential + 2 * kUnit);
  }

  Matrix rounding_of(const Matrix& weights) const {
    return (weights * precision_.weight_rounding)
        .cwiseMax((weights.array() > 0).cast<double>().matrix() * precision_.weight_smallest);
  }

  /// Makes weights of one row's products, relative to the largest, and 0 of those that it does not see.
  Row weigh(const Piece& piece, int row, double q_norm, const Eigen::VectorXd& k_norms, std::span<double> weights,
            std::span<double> errors) const {
    const auto& b = batch_;
    const int keys = b.key_lengths[piece.batch], query = piece.first_query + row;
    const int first = b.first_key(piece.batch, query), end = b.end_of_keys(piece.batch, query);
    const double sink = sinks_.empty() ? -kInfinity : sinks_[piece.head];
    Row result;
    double largest = sink, size = std::isfinite(sink) ? std::abs(sink) : 0;
    for (int key = 0; key < keys; ++key) {
      errors[key] = 0;
      if (key < first || key >= end) {
        weights[key] = 0;
        continue;
      }
      double logit = b.scale * weights[key];
      if (std::abs(weights[key]) >= 0x1p128 || std::abs(logit) >= 0x1p128) logit = std::copysign(kInfinity, logit);
      double error = std::abs(b.scale) * loss_of_sum(b.head_dim, precision_.mma_k) * q_norm * k_norms(key);
      if (b.soft_cap != 0) {
        logit = b.soft_cap * std::tanh(logit / b.soft_cap);
        error += std::abs(b.soft_cap) * precision_.tangent + 2 * kUnit * std::abs(logit);
      }
      if (std::isnan(logit) || logit == kInfinity) result.is_number = false;
      weights[key] = logit;
      errors[key] = error;
      if (std::isfinite(logit)) size = std::max(size, std::abs(logit));
      largest = std::max(largest, logit);
    }
    if (std::isnan(sink) || sink == kInfinity) result.is_number = false;
    if (!result.is_number || largest == -kInfinity) {
      std::ranges::fill(weights, 0.0);
      std::ranges::fill(errors, 0.0);
      result.logsumexp = result.is_number ? -kInfinity : NAN;
      return result;
    }
    double sum = std::exp(sink - largest), sum_error = 2 * kUnit * (std::abs(sum) * 2 * size) + precision_.exponential;
    for (int key = first; key < end; ++key) {
      const double logit = weights[key], weight = std::exp(logit - largest);
      const double relative =
          std::isfinite(logit) ? std::expm1(errors[key] + 2 * kUnit * (std::abs(logit) + size)) + precision_.exponential
                               : 0;
      weights[key] = weight;
      errors[key] = weight * relative;
      sum += weight;
      sum_error += weight * relative;
    }
    result.sum = sum;
    result.sum_error = sum_error / sum + (end - first) * kUnit + rescaling(keys);
    result.logsumexp = largest + std::log(sum);
    // The logarithm's error is that of lg2.approx, which is absolute; then the sum with the maximum is rounded.
    result.logsumexp_error = result.sum_error + 0x1p-21 + 4 * kUnit * (size + std::abs(result.logsumexp));
    return result;
  }

  const AttentionBatch& batch_;
  std::span<const float> q_, k_, v_, sinks_;
  const AttentionPrecision& precision_;
  AttentionReference& result_;
};

/// One of several numbers.
template <size_t Size>
int one_of(Random& random, const int (&values)[Size]) {
  return values[random.bits() % Size];
}

/// A length at which kernels go wrong, or any.
int draw_length(Random& random, int most) {
  if (random.bits() % 2 == 0) return static_cast<int>(random.bits() % (static_cast<uint64_t>(most) + 1));
  return std::min(most, one_of(random, {0, 1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 383, 384, 385}));
}

}  // namespace

int64_t AttentionBatch::queries() const {
  return std::accumulate(query_lengths.begin(), query_lengths.end(), int64_t{0});
}

int64_t AttentionBatch::keys() const { return std::accumulate(key_lengths.begin(), key_lengths.end(), int64_t{0}); }

int AttentionBatch::first_key(int batch, int query) const {
  if (window_left < 0) return 0;
  const int64_t own = int64_t{query} + key_lengths[batch] - query_lengths[batch];
  return static_cast<int>(std::clamp<int64_t>(own - window_left, 0, key_lengths[batch]));
}

int AttentionBatch::end_of_keys(int batch, int query) const {
  const int first = first_key(batch, query);
  if (window_right < 0) return key_lengths[batch];
  const int64_t own = int64_t{query} + key_lengths[batch] - query_lengths[batch];
  return std::max(first, static_cast<int>(std::clamp<int64_t>(own + window_right + 1, 0, key_lengths[batch])));
}

AttentionReference reference_attention(const AttentionBatch& batch, std::span<const float> q, std::span<const float> k,
                                       std::span<const float> v, std::span<const float> sinks,
                                       const AttentionPrecision& precision) {
  const size_t rows = batch.queries() * batch.query_heads, elements = rows * batch.value_dim;
  AttentionReference result{.output = std::vector<double>(elements),
                            .output_error = std::vector<double>(elements),
                            .output_kind = std::vector<AttentionKind>(elements),
                            .logsumexp = std::vector<double>(rows),
                            .logsumexp_error = std::vector<double>(rows)};
  constexpr int kQueries = 128;  // of a piece
  std::vector<Piece> pieces;
  int64_t queries_before = 0, keys_before = 0;
  for (int i = 0; i < batch.batches(); ++i) {
    for (int head = 0; head < batch.query_heads; ++head) {
      for (int query = 0; query < batch.query_lengths[i]; query += kQueries) {
        pieces.push_back(
            {i, head, query, std::min(kQueries, batch.query_lengths[i] - query), queries_before, keys_before});
      }
    }
    queries_before += batch.query_lengths[i];
    keys_before += batch.key_lengths[i];
  }
  const Attention attention(batch, q, k, v, sinks, precision, result);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t piece; (piece = next.fetch_add(1)) < pieces.size();) attention.compute(pieces[piece]);
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();  // joins
  return result;
}

AttentionComparison compare_attention(const AttentionBatch& batch, const AttentionReference& reference,
                                      std::span<const double> output, std::span<const double> logsumexp) {
  AttentionComparison result;
  const int64_t queries = batch.queries();
  const auto compare = [&](double actual, double expected, double allowed, AttentionKind kind, const auto& name) {
    const bool is_written = !(std::isnan(actual) && std::signbit(actual));
    double excess = 0;
    const char* wanted = "";
    switch (kind) {
      case AttentionKind::number:
        excess = actual == expected ? 0 : std::abs(actual - expected) / allowed;
        if (std::isnan(excess)) excess = kInfinity;
        break;
      case AttentionKind::not_number:
        excess = std::isnan(actual) ? 0 : kInfinity;
        wanted = "NaN";
        break;
      case AttentionKind::not_finite:
        excess = std::isfinite(actual) ? kInfinity : 0;
        wanted = "NaN or an infinity";
        break;
      case AttentionKind::anything: break;
    }
    if (!is_written) excess = kInfinity;
    if (!(excess > 1)) return;
    ++result.wrong;
    if (excess <= result.worst_excess) return;
    result.worst_excess = excess;
    const std::string should = *wanted != 0 ? wanted : std::to_string(expected) + " +- " + std::to_string(allowed);
    result.worst =
        name() + " is " + (is_written ? std::to_string(actual) : "not written") + ", and should be " + should;
  };
  int64_t before = 0;
  for (int i = 0; i < batch.batches(); ++i) {
    for (int query = 0; query < batch.query_lengths[i]; ++query) {
      for (int head = 0; head < batch.query_heads; ++head) {
        const auto row_name = [&] {
          return "query " + std::to_string(query) + " of sequence " + std::to_string(i) + ", head " +
                 std::to_string(head);
        };
        const int64_t row = (before + query) * batch.query_heads + head, of_log = head * queries + before + query;
        for (int column = 0; column < batch.value_dim; ++column) {
          const int64_t at = row * batch.value_dim + column;
          compare(output[at], reference.output[at], reference.output_error[at], reference.output_kind[at],
                  [&] { return row_name() + ", column " + std::to_string(column); });
        }
        if (logsumexp.empty()) continue;
        const bool is_number = !std::isnan(reference.logsumexp[of_log]);
        compare(logsumexp[of_log], reference.logsumexp[of_log], reference.logsumexp_error[of_log],
                is_number ? AttentionKind::number : AttentionKind::not_number,
                [&] { return "the logsumexp of " + row_name(); });
      }
    }
    before += batch.query_lengths[i];
  }
  return result;
}

RandomAttention with_random_operands(AttentionBatch batch, bool has_sinks, uint64_t seed) {
  Random random(seed);
  RandomAttention result{.batch = std::move(batch)};
  const AttentionBatch& b = result.batch;
  int64_t rows = b.keys();
  if (b.page_size > 0) {
    const int last = b.page_table.empty() ? 0 : *std::ranges::max_element(b.page_table);
    rows = (last + int64_t{1}) * b.page_size;
  }
  result.q = random_values<float>(b.queries() * b.query_heads * b.head_dim, random.bits());
  const std::vector<float> k = random_values<float>(b.keys() * b.kv_heads * b.head_dim, random.bits());
  const std::vector<float> v = random_values<float>(b.keys() * b.kv_heads * b.value_dim, random.bits());
  result.k.assign(rows * b.kv_heads * b.head_dim, NAN);
  result.v.assign(rows * b.kv_heads * b.value_dim, NAN);
  int64_t before = 0;
  for (int i = 0; i < b.batches(); ++i) {
    for (int key = 0; key < b.key_lengths[i]; ++key) {
      const int64_t row = b.key_row(i, before, key);
      const auto place = [&](const std::vector<float>& from, std::vector<float>& to, int columns) {
        std::copy_n(&from[(before + key) * b.kv_heads * columns], b.kv_heads * columns,
                    &to[row * b.kv_heads * columns]);
      };
      place(k, result.k, b.head_dim);
      place(v, result.v, b.value_dim);
    }
    before += b.key_lengths[i];
  }
  for (int head = 0; has_sinks && head < b.query_heads; ++head) result.sinks.push_back(4 * random.uniform());
  return result;
}

RandomAttention draw_attention(uint64_t seed, int head_dim, int value_dim, const AttentionLimits& limits) {
  Random random(seed);
  const auto chance = [&](int of) { return random.bits() % static_cast<uint64_t>(of) == 0; };
  AttentionBatch batch{.kv_heads = static_cast<int>(1 + random.bits() % static_cast<uint64_t>(limits.most_heads)),
                       .head_dim = head_dim,
                       .value_dim = value_dim};
  batch.query_heads = batch.kv_heads * one_of(random, {1, 1, 2, 3, 4, 8});
  // Uniform operands have products with a deviation of sqrt(head_dim) / 3.
  batch.scale = (2 + random.uniform()) * 3 / std::sqrt(static_cast<float>(head_dim));
  const int batches = static_cast<int>(1 + random.bits() % static_cast<uint64_t>(limits.most_batches));
  const bool has_lengths = limits.has_lengths && chance(2);
  for (int i = 0; i < batches; ++i) {
    const bool draws = i == 0 || has_lengths;
    int queries = draws ? draw_length(random, limits.most_queries) : batch.query_lengths[0];
    int keys = draws ? draw_length(random, limits.most_keys) : batch.key_lengths[0];
    if (draws && chance(3)) keys = queries = std::min(queries, limits.most_keys);
    if (!limits.has_lengths) queries = std::max(queries, 1), keys = std::max(keys, 1);
    batch.query_lengths.push_back(queries);
    batch.key_lengths.push_back(keys);
  }
  if (chance(2)) batch.window_right = 0;
  if (limits.has_windows && chance(3)) {
    if (!chance(3)) batch.window_left = one_of(random, {0, 1, 17, 127, 128, 200});
    if (!chance(3)) batch.window_right = one_of(random, {0, 1, 5, 100, 128});
  }
  if (limits.has_soft_cap && chance(4)) batch.soft_cap = static_cast<float>(one_of(random, {1, 5, 30}));
  if (limits.has_pages && chance(3)) {
    batch.page_size = one_of(random, {16, 32, 64, 128, 256});
    const int longest = *std::ranges::max_element(batch.key_lengths);
    batch.pages_of_sequence = (longest + batch.page_size - 1) / batch.page_size;
    // Each page once, in any order.
    batch.page_table.resize(static_cast<size_t>(batch.pages_of_sequence) * batches);
    std::iota(batch.page_table.begin(), batch.page_table.end(), 0);
    for (size_t i = batch.page_table.size(); i > 1; --i)
      std::swap(batch.page_table[i - 1], batch.page_table[random.bits() % i]);
  }
  const bool has_sinks = limits.has_sinks && chance(3);
  return with_random_operands(std::move(batch), has_sinks, random.bits());
}

}  // namespace stagecraft::harness
