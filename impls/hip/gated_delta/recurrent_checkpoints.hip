// The kernels of hip/recurrent (recurrent.hip) that store states inside the call, of the versions that its plan
// runs: columns and dpp.
#include "hip/gated_delta/recurrent_device.h"

namespace gdn::hip {

// checkpoints_recurrent_<version>_<rows>_<token>
#define GDN_RECURRENT(version, dk, suffix, threads, ...)                                    \
  extern "C" __global__ __launch_bounds__(                                                  \
      threads) void checkpoints_recurrent_##version##_##dk##_##suffix(CheckpointParams p) { \
    __VA_ARGS__(p.delta, WholeCall{}, WithCheckpoints{p.checkpoints});                      \
  }
#define GDN_RECURRENT_DPP(dk, suffix, Token) \
  GDN_RECURRENT(dpp, dk, suffix, kWaves* kWave, recurrent<Token, dk / kWave, DppSum>)
#define GDN_RECURRENT_COLUMNS(dk, suffix, Token) \
  GDN_RECURRENT(columns, dk, suffix, kColumnsThreads, recurrent_columns<Token, dk>)
#define GDN_RECURRENT_DIMS(suffix, Token)  \
  GDN_RECURRENT_DPP(64, suffix, Token)     \
  GDN_RECURRENT_DPP(128, suffix, Token)    \
  GDN_RECURRENT_DPP(256, suffix, Token)    \
  GDN_RECURRENT_COLUMNS(64, suffix, Token) \
  GDN_RECURRENT_COLUMNS(128, suffix, Token)

GDN_RECURRENT_DIMS(f32, float)
GDN_RECURRENT_DIMS(f16, Half)
GDN_RECURRENT_DIMS(bf16, Bfloat16)

}  // namespace gdn::hip
