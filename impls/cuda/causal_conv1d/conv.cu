// Time-tiled direct convolution, one launch for outputs and windows.
//
// Every block takes one tile of consecutive tokens of one sequence. Tiles start at the sequence's
// first token, and only the first tile of a sequence touches its window: it reads the old one for
// its first width - 1 outputs and then writes the new one, so an update in place needs no second
// launch. Which sequence a tile belongs to is found on the device: tile i of all lies in the last
// sequence n with offsets[n] / kRun + n <= i, which leaves every sequence at least the tiles it
// needs (the few left over return at once) and needs no table from the host.
//
//   channels fastest: a thread walks the tile's tokens for four neighbouring channels (or one where
//     they are not aligned), the last width - 1 inputs in registers, the next ones under way: each
//     input is read from memory once, a warp's accesses are 256 or 512 contiguous bytes.
//   time fastest: a warp takes one channel, a lane eight neighbouring tokens, whose inputs before them its
//     neighbour hands on; or one token after another, the width-fold re-reads served by L1, where widths
//     are larger or tokens are not aligned.
//
// Bound by device memory: one read of the input, one write of the output, and what keeps them under
// way. An exact exponential and a division made it bound by instructions (activation.cuh); more
// tokens loaded ahead cost the threads that their registers would have held. Reached on an H200, 8192
// bfloat16 channels, width 4, SiLU: 32768 tokens in 0.294 ms, 3.65 TB/s where a copy of the same bytes
// takes 0.272 ms (data/measured/h200-2026-11-25); on another day 0.290, with windows and without. Sequences of a token
// or two have kernels of their own where these can take them (short_sequences.cu): here 128 of one token take 0.0124
// ms, 512 0.0341.
// In front of a recurrence that would have to normalise (NormalizedHeads) it takes about 0.33 ms for those tokens
// (a layer's time less its recurrence's): five exchanges of a warp for each token of a key head. Lost: two tokens'
// sums together, six exchanges for ten (the layer 0.677 ms for 0.679); the place of a one-token sequence guessed
// while the search's first loads are under way, and weights asked for before it: 128 sequences 0.0123 and 0.0123,
// 512 0.0336 and 0.0335.
// With windows of another form 128 one-token sequences took, in a run where ordinary ones took 0.0145: 0.0207
// with four places, 0.0213 with channels fastest, 0.0258 as a ring of four. float32 weights cost nothing.
// Time fastest, H200, where 4 x 8192 tokens take 0.290 ms with channels fastest: 0.678 ms, 2.48 where rows of 8191
// tokens leave no vector aligned. On an H100 80GB (channels fastest 0.387) it was 2.02 without vectors and 0.737
// with one channel a warp. What bounds the vectors is not known.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/approximate.cuh"
#include "cuda/causal_conv1d/channel_vectors.cuh"
#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/causal_conv1d/sequence_window.cuh"
#include "cuda/causal_conv1d/short_sequences.cuh"
#include "cuda/causal_conv1d/tiles.cuh"
#include "cuda/element.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxWidth = 15;
constexpr int kChannelThreads = 128;
constexpr int kChannelRun = 60;       // tokens per tile, channels fastest
constexpr int kAhead = 5;             // of these, loaded together
constexpr int kNormalizingAhead = 4;  // the same where heads are normalised: a fifth would spill
constexpr int kNormalizedHead = 128;  // channels of a head that a warp normalises
constexpr int kTimeWarps = 8;
constexpr int kTimeRun = 256;  // tokens per tile, time fastest
static_assert(kChannelRun >= kMaxWidth - 1 && kTimeRun >= kMaxWidth - 1,
              "only a sequence's first tile may need the old window");

/// Kernels are compiled for each form apart, so that none has the registers that another one takes.
enum class Form {
  ordinary,     ///< windows are [rows, channels, width - 1], or there are none, as in most calls
  other,        ///< windows of any form, and the input may be added behind the activation
  adding,       ///< windows of any form, and a tensor is added behind the activation
  normalizing,  ///< as ordinary, and heads of channels are divided by their lengths
  normalizing_elements,  ///< the same with inputs and a bias that no vector can be read from
};
constexpr bool is_normalizing(Form form) {
  return form == Form::normalizing || form == Form::normalizing_elements;
}
constexpr bool has_ordinary_windows(Form form) {
  return form == Form::ordinary || is_normalizing(form);
}
template <Form form>
using KernelParams = std::conditional_t<
    form == Form::ordinary, OrdinaryConvParams,
    std::conditional_t<is_normalizing(form), NormalizingConvParams,
                       std::conditional_t<form == Form::other, ConvParams, AddingConvParams>>>;

