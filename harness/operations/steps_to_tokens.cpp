#include "harness/operations/steps_to_tokens.h"

#include "interface/error.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

// [T, width] to [T, steps, width]: each row first, then `steps` - 1 rows made by `later`.
template <typename Later>
std::vector<float> expanded(const std::vector<float>& rows, std::int64_t width, std::int64_t steps,
                            const Later& later) {
  std::vector<float> result;
  result.reserve(rows.size() * static_cast<std::size_t>(steps));
  for (auto row = rows.begin(); row != rows.end(); row += width) {
    result.insert(result.end(), row, row + width);
    for (std::int64_t step = 1; step < steps; ++step) {
      for (std::int64_t i = 0; i < width; ++i) result.push_back(later(row[i]));
    }
  }
  return result;
}

}  // namespace

Problem steps_as_tokens(const Problem& product) {
  if (product.operation != gated_delta_operation()) {
    throw_bad_input("steps_as_tokens: the operation is " + to_string(product.operation) +
                    ", expected gated_delta");
  }
  Problem tokens = product;
  tokens.steps = 1;
  tokens.case_file.clear();
  for (std::int64_t& length : tokens.sequences.lengths) length *= product.steps;
  return tokens;
}

Case steps_as_tokens(const Case& product) {
  const Problem& p = product.problem;
  Case tokens = product;  // keys, values and betas [T, n, ..] are [T n, ..] as they lie
  tokens.problem = steps_as_tokens(p);
  tokens.sequence_offsets = tokens.problem.sequences.offsets();
  tokens["q"] = expanded(product["q"], p.num_key_heads * p.key_head_dim, p.steps,
                         [](float query) { return query; });
  tokens[gate_name(p)] = expanded(product[gate_name(p)], p.gates_per_token(), p.steps,
                                  [&](float) { return entry_of(p.gate_encoding).no_decay; });
  return tokens;
}

Outputs outputs_of_last_steps(const Problem& product, const Outputs& of_tokens) {
  Outputs result = of_tokens;
  result["output"].clear();
  const std::int64_t width = product.num_value_heads * product.value_head_dim;
  for (std::int64_t t = 0; t < product.total_tokens(); ++t) {
    const auto last = of_tokens["output"].begin() + ((t + 1) * product.steps - 1) * width;
    result["output"].insert(result["output"].end(), last, last + width);
  }
  return result;
}

}  // namespace gdn
