// cpu/direct: gradients of the causal convolution as contract 1.12 says them, vectorised over channels.
//
// A worker takes 64 channels and goes through every sequence from its last tile of tokens to its first:
// the weighted sums and SiLU's slope once more, the gradient g behind the sum, and from g the gradients
// of inputs and weights. The first width - 1 rows of g of the tile behind are kept, for the inputs of a
// tile reach so far. A worker has all tokens of its channels, so that no sum over the batch is split:
// the bits do not depend on the number of threads. Sums of weights are float64. Bound by the exponential
// with SiLU, else by memory.
#include <algorithm>
#include <cstring>
#include <functional>

#include "cpu/causal_conv1d/channel_block.h"
#include "cpu/causal_conv1d_backward/gradient_kernel.h"
#include "cpu/element.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::cpu {
namespace {

constexpr std::int64_t kTileTokens = 64;

std::int64_t num_blocks(const Problem& p) {
  return (p.conv_channels() + kBlockChannels - 1) / kBlockChannels;
}

// A worker's rows of kBlockChannels; W - 1 is the window. In this order in its part of the workspace.
struct Rows {
  double* sums;    // [W + 1, channels], float64
  float* ext;      // [W - 1 + tile, channels]
  float* d_y;      // [tile, channels]
  float* g;        // [tile + W - 1, channels]
  float* first;    // [2 (W - 1), channels]: zeros, then g of the tokens behind
  float* d_x;      // [max(tile, W - 1), channels]
  float* d_last;   // [W - 1, channels]: d_final_window
  float* weight;   // [W, channels]
  float* bias;     // [channels]
  float* scratch;  // max(tile, W channels) floats

  Rows(float* workspace, std::int64_t width) {
    const std::int64_t window = width - 1;
    const auto take = [&](std::int64_t rows) {
      float* const taken = workspace;
      workspace += rows * kBlockChannels;
      return taken;
    };
    sums = reinterpret_cast<double*>(take(2 * (width + 1)));
    ext = take(window + kTileTokens);
    d_y = take(kTileTokens);
    g = take(kTileTokens + window);
    first = take(2 * window);
    d_x = take(kTileTokens);
    d_last = take(window);
    weight = take(width);
    bias = take(1);
    scratch = workspace;
  }
  static std::int64_t floats(std::int64_t width) {
    const std::int64_t window = width - 1;
    const std::int64_t rows = 2 * (width + 1) + 4 * kTileTokens + 5 * window + width + 1;
    return rows * kBlockChannels + std::max(kTileTokens, width * kBlockChannels);
  }
};
static_assert(kTileTokens >= 14, "a tile's row of d_x holds a window too");

class Gradients {
 public:
  Gradients(const Problem& problem, const CausalConv1dBackwardArguments& arguments)
      : problem_(problem),
        a_(arguments),
        strides_(window_strides(problem)),
        slope_rows_(version_for(instruction_set(), GDN_CPU_VERSIONS(slope_rows))),
        spread_rows_(version_for(instruction_set(), GDN_CPU_VERSIONS(spread_rows))),
        add_weight_sums_(version_for(instruction_set(), GDN_CPU_VERSIONS(add_weight_sums))) {}

  void run_block(std::int64_t index, float* workspace) const {
    const std::int64_t first_channel = index * kBlockChannels;
    const ChannelBlock block{first_channel,
                             std::min(kBlockChannels, problem_.conv_channels() - first_channel)};
    const std::int64_t width = problem_.conv_width;
    const Rows rows(workspace, width);
    load_weight_block(problem_, a_.forward, block, rows.weight, rows.bias, rows.scratch);
    std::fill_n(rows.sums, (width + 1) * block.channels, 0.0);
    for (std::int64_t n = 0; n < problem_.num_sequences(); ++n) run_sequence(n, block, rows);
    for (std::int64_t c = 0; c < block.channels; ++c) {
      for (std::int64_t j = 0; j < width; ++j) {
        a_.d_weight[(first_channel + c) * width + j] =
            static_cast<float>(rows.sums[j * block.channels + c]);
      }
      if (a_.d_bias == nullptr) continue;
      a_.d_bias[first_channel + c] = static_cast<float>(rows.sums[width * block.channels + c]);
    }
  }

 private:
  TokenInput tokens_of(const void* data, std::int64_t stride, const TokenRows& rows) const {
    return {data, problem_.token_dtype, problem_.conv_layout, stride, rows};
  }

