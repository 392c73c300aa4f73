#include "harness/conventions/semantics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "harness/run/element_place.h"
#include "interface/error.h"
#include "interface/gate_arithmetic.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/reference.h"

namespace gdn::conventions {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kOurEpsilon = 1e-6;  // docs/contract.md, section 1.1
// Vectors of unit length that a kernel normalises again are handed over this much longer: its
// epsilon then changes them by 2e-9, and a power of two costs no rounding.
constexpr float kLongUnit = 16;
// A vector this close to unit length is of unit length in float32.
constexpr double kUnitTolerance = 4 * 0x1p-24;

[[noreturn]] void fail(const Convention& convention, const std::string& what) {
  throw_bad_input("convention " + convention.name + " " + what);
}

// "log_decay is -0.5 at [5, 1] of [T, Hv]": element `index` of the operand, as its owner names it.
std::string element(const Problem& p, const std::string& operand, const std::string& name,
                    std::size_t index, float value) {
  return name + " is " + std::to_string(value) + " at " +
         element_place(p.operation->at(operand), p, static_cast<std::int64_t>(index));
}

// ---- value heads

// Entry h: where our value head h stands among theirs.
std::vector<std::int64_t> head_order(const Convention& convention, const Problem& p) {
  const std::int64_t group = p.value_heads_per_key_head();
  std::vector<std::int64_t> order;
  for (std::int64_t h = 0; h < p.num_value_heads; ++h) {
    const bool tiled = convention.heads == HeadMap::tiled;
    order.push_back(tiled ? h % group * p.num_key_heads + h / group : h);
  }
  return order;
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    result[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

// Blocks of `size` values, one per head, those of one token (or row) side by side: block h moves to
// place order[h].
void move_heads(std::vector<float>& values, const std::vector<std::int64_t>& order,
                std::int64_t size) {
  std::vector<float> moved(values.size());
  const std::int64_t stride = static_cast<std::int64_t>(order.size()) * size;
  for (std::int64_t begin = 0; begin < static_cast<std::int64_t>(values.size()); begin += stride) {
    for (std::size_t h = 0; h < order.size(); ++h) {
      const std::int64_t from = begin + static_cast<std::int64_t>(h) * size;
      std::copy_n(values.begin() + from, size, moved.begin() + begin + order[h] * size);
    }
  }
  values = std::move(moved);
}

void move_value_heads(Case& c, const std::vector<std::int64_t>& order) {
  const Problem& p = c.problem;
  move_heads(c["v"], order, p.value_head_dim);
  move_heads(c[gate_name(c.problem)], order, 1);
  if (entry_of(p.gate_encoding).has_rate_and_bias) {
    move_heads(c["A_log"], order, 1);
    move_heads(c["dt_bias"], order, 1);
  }
  move_heads(c[beta_name(c.problem)], order, 1);
  move_heads(c["initial_state"], order, p.key_head_dim * p.value_head_dim);
}

// Each key head once per value head that reads it.
void repeat_key_heads(Case& c) {
  const Problem& p = c.problem;
  const std::int64_t group = p.value_heads_per_key_head();
  for (std::vector<float>* array : {&c["q"], &c["k"]}) {
    std::vector<float> repeated;
    repeated.reserve(array->size() * static_cast<std::size_t>(group));
    for (auto head = array->begin(); head != array->end(); head += p.key_head_dim) {
      for (std::int64_t i = 0; i < group; ++i) {
        repeated.insert(repeated.end(), head, head + p.key_head_dim);
      }
    }
    *array = std::move(repeated);
  }
  c.problem.num_key_heads = p.num_value_heads;
}

// ---- q and k

// Calls body(pointer to a vector, its sum of squares, its flat number) for every vector.
void for_each_vector(std::vector<float>& values, std::int64_t size,
                     const std::function<void(float*, double, std::size_t)>& body) {
  std::size_t number = 0;
  for (auto begin = values.begin(); begin != values.end(); begin += size, ++number) {
    double squares = 0;
    for (auto x = begin; x != begin + size; ++x) squares += static_cast<double>(*x) * *x;
    body(&*begin, squares, number);
  }
}

void normalise(Case& c, NormRule rule, double epsilon) {
  const Problem& p = c.problem;
  for (std::vector<float>* array : {&c["q"], &c["k"]}) {
    for_each_vector(*array, p.key_head_dim, [&](float* x, double squares, std::size_t) {
      const double length = rule == NormRule::epsilon_added
                                ? std::sqrt(squares + epsilon)
                                : std::sqrt(std::max(squares, epsilon * epsilon));
      for (std::int64_t i = 0; i < p.key_head_dim; ++i) {
        x[i] = round_to(p.token_dtype, static_cast<float>(x[i] / length));
      }
    });
  }
  c.problem.normalize_qk = false;
}

// For kernels that normalise whatever they are given: vectors of unit length, or zero, only.
void lengthen_unit_vectors(const Convention& convention, Case& c) {
  for (const char* name : {"q", "k"}) {
    for_each_vector(c[name], c.problem.key_head_dim, [&](float* x, double squares, std::size_t at) {
      if (squares != 0 && !(std::abs(std::sqrt(squares) - 1) <= kUnitTolerance)) {
        fail(convention, "normalises q and k in the kernel; the case has normalize_qk = 0 and " +
                             std::string("the vector of ") + name + " that begins at " +
                             element_place(c.problem.operation->at(name), c.problem,
                                           static_cast<std::int64_t>(at) * c.problem.key_head_dim) +
                             " has length " + std::to_string(std::sqrt(squares)));
      }
      for (std::int64_t i = 0; i < c.problem.key_head_dim; ++i) x[i] *= kLongUnit;
    });
  }
  c.problem.normalize_qk = true;
}

void prepare_query_and_key(const Convention& convention, const ConvertOptions& options, Case& c) {
  const NormPlace place = convention.norm.place;
  if (place == NormPlace::in_kernel && !c.problem.normalize_qk) {
    lengthen_unit_vectors(convention, c);
  }
  const bool in_kernel = place == NormPlace::in_kernel || place == NormPlace::in_kernel_by_flag;
  if (!in_kernel && c.problem.normalize_qk) {
    if (c.problem.token_dtype != DType::float32 && !options.round) {
      fail(convention, "takes normalised q and k, in " + long_name(c.problem.token_dtype) +
                           " here; the case has normalize_qk = 1 and normalises in float32 "
                           "(--round rounds them)");
    }
    normalise(c, NormRule::epsilon_added, kOurEpsilon);
  }
  if (convention.scale == ScaleRule::by_caller) {
    const double scale = c.problem.effective_scale();
    for (float& x : c["q"]) x = static_cast<float>(scale * x);
    c.problem.scale = 1;
  } else if (convention.scale == ScaleRule::fixed) {
    c.problem.scale.reset();
  }
}

// ---- gates

float encode_gate(const Convention& convention, const Problem& p, double log_decay,
                  std::size_t at) {
  const GateEncodingEntry& encoding = entry_of(convention.gate_encoding);
  const double value = encoding.encode(log_decay, p.decay_bound);
  if (std::isnan(value)) {
    fail(convention, "takes " + std::string(encoding.name) +
                         ", which reach neither a decay of 1 nor of 0: " +
                         element(p, gate_name(p), "log_decay", at, static_cast<float>(log_decay)));
  }
  return static_cast<float>(value);
}

float encode_beta(const Convention& convention, const Problem& p, double beta, std::size_t at) {
  const double value = entry_of(convention.beta_encoding).encode(beta);
  if (std::isnan(value)) {
    fail(convention, "takes the logit of beta, 0 < beta < 1: " +
                         element(p, beta_name(p), "beta", at, static_cast<float>(beta)));
  }
  return static_cast<float>(value);
}

// `name`: what the convention calls the operand.
void round_to_token_dtype(const Convention& convention, const std::string& name, bool allowed,
                          const std::string& operand, Case& c) {
  const DType dtype = c.problem.token_dtype;
  std::vector<float>& values = c[operand];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float rounded = round_to(dtype, values[i]);
    if (rounded != values[i] && !allowed) {
      fail(convention, "takes gates in the token dtype, " + long_name(dtype) + ": " +
                           element(c.problem, operand, name, i, values[i]) +
                           " (--round rounds them)");
    }
    values[i] = rounded;
  }
}

// The array of the case under the name it has in another encoding.
void rename_array(Case& c, const std::string& from, const std::string& to) {
  std::vector<float> values = std::move(c[from]);
  c.arrays.erase(from);
  c[to] = std::move(values);
}

void encode_gates(const Convention& convention, const ConvertOptions& options, Case& c) {
  Problem& p = c.problem;
  const bool gate_differs = p.gate_encoding != convention.gate_encoding;
  const bool beta_differs = p.beta_encoding != convention.beta_encoding;
  if (gate_differs || beta_differs) {
    const auto gates = reference::decode_gates<double>(c);
    const auto heads = static_cast<std::size_t>(p.num_value_heads);
    if (gate_differs) {
      const std::string before = gate_name(p);
      p.set_gate_encoding(convention.gate_encoding);
      rename_array(c, before, gate_name(p));
      std::vector<float>& gate = c[gate_name(p)];
      for (std::size_t i = 0; i < gate.size(); ++i) {
        gate[i] = encode_gate(convention, p, gates.log_decay[i], i);
      }
      for (const char* name : {"A_log", "dt_bias"}) {
        c.arrays.erase(name);
        if (entry_of(p.gate_encoding).has_rate_and_bias) c[name].assign(heads, 0.0f);
      }
    }
    if (beta_differs) {
      const std::string before = beta_name(p);
      p.beta_encoding = convention.beta_encoding;
      rename_array(c, before, beta_name(p));
      std::vector<float>& beta = c[beta_name(p)];
      for (std::size_t i = 0; i < beta.size(); ++i) {
        beta[i] = encode_beta(convention, p, gates.beta[i], i);
      }
    }
  }
  if (convention.gates_in_token_dtype) {
    round_to_token_dtype(convention, convention.gate.name, options.round, gate_name(p), c);
    round_to_token_dtype(convention, convention.beta.name, options.round, beta_name(p), c);
  }
}

// ---- pools and slots

const Slots& slots_of(const Convention& convention, const Problem& p) {
  return p.operation == causal_conv1d_operation() ? convention.convolution->slots
                                                  : convention.slots;
}

// Rows of `stride` values cut to their first `used`.
std::vector<float> cut_rows(const std::vector<float>& pool, std::int64_t stride,
                            std::int64_t used) {
  std::vector<float> cut;
  for (auto row = pool.begin(); row != pool.end(); row += stride) {
    cut.insert(cut.end(), row, row + used);
  }
  return cut;
}

std::int64_t state_size(const Problem& p) { return p.state_row_stride() - p.pool_row_padding; }
std::int64_t window_size(const Problem& p) { return p.conv_channels() * (p.conv_width - 1); }

void add_leading_rows(std::vector<float>& pool, std::int64_t rows, std::int64_t size) {
  if (!pool.empty()) pool.insert(pool.begin(), static_cast<std::size_t>(rows * size), 0.0f);
}

void drop_leading_rows(std::vector<float>& pool, std::int64_t rows, std::int64_t size) {
  const std::int64_t count = std::min(rows * size, static_cast<std::int64_t>(pool.size()));
  pool.erase(pool.begin(), pool.begin() + count);
}

// Of the array itself, which may have leading rows that are a convention's own.
std::int64_t rows_of_pool(const Case& c) {
  const Problem& p = c.problem;
  const bool windows = p.operation == causal_conv1d_operation();
  const auto elements =
      static_cast<std::int64_t>(c[windows ? "conv_state" : "initial_state"].size());
  return elements / (windows ? window_size(p) : p.state_row_stride());
}

bool is_identity(const std::vector<std::int64_t>& slots, std::int64_t rows) {
  for (std::size_t n = 0; n < slots.size(); ++n) {
    if (slots[n] != static_cast<std::int64_t>(n)) return false;
  }
  return rows == static_cast<std::int64_t>(slots.size());
}

void number_slots(const Slots& slots, Case& c) {
  if (slots.dataset.empty()) return;
  if (c.slot_index.empty()) {
    if (!slots.required && c.problem.num_pool_rows() == c.problem.num_sequences()) return;
    for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) c.slot_index.push_back(n);
  }
  for (std::int64_t& slot : c.slot_index) {
    if (slot >= 0 || slots.first_row > 0) slot += slots.first_row;
  }
}

void renumber_slots(const Convention& convention, const Slots& slots, Case& c) {
  for (std::int64_t& slot : c.slot_index) {
    if (slot < 0 && (slots.first_row > 0 || slots.padding.empty())) {
      fail(convention,
           "has no negative slots; '" + slots.dataset + "' holds " + std::to_string(slot));
    }
    slot = slot < slots.first_row ? -1 : slot - slots.first_row;
  }
  const std::int64_t rows = rows_of_pool(c);
  if (is_identity(c.slot_index, rows)) c.slot_index.clear();
  const bool padding =
      std::find(c.slot_index.begin(), c.slot_index.end(), -1) != c.slot_index.end();
  c.problem.slots = c.slot_index.empty() ? SlotMap::identity
                    : padding            ? SlotMap::padding
                                         : SlotMap::permuted;
  c.problem.set_pool_rows(rows);
}

// Whether a sequence with tokens writes to each row.
std::vector<bool> written_rows(const Case& c) {
  std::vector<bool> written(static_cast<std::size_t>(c.problem.num_pool_rows()), false);
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    if (c.slot(n) >= 0 && c.length(n) > 0) written[static_cast<std::size_t>(c.slot(n))] = true;
  }
  return written;
}

}  // namespace