// ---- channels fastest

/// A window of three or four places of Count neighbouring channels, other than in rings, in vectors: of the
/// channels where these are fastest, else of what the channels have behind one another.
template <int Count>
struct VectorWindow {
  static constexpr int kPlaces = 4;
  float values[kPlaces][Count] = {};  ///< oldest first

  __device__ __forceinline__ void load(const ConvParams& p, std::int64_t row) {
    if (p.window_strides.channel == 1) {
      return each_place(p, [&](int j) {
        load_channels(p.window_in, row + j * p.window_strides.place, p.window_dtype, values[j]);
      });
    }
    if (p.window_places == kPlaces) return load_channels_of<kPlaces>(p, row);
    load_channels_of<kPlaces - 1>(p, row);
  }
  __device__ __forceinline__ void store(const ConvParams& p, std::int64_t row) const {
    if (p.window_strides.channel == 1) {
      return each_place(p, [&](int j) {
        store_vector(p.window_out, row + j * p.window_strides.place, p.window_dtype, values[j]);
      });
    }
    if (p.window_places == kPlaces) return store_channels_of<kPlaces>(p, row);
    store_channels_of<kPlaces - 1>(p, row);
  }

 private:
  template <typename Body>
  static __device__ __forceinline__ void each_place(const ConvParams& p, const Body& body) {
#pragma unroll
    for (int j = 0; j < kPlaces; ++j) {
      if (j < p.window_places) body(j);
    }
  }
  static __device__ __forceinline__ void store_vector(void* array, std::int64_t index, DType dtype,
                                                      const float (&from)[Count]) {
    if (dtype == DType::float32) return store_channels<float>(array, index, from);
    if (dtype == DType::bfloat16) return store_channels<__nv_bfloat16>(array, index, from);
    store_channels<__half>(array, index, from);
  }
  template <int Places>
  __device__ __forceinline__ void load_channels_of(const ConvParams& p, std::int64_t row) {
    PerChannel<Count, Places> channels;
    channels.load(p.window_in, row, p.window_dtype, true);
#pragma unroll
    for (int j = 0; j < Places; ++j) {
#pragma unroll
      for (int i = 0; i < Count; ++i) values[j][i] = channels.values[i][j];
    }
  }
  template <int Places>
  __device__ __forceinline__ void store_channels_of(const ConvParams& p, std::int64_t row) const {
    PerChannel<Count, Places> channels;
#pragma unroll
    for (int j = 0; j < Places; ++j) {
#pragma unroll
      for (int i = 0; i < Count; ++i) channels.values[i][j] = values[j][i];
    }
    channels.store(p.window_out, row, p.window_dtype, true);
  }
};

/// As many threads as the registers are enough for: what an SM has under way is what bounds it.
template <typename Token, typename Output>
constexpr int blocks_per_sm(int ahead, Form form) {
  constexpr bool wide = sizeof(Token) == sizeof(float) || sizeof(Output) == sizeof(float);
  if (form == Form::adding) return wide ? 3 : 4;
  if (form == Form::normalizing_elements) return 4;
  return form == Form::other ? 4 : ahead == 1 ? 6 : wide ? 5 : 6;
}

