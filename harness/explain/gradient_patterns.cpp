#include "harness/explain/gradient_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "harness/operations/operation_harness.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn {
namespace {

using Names = std::set<std::string>;

class GradientPatterns {
 public:
  GradientPatterns(const CheckedReference& reference, const Outputs& outputs,
                   const Anatomy& anatomy)
      : reference_(reference),
        inputs_(reference.inputs()),
        p_(inputs_.problem),
        outputs_(outputs),
        anatomy_(anatomy) {}

  std::vector<FaultPattern> find() {
    if (p_.operation != gated_delta_backward_operation() || anatomy_.outputs.empty()) return {};
    for (const WrongOutput& output : anatomy_.outputs) wrong_.insert(output.name());
    evidence_ = {"wrong: " + listed(wrong_)};
    if (!non_finite() && !tail_chunk() && !norm() && !one_stage()) of_D();
    return found_;
  }

 private:
  bool add(const std::string& place, const std::string& text) {
    found_.push_back({place, text, evidence_, {wrong_.begin(), wrong_.end()}});
    return true;
  }
  static std::string listed(const Names& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }
  bool only(const Names& names) const {
    return std::includes(names.begin(), names.end(), wrong_.begin(), wrong_.end());
  }
  bool is_wrong(const std::string& name) const { return wrong_.count(name) > 0; }

  bool non_finite() {
    const WrongOutput* first = nullptr;
    Names which;
    for (const WrongOutput& output : anatomy_.outputs) {
      if (output.worst.error.non_finite == 0) continue;
      if (first == nullptr) first = &output;
      which.insert(output.name());
    }
    if (first == nullptr) return false;
    evidence_.push_back("not finite: " + listed(which) + "; the first at " + first->furthest);
    if (wrong_ == Names{"d_initial_state"} && first->elements.whole()) {
      return add("unwritten", "a d_initial_state never written (verified runs start from NaN)");
    }
    return add("not finite",
               "a NaN or an overflow: infinity times zero, 0 / 0, or memory that nobody wrote");
  }

  bool tail_chunk() {
    for (const WrongOutput& output : anatomy_.outputs) {
      const std::int64_t tail =
          anatomy_.chunk > 0 ? output.length / anatomy_.chunk * anatomy_.chunk : 0;
      if (tail == 0 || tail == output.length) return false;
      if (output.tokens.empty() || output.tokens.members.front() < tail) return false;
      evidence_.push_back(fmt::format("{}: wrong tokens {}, whole chunks of {} end at {}",
                                      output.name(), output.tokens.to_string(), anatomy_.chunk,
                                      tail));
    }
    return add("tail chunk", "tokens behind the last whole chunk");
  }

  bool norm() {
    if (!only({"d_q", "d_k"})) return false;
    for (const OwnCheck& check : harness_of(p_.operation).checks) {
      if (check.name != "norm") continue;
      const std::string along = check.wrong(inputs_, outputs_);
      if (along.empty()) continue;
      evidence_.push_back(along);
      return add("norm", "a gradient through the norm without its projection");
    }
    return false;
  }

  // Gradients that are wrong while those that share everything but one stage with them are right.
  bool one_stage() {
    const Names batch = {"d_A_log", "d_dt_bias"};
    Names gates = batch;
    gates.insert(gate_gradient_name(p_));
    if (only(batch)) return add("batch sums", "sums of d_A_log and d_dt_bias over the batch");
    if (only(gates)) {
      return add("gate gradient",
                 "the sums that make d_log_decay, or its way to the gates as they are encoded");
    }
    if (only({beta_gradient_name(p_)})) {
      return add("beta gradient", "the sums that make d_beta, or its way to the betas' encoding");
    }
    if (only({"d_v"})) return add("value gradient", "d_v made of its row: the factor beta");
    if (only({"d_q"})) return add("query gradient", "the products and the scale of d_q");
    if (only({"d_k"})) {
      return add("key gradient",
                 "products of d_k alone: the system's gradient N and its transpose");
    }
    if (only({"d_initial_state"})) return add("initial gradient", "the store of d_initial_state");
    if (only({"d_q", "d_k"})) {
      if (group_sum()) return true;
      return add("scores", "the gradient of Q K^T within a chunk: mask, decays, its two products");
    }
    if (is_wrong("d_v") || is_wrong("d_initial_state")) return false;
    evidence_.push_back("d_v and d_initial_state are right, and so is what goes back");
    return add("state products",
               "what keys, betas and log decays take from the products with states: which state, "
               "which columns");
  }