Case to_foreign(const Convention& convention, const Case& ours, const ConvertOptions& options) {
  require_expressible(convention, ours.problem);
  Case c = ours;
  Problem& p = c.problem;
  const Slots& slots = slots_of(convention, p);
  const auto widened = [](const std::vector<DType>& dtypes, DType dtype) {
    const bool held = std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
    return held ? dtype : DType::float32;
  };
  number_slots(slots, c);
  p.output_dtype.reset();
  if (p.operation == causal_conv1d_operation()) {
    p.token_dtype = widened(convention.convolution->token_dtypes, p.token_dtype);
    p.state_dtype = widened(convention.convolution->state_dtypes, p.state_dtype);
    add_leading_rows(c["conv_state"], slots.first_row, window_size(p));
    p.set_pool_rows(rows_of_pool(c));
    return c;
  }
  p.token_dtype = widened(convention.token_dtypes, p.token_dtype);
  p.state_dtype = widened(convention.state_dtypes, p.state_dtype);
  c["initial_state"] = cut_rows(c["initial_state"], p.state_row_stride(), state_size(p));
  p.pool_row_padding = 0;
  const bool pool_needed = convention.initial_state_required || !c.slot_index.empty();
  if (p.initial_state == InitialState::absent && pool_needed) {
    std::fill(c["initial_state"].begin(), c["initial_state"].end(), 0.0f);
    p.initial_state = InitialState::normal;
  }
  add_leading_rows(c["initial_state"], slots.first_row, state_size(p));
  p.set_pool_rows(rows_of_pool(c));
  prepare_query_and_key(convention, options, c);
  encode_gates(convention, options, c);
  move_value_heads(c, head_order(convention, p));
  if (!convention.query.axes.empty() &&
      std::count(convention.query.axes.begin(), convention.query.axes.end(), Axis::value_heads) >
          0) {
    repeat_key_heads(c);
  }
  return c;
}