/// Count channels per thread, vectors of them in memory. Width: the compiled one; a narrower kernel
/// has leading zero weights. Ordinary: its window is, and nothing is added to its output.
template <typename Token, typename Output, int Width, int Count, int Ahead, Form form>
__global__ void __launch_bounds__(kChannelThreads, blocks_per_sm<Token, Output>(Ahead, form))
    conv_channels_kernel(const KernelParams<form> p, int channel_blocks) {
  constexpr bool Ordinary = has_ordinary_windows(form);
  constexpr bool kAdding = form == Form::adding;
  constexpr bool kVector = form != Form::normalizing_elements;  // inputs and the bias
  using Vector = Channels<Token, Count>;
  Tile tile;
  if (!find_tile(p, blockIdx.x / channel_blocks, kChannelRun, tile)) return;
  const std::int64_t channel =
      (static_cast<std::int64_t>(blockIdx.x % channel_blocks) * kChannelThreads + threadIdx.x) *
      Count;
  if (channel >= p.channels) return;
  // Token t of the sequence at t * stride.
  const std::int64_t stride = p.input_token_stride;
  const auto* const input =
      static_cast<const Token*>(p.input) + tile.sequence_first * stride + channel;
  auto* const output = static_cast<Output*>(p.output) + tile.sequence_first * p.channels + channel;

  if (tile.row < 0) {
    const float zeros[Count] = {};
    for (std::int64_t t = tile.begin; t < tile.end; ++t) {
      store_channels<Output>(output, t * p.channels, zeros);
    }
    return;
  }

  const int skipped = Width - p.width;  // leading weights that are zero
  const bool full_width = Width == kVectorWidth && p.width == Width;
  PerChannel<Count, Width> weight;
  if (full_width) {
    weight.load(p.weight, channel * Width, p.weight_dtype, p.whole);
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
#pragma unroll
      for (int j = 0; j < Width; ++j) {
        weight.values[i][j] =
            j < skipped
                ? 0.0f
                : load_element(p.weight, (channel + i) * p.width + j - skipped, p.weight_dtype);
      }
    }
  }
  float bias[Count] = {};
  if (p.bias != nullptr) {
    if constexpr (kVector) {
      load_channels(p.bias, channel, p.weight_dtype, bias);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) bias[i] = load_element(p.bias, channel + i, p.weight_dtype);
    }
  }

  // history[j] is the input of token t - (Width - 1) + j.
  const SequenceWindow<KernelParams<form>> window(p, tile);
  const int places = window.places();
  const std::int64_t row = window.begin(channel);
  const bool moves = window.moves();
  float history[Width - 1][Count];
  bool vectors = false;  // VectorWindow
  if constexpr (!Ordinary && Count > 1) vectors = p.window_vectors;
  if (tile.begin > 0) {
#pragma unroll
    for (int j = 0; j < Width - 1; ++j) {
      if (j < skipped) {  // older than the window: weight 0
#pragma unroll
        for (int i = 0; i < Count; ++i) history[j][i] = 0;
      } else {
        load_channels<Token, Count, kVector>(input + (tile.begin - (Width - 1) + j) * stride,
                                             history[j]);
      }
    }
  } else if (Ordinary && full_width) {
    // The new window is the last of (old window, sequence): where the sequence is short, some of it
    // is the old one, moved to lower places.
    PerChannel<Count, Width - 1> old = {};
    if (window.is_read()) old.load(p.window_in, row, p.window_dtype, p.whole);
#pragma unroll
    for (int j = 0; j < Width - 1; ++j) {
#pragma unroll
      for (int i = 0; i < Count; ++i) history[j][i] = old.values[i][j];
    }
    if (moves) {
      PerChannel<Count, Width - 1> moved;
#pragma unroll
      for (int j = 0; j < Width - 1; ++j) {
        const std::int64_t t = tile.length - (Width - 1) + j;
        float values[Count];
        if (t >= 0) {
          load_channels<Token, Count, kVector>(input + t * stride, values);
        } else {
#pragma unroll
          for (int from = 0; from < Width - 1; ++from) {
            if (t + Width - 1 != from) continue;
#pragma unroll
            for (int i = 0; i < Count; ++i) values[i] = old.values[i][from];
          }
        }
#pragma unroll
        for (int i = 0; i < Count; ++i) moved.values[i][j] = values[i];
      }
      moved.store(p.window_out, row, p.window_dtype, p.whole);
    }
  } else if (vectors) {
    if constexpr (!Ordinary && Count > 1) {
      VectorWindow<Count> old;
      if (window.reads) old.load(p, row);
      const bool longer = places == Width;
#pragma unroll
      for (int j = 0; j < Width - 1; ++j) {
#pragma unroll
        for (int i = 0; i < Count; ++i) {
          history[j][i] = longer ? old.values[j + 1][i] : old.values[j][i];
        }
      }
      if (moves) {
        VectorWindow<Count> moved;
#pragma unroll
        for (int j = 0; j < VectorWindow<Count>::kPlaces; ++j) {
          const std::int64_t t = tile.length - places + j;
          if (j < places && t >= 0)
            load_channels<Token, Count>(input + t * stride, moved.values[j]);
#pragma unroll
          for (int from = j; from < VectorWindow<Count>::kPlaces; ++from) {
            if (t >= 0 || from != tile.length + j) continue;
#pragma unroll
            for (int i = 0; i < Count; ++i) moved.values[j][i] = old.values[from][i];
          }
        }
        moved.store(p, row);
      }
    }
  } else {
    // Ordinary: the same places, in a form that takes fewer registers.
    const int first_read = places - (Width - 1);
#pragma unroll
    for (int j = 0; j < Width - 1; ++j) {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        if constexpr (Ordinary) {
          history[j][i] = j < skipped ? 0.0f : window.old(row, i, j - skipped);
        } else {
          history[j][i] = j < skipped ? 0.0f : window.old(row, i, first_read + j);
        }
      }
    }
    // What stays of the old window moves to lower places, so in ascending order nothing is
    // overwritten before it is read. In a ring it does not move.
    for (int j = 0; moves && j < places; ++j) {
      const std::int64_t t = tile.length - places + j;
      for (int i = 0; i < Count; ++i) {
        if constexpr (Ordinary) {
          const float value =
              t >= 0 ? to_float(input[t * stride + i]) : window.old(row, i, places + t);
          store_element(p.window_out, row + i * places + j, p.window_dtype, value);
        } else {
          if (t < 0 && window.stays()) continue;
          window.store(row, i, j,
                       t >= 0 ? to_float(input[t * stride + i]) : window.old(row, i, places + t));
        }
      }
    }
  }

  // Inputs are loaded Ahead tokens at a time, the next ones before these are used: stores to the
  // output, which might alias the input for all the compiler knows, would otherwise hold them back.
  const int count = static_cast<int>(tile.end - tile.begin);
  const Token* from = input + tile.begin * stride;
  Output* to = output + tile.begin * p.channels;
  Vector batch[Ahead];
  std::int64_t added_stride = 0;
  const Token* added_from = nullptr;
  Vector added_batch[kAdding ? Ahead : 1];
  if constexpr (kAdding) {
    added_stride = p.added_token_stride;
    added_from = static_cast<const Token*>(p.added) +
                 (tile.sequence_first + tile.begin) * added_stride + channel;
  }
  const auto load_batch = [&](int first) {
#pragma unroll
    for (int i = 0; i < Ahead; ++i) {
      if (first + i < count) batch[i] = channels_at<kVector, Token, Count>(from + i * stride);
      if constexpr (kAdding) {
        if (first + i < count)
          added_batch[i] = *reinterpret_cast<const Vector*>(added_from + i * added_stride);
      }
    }
    from += Ahead * stride;
    if constexpr (kAdding) added_from += Ahead * added_stride;
  };
  // Of whole warps: a warp has a head.
  static_assert(!is_normalizing(form) || Count * kWarp == kNormalizedHead);
  bool normalizes = false;
  if constexpr (is_normalizing(form)) normalizes = channel < p.normalized_channels;
  const auto step = [&](const Vector& vector, const Vector& added) {
    float sums[Count];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float newest = to_float(vector.values[i]);
      float sum = bias[i];
#pragma unroll
      for (int j = 0; j < Width - 1; ++j) sum = fmaf(weight.values[i][j], history[j][i], sum);
      sums[i] = activate<Output>(fmaf(weight.values[i][Width - 1], newest, sum), p.silu);
      if constexpr (kAdding) {
        sums[i] += to_float(added.values[i]);
      } else if constexpr (!Ordinary) {
        if (p.residual) sums[i] += newest;
      }
#pragma unroll
      for (int j = 0; j + 1 < Width - 1; ++j) history[j][i] = history[j + 1][i];
      history[Width - 2][i] = newest;
      squares = fmaf(sums[i], sums[i], squares);
    }
    if (normalizes) {
#pragma unroll
      for (int mask = kWarp / 2; mask > 0; mask /= 2) {
        squares += __shfl_xor_sync(0xffffffffu, squares, mask);
      }
      if constexpr (is_normalizing(form)) squares += p.epsilon;
      const float inverse = inverse_root_approximately(squares);
#pragma unroll
      for (int i = 0; i < Count; ++i) sums[i] *= inverse;
    }
    store_channels<Output>(to, 0, sums);
    to += p.channels;
  };
  load_batch(0);
  for (int first = 0; first < count; first += Ahead) {
    Vector inputs[Ahead];
    Vector added[Ahead];  // of kAdding
#pragma unroll
    for (int i = 0; i < Ahead; ++i) inputs[i] = batch[i];
    if constexpr (kAdding) {
#pragma unroll
      for (int i = 0; i < Ahead; ++i) added[i] = added_batch[i];
    }
    load_batch(first + Ahead);
    if (first + Ahead <= count) {
#pragma unroll
      for (int i = 0; i < Ahead; ++i) step(inputs[i], added[i]);
    } else {
#pragma unroll
      for (int i = 0; i < Ahead; ++i) {
        if (first + i < count) step(inputs[i], added[i]);
      }
    }
  }
}

