#include "hip/quantization.h"

#include <algorithm>

#include "hip/support.h"

namespace gdn::hip {

void launch_quantization(KernelLauncher& launcher, const ChannelQuantization& quantization) {
  const ChannelLayout& layout = quantization.layout;
  if (layout.channels() == 0) return;
  QuantizeParams params{};
  params.values = quantization.values;
  params.elements = quantization.elements;
  params.scales = quantization.scales;
  params.outer = layout.outer;
  params.extent = layout.extent;
  params.inner = layout.inner;
  constexpr std::int64_t kMostGroups = 65535;  // along a dimension of the grid
  const auto launch = [&](const char* kernel, std::int64_t x, std::int64_t y, std::uint32_t items) {
    launcher.launch(kernel, {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 1},
                    {items, 1, 1}, &params, sizeof(params));
  };
  if (layout.inner == 1) {
    params.step = std::min((layout.outer + 3) / 4, kMostGroups);
    launch("quantize_rows", params.step, 1, 256);
  } else {
    params.step = std::min(layout.outer, kMostGroups);
    launch("quantize_columns", (layout.inner + 63) / 64, params.step, 64);
  }
}

}  // namespace gdn::hip
