// gated_rms_norm in the harness: its inputs, its work, its problems.
#include "interface/operations/gated_rms_norm.h"

#include <cmath>

#include "harness/inputs/draw.h"
#include "harness/operations/norm_flops.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"

namespace gdn {
namespace {

// ---- inputs

// What a unit (a value head of a sequence) is drawn as, so that no large value of one kind hides
// another's error: errors are relative to the unit's length.
enum class Kind {
  ordinary,  // x and z N(0, 1)
  small,     // rows of x times 2^-6 .. 2^-23, one row in 8 zeros: eps counts, or is all there is
  large,     // rows of x times 2^4 .. 2^50 (float16: 2^12): no square may leave float32
  far,       // one z in 4 times 2^7, one in 32 times 2^9: beyond where exp overflows, either side
};

// Sequences and heads in turn. One head of one sequence is ordinary.
Kind kind_of(std::int64_t sequence, std::int64_t head) {
  return static_cast<Kind>((sequence + head) % 4);
}

// Powers of two alone: exact, but where a 16-bit type has subnormals, which the rounding sees to.
float row_factor(Kind kind, DType dtype, std::uint64_t row, const CounterStream& stream) {
  if (kind == Kind::small) {
    if (stream.below(2 * row, 8) == 0) return 0;
    return std::ldexp(1.0f, -6 - static_cast<int>(stream.below(2 * row + 1, 18)));
  }
  if (kind != Kind::large) return 1;
  const std::uint64_t most = dtype == DType::float16 ? 12 : 50;
  return std::ldexp(1.0f, 4 + static_cast<int>(stream.below(2 * row, most - 3)));
}

float gate_factor(std::uint64_t element, const CounterStream& stream) {
  const std::uint64_t place = stream.below(element, 32);
  if (place == 0) return 512;
  return place <= 8 ? 128 : 1;
}

void draw_row(Case& c, std::int64_t sequence, std::int64_t head, std::int64_t row) {
  const Problem& p = c.problem;
  const std::int64_t width = p.value_head_dim;
  const Kind kind = kind_of(sequence, head);
  if (kind == Kind::ordinary) return;
  if (kind == Kind::far) {
    const CounterStream stream(p.seed, "z magnitude");
    float* const z = c["z"].data() + row * width;
    for (std::int64_t j = 0; j < width; ++j) {
      z[j] *= gate_factor(static_cast<std::uint64_t>(row * width + j), stream);
    }
    return round_in_place(p.token_dtype, z, width);
  }
  const CounterStream stream(p.seed, "x magnitude");
  const float factor = row_factor(kind, p.token_dtype, static_cast<std::uint64_t>(row), stream);
  float* const x = c["x"].data() + row * width;
  for (std::int64_t j = 0; j < width; ++j) x[j] *= factor;
  round_in_place(p.token_dtype, x, width);
}

// weight is 1 + N(0, 1) / 4: as in a trained model near 1, and not to be left out unnoticed.
void draw(Case& c) {
  const Problem& p = c.problem;
  const std::int64_t width = p.value_head_dim;
  const std::int64_t heads = p.num_value_heads;
  const auto normal = [&](const char* name, std::int64_t rows, double factor) {
    return normal_rows(CounterStream(p.seed, name), rows, width, width, factor, p.token_dtype);
  };
  c["x"] = normal("x", p.total_tokens() * heads, 1);
  c["z"] = normal("z", p.total_tokens() * heads, 1);
  c["weight"] = normal("weight", 1, 0.25);
  for (float& weight : c["weight"]) weight += 1.0f;
  round_in_place(p.token_dtype, c["weight"].data(), width);
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t first = c.first_token(n);
    parallel_ranges(c.length(n) * heads, width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) draw_row(c, n, i % heads, first * heads + i);
    });
  }
}

// ---- work

FlopCount count_flops(const Case& inputs, std::int64_t) {
  const double flops = gated_norm_flops(inputs);
  return {0, flops, flops};
}

std::string flops_text(std::int64_t) { return "5 per element of y"; }

// ---- problems

std::string problem(const std::string& heads, const std::string& dim, const std::string& seq,
                    const std::string& dtype) {
  return "gated_rms_norm:heads=" + heads + ",dim=" + dim + ",seq=" + seq + ",dtype=" + dtype;
}

Texts quick() {
  Texts texts;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    texts.push_back(problem("2/4", "64", "1x9+1x2+1x0", dtype));
    texts.push_back(problem("1/5", "32x100", "1x9+1x1", dtype) + ",norm_gate=sigmoid,out=f32");
    texts.push_back(problem("2/6", "64x128", "3x1+1x5", dtype) +
                    ",norm_gate=sigmoid2,norm_eps=1e-5");
  }
  return texts;
}

// Every Dv that rows of vectors, parts of them or several of them make, and the largest.
Texts grid() {
  Texts texts;
  std::size_t index = 0;
  for (const char* dim : {"64x1", "8x3", "24x20", "128x64", "64x100", "128", "128x192", "256",
                          "192x512", "512x1000", "128x1024", "1x4096"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
        texts.push_back(problem(turn({"1/4", "3/6", "1/5", "16/32"}, index, 1), dim,
                                turn({"1x17+1x1", "1x3+1x0+1x9", "4x1"}, index, 2), dtype) +
                        ",norm_gate=" + gate + turn({"", ",norm_eps=1e-5"}, index, 1) +
                        turn({"", ",out=f32"}, index, 3));
        ++index;
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

const OperationHarness& gated_rms_norm_harness() {
  static const OperationHarness harness = {
      .operation = gated_rms_norm_operation(),
      .draw = draw,
      .count_flops = count_flops,
      .flops_text = flops_text,
      .suite = suite,
      .baseline = baseline,
      .default_sweep = default_sweep,
      // Of z it is what lies beyond the range of exp: drawn above.
      .takes_any_magnitude = [](const Problem&, const Operand& operand) {
        return operand.name == "x";
      }};
  return harness;
}

}  // namespace gdn