// ---- time fastest

/// A lane's neighbouring tokens of one channel, and the inputs before them, for widths up to kVectorWidth. In
/// all lanes of a warp together: a tile.
template <typename Token>
struct LaneTokens {
  static constexpr int kCount = kTimeRun / kWarp, kBefore = kVectorWidth - 1;
  static constexpr int kVectors = kCount / Vector16<Token>::kCount;
  float values[kBefore + kCount];

  /// `from`: the tile's first; it has `count` tokens.
  __device__ __forceinline__ void load(const Token* from, int lane, int count) {
    load_into(values + kBefore, from, lane, count);
  }
  static __device__ __forceinline__ void load_into(float* to, const Token* from, int lane,
                                                   int count) {
    const int first = lane * kCount;
    if (first + kCount <= count) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const auto word = reinterpret_cast<const Vector16<Token>*>(from + first)[v];
#pragma unroll
        for (int i = 0; i < Vector16<Token>::kCount; ++i) {
          to[v * Vector16<Token>::kCount + i] = to_float(word.values[i]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        to[i] = first + i < count ? to_float(from[first + i]) : 0.0f;
      }
    }
  }
  /// Inputs before the tile: before(1) is the last of them. Whole warps.
  template <typename Before>
  __device__ __forceinline__ void load_before(int lane, const Before& before) {
#pragma unroll
    for (int b = 0; b < kBefore; ++b) {
      values[b] = __shfl_up_sync(0xffffffffu, values[kCount + b], 1);
      if (lane == 0) values[b] = before(kBefore - b);
    }
  }
  /// add(sum, i): what is added to the output of the lane's i-th token, which is `sum` without it.
  template <typename WeightAt, typename Add>
  __device__ __forceinline__ void store(Token* to, int lane, int count, const WeightAt& weight_at,
                                        int width, float bias, bool silu, const Add& add) const {
    float weights[kVectorWidth];
#pragma unroll
    for (int j = 0; j < kVectorWidth; ++j) {
      const int at = j - (kVectorWidth - width);
      weights[j] = at >= 0 ? weight_at(at) : 0.0f;
    }
    const int first = lane * kCount;
    Vector16<Token> words[kVectors];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float sum = bias;
#pragma unroll
      for (int j = 0; j < kVectorWidth; ++j) {
        if (j >= kVectorWidth - width) sum = fmaf(weights[j], values[i + j], sum);
      }
      sum = activate<Token>(sum, silu);
      sum = add(sum, i);
      words[i / Vector16<Token>::kCount].values[i % Vector16<Token>::kCount] =
          from_float<Token>(sum);
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = first + v * Vector16<Token>::kCount;
      if (at + Vector16<Token>::kCount <= count) {
        *reinterpret_cast<Vector16<Token>*>(to + at) = words[v];
      } else {
#pragma unroll
        for (int i = 0; i < Vector16<Token>::kCount; ++i) {
          if (at + i < count) to[at + i] = words[v].values[i];
        }
      }
    }
  }
};