  // A window's rows [W - 1, channels].
  void load_window(const void* pool, std::int64_t slot, const ChannelBlock& block,
                   float* rows) const {
    each_place(slot, block, [&](std::int64_t index, std::int64_t row) {
      decode(problem_.state_dtype, element(pool, index, problem_.state_dtype), rows + row, 1);
    });
  }
  void store_window(void* pool, std::int64_t slot, const ChannelBlock& block,
                    const float* rows) const {
    each_place(slot, block, [&](std::int64_t index, std::int64_t row) {
      encode(problem_.state_dtype, rows + row, element(pool, index, problem_.state_dtype), 1);
    });
  }
  template <typename Body>
  void each_place(std::int64_t slot, const ChannelBlock& block, const Body& body) const {
    for (std::int64_t c = 0; c < block.channels; ++c) {
      for (std::int64_t j = 0; j < problem_.conv_width - 1; ++j) {
        body(
            slot * strides_.row + (block.first_channel + c) * strides_.channel + j * strides_.place,
            j * block.channels + c);
      }
    }
  }

  void run_sequence(std::int64_t n, const ChannelBlock& block, const Rows& rows) const {
    const CausalConv1dArguments& forward = a_.forward;
    const std::int64_t first_token = forward.sequence_offsets[n];
    const std::int64_t num_tokens = forward.sequence_offsets[n + 1] - first_token;
    const std::int64_t slot = forward.slot_index ? forward.slot_index[n] : n;
    const std::int64_t channels = block.channels, window = problem_.conv_width - 1;
    const ConvolutionOutput output{a_.d_input,
                                   problem_.token_dtype,
                                   problem_.conv_layout,
                                   {problem_.total_tokens(), problem_.total_tokens(), 0}};
    const auto store = [&](std::int64_t start, std::int64_t count) {
      store_token_block(output, problem_.conv_channels(), first_token + start, count, block,
                        rows.d_x, rows.scratch);
    };
    const std::int64_t tiles = (num_tokens + kTileTokens - 1) / kTileTokens;
    if (slot < 0) {  // padding: no window, zeros, and in no sum
      std::fill_n(rows.d_x, kTileTokens * channels, 0.0f);
      for (std::int64_t i = 0; i < tiles; ++i) {
        store(i * kTileTokens, std::min(kTileTokens, num_tokens - i * kTileTokens));
      }
      return;
    }
    const bool reads =
        forward.state_in != nullptr && (!forward.has_window || forward.has_window[n] != 0);
    float* const behind = rows.first + window * channels;  // [W - 1, channels]
    std::fill_n(rows.first, 2 * window * channels, 0.0f);
    std::fill_n(rows.d_last, window * channels, 0.0f);
    if (a_.d_final_window != nullptr) load_window(a_.d_final_window, slot, block, rows.d_last);

    for (std::int64_t tile = tiles - 1; tile >= 0; --tile) {
      const std::int64_t start = tile * kTileTokens;
      const std::int64_t count = std::min(kTileTokens, num_tokens - start);
      load_inputs(first_token, start, count, reads ? slot : -1, block, rows);
      load_token_block(tokens_of(a_.d_output, a_.d_output_token_stride, forward.input_rows),
                       first_token + start, count, block, rows.d_y, rows.scratch);
      slope_rows_(rows.ext, rows.weight, rows.bias, rows.d_y, count, channels, problem_.conv_width,
                  problem_.activation == Activation::silu, rows.g);
      std::copy_n(behind, window * channels, rows.g + count * channels);
      add_weight_sums_(rows.ext, rows.g, count, channels, problem_.conv_width, rows.sums);
      spread_rows_(rows.g, rows.weight, count, channels, problem_.conv_width, rows.d_x);
      // The last inputs are in the new window too.
      for (std::int64_t t = std::max<std::int64_t>(0, num_tokens - window - start); t < count;
           ++t) {
        add_rows(rows.d_last + (start + t + window - num_tokens) * channels, 1, channels,
                 rows.d_x + t * channels);
      }
      if (problem_.conv_residual == ConvResidual::input) {
        add_rows(rows.d_y, count, channels, rows.d_x);
      }
      store(start, count);
      std::memmove(behind, rows.g, static_cast<std::size_t>(window * channels) * sizeof(float));
    }
    if (a_.d_initial_window == nullptr) return;
    if (!reads) {
      std::fill_n(rows.d_x, window * channels, 0.0f);
    } else {
      // Places of the window before the first token: g before it is zero.
      spread_rows_(rows.first, rows.weight, window, channels, problem_.conv_width, rows.d_x);
      // What the sequence's tokens leave of the window is in the new one.
      for (std::int64_t j = num_tokens; j < window; ++j) {
        add_rows(rows.d_last + (j - num_tokens) * channels, 1, channels, rows.d_x + j * channels);
      }
    }
    store_window(a_.d_initial_window, slot, block, rows.d_x);
  }

