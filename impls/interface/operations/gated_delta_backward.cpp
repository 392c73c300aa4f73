#include "interface/operations/gated_delta_backward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interface/case.h"
#include "interface/gate_arithmetic.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/dimensions.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

using Dimensions = std::vector<Dimension>;

Dimensions key_shape(const Problem&) { return {dimension::T, dimension::Hk, dimension::Dk}; }
Dimensions value_shape(const Problem&) { return {dimension::T, dimension::Hv, dimension::Dv}; }

// ---- the state at the beginning of a part

double log_decay_at(const Case& c, std::int64_t token, std::int64_t head) {
  const Problem& p = c.problem;
  const double x = c[gate_name(p)][static_cast<std::size_t>(token * p.num_value_heads + head)];
  const bool modelled = entry_of(p.gate_encoding).has_rate_and_bias;
  const auto at = static_cast<std::size_t>(head);
  return gate_arithmetic::decode_log_decay(p.gate_encoding, x,
                                           modelled ? double{c["A_log"][at]} : 0,
                                           modelled ? double{c["dt_bias"][at]} : 0, p.decay_bound);
}

double beta_at(const Case& c, std::int64_t token, std::int64_t head) {
  const Problem& p = c.problem;
  const double x = c[beta_name(p)][static_cast<std::size_t>(token * p.num_value_heads + head)];
  return gate_arithmetic::decode_beta(p.beta_encoding, x);
}

// The row of q or k of a key head, divided by its length where the problem says so.
std::vector<double> key_at(const Case& c, std::int64_t, std::int64_t token, std::int64_t key_head) {
  const Problem& p = c.problem;
  const std::int64_t first = (token * p.num_key_heads + key_head) * p.key_head_dim;
  const auto row = c["k"].begin() + first;
  std::vector<double> k(row, row + p.key_head_dim);
  if (!p.normalize_qk) return k;
  double squares = 1e-6;
  for (const double x : k) squares += x * x;
  for (double& x : k) x /= std::sqrt(squares);
  return k;
}

double value_at(const Case& c, std::int64_t, std::int64_t token, std::int64_t head,
                std::int64_t j) {
  const Problem& p = c.problem;
  return c["v"]
          [static_cast<std::size_t>((token * p.num_value_heads + head) * p.value_head_dim + j)];
}

// The state of a head of a sequence after its tokens before `end` (docs/contract.md, section 1.1), from
// the state before them; S[i, j] at i Dv + j.
std::vector<double> state_after(const Case& c, const KeysAndValues& read, std::int64_t sequence,
                                std::int64_t head, std::int64_t end, std::vector<double> S) {
  const Problem& p = c.problem;
  const auto Dk = static_cast<std::size_t>(p.key_head_dim);
  const auto Dv = static_cast<std::size_t>(p.value_head_dim);
  for (std::int64_t t = c.first_token(sequence); t < end; ++t) {
    const double alpha = std::exp(log_decay_at(c, t, head));
    const double beta = beta_at(c, t, head);
    const std::vector<double> k = read.key(c, sequence, t, head / p.value_heads_per_key_head());
    for (double& s : S) s = alpha == 0 ? 0 : alpha * s;
    for (std::size_t j = 0; j < Dv; ++j) {
      double r = read.value(c, sequence, t, head, static_cast<std::int64_t>(j));
      for (std::size_t i = 0; i < Dk; ++i) r -= S[i * Dv + j] * k[i];
      for (std::size_t i = 0; i < Dk; ++i) S[i * Dv + j] += beta * k[i] * r;
    }
  }
  return S;
}

void fit_part(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  fit_recurrence_gradients(whole, parts, part, {key_at, value_at});
}

// ---- operands

bool reads_initial_state(const Problem& p) { return p.initial_state != InitialState::absent; }

// A pool in the form of the state's, which the call only reads, or only writes.
Operand state_pool(const char* name, Role role, bool (*read)(const Problem&)) {
  Operand operand = state_operand();
  operand.name = name;
  operand.role = role;
  operand.in_place = {.read = read};
  operand.in_file = {};
  return operand;
}

Operand gradient(std::string name, Dimensions (*shape)(const Problem&),
                 DType (*dtype)(const Problem&), JudgedPer per) {
  return {.name = std::move(name),
          .role = Role::output,
          .shape = shape,
          .dtype = dtype,
          .judging = {.per = per, .by_terms = true}};
}

