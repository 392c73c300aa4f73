// gated_delta_verify in the harness: its inputs, its work, its problems, and what its two phases must
// have to do with each other.
#include "interface/operations/gated_delta_verify.h"

#include <cmath>

#include "harness/inputs/counter_random.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "interface/batch_part.h"

namespace gdn {

const OperationHarness& gated_delta_harness();
const OperationHarness& gated_delta_verify_harness();

namespace {

// Acceptance::mixture of sequence n.
std::int64_t draw_mixture(const CounterStream& stream, std::int64_t n, std::int64_t length) {
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(
        stream.below(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(bound)));
  };
  switch (n % 4) {
    case 0:
      return length < 2 ? length : 1 + below(length - 1);
    case 1:
      return length;
    case 2:
      return 0;
    default:
      return below(length + 1);
  }
}

std::vector<std::int64_t> draw_accepted(const Case& c) {
  constexpr double kTokenAccepted = 0.8;
  const CounterStream stream(c.problem.seed, "accepted");
  std::vector<std::int64_t> accepted;
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    const std::int64_t length = c.length(n);
    std::int64_t count = 0;
    switch (c.problem.accepted) {
      case Acceptance::mixture:
        count = draw_mixture(stream, n, length);
        break;
      case Acceptance::all:
        count = length;
        break;
      case Acceptance::none:
        break;
      case Acceptance::geometric: {
        const auto first = static_cast<std::uint64_t>(c.first_token(n));
        while (count < length &&
               stream.uniform(first + static_cast<std::uint64_t>(count)) < kTokenAccepted) {
          ++count;
        }
        break;
      }
      case Acceptance::alternating:
        count = n % 2 == 0 ? length : 0;
        break;
    }
    accepted.push_back(count);
  }
  return accepted;
}

void draw(Case& c) {
  gated_delta_harness().draw(c);
  c.other_indices["accepted"] = draw_accepted(c);
}

// ---- a check without a reference

// The state after the accepted tokens reads out the output of the last of them: what commit wrote and
// what verify wrote are of one state. Differences are measured by the products they are sums of.
std::string readout_disagrees(const Case& c, const Outputs& outputs) {
  const Problem& p = c.problem;
  if (!p.final_state) return "";
  const Operand& query = p.operation->at("q");
  const Operand& pool = p.operation->at("initial_state");
  const Operand& output = p.operation->at("output");
  const double arithmetic = p.token_dtype == DType::float32   ? 1e-4
                            : p.token_dtype == DType::float16 ? 4e-3
                                                              : 2e-2;
  const double allowed = arithmetic + unit_roundoff(p.state_dtype);
  // Values below a type's normal range have an error of their own.
  const double smallest = 0x1p-24 * std::sqrt(static_cast<double>(p.value_head_dim));
  const auto Dk = static_cast<std::size_t>(p.key_head_dim);
  const auto Dv = static_cast<std::size_t>(p.value_head_dim);
  const auto values_of = [](const std::vector<float>& array, const Strips& strips) {
    std::vector<double> values;
    strips.for_each([&](std::int64_t i) { values.push_back(array[static_cast<std::size_t>(i)]); });
    return values;
  };
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t accepted = c.carried_tokens(n);
    if (accepted == 0 || c.slot(n) < 0) continue;
    for (std::int64_t h = 0; h < p.num_value_heads; ++h) {
      const BatchPart part{n, h};
      std::vector<double> q = values_of(c["q"], strips_of(query, c, part, {accepted - 1, 1}));
      const std::vector<double> S = values_of(outputs["final_state"], strips_of(pool, c, part));
      const std::vector<double> o =
          values_of(outputs["output"], strips_of(output, c, part, {accepted - 1, 1}));
      double q_squares = 0, S_squares = 0, error = 0;
      for (const double x : q) q_squares += x * x;
      for (const double x : S) S_squares += x * x;
      double factor = p.effective_scale();
      if (p.normalize_qk) factor /= std::sqrt(q_squares + 1e-6);
      for (std::size_t j = 0; j < Dv; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < Dk; ++i) {
          sum += S[p.state_layout == StateLayout::kv ? i * Dv + j : j * Dk + i] * q[i];
        }
        error += (o[j] - factor * sum) * (o[j] - factor * sum);
      }
      const double size = std::abs(factor) * std::sqrt(q_squares * S_squares);
      const double query_size = std::abs(factor) * std::sqrt(q_squares);
      // Of values that are not finite the errors say more.
      if (!std::isfinite(size) || !std::isfinite(error)) continue;
      if (std::sqrt(error) <= allowed * size + smallest * (1 + query_size)) continue;
      return "final_state of sequence " + std::to_string(n) + ", head " + std::to_string(h) +
             " is not the state that the output of token " + std::to_string(accepted - 1) +
             ", the last accepted one, was read from: off by " + std::to_string(std::sqrt(error)) +
             " where the products are " + std::to_string(size);
    }
  }
  return "";
}

