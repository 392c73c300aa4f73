#include "harness/tests/every_feature/operation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/inputs/counter_random.h"
#include "harness/inputs/draw.h"
#include "interface/batch_part.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/dimensions.h"

namespace gdn::testing {
namespace {

using Dimensions = std::vector<Dimension>;

Dimensions x_shape(const Problem&) { return {dimension::T, dimension::Hv, dimension::Dv}; }
Dimensions z_shape(const Problem&) { return {dimension::T, dimension::Hk, dimension::Dv}; }
Dimensions head_shape(const Problem&) { return {dimension::T, dimension::Hv}; }
Dimensions pool_shape(const Problem&) { return {dimension::slots, dimension::Hv, dimension::Dv}; }
Dimensions entry_shape(const Problem&) { return {dimension::N, dimension::Hv}; }
Dimensions sketch_shape(const Problem&) { return {dimension::N, dimension::Hv, dimension::Dv}; }

Dimensions tally_shape(const Problem&) { return {dimension::slots, dimension::Hv}; }

constexpr std::int64_t kMostTimes = 3;

// A part counts its own tokens, is pulled only where it reaches its sequence's end, and lifted only
// where it has its beginning.
void fit_part(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  const auto& counts = whole.other_indices["count"];
  const auto heads = static_cast<std::size_t>(whole.problem.num_value_heads);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t sequence = parts[n].sequence;
    const std::int64_t before = parts[n].first_token - whole.first_token(sequence);
    const std::int64_t count = counts[static_cast<std::size_t>(sequence)];
    part.other_indices["count"][n] = std::clamp<std::int64_t>(count - before, 0, parts[n].count);
    if (before > 0) part.other_indices["times"][n] = 0;
    if (before + parts[n].count == whole.length(sequence)) continue;
    std::fill_n(part["pull"].begin() + static_cast<std::ptrdiff_t>(n * heads), heads, 0.0f);
  }
}

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "every_feature";
  schema.summary = "an operation of the tests that has everything an operation can have";
  schema.carries_backward = true;
  schema.fit_part = fit_part;
  schema.phases = {
      {.name = "walk",
       .reads = {"x", "weight", "pull", "sequence_offsets", "slot_index", "count", "d_last"},
       .writes = {"y", "z", "crossing", "total", "d_weight"}},
      {.name = "store",
       .reads = {"sequence_offsets", "slot_index", "times", "lift", "tally"},
       .writes = {"d_first", "tally", "sketch", "sketch_scales"}}};
  schema.fields = {"slots", "pool_rows", "pool_pad", "state"};
  schema.operands = {
      {.name = "x", .shape = x_shape, .dtype = element_type::token, .takes_token_stride = true},
      {.name = "weight",
       .shape = [](const Problem&) { return Dimensions{dimension::Hv}; },
       .dtype = element_type::float32},
      {.name = "pull", .shape = entry_shape, .dtype = element_type::float32},
      sequence_offsets_operand(),
      slot_index_operand(),
      {.name = "count",
       .shape = [](const Problem&) { return Dimensions{dimension::N}; },
       .index_rule = {[](const Case& c, std::int64_t n, std::int64_t value) {
                        return value >= 0 && value <= c.length(n);
                      },
                      "0 .. the tokens of the sequence"}},
      {.name = "times",
       .shape = [](const Problem&) { return Dimensions{dimension::N}; },
       .index_rule = {[](const Case&, std::int64_t, std::int64_t value) {
                        return value >= 0 && value <= kMostTimes;
                      },
                      "0 .. 3"}},
      {.name = "lift",
       .shape = [](const Problem&) { return Dimensions{dimension::Hv}; },
       .dtype = element_type::float32},
      {.name = "d_last",
       .shape = pool_shape,
       .dtype = element_type::state,
       .pool = {.row_padding = [](const Problem& p) { return p.pool_row_padding; }}},
      {.name = "y",
       .role = Role::output,
       .shape = x_shape,
       .dtype = element_type::float32,
       .judging = {.per = JudgedPer::head}},
      {.name = "z",
       .role = Role::output,
       .shape = z_shape,
       .dtype = element_type::token,
       .judging = {.per = JudgedPer::key_head}},
      {.name = "crossing",
       .role = Role::output,
       .shape = head_shape,
       .dtype = element_type::float32,
       .judging = {.per = JudgedPer::head, .by_terms = true}},
      {.name = "d_first",
       .role = Role::output,
       .shape = pool_shape,
       .dtype = element_type::state,
       .carried_to = "d_last",
       .pool = {.row_padding = [](const Problem& p) { return p.pool_row_padding; }},
       .judging = {.per = JudgedPer::head}},
      {.name = "tally",
       .role = Role::in_place,
       .shape = tally_shape,
       .dtype = element_type::float32,
       .judging = {.per = JudgedPer::head}},
      {.name = "total",
       .role = Role::output,
       .shape = entry_shape,
       .dtype = element_type::float32,
       .judging = {.per = JudgedPer::head, .over_calls = OverCalls::sum}},
      {.name = "d_weight",
       .role = Role::output,
       .shape = [](const Problem&) { return Dimensions{dimension::Hv}; },
       .dtype = element_type::float32,
       .judging = {.per = JudgedPer::tensor, .over_calls = OverCalls::sum}},
      // Of a call in two one is zeros, since its times is 0.
      {.name = "sketch",
       .role = Role::output,
       .shape = sketch_shape,
       .dtype = [](const Problem&) { return DType::int8; },
       .judging = {.per = JudgedPer::head, .over_calls = OverCalls::sum},
       .scaled = {.by = "sketch_scales"}},
      {.name = "sketch_scales",
       .role = Role::output,
       .shape = entry_shape,
       .dtype = element_type::float32,
       .judging = {.per = JudgedPer::head, .by_terms = true, .over_calls = OverCalls::sum}},
  };
  return schema;
}

