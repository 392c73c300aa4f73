// hip/recurrent: the token recurrence with the state in registers. Three versions, which differ in
// how the lanes of a wave share the state, and so in what a sum over its rows costs:
//     shuffle   64 lanes share the rows of one column; butterfly of shuffles, which this card
//               sends through the LDS crossbar: six dependent steps
//     dpp       the same, lane moves inside the VALU and one readlane
//     columns   8 lanes share the rows of four columns, 32 columns a wave (state_tile.h): three DPP
//               steps for the sums of all of them, and each element of k and q serves four columns
//
// The recurrence itself is in recurrent_device.h: the kernels of gated_delta_verify and of
// gated_delta_ring are made of it too.
//
// The decay is folded in: with P = S before the token, predicted = decay * (P^T k).
//
// Bound by: in shuffle and dpp, the latency of the chain load -> dot -> sum -> update -> dot ->
// sum, once per token. In columns, VALU issue on long sequences (256 multiply-adds and the like per
// token and wave at Dk = 128) and memory traffic in decode, where every element of the pool moves
// once in and once out, in whole cache lines.
// Modelled, not measured (gdnbench bench --device gfx906-emulator --heads 16/32 --dim 128 --h0
// normal): 256 tokens 0.398 ms in float32 and 0.396 ms in float16, eight sequences of one token
// 0.052 ms. With four columns of whole rows to a wave and no load ahead of its use it was 0.549 ms,
// 0.787 ms and 0.325 ms.
//
// Dk up to 256, any Dv; columns where Dk is at most 128 and everything lies in packets (params.h),
// its plan runs dpp elsewhere.
#include "hip/gated_delta/recurrent_device.h"

namespace gdn::hip {

// recurrent_<version>_<rows>_<token>, rows = 64, 128 or 256 state rows per wave.
#define GDN_RECURRENT(version, dk, suffix, Token, threads, ...)                                \
  extern "C" __global__ __launch_bounds__(threads) void recurrent_##version##_##dk##_##suffix( \
      GatedDeltaParams p) {                                                                    \
    __VA_ARGS__(p, WholeCall{});                                                               \
  }
#define GDN_RECURRENT_ONE(dk, suffix, Token)               \
  GDN_RECURRENT(shuffle, dk, suffix, Token, kWaves* kWave, \
                recurrent<Token, dk / kWave, ShuffleSum>)  \
  GDN_RECURRENT(dpp, dk, suffix, Token, kWaves* kWave, recurrent<Token, dk / kWave, DppSum>)
#define GDN_RECURRENT_COLUMNS(dk, suffix, Token) \
  GDN_RECURRENT(columns, dk, suffix, Token, kColumnsThreads, recurrent_columns<Token, dk>)
#define GDN_RECURRENT_DIMS(suffix, Token)  \
  GDN_RECURRENT_ONE(64, suffix, Token)     \
  GDN_RECURRENT_ONE(128, suffix, Token)    \
  GDN_RECURRENT_ONE(256, suffix, Token)    \
  GDN_RECURRENT_COLUMNS(64, suffix, Token) \
  GDN_RECURRENT_COLUMNS(128, suffix, Token)

GDN_RECURRENT_DIMS(f32, float)
GDN_RECURRENT_DIMS(f16, Half)
GDN_RECURRENT_DIMS(bf16, Bfloat16)

}  // namespace gdn::hip