// ---- problems

// Every number of draft tokens to 17, uniform and ragged; options turn with them.
Texts drafts_grid() {
  return texts_of("gated_delta_verify",
                  {.lengths = {"1x1", "5x2", "3x3", "4x4", "1+2+3+4", "3x7", "5x8", "4+0+16+1+7",
                               "3x15", "2x16", "1x17", "16+4+0+9+2+16"},
                   .dims = {"64", "128", "96x192", "24x40"},
                   .heads = {"1/1", "2/4", "1/3", "3/3", "1/4"},
                   .options = {
                       "",
                       ",h0=normal",
                       ",h0=normal,slots=permuted",
                       ",h0=normal,slots=padding,pool_pad=24",
                       ",h0=normal,state=bf16",
                       ",h0=normal,layout=vk",
                       ",h0=normal,state=f16,layout=vk",
                       ",h0=normal,slots=padding,pool_rows=23",
                       ",h0=normal,norm=1,keys=unnormalised",
                       ",h0=normal,out=f32",
                       ",h0=normal,scale=0.25",
                       ",h0=normal,ht=0",
                       ",h0=large",
                   }});
}

Texts draft_variants(const std::string& shape) {
  Texts texts;
  for (const char* variant :
       {"update=additive,layout=vk", "decay=channel", "decay=channel,gates=reset,slots=padding",
        "steps=2,betas=wide", "steps=3,decay=channel,keys=correlated,norm=1"}) {
    texts.push_back("gated_delta_verify:" + shape + ",h0=normal," + variant);
  }
  return texts;
}

Texts quick_drafts() {
  return {
      "gated_delta_verify:heads=2/4,dim=64,seq=6x4,dtype=f32,gates=mid,h0=normal",
      "gated_delta_verify:heads=1/3,dim=128,seq=4+0+1+8+2+16,dtype=bf16,gates=mid,h0=normal,"
      "slots=padding,pool_pad=8",
      "gated_delta_verify:heads=2/4,dim=96x192,seq=5x8,dtype=f16,gates=real,h0=normal,"
      "slots=permuted,state=f16,layout=vk",
      "gated_delta_verify:heads=2/2,dim=64,seq=5x3,dtype=bf16,gates=near_one,gate=logits,"
      "beta=logit,h0=normal,state=bf16",
      "gated_delta_verify:heads=1/4,dim=64,seq=9+3+5+2,dtype=f32,gates=reset,gate=decay",
      "gated_delta_verify:heads=2/4,dim=64,seq=24x1,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta_verify:heads=3/3,dim=128,seq=16+9+13+7,dtype=bf16,gates=mid,h0=normal,norm=1,"
      "magnitudes=edges",
      "gated_delta_verify:heads=3/3,dim=64x96,seq=16+9+1,dtype=f16,norm=1,keys=zero,"
      "magnitudes=edges",
      "gated_delta_verify:heads=3/3,dim=64x32,seq=16+9+1,dtype=f32,gates=mid,magnitudes=edges",
  };
}