  // A case in which only one value head of every key head has gradients to hand on.
  Case with_one_head(std::int64_t in_group) const {
    Case c = inputs_;
    c.problem.case_file.clear();
    const std::int64_t group = p_.value_heads_per_key_head();
    const std::int64_t size = p_.key_head_dim * p_.value_head_dim;
    const auto clear = [](std::vector<float>& values, std::int64_t first, std::int64_t count) {
      std::fill_n(values.begin() + first, count, 0.0f);
    };
    for (std::int64_t h = 0; h < p_.num_value_heads; ++h) {
      if (h % group == in_group) continue;
      for (std::int64_t t = 0; t < p_.total_tokens(); ++t) {
        clear(c["d_output"], (t * p_.num_value_heads + h) * p_.value_head_dim, p_.value_head_dim);
      }
      if (!p_.final_state) continue;
      for (std::int64_t row = 0; row < p_.num_pool_rows(); ++row) {
        clear(c["d_final_state"], row * p_.state_row_stride() + h * size, size);
      }
    }
    return c;
  }

  // The keys' gradients are within the limits of a supposed case.
  bool keys_are_of(const Case& supposed) const {
    const auto report = CheckedReference(supposed, reference_.options()).compare(outputs_);
    for (const char* name : {"d_q", "d_k"}) {
      const reference::OutputErrors& output = report[name];
      for (const reference::UnitError& unit : output.units) {
        if (!reference::within(output, unit, report.limits)) return false;
      }
    }
    return true;
  }

  bool group_sum() {
    const std::int64_t group = p_.value_heads_per_key_head();
    if (group == 1) return false;
    for (const std::int64_t head : {group - 1, std::int64_t{0}}) {
      if (!keys_are_of(with_one_head(head))) continue;
      evidence_.push_back(fmt::format(
          "with value head {} of each group of {} alone the reference agrees", head, group));
      return add("group sum", "d_q and d_k of one value head where all of a key head are summed");
    }
    return false;
  }

  void of_D() {
    if (p_.final_state) {
      Case supposed = inputs_;
      supposed.problem.case_file.clear();
      supposed.problem.final_state = false;
      if (CheckedReference(supposed, reference_.options()).check(outputs_).empty()) {
        evidence_.push_back("with d_final_state = 0 the reference agrees within the limits");
        add("final gradient", "a d_final_state that is not read");
        return;
      }
    }
    if (rounded_state()) return;
    const auto values =
        std::find_if(anatomy_.outputs.begin(), anatomy_.outputs.end(),
                     [](const WrongOutput& output) { return output.name() == "d_v"; });
    if (values == anatomy_.outputs.end() || values->tokens.empty()) return;
    const std::int64_t last = values->tokens.members.back();
    const std::int64_t chunk = anatomy_.chunk;
    const std::int64_t last_chunk = chunk > 0 ? (values->length - 1) / chunk * chunk : 0;
    evidence_.push_back(fmt::format("d_v of {}: the last wrong token is {} of {}", values->place(),
                                    last, values->length));
    if (last < last_chunk) {
      add("gradient pass", "the gradient by the state as it is passed from chunk to chunk");
    } else if (last < values->length - 1) {
      add("intra-chunk",
          "products inside a chunk (decays, mask, transposed inverse), or the gates");
    } else {
      add("incoming gradient",
          "what is taken from d_final_state, where a sequence starts and ends, or products of the "
          "last chunk");
    }
  }

  bool rounded_state() {
    if (p_.state_dtype != DType::float32 || !is_wrong("d_initial_state")) return false;
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      const std::vector<float>& values = outputs_["d_initial_state"];
      const bool exact = std::all_of(values.begin(), values.end(), [dtype](float x) {
        return !std::isfinite(x) || round_to(dtype, x) == x;
      });
      const bool zeros = std::none_of(values.begin(), values.end(),
                                      [](float x) { return std::isfinite(x) && x != 0; });
      if (!exact || zeros) continue;
      evidence_.push_back("every element of d_initial_state is a " + long_name(dtype) + " number");
      return add("precision", "a gradient by the state that is kept in " + long_name(dtype));
    }
    return false;
  }

  const CheckedReference& reference_;
  const Case& inputs_;
  const Problem& p_;
  const Outputs& outputs_;
  const Anatomy& anatomy_;
  Names wrong_;
  std::vector<std::string> evidence_;
  std::vector<FaultPattern> found_;
};

}  // namespace

std::vector<FaultPattern> find_gradient_patterns(const CheckedReference& reference,
                                                 const Outputs& outputs, const Anatomy& anatomy) {
  return GradientPatterns(reference, outputs, anatomy).find();
}

}  // namespace gdn