  static void add_rows(const float* from, std::int64_t count, std::int64_t channels, float* to) {
    for (std::int64_t i = 0; i < count * channels; ++i) to[i] += from[i];
  }

  // ext of a tile: width - 1 inputs before it, or the window's, then its own. slot -1: zeros stand
  // before the sequence.
  void load_inputs(std::int64_t first_token, std::int64_t start, std::int64_t count,
                   std::int64_t slot, const ChannelBlock& block, const Rows& rows) const {
    const CausalConv1dArguments& forward = a_.forward;
    const std::int64_t window = problem_.conv_width - 1;
    const TokenInput inputs =
        tokens_of(forward.input, forward.input_token_stride, forward.input_rows);
    std::int64_t before = window;  // rows before the tile that are tokens
    if (start == 0) {              // a later tile has 64 tokens and more before it
      before = 0;
      if (slot >= 0) {
        load_window(forward.state_in, slot, block, rows.ext);
      } else {
        std::fill_n(rows.ext, window * block.channels, 0.0f);
      }
    }
    load_token_block(inputs, first_token + start - before, before, block, rows.ext, rows.scratch);
    load_token_block(inputs, first_token + start, count, block, rows.ext + window * block.channels,
                     rows.scratch);
  }

  Problem problem_;
  CausalConv1dBackwardArguments a_;
  WindowStrides strides_;
  void (*slope_rows_)(const float*, const float*, const float*, const float*, std::int64_t,
                      std::int64_t, std::int64_t, bool, float*);
  void (*spread_rows_)(const float*, const float*, std::int64_t, std::int64_t, std::int64_t,
                       float*);
  void (*add_weight_sums_)(const float*, const float*, std::int64_t, std::int64_t, std::int64_t,
                           double*);
};

class DirectPlan final : public Plan {
 public:
  DirectPlan(const Problem& problem, const CausalConv1dBackwardArguments& arguments, Device& device)
      : gradients_(problem, arguments),
        blocks_(num_blocks(problem)),
        workers_(static_cast<int>(std::min<std::int64_t>(thread_count(), blocks_))),
        worker_floats_(Rows::floats(problem.conv_width)) {
    info_.workspace_bytes = worker_floats_ * workers_ * static_cast<std::int64_t>(sizeof(float));
    info_.launches = 1;
    info_.choice = "isa=" + to_string(instruction_set()) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    body_ = [this](std::int64_t block, int worker) {
      gradients_.run_block(block, workspace_.as<float>() + worker * worker_floats_);
    };
  }
  const PlanInfo& info() const override { return info_; }
  void run() override { parallel_for(blocks_, workers_, body_); }

 private:
  Gradients gradients_;
  std::int64_t blocks_;
  int workers_;
  std::int64_t worker_floats_;
  PlanInfo info_;
  DeviceBuffer workspace_;
  std::function<void(std::int64_t, int)> body_;
};

class Direct final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cpu/direct",
        .operation = causal_conv1d_backward_operation(),
        .honours = {"channels", "slots", "pool_rows", "state", "width", "bias", "act", "residual",
                    "weights", "conv_layout", "window_layout", "window", "fresh"},
        .backend = "cpu",
        .form = "direct",
        .summary =
            "the sums once more, then width products for inputs and for weights, vectorised over "
            "channels",
        .resources = "any CPU",
        .rank = 10,
        .examples = {"causal_conv1d_backward:heads=1/2,dim=64,seq=20+3,dtype=f32",
                     "causal_conv1d_backward:channels=131,seq=70+2+0+1,dtype=bf16,width=3,bias=1",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=none",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=read",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=written,"
                     "residual=1",
                     "causal_conv1d_backward:channels=36,seq=9+2+5+0,dtype=f16,fresh=1,weights=f32",
                     "causal_conv1d_backward:channels=131,seq=70+2+1,dtype=bf16,slots=padding,"
                     "window_layout=channels,conv_layout=time"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return Rows::floats(problem.conv_width) * thread_count() *
           static_cast<std::int64_t>(sizeof(float));
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_supported(*this, problem);
    if (const Support support = runs_on(*this, device.info()); !support) {
      throw Error(ErrorKind::device_unavailable, support.reason);
    }
    return std::make_unique<DirectPlan>(
        problem, causal_conv1d_backward_arguments(problem, arguments), device);
  }
};

}  // namespace

const Implementation& causal_conv1d_backward_direct() {
  static const Direct implementation;
  return implementation;
}

}  // namespace gdn::cpu