/// A warp: a channel of a tile.
template <typename Token, Form form>
__device__ __forceinline__ void convolve_channel(const KernelParams<form>& p,
                                                 const ConvRows& input_rows,
                                                 const ConvRows& output_rows, const Tile& tile,
                                                 std::int64_t channel, int lane) {
  constexpr bool Ordinary = form == Form::ordinary;
  constexpr bool kAdding = form == Form::adding;
  // Of the sequence's token t. Rows seldom end within a tile: where none does, one address leads to all of
  // its tokens and of the inputs before them.
  const int first = max(tile.begin - (p.width - 1), 0), last = max(tile.end - 1, first);
  const bool in_one_row =
      input_rows.are_in_one(tile.sequence_first + first, tile.sequence_first + last);
  const auto* const input = static_cast<const Token*>(p.input);
  const auto* const first_input = input + input_rows.at(channel, tile.sequence_first + first);
  const auto input_at = [&](int t) {
    return to_float(in_one_row ? first_input[t - first]
                               : input[input_rows.at(channel, tile.sequence_first + t)]);
  };
  const auto output_at = [&](int t) {
    const int token = tile.sequence_first + t;
    return p.output_layout == ConvLayout::channels ? token * p.channels + channel
                                                   : output_rows.at(channel, token);
  };
  const SequenceWindow<KernelParams<form>> window(p, tile);
  const std::int64_t row = window.begin(channel);
  const int places = window.places();
  const float bias = p.bias != nullptr ? load_element(p.bias, channel, p.weight_dtype) : 0.0f;
  const auto weight_at = [&](int j) {
    return load_element(p.weight, channel * p.width + j, p.weight_dtype);
  };

  // Of a whole tile a lane takes neighbouring tokens in vectors, where inputs and outputs lie so.
  const auto* const own_input = first_input + (tile.begin - first);
  auto* const own_output =
      static_cast<Token*>(p.output) + output_rows.at(channel, tile.sequence_first + tile.begin);
  const Token* own_added = nullptr;
  bool added_in_vectors = true;
  if constexpr (kAdding) {
    own_added = static_cast<const Token*>(p.added) +
                p.added_rows.at(channel, tile.sequence_first + tile.begin);
    added_in_vectors =
        reinterpret_cast<std::uintptr_t>(own_added) % 16 == 0 &&
        p.added_rows.are_in_one(tile.sequence_first + tile.begin, tile.sequence_first + last);
  }
  const bool in_vectors =
      tile.row >= 0 && p.width <= kVectorWidth && in_one_row && tile.begin < tile.end &&
      p.output_layout == ConvLayout::time && p.output_dtype == p.token_dtype &&
      output_rows.are_in_one(tile.sequence_first + tile.begin, tile.sequence_first + last) &&
      reinterpret_cast<std::uintptr_t>(own_input) % 16 == 0 &&
      reinterpret_cast<std::uintptr_t>(own_output) % 16 == 0 && added_in_vectors;
  if (in_vectors) {
    LaneTokens<Token> tokens;
    tokens.load(own_input, lane, tile.end - tile.begin);
    tokens.load_before(lane, [&](int back) {  // inputs before the tile, 1 the newest
      const int s = tile.begin - back;
      if (back >= p.width) return 0.0f;
      return s >= 0 ? input_at(s) : window.old(row, 0, places + s);
    });
    float added[LaneTokens<Token>::kCount];  // of kAdding
    if constexpr (kAdding) {
      LaneTokens<Token>::load_into(added, own_added, lane, tile.end - tile.begin);
    }
    tokens.store(own_output, lane, tile.end - tile.begin, weight_at, p.width, bias, p.silu,
                 [&](float sum, int i) {
                   if constexpr (kAdding) {
                     sum += added[i];
                   } else if constexpr (!Ordinary) {
                     if (p.residual) sum += tokens.values[LaneTokens<Token>::kBefore + i];
                   }
                   return sum;
                 });
  } else {
    for (int t = tile.begin + lane; t < tile.end; t += 32) {
      float sum = bias;
      if (tile.row >= 0) {
        for (int j = 0; j < p.width; ++j) {
          const int s = t - (p.width - 1) + j;
          const float x = s >= 0 ? input_at(s) : window.old(row, 0, places + s);
          sum = fmaf(weight_at(j), x, sum);
        }
        sum = p.output_dtype == DType::float32 ? activate<float>(sum, p.silu)
                                               : activate<Token>(sum, p.silu);
        if constexpr (kAdding) {
          sum += to_float(static_cast<const Token*>(
              p.added)[p.added_rows.at(channel, tile.sequence_first + t)]);
        } else if constexpr (!Ordinary) {
          if (p.residual) sum += input_at(t);
        }
      } else {
        sum = 0;
      }
      store_element(p.output, output_at(t), p.output_dtype, sum);
    }
  }
  if (tile.begin != 0 || tile.row < 0) return;
  if (!window.moves()) return;
  // A lane per place of the window; all have read the old one before any writes. What stays of it moves
  // to lower places, so that places beyond a warp's, which come later, are read before they change too.
  for (int first = 0; first < places; first += 32) {
    const int place = first + lane;
    const int t = tile.length - places + place;
    float value = 0;
    if (place < places) {
      value = t >= 0 ? to_float(input[input_rows.at(channel, tile.sequence_first + t)])
                     : window.old(row, 0, places + t);
    }
    bool writes = place < places;
    if constexpr (!Ordinary) writes = writes && (t >= 0 || !window.stays());
    __syncwarp();
    if (writes) window.store(row, 0, place, value);
    if constexpr (Ordinary) return;  // a warp has lanes for all places
  }
}

