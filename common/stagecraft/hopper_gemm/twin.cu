// From the name of a configuration to the kernel.
#include <cuda_runtime.h>

#include <algorithm>

#include "stagecraft/hopper_gemm/configurations.cuh"
#include "stagecraft/hopper_gemm/launch.cuh"
#include "stagecraft/hopper_gemm/padded_rows.hpp"
#include "stagecraft/hopper_gemm/product.hpp"
#include "stagecraft/hopper_gemm/twin.hpp"

namespace stagecraft {

/// Compiled in the files twin_*.cu, as twin_prepare.cuh defines it.
template <typename Config>
Launch prepare(const MatrixProduct& product, const TwinLaunchOptions& options);

Launch prepare_twin(const TwinChoice& choice, const MatrixProduct& product) {
  if (PaddedRows::are_needed(product)) {
    const PaddedRows rows(product);
    return [rows, launch = prepare_twin(choice, rows.product())](cudaStream_t stream) {
      rows.copy(stream);
      launch(stream);
    };
  }
  const bool is_tall = choice.kind == TwinKind::large || choice.kind == TwinKind::tall_144 ||
                       choice.kind == TwinKind::tall_160 || choice.kind == TwinKind::tall_176 ||
                       choice.kind == TwinKind::tall_200;
  // The start of a kernel overlaps with the end of the one before. That is worth it where both are a large part, and
  // with tiles of 256 rows always.
  const double operations = 2. * static_cast<double>(product.m) * static_cast<double>(product.n) * product.k;
  TwinLaunchOptions options{.dependent_launch = operations < 1e11 || is_tall};
  if (is_tall) {  // bands of equal height, of about 11 clusters
    const int rows = static_cast<int>((product.m + 255) / 256), bands = std::max(1, (2 * rows + 11) / 22);
    options.band = (rows + bands - 1) / bands;
  }
  if (choice.band > 0) options.band = choice.band;
  // What is read once comes faster from memory in larger pieces.
  TwinLaunchOptions streaming = options;
  streaming.promotion = L2Promotion::bytes_256;
  switch (choice.kind) {
    case TwinKind::standard: break;
    case TwinKind::halved: return prepare<TwinHalved>(product, options);
    case TwinKind::large: return prepare<TwinLarge>(product, options);
    case TwinKind::tall_144: return prepare<TwinTall144>(product, options);
    case TwinKind::tall_160: return prepare<TwinTall160>(product, options);
    case TwinKind::tall_176: return prepare<TwinTall176>(product, options);
    case TwinKind::tall_200: return prepare<TwinTall200>(product, options);
    case TwinKind::thin: return prepare<TwinThin>(product, options);
    case TwinKind::thin_rows: return prepare<TwinThinRows>(product, streaming);
    case TwinKind::thin_112: return prepare<TwinThin112>(product, options);
    case TwinKind::thin_144: return prepare<TwinThin144>(product, options);
    case TwinKind::thin_144_columns: return prepare<TwinThin144Columns>(product, options);
    case TwinKind::thin_160: return prepare<TwinThin160>(product, options);
    case TwinKind::quad_112: return prepare<TwinQuad112>(product, options);
    case TwinKind::quad_176: return prepare<TwinQuad176>(product, options);
    case TwinKind::wide_176: return prepare<TwinWide176>(product, options);
    case TwinKind::wide_192: return prepare<TwinWide192>(product, options);
    case TwinKind::wide_208: return prepare<TwinWide208>(product, options);
    case TwinKind::wide_208_rows: return prepare<TwinWide208Rows>(product, options);
    case TwinKind::wide_224: return prepare<TwinWide224>(product, options);
    case TwinKind::wide_224_rows: return prepare<TwinWide224Rows>(product, options);
    case TwinKind::wide_256: return prepare<TwinWide256>(product, options);
    case TwinKind::flat: return prepare<TwinFlat>(product, streaming);
    case TwinKind::low: return prepare<TwinLow>(product, options);
    case TwinKind::low_64: return prepare<TwinLow64>(product, streaming);
    case TwinKind::low_alone: return prepare<TwinLowAlone>(product, streaming);
    case TwinKind::split: return prepare<TwinSplit>(product, options);
    case TwinKind::split_64: return prepare<TwinSplit64>(product, streaming);
    case TwinKind::split_80: return prepare<TwinSplit80>(product, streaming);
    case TwinKind::split_tall_64: return prepare<TwinSplitTall64>(product, streaming);
    case TwinKind::split_tall_80: return prepare<TwinSplitTall80>(product, streaming);
    case TwinKind::split_high_80: return prepare<TwinSplitHigh80>(product, options);
    case TwinKind::split_high_96: return prepare<TwinSplitHigh96>(product, options);
    case TwinKind::swapped_16: return prepare<TwinSwapped16>(product, streaming);
    case TwinKind::swapped_32: return prepare<TwinSwapped32>(product, streaming);
    case TwinKind::swapped_56: return prepare<TwinSwapped56>(product, options);
    case TwinKind::swapped_72: return prepare<TwinSwapped72>(product, options);
    case TwinKind::swapped_104: return prepare<TwinSwapped104>(product, options);
    case TwinKind::swapped_136: return prepare<TwinSwapped136>(product, options);
    case TwinKind::swapped_128: return prepare<TwinSwapped128>(product, options);
    case TwinKind::swapped_96: return prepare<TwinSwapped96>(product, streaming);
    case TwinKind::swapped_112: return prepare<TwinSwapped112>(product, options);
    case TwinKind::swapped_112_narrow: return prepare<TwinSwapped112Narrow>(product, options);
    case TwinKind::swapped_160: return prepare<TwinSwapped160>(product, options);
    case TwinKind::swapped_192: return prepare<TwinSwapped192>(product, streaming);
    case TwinKind::swapped_208: return prepare<TwinSwapped208>(product, options);
    case TwinKind::by_threads: return prepare<TwinByThreads>(product, options);
    case TwinKind::thin_by_threads: return prepare<TwinThinByThreads>(product, options);
    case TwinKind::flat_by_threads: return prepare<TwinFlatByThreads>(product, streaming);
  }
  return prepare<TwinDefaults>(product, options);
}

}  // namespace stagecraft
