// The dimensions that shapes are made of, named as in the papers, and the element types.
#pragma once

#include "interface/operation.h"
#include "interface/problem.h"

namespace gdn::dimension {

/// Tokens of all sequences. A case file without sequence_offsets holds one sequence of them.
inline constexpr Dimension T = {
    "T", [](const Problem& p) { return p.total_tokens(); }, Cut::tokens, Heads::none,
    [](Problem& p, std::int64_t tokens) { p.sequences.lengths = {tokens}; }};
inline constexpr Dimension N = {"N", [](const Problem& p) { return p.num_sequences(); },
                                Cut::sequences};
inline constexpr Dimension N_plus_1 = {
    "N + 1", [](const Problem& p) { return p.num_sequences() + 1; }, Cut::sequences};
/// Rows of a pool.
inline constexpr Dimension slots = {"slots", [](const Problem& p) { return p.num_pool_rows(); },
                                    Cut::pool_rows};
inline constexpr Dimension Hk = {"Hk", [](const Problem& p) { return p.num_key_heads; }, Cut::whole,
                                 Heads::key};
inline constexpr Dimension Hv = {"Hv", [](const Problem& p) { return p.num_value_heads; },
                                 Cut::whole, Heads::value};
inline constexpr Dimension Dk = {"Dk", [](const Problem& p) { return p.key_head_dim; }};
inline constexpr Dimension Dv = {"Dv", [](const Problem& p) { return p.value_head_dim; }};
/// Householder steps of a token.
inline constexpr Dimension steps = {"steps", [](const Problem& p) { return p.steps; }};

}  // namespace gdn::dimension

namespace gdn::element_type {

inline DType token(const Problem& p) { return p.token_dtype; }
inline DType output(const Problem& p) { return p.effective_output_dtype(); }
inline DType conv_weight(const Problem& p) { return p.effective_conv_weight_dtype(); }
inline DType state(const Problem& p) { return p.state_dtype; }
inline DType float32(const Problem&) { return DType::float32; }

}  // namespace gdn::element_type
