// gated_rms_norm_backward in the harness: its inputs, its work, its problems, its identities.
#include "interface/operations/gated_rms_norm_backward.h"

#include <algorithm>
#include <cmath>

#include "harness/inputs/draw.h"
#include "harness/inputs/draw_gated_norm.h"
#include "harness/operations/norm_flops.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "interface/gate_arithmetic.h"

namespace gdn {
namespace {

// As gated_rms_norm; d_y is N(0, 1), beside float16 tokens a sixteenth of it: the gradient of a row
// of zeros is divided by sqrt(eps), and stays within the type.
void draw(Case& c) {
  const Problem& p = c.problem;
  draw_gated_norm(c);
  const double factor = p.token_dtype == DType::float16 ? 0x1p-4 : 1;
  c["d_y"] = normal_rows(CounterStream(p.seed, "d_y"), p.total_tokens() * p.num_value_heads,
                         p.value_head_dim, p.value_head_dim, factor, p.token_dtype);
}

FlopCount count_flops(const Case& inputs, std::int64_t) {
  const double flops = gated_norm_gradient_flops(inputs);
  return {0, flops, flops};
}

std::string flops_text(std::int64_t) { return "15 per element of y"; }

// ---- identities

double gate_of(NormGate gate, double z) {
  const double s = gate_arithmetic::sigmoid(z);
  if (gate == NormGate::silu) return z * s;
  return gate == NormGate::sigmoid ? s : 2 * s;
}

// What the identities read of a row.
struct Row {
  double mean_square = 0;
  double root = 1;     // sqrt(mean_square + eps)
  double y_along = 0;  // <y, d_y>
  double y_size = 0;   // the same of absolute values
};

Row row_of(const Case& c, std::size_t first) {
  const Problem& p = c.problem;
  const auto width = static_cast<std::size_t>(p.value_head_dim);
  Row row;
  for (std::size_t j = 0; j < width; ++j) {
    const double x = static_cast<double>(c["x"][first + j]);
    row.mean_square += x * x / static_cast<double>(width);
  }
  row.root = std::sqrt(row.mean_square + p.norm_eps);
  for (std::size_t j = 0; j < width; ++j) {
    const double y = static_cast<double>(c["x"][first + j]) / row.root *
                     static_cast<double>(c["weight"][j]) *
                     gate_of(p.norm_gate, static_cast<double>(c["z"][first + j]));
    const double product = y * static_cast<double>(c["d_y"][first + j]);
    row.y_along += product;
    row.y_size += std::abs(product);
  }
  return row;
}

// y hardly changes with the length of x: of a row, <x, d_x> is what eps leaves of <y, d_y>, which
// is eps / (mean(x^2) + eps).
std::string rows_disagree(const Case& c, const Outputs& outputs) {
  const Problem& p = c.problem;
  const auto width = static_cast<std::size_t>(p.value_head_dim);
  const double rounding = unit_roundoff(p.token_dtype) + 1e-5;
  const double smallest = p.token_dtype == DType::float16 ? 0x1p-24 : 0x1p-126;
  for (std::size_t first = 0; first < c["x"].size(); first += width) {
    const Row row = row_of(c, first);
    double along = 0, size = 0, largest = 0;
    for (std::size_t j = 0; j < width; ++j) {
      const double x = static_cast<double>(c["x"][first + j]);
      const double d = static_cast<double>(outputs["d_x"][first + j]);
      along += x * d;
      size += std::abs(x) * (rounding * std::abs(d) + smallest);
      largest = std::max(largest, std::abs(d));
    }
    if (std::isinf(largest)) continue;  // of a gradient that its type does not hold
    // Of its terms: g / n and u mean(u g) / n, with x, are u g and no more than all of them.
    const double allowed = size + 2e-5 * row.y_size;
    const double expected = p.norm_eps / (row.mean_square + p.norm_eps) * row.y_along;
    if (!(std::abs(along - expected) <= allowed)) {
      return "row " + std::to_string(first / width) + ": <x, d_x> is " + std::to_string(along) +
             ", but what eps leaves of <y, d_y> is " + std::to_string(expected);
    }
  }
  return "";
}

// y is the weight times what does not depend on it.
std::string weights_disagree(const Case& c, const Outputs& outputs) {
  const auto width = static_cast<std::size_t>(c.problem.value_head_dim);
  double of_rows = 0, size = 0, of_weight = 0;
  for (std::size_t first = 0; first < c["x"].size(); first += width) {
    const Row row = row_of(c, first);
    of_rows += row.y_along;
    size += row.y_size;
  }
  for (std::size_t j = 0; j < width; ++j) {
    of_weight += static_cast<double>(c["weight"][j]) * static_cast<double>(outputs["d_weight"][j]);
  }
  if (!(std::abs(of_rows - of_weight) <= 1e-5 * size)) {
    return "<weight, d_weight> is " + std::to_string(of_weight) + ", but <y, d_y> is " +
           std::to_string(of_rows);
  }
  return "";
}

// ---- problems

std::string problem(const std::string& heads, const std::string& dim, const std::string& seq,
                    const std::string& dtype) {
  return "gated_rms_norm_backward:heads=" + heads + ",dim=" + dim + ",seq=" + seq +
         ",dtype=" + dtype;
}

Texts quick() {
  Texts texts;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    texts.push_back(problem("2/4", "64", "1x9+1x2+1x0", dtype));
    texts.push_back(problem("1/5", "32x100", "1x9+1x1", dtype) + ",norm_gate=sigmoid");
    texts.push_back(problem("2/6", "64x128", "3x1+1x5", dtype) +
                    ",norm_gate=sigmoid2,norm_eps=1e-5");
  }
  return texts;
}

// Every Dv that rows of vectors, parts of them or several of them make, and the largest.
Texts grid() {
  Texts texts;
  for (const char* dim : {"64x1", "8x3", "24x20", "128x64", "64x100", "128", "128x192", "256",
                          "192x512", "512x1000", "128x1024", "1x4096"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
        const std::size_t i = texts.size();
        texts.push_back(problem(turn({"1/4", "3/6", "1/5", "16/32"}, i, 1), dim,
                                turn({"1x17+1x1", "1x3+1x0+1x9", "4x1"}, i, 2), dtype) +
                        ",norm_gate=" + gate + turn({"", ",norm_eps=1e-5"}, i, 1));
      }
    }
  }
  return texts;
}

