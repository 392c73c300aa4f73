#include "hip/row_copies.h"

#include <algorithm>

#include "hip/support.h"
#include "interface/storage_type.h"

namespace gdn::hip {

bool launch_row_copy(KernelLauncher& launcher, const StridedCopy& given) {
  if (given.elements() == 0) return true;
  const StridedCopy copy = merged(given);
  const std::int64_t bytes = size_of(copy.to_type);
  if (copy.from_type != copy.to_type || (bytes != 2 && bytes != 4) || copy.bound || copy.rank > 2) {
    return false;
  }
  RowCopyParams params{};
  params.from = copy.from;
  params.to = copy.to;
  params.rows = copy.rows;
  params.entries = params.elements = 1;
  const int rows = copy.rows || copy.rank == 2 ? 1 : 0;  // dimensions in front of that of a row
  if (rows == 1) {
    params.entries = copy.extents[0];
    params.from_row_stride = copy.from_strides[0];
    params.to_row_stride = copy.to_strides[0];
  }
  if (copy.rank > rows) {
    const auto last = static_cast<std::size_t>(rows);
    params.elements = copy.extents[last];
    params.from_stride = copy.from_strides[last];
    params.to_stride = copy.to_strides[last];
  }
  params.element_bytes = static_cast<std::int32_t>(bytes);
  params.entry_step = static_cast<std::int32_t>(std::min<std::int64_t>(params.entries, 65535));
  const auto groups = static_cast<std::uint32_t>((params.elements + 255) / 256);
  launcher.launch("copy_rows", {groups, static_cast<std::uint32_t>(params.entry_step), 1},
                  {256, 1, 1}, &params, sizeof(params));
  return true;
}

}  // namespace gdn::hip