/// How the blocks of a time-fastest convolution lie on the channels.
struct TimeGrid {
  int blocks = 1;  ///< of a tile
  int channels_per_warp =
      1;  ///< one after another: finding the tile takes as long as a channel of it
};

// Three blocks a multiprocessor: left to itself the compiler spills for a fourth.
template <typename Token, Form form>
__global__ void __launch_bounds__(32 * kTimeWarps, 3)
    conv_time_kernel(const KernelParams<form> p, const ConvRows input_rows,
                     const ConvRows output_rows, const TimeGrid grid) {
  const auto blocks = static_cast<unsigned int>(grid.blocks);
  Tile tile;
  if (!find_tile(p, blockIdx.x / blocks, kTimeRun, tile)) return;
  const auto warp = static_cast<int>(blockIdx.x % blocks * kTimeWarps + threadIdx.x / 32);
  const std::int64_t first = std::int64_t{warp} * grid.channels_per_warp;
  const std::int64_t end = min(first + grid.channels_per_warp, p.channels);
#pragma unroll 1
  for (std::int64_t channel = first; channel < end; ++channel) {
    convolve_channel<Token, form>(p, input_rows, output_rows, tile, channel,
                                  static_cast<int>(threadIdx.x % 32));
  }
}

// ---- launch

/// launch(form, params): of the kernels that these parameters take.
template <typename Launch>
void with_form(const AddingConvParams& p, const Launch& launch) {
  if (p.added != nullptr) {
    launch(std::integral_constant<Form, Form::adding>{}, p);
  } else if (p.ordinary) {
    launch(std::integral_constant<Form, Form::ordinary>{},
           static_cast<const OrdinaryConvParams&>(p));
  } else {
    launch(std::integral_constant<Form, Form::other>{}, static_cast<const ConvParams&>(p));
  }
}