Texts suite(std::string_view name) {
  if (name == "quick") return quick();
  if (name == "grid") return grid();
  if (name == "gpu") return {problem("16/32", "128", "4x8192", "bf16")};
  if (name == "sanitizer") {
    return {problem("1/4", "64", "1x9+1x2+1x0", "bf16"), problem("1/3", "8x20", "1x5", "f16")};
  }
  return {};
}

Texts baseline() {
  return {problem("2/4", "64x128", "1x70+1x13", "bf16"),
          problem("1/5", "64x100", "1x70+1x13", "f32") + ",norm_gate=sigmoid,norm_eps=1e-5"};
}

Texts default_sweep(const DeviceInfo& device) {
  return {device.has_own_memory ? problem("16/32", "128", "4x8192", "bf16")
                                : problem("2/4", "128", "4x512", "f32")};
}

}  // namespace

const OperationHarness& gated_rms_norm_backward_harness() {
  static const OperationHarness harness = {
      .operation = gated_rms_norm_backward_operation(),
      .draw = draw,
      .count_flops = count_flops,
      .flops_text = flops_text,
      .suite = suite,
      .baseline = baseline,
      .default_sweep = default_sweep,
      // As of gated_rms_norm; gradients are linear in d_y, so that its rows may be of one magnitude.
      .takes_any_magnitude = [](const Problem&,
                                const Operand& operand) { return operand.name == "x"; },
      .checks = {{"rows", rows_disagree}, {"weights", weights_disagree}}};
  return harness;
}

}  // namespace gdn
