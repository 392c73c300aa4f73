// gated_delta_ring in the harness: its inputs, its work, its problems.
#include "interface/operations/gated_delta_ring.h"

#include "harness/inputs/draw_ring.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"

namespace gdn {

const OperationHarness& gated_delta_harness();
const OperationHarness& gated_delta_ring_harness();

namespace {

void draw(Case& c) {
  gated_delta_harness().draw(c);
  draw_ring(c);
}

// ---- problems

// Tokens of a step and of drafts, uniform and ragged; rings that they fill and longer ones.
Texts rings_grid() {
  return texts_of("gated_delta_ring",
                  {.lengths = {"1x1", "5x1", "5x2", "3x3", "4x4", "1+2+3+4", "5x8", "4+0+16+1+7",
                               "2x16", "16+4+0+9+2+16"},
                   .dims = {"64", "128", "96x192", "24x40"},
                   .heads = {"1/1", "2/4", "1/3", "3/3", "1/4"},
                   .options = {
                       ",h0=normal",
                       ",h0=normal,slots=permuted,ring=32",
                       ",h0=normal,slots=padding,pool_pad=24",
                       ",h0=normal,state=bf16",
                       ",h0=normal,layout=vk,ring=24",
                       ",h0=normal,state=f16,layout=vk",
                       "",
                       ",h0=normal,slots=padding,pool_rows=23,state=bf16,layout=vk",
                       ",h0=normal,norm=1,keys=unnormalised",
                       ",h0=normal,out=f32,ring_fill=all",
                       ",h0=normal,scale=0.25,ring=17",
                       ",h0=large",
                   }});
}

Texts quick_rings() {
  return {
      "gated_delta_ring:heads=2/4,dim=64,seq=6x4,dtype=f32,gates=mid,h0=normal",
      "gated_delta_ring:heads=1/3,dim=128,seq=4+0+1+8+2+16,dtype=bf16,gates=mid,h0=normal,"
      "slots=padding,pool_pad=8",
      "gated_delta_ring:heads=2/4,dim=96x192,seq=5x8,dtype=f16,gates=real,h0=normal,"
      "slots=permuted,state=f16,layout=vk,ring=19",
      "gated_delta_ring:heads=2/4,dim=128,seq=5x4,dtype=bf16,gates=real,gate=logits,beta=logit,"
      "logits=token,norm=1,keys=unnormalised,h0=normal,state=bf16,layout=vk,slots=permuted",
      "gated_delta_ring:heads=2/2,dim=64,seq=5x3,dtype=bf16,gates=near_one,gate=logits,"
      "beta=logit,h0=normal,state=bf16,ring=32",
      "gated_delta_ring:heads=1/4,dim=64,seq=9+3+5+2,dtype=f32,gates=reset,gate=decay",
      "gated_delta_ring:heads=2/4,dim=64,seq=24x1,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta_ring:heads=2/4,dim=64,seq=4x1+4x4,dtype=bf16,gates=mid,seed=2",
      "gated_delta_ring:heads=1/2,dim=128,seq=8x4,dtype=f16,gates=mid,layout=vk,slots=permuted",
      "gated_delta_ring:heads=3/3,dim=128,seq=16+9+13+7,dtype=bf16,gates=mid,h0=normal,norm=1,"
      "magnitudes=edges",
      "gated_delta_ring:heads=3/3,dim=64x32,seq=16+9+1,dtype=f32,gates=mid,magnitudes=edges",
  };
}

// Qwen3-Next and a rank of it: single tokens, and drafts of the lengths that serving takes.
Texts large_rings() {
  return {
      "gated_delta_ring:heads=16/32,dim=128,seq=128x4,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta_ring:heads=16/32,dim=128,seq=128x1,dtype=bf16,h0=normal,slots=permuted,"
      "state=bf16,layout=vk,norm=1,gate=logits,ring_fill=cycle",
      "gated_delta_ring:heads=16/32,dim=128,seq=32x8,dtype=bf16,h0=normal,slots=permuted,"
      "state=bf16,ring=32",
      "gated_delta_ring:heads=16/32,dim=128,seq=8x16+8x3+8x1,dtype=f16,h0=normal,slots=padding",
      "gated_delta_ring:heads=4/8,dim=128,seq=64x4,dtype=f32,h0=normal,slots=permuted",
  };
}

Texts sanitizer_rings() {
  return {
      "gated_delta_ring:heads=1/2,dim=64,seq=4+0+7+3,dtype=f32,gates=mid,h0=normal,slots=padding",
      "gated_delta_ring:heads=1/2,dim=128,seq=15+3+1,dtype=bf16,gates=reset,h0=normal,"
      "slots=permuted,state=bf16",
      "gated_delta_ring:heads=1/2,dim=128,seq=4+3+1,dtype=bf16,norm=1,h0=normal,layout=vk,"
      "state=bf16,ring_fill=all",
      "gated_delta_ring:heads=1/1,dim=96x192,seq=5,dtype=bf16,gate=logits,beta=logit,h0=normal",
  };
}

Texts suite(std::string_view name) {
  if (name == "quick") return quick_rings();
  if (name == "grid") return rings_grid();
  if (name == "gpu") return large_rings();
  if (name == "sanitizer") return sanitizer_rings();
  return {};
}

Texts baseline() {
  return {
      "gated_delta_ring:heads=2/4,dim=64,seq=6x4,dtype=bf16,gates=real,h0=normal",
      "gated_delta_ring:heads=1/2,dim=128,seq=4x8,dtype=f32,gates=real,h0=normal",
      "gated_delta_ring:heads=1/2,dim=128,seq=16+5+3+9,dtype=f16,gates=mid,h0=normal,state=f16",
      "gated_delta_ring:heads=1/3,dim=96x192,seq=7+0+4+2,dtype=bf16,gates=weak,betas=wide,"
      "out=f32,h0=normal,slots=padding,pool_pad=8",
      "gated_delta_ring:heads=2/2,dim=128,seq=4+1+4+4,dtype=bf16,gates=real,state=bf16,layout=vk,"
      "h0=normal,norm=1",
  };
}

Texts default_sweep(const DeviceInfo& device) {
  Texts texts;
  const char* const shape =
      device.has_own_memory ? "heads=16/32,dim=128,dtype=bf16" : "heads=2/4,dim=128,dtype=f32";
  for (const char* seq : {"1x4", "16x1", "16x4", "128x1", "128x4"}) {
    texts.push_back("gated_delta_ring:" + std::string(shape) + ",seq=" + seq +
                    ",h0=normal,slots=permuted,ring_fill=cycle");
  }
  return texts;
}

}  // namespace

const OperationHarness& gated_delta_ring_harness() {
  static const OperationHarness harness = [] {
    // Work is that of gated_delta on the tokens: what records cost is a form's own.
    OperationHarness ring = gated_delta_harness();
    ring.operation = gated_delta_ring_operation();
    ring.draw = draw;
    ring.suite = suite;
    ring.baseline = baseline;
    ring.default_sweep = default_sweep;
    ring.inner_steps = {};
    return ring;
  }();
  return harness;
}

}  // namespace gdn