Case from_foreign(const Convention& convention, const Case& theirs, double norm_epsilon) {
  Case c = theirs;
  Problem& p = c.problem;
  const Slots& slots = slots_of(convention, p);
  if (p.operation == causal_conv1d_operation()) {
    drop_leading_rows(c["conv_state"], slots.first_row, window_size(p));
    renumber_slots(convention, slots, c);
    return c;
  }
  drop_leading_rows(c["initial_state"], slots.first_row, state_size(p));
  renumber_slots(convention, slots, c);
  move_value_heads(c, inverse(head_order(convention, p)));
  const Norm& norm = convention.norm;
  if (norm.place == NormPlace::in_kernel) p.normalize_qk = true;
  if (norm.place == NormPlace::before_flag_ignored && p.normalize_qk) {
    fail(convention,
         "ignores " + norm.attribute + " = 1: q and k are expected normalised, and the flag 0");
  }
  if (convention.scale == ScaleRule::by_caller) p.scale = 1;
  if (convention.scale == ScaleRule::argument_zero_is_default && p.scale == 0.0) p.scale.reset();
  if (norm_epsilon > 0) {
    // q stands before the caller's operations, its scaling included.
    p.scale.reset();
    if (norm.rule == NormRule::epsilon_added && norm_epsilon == kOurEpsilon) {
      p.normalize_qk = true;
    } else {
      normalise(c, norm.rule, norm_epsilon);
    }
  }
  return c;
}

