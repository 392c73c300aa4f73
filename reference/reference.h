// The oracle: the token recurrence of docs/contract.md, section 1, in a wide scalar, straight from
// the equations (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", arXiv 2412.06464, eq. 10, in the
// order decay, correct, read):
//
//     S <- exp(g_t) S;   r = v_t - S^T k_t;   S <- S + beta_t k_t r^T;   o_t = scale * S^T q_t
//
// and its variants (interface/problem.h: UpdateRule, DecayPer, Problem::steps), in any combination:
//
//     additive      r = v_t
//     n steps       r = v_tj - S^T k_tj;   S <- S + beta_tj k_tj r^T   for j = 1..n, between decay
//                   and reading
//     per channel   S <- diag(exp(g_t)) S
//
// Eigen, templated over the scalar: double is the reference; long double certifies its error.
// Nothing here knows chunks, tiles or kernels. Threads over (sequence, value head).
//
// Choices the equations leave open, made here once:
//   * gated_delta_layer hands the convolution's output on in the wide scalar: no rounding to the
//     token dtype between the stages. It always normalises q and k; its activation is
//     Problem::activation.
//   * A decay of exactly zero (log_decay = -inf) sets the state, or its row, to zero, whatever it
//     held.
//   * The final state stays in the wide scalar; its rounding to the pool's dtype is the rounding
//     floor of the error analysis.
//   * Gates at the extremes: interface/gate_arithmetic.h. Convolution windows: causal_conv1d.h.
#pragma once

#include <cstdint>
#include <vector>

#include "interface/case.h"

namespace gdn::reference {

/// One unit of independent work.
struct SequenceHead {
  std::int64_t sequence = 0;
  std::int64_t value_head = 0;
  bool operator==(const SequenceHead&) const = default;
};

struct EvaluationOptions {
  int threads = 0;  ///< 0 = all
  /// Evaluate only these pairs (a stated sample of a problem too large to check whole); empty =
  /// all. Operations that are not judged by head ignore it.
  std::vector<SequenceHead> pairs;
};

/// The pairs `options` names, in order: its own, or all of the problem. Throws Error(bad_input) for
/// one that is not in the problem.
std::vector<SequenceHead> pairs_of(const Problem& problem, const EvaluationOptions& options);

/// The same by key head: those all of whose value heads are among the pairs. `value_head` is the key
/// head here.
std::vector<SequenceHead> key_pairs_of(const Problem& problem, const EvaluationOptions& options);
/// The sequences of the pairs; all of them where none are named.
std::vector<std::int64_t> sequences_of(const Problem& problem, const EvaluationOptions& options);

/// The outputs of any operation by name, as Outputs in a wider scalar: float, double or long double.
/// Rows of pools that no sequence writes hold the case's values; what belongs to (sequence, head)
/// pairs that were not evaluated is NaN. Of an output with scales (Operand::scaled) the elements are not rounded: their
/// products with the scales are the values.
template <typename Scalar>
Arrays<Scalar> evaluate(const Case& inputs, const EvaluationOptions& options = {});

/// Whether anything the operation writes is judged by head or key head: then a sample of pairs may
/// stand for it.
bool is_judged_by_head(Operation operation);
/// Whether anything it writes is judged by key head, so that a sample takes all value heads of one.
bool is_judged_by_key_head(Operation operation);

/// log_decay and beta in the wide scalar from any encoding (softplus exact for large arguments).
template <typename Scalar>
struct Gates {
  std::vector<Scalar> log_decay;  ///< [T, Hv], or [T, Hv, Dk] with decay=channel
  std::vector<Scalar> beta;       ///< [T, Hv], or [T, n, Hv] with n steps per token
};
template <typename Scalar>
Gates<Scalar> decode_gates(const Case& inputs);

/// A uniformly drawn sample of (sequence, head) pairs of non-empty sequences, without repetition,
/// always holding the longest sequence's first and last head (so two pairs at least); all pairs if
/// there are no more than `count`. Where the operation is judged by key head, with every other value
/// head that reads the same key head. Sorted. Deterministic in the seed.
std::vector<SequenceHead> sample_pairs(const Problem& problem, std::int64_t count,
                                       std::uint64_t seed);

/// Two operations for every multiply-add of evaluating the whole problem: to decide whether to
/// sample.
double evaluation_flops(const Problem& problem);

}  // namespace gdn::reference