// ---- the reference

template <typename Scalar>
Arrays<Scalar> evaluate_every_feature(const Case& c, const reference::EvaluationOptions& options) {
  const Problem& p = c.problem;
  const std::int64_t heads = p.num_value_heads, keys = p.num_key_heads, dim = p.value_head_dim;
  const std::int64_t tokens = p.total_tokens();
  const auto nan = std::numeric_limits<Scalar>::quiet_NaN();
  const auto sized = [](std::int64_t count, Scalar value) {
    return std::vector<Scalar>(static_cast<std::size_t>(count), value);
  };
  const std::int64_t pool = p.num_pool_rows() * (heads * dim + p.pool_row_padding);
  std::vector<Scalar> y = sized(tokens * heads * dim, nan), z = sized(tokens * keys * dim, nan);
  std::vector<Scalar> crossing = sized(tokens * heads, nan), terms = crossing;
  std::vector<Scalar> first = sized(pool, nan), total = sized(p.num_sequences() * heads, nan);
  std::vector<Scalar> sketch = sized(p.num_sequences() * heads * dim, nan);
  std::vector<Scalar> weight = sized(heads, Scalar(0));
  std::vector<Scalar> tally(c["tally"].begin(), c["tally"].end());
  for (const reference::SequenceHead& pair : reference::pairs_of(p, options)) {
    const std::int64_t n = pair.sequence, h = pair.value_head, key = h / (heads / keys);
    const std::int64_t row = c.slot(n) * (heads * dim + p.pool_row_padding) + h * dim;
    const std::int64_t begin = c.first_token(n), length = c.length(n);
    const std::int64_t count = c.other_indices["count"][static_cast<std::size_t>(n)];
    std::vector<Scalar> r(static_cast<std::size_t>(dim), Scalar(0));
    const bool padding = c.slot(n) < 0;
    for (std::int64_t i = 0; i < dim && !padding; ++i) {
      r[static_cast<std::size_t>(i)] = Scalar(c["d_last"][static_cast<std::size_t>(row + i)]) +
                                       Scalar(c["pull"][static_cast<std::size_t>(n * heads + h)]);
    }
    Scalar squares = 0;
    for (std::int64_t t = length - 1; t >= 0; --t) {
      Scalar of_r = 0, of_x = 0;
      for (std::int64_t i = 0; i < dim; ++i) {
        const auto at = static_cast<std::size_t>(((begin + t) * heads + h) * dim + i);
        const auto to = static_cast<std::size_t>(((begin + t) * keys + key) * dim + i);
        const Scalar x = padding ? Scalar(0) : Scalar(c["x"][at]);
        Scalar& running = r[static_cast<std::size_t>(i)];
        running = running / 2 + Scalar(c["weight"][static_cast<std::size_t>(h)]) * x;
        y[at] = t < count ? running : Scalar(0);
        z[to] = (h % (heads / keys) == 0 ? Scalar(0) : z[to]) + running;
        of_r += running * running;
        of_x += x * x;
        weight[static_cast<std::size_t>(h)] += x * running;
      }
      const auto at = static_cast<std::size_t>((begin + t) * heads + h);
      crossing[at] = of_r - of_x;
      terms[at] = of_r + of_x;
      squares += of_x;
    }
    total[static_cast<std::size_t>(n * heads + h)] = squares;
    const auto of_sketch = sketch.begin() + (n * heads + h) * dim;
    std::fill_n(of_sketch, dim, Scalar(0));
    if (padding || length == 0) continue;
    tally[static_cast<std::size_t>(c.slot(n) * heads + h)] += squares;
    const auto times = Scalar(c.other_indices["times"][static_cast<std::size_t>(n)]);
    const Scalar lifted = times * Scalar(c["lift"][static_cast<std::size_t>(h)]);
    for (std::int64_t i = 0; i < dim; ++i) {
      first[static_cast<std::size_t>(row + i)] = r[static_cast<std::size_t>(i)] + lifted;
      of_sketch[i] = times * r[static_cast<std::size_t>(i)];
    }
  }
  Arrays<Scalar> result;
  result["y"] = std::move(y);
  result["z"] = std::move(z);
  result["crossing"] = std::move(crossing);
  result["crossing_terms"] = std::move(terms);
  result["d_first"] = std::move(first);
  result["tally"] = std::move(tally);
  result["total"] = std::move(total);
  result["d_weight"] = std::move(weight);
  result["sketch"] = std::move(sketch);  // in units of scales it is made by evaluate()
  return result;
}