Outputs to_foreign(const Convention& convention, const Case& ours, const Outputs& outputs) {
  require_expressible(convention, ours.problem);
  const Problem& p = ours.problem;
  const Slots& slots = slots_of(convention, p);
  Outputs theirs = outputs;
  if (p.operation == causal_conv1d_operation()) {
    add_leading_rows(theirs["conv_state"], slots.first_row, window_size(p));
    return theirs;
  }
  const auto order = head_order(convention, p);
  move_heads(theirs["output"], order, p.value_head_dim);
  if (!p.final_state) theirs["final_state"].clear();
  theirs["final_state"] = cut_rows(theirs["final_state"], p.state_row_stride(), state_size(p));
  if (p.initial_state == InitialState::absent && !theirs["final_state"].empty()) {
    const auto written = written_rows(ours);
    for (std::size_t row = 0; row < written.size(); ++row) {
      if (written[row]) continue;
      const auto begin =
          theirs["final_state"].begin() + static_cast<std::ptrdiff_t>(row) * state_size(p);
      std::fill_n(begin, state_size(p), 0.0f);
    }
  }
  move_heads(theirs["final_state"], order, p.key_head_dim * p.value_head_dim);
  add_leading_rows(theirs["final_state"], slots.first_row, state_size(p));
  return theirs;
}

