#include "plugin/described_problem.h"

#include "plugin/operand_in_c.h"

namespace gdn {

DescribedProblem::DescribedProblem(const Problem& problem) : text_(problem.to_string()) {
  for (const ProblemField& field : problem_fields()) {
    if (!is_field_of(field, problem)) continue;
    values_.push_back(field.get(problem));
    fields_.push_back({field.key.c_str(), values_.back().c_str(), field.of_inputs});
  }
  for (int index = 0;; ++index) {
    const gdnbench_operand operand = operand_in_c(problem, index);
    if (operand.name == nullptr) break;
    operands_.push_back(operand);
  }
  in_c_ = {.text = text_.c_str(),
           .num_key_heads = problem.num_key_heads,
           .num_value_heads = problem.num_value_heads,
           .key_head_dim = problem.key_head_dim,
           .value_head_dim = problem.value_head_dim,
           .num_sequences = problem.num_sequences(),
           .num_tokens = problem.total_tokens(),
           .chunk = problem.chunk,
           .scale = problem.effective_scale(),
           .fields = fields_.data(),
           .num_fields = static_cast<std::int64_t>(fields_.size()),
           .operands = operands_.data(),
           .num_operands = static_cast<std::int64_t>(operands_.size())};
}

}  // namespace gdn