// A few roundings of float32; z one of the token dtype, d_first one of the state's.
reference::ErrorLimits limits_of(const Problem& p) {
  const double own = 1e-5;
  return {{"y", {own, 0}},
          {"z", {own + unit_roundoff(p.token_dtype), 0}},
          {"crossing", {own, 0}},
          {"d_first", {own + unit_roundoff(p.state_dtype), 0}},
          {"total", {own, 0}},
          {"d_weight", {own, 0}},
          {"tally", {own, 0}},
          {"sketch", {own, 0}},
          {"sketch_scales", {own, 0}}};
}

// Over a sequence the crossings of a head are its squares of r less its total: with y whole they need
// no reference.
std::string crossing_disagrees(const Case& c, const Outputs& outputs) {
  const Problem& p = c.problem;
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (c.slot(n) < 0 || c.other_indices["count"][static_cast<std::size_t>(n)] < c.length(n)) {
      continue;
    }
    for (std::int64_t h = 0; h < p.num_value_heads; ++h) {
      double squares = 0, crossings = 0;
      const auto sum = [&](const char* name, const auto& body) {
        const Operand& operand = p.operation->at(name);
        strips_of(operand, c, {n, h}).for_each([&](std::int64_t i) {
          body(static_cast<double>(outputs[name][static_cast<std::size_t>(i)]));
        });
      };
      sum("y", [&](double y) { squares += y * y; });
      sum("crossing", [&](double crossing) { crossings += crossing; });
      sum("total", [&](double total) { crossings += total; });
      if (!(std::abs(crossings - squares) <= 1e-5 * (1 + squares))) {
        return "crossing of sequence " + std::to_string(n) + ", head " + std::to_string(h) +
               ": with total it adds up to " + std::to_string(crossings) +
               ", the squares of y to " + std::to_string(squares);
      }
    }
  }
  return "";
}

void draw(Case& c) {
  const Problem& p = c.problem;
  const std::int64_t heads = p.num_value_heads, dim = p.value_head_dim;
  const auto normal = [&](const char* name, std::int64_t rows, std::int64_t width, DType dtype,
                          std::int64_t stride) {
    return normal_rows(CounterStream(p.seed, name), rows, width, stride, 1, dtype);
  };
  c["x"] = normal("x", p.total_tokens() * heads, dim, p.token_dtype, dim);
  c["weight"] = normal("weight", 1, heads, DType::float32, heads);
  c["pull"] = normal("pull", p.num_sequences(), heads, DType::float32, heads);
  c["d_last"] = normal("d_last", p.num_pool_rows(), heads * dim, p.state_dtype,
                       heads * dim + p.pool_row_padding);
  c["lift"] = normal("lift", 1, heads, DType::float32, heads);
  c["tally"] = normal("tally", p.num_pool_rows(), heads, DType::float32, heads);
  auto& times = c.other_indices["times"];
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) times.push_back(1 + n % kMostTimes);
  auto& counts = c.other_indices["count"];
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    counts.push_back(c.length(n) - c.length(n) / (n + 2));
  }
}

}  // namespace

const OperationSchema& every_feature_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

const reference::ReferenceOperation& every_feature_reference() {
  static const reference::ReferenceOperation reference = {
      .operation = every_feature_operation(),
      .honours = {"slots", "pool_rows", "pool_pad", "state"},
      .evaluate_float = evaluate_every_feature<float>,
      .evaluate_double = evaluate_every_feature<double>,
      .evaluate_long_double = evaluate_every_feature<long double>,
      .flops =
          [](const Problem& p) {
            return 10.0 *
                   static_cast<double>(p.total_tokens() * p.num_value_heads * p.value_head_dim);
          },
      .conditioning = nullptr,
      .limits = [](const Problem& p, const reference::Conditioning&) { return limits_of(p); },
      // The state between two calls is rounded once more, and z and crossing go on from it.
      .widen =
          [](reference::ErrorLimits& limits, const Problem& p, const reference::Conditioning&,
             double roundings) {
            for (auto& [name, limit] : limits) {
              limit.relative_l2 += 4 * roundings * unit_roundoff(p.state_dtype);
            }
          }};
  return reference;
}

const OperationHarness& every_feature_harness() {
  static const OperationHarness harness = {
      .operation = every_feature_operation(),
      .draw = draw,
      .count_flops = [](const Case&, std::int64_t) { return FlopCount{}; },
      .flops_text = [](std::int64_t) { return std::string(); },
      .suite = [](std::string_view) { return std::vector<std::string>(); },
      .baseline = [] { return std::vector<std::string>(); },
      .default_sweep = [](const DeviceInfo&) { return std::vector<std::string>(); },
      .checks = {{"crossing", crossing_disagrees}}};
  return harness;
}

void register_every_feature() {
  static const bool once = [] {
    add_operation(every_feature_operation());
    reference::add_reference(&every_feature_reference());
    add_operation_harness(&every_feature_harness());
    return true;
  }();
  (void)once;
}

}  // namespace gdn::testing
