// Floating-point operations of the recurrence, per token and value head (a multiply-add is two), in
// two conventions:
//
//   recurrent   7 Dk Dv                       the token recurrence: decay the state (Dk Dv), S^T k
//                                             (2 Dk Dv), rank-one update (2 Dk Dv), S^T q (2 Dk Dv).
//                                             The work the result needs when nothing is chunked;
//                                             the same for every implementation.
//   chunkwise   2 (3 Dk Dv + 2 C (Dk + Dv))   the dense products of the chunkwise form
//                                             (docs/contract.md, section 2) with chunk C: K S, Q S
//                                             and K^T V' are 3 Dk Dv multiply-adds per token; K K^T
//                                             and Q K^T are 2 C Dk; L^-1 V' and (Q K^T) V' are
//                                             2 C Dv. Full squares; the inverse itself, norms, gates
//                                             and exponentials are not counted.
//
// Variants: with n steps per token K, V and their products have n rows per token: (4n + 3) Dk Dv,
// and 2 ((2n + 1) Dk Dv + (n + 1) C (Dk + Dv)). Without the delta term (update=additive) S^T k, K S,
// K K^T and L^-1 are left out: (2n + 3) Dk Dv, and 2 ((n + 1) Dk Dv + C (Dk + Dv)). A decay per
// channel multiplies elements and is not counted.
#pragma once

#include <string>

#include "harness/operations/operation_harness.h"

namespace gdn {

FlopCount recurrence_flop_count(const Case& inputs, std::int64_t plan_chunk);

/// The chunkwise count in words, and that of the variants, for captions.
inline constexpr const char* kChunkwiseCount =
    "2 (3 Dk Dv + 2 C (Dk + Dv)) per token and value head";
inline constexpr const char* kVariantCount =
    "n steps: 2 ((2n + 1) Dk Dv + (n + 1) C (Dk + Dv)); additive: 2 ((n + 1) Dk Dv + C (Dk + Dv))";
/// "2 (3 Dk Dv + 2 C (Dk + Dv)) per token and value head, C = 64"; of any chunk and variant for 0.
std::string recurrence_flops_text(std::int64_t chunk);

}  // namespace gdn
