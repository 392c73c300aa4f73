// DeltaProduct as the gated delta rule over more tokens (Siems et al. 2025, arXiv 2502.10297): a
// token of n Householder steps becomes n tokens of one step each. The first has the token's decay,
// the others none; each has its step's key, value and beta, and all have the token's query, whose
// output is read at the last. The state after the last is the token's state: the two are equal.
//
// With it an implementation without steps of its own computes DeltaProduct, at the price of reading
// out n times per token; and one with them is compared with itself.
#pragma once

#include "interface/case.h"

namespace gdn {

/// The problem of one step per token and n times the tokens. Other variants are kept.
Problem steps_as_tokens(const Problem& product);
Case steps_as_tokens(const Case& product);

/// Of the outputs of steps_as_tokens(product), those of `product`: every n-th token's.
Outputs outputs_of_last_steps(const Problem& product, const Outputs& of_tokens);

}  // namespace gdn