// Qwen3-Next and a rank of it, drafts of the lengths that serving takes.
Texts large_drafts() {
  return {
      "gated_delta_verify:heads=16/32,dim=128,seq=128x4,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta_verify:heads=16/32,dim=128,seq=32x8,dtype=bf16,h0=normal,slots=permuted,"
      "state=bf16",
      "gated_delta_verify:heads=16/32,dim=128,seq=8x16+8x3+8x1,dtype=f16,h0=normal,slots=padding",
      "gated_delta_verify:heads=16/32,dim=128,seq=32x4,dtype=bf16,h0=normal,decay=channel",
      "gated_delta_verify:heads=4/8,dim=128,seq=64x4,dtype=f32,h0=normal,slots=permuted",
  };
}

Texts sanitizer_drafts() {
  return {
      "gated_delta_verify:heads=1/2,dim=64,seq=4+0+7+3,dtype=f32,gates=mid,h0=normal,"
      "slots=padding",
      "gated_delta_verify:heads=1/2,dim=128,seq=16+3,dtype=bf16,gates=reset,h0=normal,"
      "slots=permuted,state=bf16",
      "gated_delta_verify:heads=1/1,dim=96x192,seq=5,dtype=bf16,gate=logits,beta=logit,h0=normal",
      "gated_delta_verify:heads=1/2,dim=64,seq=5+2,dtype=bf16,norm=1,steps=3,decay=channel,"
      "h0=normal,layout=vk",
  };
}

Texts suite(std::string_view name) {
  Texts texts;
  if (name == "quick") {
    append(texts, quick_drafts());
    append(texts, draft_variants("heads=1/2,dim=64,seq=4+0+9+2+5,dtype=f32"));
  } else if (name == "grid") {
    append(texts, drafts_grid());
  } else if (name == "gpu") {
    append(texts, large_drafts());
  } else if (name == "sanitizer") {
    append(texts, sanitizer_drafts());
  }
  return texts;
}

Texts baseline() {
  return {
      "gated_delta_verify:heads=2/4,dim=64,seq=6x4,dtype=bf16,gates=real,h0=normal",
      "gated_delta_verify:heads=1/2,dim=128,seq=4x8,dtype=f32,gates=real,h0=normal",
      "gated_delta_verify:heads=1/2,dim=128,seq=16+5+3+9,dtype=f16,gates=mid,h0=normal,state=f16",
      "gated_delta_verify:heads=1/3,dim=96x192,seq=7+0+4+2,dtype=bf16,gates=weak,betas=wide,"
      "out=f32,h0=normal,slots=padding,pool_pad=8",
      "gated_delta_verify:heads=2/2,dim=64,seq=16,dtype=f32,gates=none,keys=correlated,layout=vk",
  };
}

Texts default_sweep(const DeviceInfo& device) {
  Texts texts;
  const char* const shape =
      device.has_own_memory ? "heads=16/32,dim=128,dtype=bf16" : "heads=2/4,dim=128,dtype=f32";
  for (const char* seq : {"1x4", "8x4", "32x4", "32x8", "128x4"}) {
    texts.push_back("gated_delta_verify:" + std::string(shape) + ",seq=" + seq +
                    ",h0=normal,slots=permuted");
  }
  return texts;
}

}  // namespace

const OperationHarness& gated_delta_verify_harness() {
  static const OperationHarness harness = [] {
    // Inputs and work are gated_delta's: committing is copying, or part of a form's own choice.
    OperationHarness verify = gated_delta_harness();
    verify.operation = gated_delta_verify_operation();
    verify.draw = draw;
    verify.suite = suite;
    verify.baseline = baseline;
    verify.default_sweep = default_sweep;
    verify.inner_steps = {};
    verify.checks = {{"readout", readout_disagrees}};
    return verify;
  }();
  return harness;
}

}  // namespace gdn