Outputs from_foreign(const Convention& convention, const Case& ours, const Outputs& theirs) {
  const Problem& p = ours.problem;
  const Slots& slots = slots_of(convention, p);
  Outputs outputs = theirs;
  if (p.operation == causal_conv1d_operation()) {
    drop_leading_rows(outputs["conv_state"], slots.first_row, window_size(p));
    return outputs;
  }
  const auto order = inverse(head_order(convention, p));
  move_heads(outputs["output"], order, p.value_head_dim);
  const auto* stored = theirs.find("final_state");
  std::vector<float> rows = stored == nullptr ? std::vector<float>() : *stored;
  drop_leading_rows(rows, slots.first_row, state_size(p));
  move_heads(rows, order, p.key_head_dim * p.value_head_dim);
  outputs["final_state"] = ours["initial_state"];
  if (!p.final_state) return outputs;
  // Where our pool is not read, theirs began as zeros: rows that nobody wrote still are.
  const bool absent = p.initial_state == InitialState::absent;
  const auto written = written_rows(ours);
  for (std::size_t row = 0; row < written.size(); ++row) {
    const auto source = rows.begin() + static_cast<std::ptrdiff_t>(row) * state_size(p);
    const auto target =
        outputs["final_state"].begin() + static_cast<std::ptrdiff_t>(row) * p.state_row_stride();
    for (std::int64_t i = 0; i < state_size(p); ++i) {
      if (absent && !written[row] && source[i] == 0.0f) continue;
      target[i] = source[i];
    }
  }
  return outputs;
}

}  // namespace gdn::conventions