// The gradient of a gate or beta operand has its shape and is there where it is.
Operand gradient_of(const Operand& operand, JudgedPer per) {
  Operand made = gradient("d_" + operand.name, operand.shape, operand.dtype, per);
  made.present = operand.present;
  return made;
}

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_delta_backward";
  schema.summary =
      "gradients of the gated delta rule: of <output, d_output> + <final_state, d_final_state>";
  schema.carries_backward = true;
  schema.fit_part = fit_part;
  schema.operands = {
      {.name = "q", .shape = key_shape, .dtype = element_type::token, .takes_token_stride = true},
      {.name = "k", .shape = key_shape, .dtype = element_type::token, .takes_token_stride = true},
      {.name = "v", .shape = value_shape, .dtype = element_type::token, .takes_token_stride = true},
  };
  for (Operand& operand : gate_operands()) schema.operands.push_back(std::move(operand));
  schema.operands.push_back(sequence_offsets_operand());
  schema.operands.push_back(slot_index_operand());
  Operand initial = state_pool("initial_state", Role::input, reads_initial_state);
  initial.in_file = state_operand().in_file;
  schema.operands.push_back(std::move(initial));
  schema.operands.push_back({.name = "d_output",
                             .shape = value_shape,
                             .dtype = element_type::token,
                             .takes_token_stride = true});
  Operand d_final =
      state_pool("d_final_state", Role::input, [](const Problem& p) { return p.final_state; });
  d_final.in_file = {.when_absent = WhenAbsent::unread,
                     .infer_presence = [](Problem& p, bool present) { p.final_state = present; }};
  schema.operands.push_back(std::move(d_final));
  schema.operands.push_back(gradient("d_q", key_shape, element_type::token, JudgedPer::key_head));
  schema.operands.push_back(gradient("d_k", key_shape, element_type::token, JudgedPer::key_head));
  schema.operands.push_back(gradient("d_v", value_shape, element_type::token, JudgedPer::head));
  for (const Operand& operand : gate_operands()) {
    const bool of_batch = operand.name == "A_log" || operand.name == "dt_bias";
    schema.operands.push_back(gradient_of(operand, of_batch ? JudgedPer::tensor : JudgedPer::head));
    if (of_batch) schema.operands.back().judging.over_calls = OverCalls::sum;
  }
  Operand d_initial = state_pool("d_initial_state", Role::output, nullptr);
  d_initial.carried_to = "d_final_state";
  d_initial.pool.written_by_empty_sequences = true;
  schema.operands.push_back(std::move(d_initial));
  schema.fields = {"slots",     "state", "layout", "h0",        "ht",    "pool_pad",
                   "pool_rows", "norm",  "scale",  "gate",      "bound", "beta",
                   "gates",     "betas", "keys",   "magnitudes"};
  schema.validate = validate_recurrence;
  return schema;
}

}  // namespace

void fit_recurrence_gradients(const Case& whole, const std::vector<PartOfSequence>& parts,
                              Case& part, const KeysAndValues& read) {
  const Problem& p = whole.problem;
  bool begins_later = false;
  for (const PartOfSequence& taken : parts) {
    const std::int64_t before = taken.first_token - whole.first_token(taken.sequence);
    if (before < 0 || before + taken.count > whole.length(taken.sequence)) return;
    begins_later = begins_later || (before > 0 && taken.count > 0);
  }
  if (!begins_later) return;
  std::vector<float>& pool = part["initial_state"];
  const bool had_none = p.initial_state == InitialState::absent;
  if (had_none) {
    part.problem.initial_state = InitialState::normal;
    std::fill(pool.begin(), pool.end(), 0.0f);
  }
  const std::int64_t Dk = p.key_head_dim, Dv = p.value_head_dim;
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t sequence = parts[n].sequence;
    const std::int64_t first = whole.first_token(sequence);
    const std::int64_t slot = part.slot(static_cast<std::int64_t>(n));
    if (slot < 0 || parts[n].first_token == first) continue;
    for (std::int64_t head = 0; head < p.num_value_heads; ++head) {
      const auto place = [&](std::int64_t i, std::int64_t j) {
        const std::int64_t in_head = p.state_layout == StateLayout::kv ? i * Dv + j : j * Dk + i;
        return static_cast<std::size_t>(slot * p.state_row_stride() + head * Dk * Dv + in_head);
      };
      std::vector<double> S;
      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) {
          S.push_back(static_cast<double>(pool[place(i, j)]));
        }
      }
      S = state_after(whole, read, sequence, head, parts[n].first_token, std::move(S));
      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) {
          pool[place(i, j)] =
              round_to(p.state_dtype, static_cast<float>(S[static_cast<std::size_t>(i * Dv + j)]));
        }
      }
    }
  }
}

const OperationSchema& gated_delta_backward_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

std::string gate_gradient_name(const Problem& problem) {
  return std::string("d_") + gate_name(problem);
}

std::string beta_gradient_name(const Problem& problem) {
  return std::string("d_") + beta_name(problem);
}

GatedDeltaBackwardArguments gated_delta_backward_arguments(const Problem& problem,
                                                           const Arguments& arguments) {
  require_operands(problem, arguments);
  const auto stride = [&](const char* operand) {
    return token_stride_of(operand, problem, arguments);
  };
  GatedDeltaBackwardArguments a;
  a.forward.query = arguments.input("q");
  a.forward.key = arguments.input("k");
  a.forward.value = arguments.input("v");
  a.forward.query_token_stride = stride("q");
  a.forward.key_token_stride = stride("k");
  a.forward.value_token_stride = stride("v");
  a.forward.gate = arguments.numbers(gate_name(problem), problem);
  a.forward.A_log = arguments.numbers("A_log", problem);
  a.forward.dt_bias = arguments.numbers("dt_bias", problem);
  a.forward.beta = arguments.numbers(beta_name(problem), problem);
  a.forward.sequence_offsets = arguments.indices("sequence_offsets");
  a.forward.slot_index = arguments.indices("slot_index");
  a.forward.state_pool = const_cast<void*>(arguments.input("initial_state"));
  a.d_output = arguments.input("d_output");
  a.d_output_token_stride = stride("d_output");
  a.d_final_state = arguments.input("d_final_state");
  a.d_query = arguments.output("d_q");
  a.d_key = arguments.output("d_k");
  a.d_value = arguments.output("d_v");
  a.d_gate = static_cast<float*>(arguments.output(gate_gradient_name(problem)));
  a.d_beta = static_cast<float*>(arguments.output(beta_gradient_name(problem)));
  a.d_A_log = static_cast<float*>(arguments.output("d_A_log"));
  a.d_dt_bias = static_cast<float*>(arguments.output("d_dt_bias"));
  a.d_initial_state = arguments.output("d_initial_state");
  return a;
}

}  // namespace gdn