template <typename Token, typename Output, int Width, int Count, int Ahead>
void launch_channels(const AddingConvParams& p, cudaStream_t stream) {
  const std::int64_t per_block = static_cast<std::int64_t>(kChannelThreads) * Count;
  const std::int64_t channel_blocks = (p.channels + per_block - 1) / per_block;
  const unsigned int blocks = grid_blocks(
      most_tiles(p.token_capacity, p.num_sequences, kChannelRun) * channel_blocks, "causal_conv1d");
  const auto count = static_cast<int>(channel_blocks);
  with_form(p, [&](auto form, const auto& params) {
    launch_kernel(conv_channels_kernel<Token, Output, Width, Count, Ahead, decltype(form)::value>,
                  blocks, kChannelThreads, 0, stream, params, count);
  });
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

/// Whether windows are VectorWindow's, where they are aligned.
bool has_vector_window(const ConvParams& p, int vector) {
  const WindowStrides& strides = p.window_strides;
  const bool of_channels = strides.channel == 1 && strides.place % vector == 0;
  const bool of_places = strides.place == 1 && strides.channel == p.window_places;
  return p.width == kVectorWidth && !p.window_position &&
         (p.window_places == kVectorWidth || p.window_places == kVectorWidth - 1) &&
         strides.row % vector == 0 && (of_channels || of_places);
}

/// Whether threads take vectors of channels.
bool takes_vectors(const AddingConvParams& p, int vector) {
  return p.width <= kVectorWidth && p.channels % vector == 0 &&
         p.input_token_stride % vector == 0 && is_aligned(p.input) && is_aligned(p.output) &&
         (p.bias == nullptr || is_aligned(p.bias)) && p.added_token_stride % vector == 0 &&
         is_aligned(p.added);
}

template <typename Token, typename Output>
void launch_channels_into(AddingConvParams p, cudaStream_t stream) {
  constexpr int kVector = 4;  // 8 or 16 bytes: more would take the registers of half the warps
  if (p.width > kVectorWidth)
    return launch_channels<Token, Output, kMaxWidth, 1, kAhead>(p, stream);
  if (!takes_vectors(p, kVector))
    return launch_channels<Token, Output, kVectorWidth, 1, kAhead>(p, stream);
  const bool windows_aligned = is_aligned(p.window_in) && is_aligned(p.window_out);
  p.whole = windows_aligned && is_aligned(p.weight);
  p.window_vectors = windows_aligned && has_vector_window(p, kVector);
  if (p.whole && has_short_sequences(p)) {
    return enqueue_short_sequences(p, stream);
  }
  // Of few tokens each there is nothing to load ahead of, and registers are better spent on threads.
  if (p.token_capacity <= 2 * p.num_sequences) {
    return launch_channels<Token, Output, kVectorWidth, kVector, 1>(p, stream);
  }
  launch_channels<Token, Output, kVectorWidth, kVector, kAhead>(p, stream);
}

template <typename Token>
void launch_normalizing(const AddingConvParams& p, const NormalizedHeads& heads,
                        cudaStream_t stream) {
  constexpr int kVector = kNormalizedHead / kWarp;
  NormalizingConvParams params;
  static_cast<OrdinaryConvParams&>(params) = p;
  params.normalized_channels = heads.channels;
  params.epsilon = heads.epsilon;
  params.whole = is_aligned(p.window_in) && is_aligned(p.window_out) && is_aligned(p.weight);
  const std::int64_t per_block = std::int64_t{kChannelThreads} * kVector;
  const auto channel_blocks = static_cast<int>((p.channels + per_block - 1) / per_block);
  const unsigned int blocks = grid_blocks(
      most_tiles(p.token_capacity, p.num_sequences, kChannelRun) * channel_blocks, "causal_conv1d");
  const auto launch_form = [&](auto form) {
    launch_kernel(conv_channels_kernel<Token, Token, kVectorWidth, kVector, kNormalizingAhead,
                                       decltype(form)::value>,
                  blocks, kChannelThreads, 0, stream, params, channel_blocks);
  };
  takes_vectors(p, kVector)
      ? launch_form(std::integral_constant<Form, Form::normalizing>{})
      : launch_form(std::integral_constant<Form, Form::normalizing_elements>{});
}

template <typename Token>
void launch(const AddingConvParams& p, cudaStream_t stream) {
  if (p.input_layout == ConvLayout::time) {
    // Several channels a warp only where warps are many times what a card holds at once.
    constexpr std::int64_t kMany = 1 << 16;
    TimeGrid grid;
    if (most_tiles(p.token_capacity, p.num_sequences, kTimeRun) * p.channels > 4 * kMany)
      grid.channels_per_warp = 4;
    const std::int64_t per_block = std::int64_t{kTimeWarps} * grid.channels_per_warp;
    grid.blocks = static_cast<int>((p.channels + per_block - 1) / per_block);
    const unsigned int blocks = grid_blocks(
        most_tiles(p.token_capacity, p.num_sequences, kTimeRun) * grid.blocks, "causal_conv1d");
    with_form(p, [&](auto form, const auto& params) {
      launch_kernel(conv_time_kernel<Token, decltype(form)::value>, blocks, 32 * kTimeWarps, 0,
                    stream, params, p.input_rows, p.output_rows, grid);
    });
    return;
  }
  if (p.output_dtype == DType::float32) return launch_channels_into<Token, float>(p, stream);
  launch_channels_into<Token, Token>(p, stream);
}

}  // namespace

AddingConvParams make_conv_params(const Problem& problem, const CausalConv1dArguments& arguments) {
  AddingConvParams p;
  p.input = arguments.input;
  p.weight = arguments.weight;
  p.bias = problem.conv_bias ? arguments.bias : nullptr;
  p.sequence_offsets = arguments.sequence_offsets;
  p.slot_index = arguments.slot_index;
  p.has_window = arguments.has_window;
  p.window_position = arguments.window_position;
  p.window_in = arguments.state_in;
  p.window_out = arguments.state_out;
  p.output = arguments.output;
  p.token_dtype = problem.token_dtype;
  p.window_dtype = problem.state_dtype;
  p.output_dtype = problem.token_dtype;
  p.input_layout = problem.conv_layout;
  p.output_layout = problem.conv_layout;
  p.num_sequences = problem.num_sequences();
  p.token_capacity = problem.total_tokens();
  p.channels = problem.conv_channels();
  p.input_token_stride = arguments.input_token_stride;
  p.input_rows = ConvRows(arguments.input_rows);
  p.output_rows = ConvRows(arguments.output_rows);
  p.width = static_cast<std::int32_t>(problem.conv_width);
  p.silu = problem.activation == Activation::silu;
  p.residual = problem.conv_residual == ConvResidual::input;
  p.added = arguments.residual;
  p.added_token_stride = arguments.residual_token_stride;
  if (p.added != nullptr) p.added_rows = ConvRows(arguments.residual_rows);
  p.weight_dtype = problem.effective_conv_weight_dtype();
  p.longest = problem.sequences.longest();
  p.window_strides = window_strides(problem);
  p.window_places = static_cast<std::int32_t>(problem.window_places());
  p.ordinary = !p.has_window && !p.residual && !p.window_position &&
               problem.window_layout == WindowLayout::time &&
               problem.window_places() == problem.conv_width - 1;
  return p;
}

bool can_normalize_heads(const Problem& problem) {
  return problem.key_head_dim == kNormalizedHead &&
         problem.conv_channels() % kNormalizedHead == 0 && problem.conv_width <= kVectorWidth &&
         problem.token_dtype != DType::float32 && problem.conv_layout == ConvLayout::channels &&
         !problem.fresh_windows && problem.conv_residual == ConvResidual::none &&
         problem.window_order == WindowOrder::oldest_first &&
         problem.window_layout == WindowLayout::time &&
         problem.window_places() == problem.conv_width - 1;
}

void enqueue_causal_conv1d(const AddingConvParams& params, cudaStream_t stream,
                           const NormalizedHeads& heads) {
  with_element_type(params.token_dtype, [&](auto token) {
    using Token = decltype(token);
    if constexpr (sizeof(Token) == 2) {
      if (heads.channels > 0) return launch_normalizing<Token>(params, heads, stream);
    }
    launch<Token>(params, stream);
  });
  GDN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace gdn::GDN_CUDA_TARGET
