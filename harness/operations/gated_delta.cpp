// gated_delta in the harness: its inputs, its work, its problems.
#include "interface/operations/gated_delta.h"

#include "harness/inputs/draw_recurrence.h"
#include "harness/operations/layer_to_delta.h"
#include "harness/operations/operation_harness.h"
#include "harness/operations/problem_texts.h"
#include "harness/operations/recurrence_flops.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/gated_delta_training.h"

namespace gdn {
namespace {

void draw(Case& c) {
  const Problem& p = c.problem;
  c["q"] = draw_query(p);
  c["k"] = draw_key(p);
  c["v"] = draw_value(p);
  draw_gates(c);
  draw_betas(c);
  c["initial_state"] = draw_state_pool(p);
}

// Every length (with the edges of every chunk size), dtype and head size; options turn with them.
Texts gated_delta_grid() {
  return texts_of("gated_delta",
                  {.lengths = {"1x1", "1x2", "1x15", "1x16", "1x17", "1x31+1x33", "1x63", "1x64",
                               "1x65+1x0+1x1", "1x127", "1x128", "1x129+1x5+1x0+1x191", "1x257",
                               "3x100", "1x1000", "1x4096", "40x1", "1x300+1x1+1x64+1x16+1x2"},
                   .dims = {"64", "128", "96x192", "256"},
                   .heads = {"1/1", "2/4", "1/3", "3/3", "1/4", "2/6"},
                   .options = {
                       "",
                       ",h0=normal",
                       ",h0=normal,slots=permuted",
                       ",h0=normal,slots=padding,pool_pad=24",
                       ",h0=normal,state=bf16",
                       ",h0=normal,layout=vk",
                       ",h0=normal,state=f16,layout=vk",
                       ",ht=0",
                       ",norm=1,keys=unnormalised",
                       ",out=f32",
                       ",scale=0.25",
                   }});
}

// Decode, and a few draft tokens, which have kernels of their own: every head dim of both layouts with
// every state dtype, and what such kernels look at once a token.
Texts short_sequences() {
  return texts_of("gated_delta", {.lengths = {"7x1", "1x4+1x1+1x0+1x3", "5x2", "1x31+1x1"},
                                  .dims = {"64", "96x80", "128", "192x136", "256x72"},
                                  .heads = {"2/4", "1/3", "2/6"},
                                  .options = {
                                      ",h0=normal",
                                      ",h0=normal,layout=vk",
                                      ",h0=normal,state=bf16,layout=vk,norm=1,slots=permuted",
                                      ",h0=normal,state=bf16,slots=padding,pool_pad=16",
                                      ",h0=normal,state=f16",
                                      ",h0=huge,state=f32,layout=vk,norm=1,magnitudes=edges",
                                      ",out=f32,norm=1,magnitudes=edges",
                                      ",h0=normal,decay=channel,steps=2,layout=vk",
                                      ",h0=normal,decay=channel",
                                      ",h0=normal,update=additive,state=bf16",
                                  }});
}

// Inputs that make the arithmetic hard.
Texts hard_inputs() {
  Texts texts;
  const auto add = [&](const std::string& rest) {
    for (const char* dtype : {"f32", "bf16"}) {
      texts.push_back("gated_delta:heads=2/4,dim=128,seq=1x200+1x65,dtype=" + std::string(dtype) +
                      "," + rest);
    }
  };
  add("gates=near_one,keys=correlated");
  add("gates=mid,keys=equal");
  add("gates=mid,keys=equal,betas=one");
  add("gates=mid,keys=alternating");
  add("gates=none,keys=zero");
  add("gates=none,betas=two");
  add("gates=mid,betas=wide");
  add("gates=mid,betas=zero,h0=normal");
  add("gates=reset,h0=large");
  add("gates=tiny,h0=large");
  return texts;
}

// Variants of the recurrence: DeltaProduct, gated linear attention, one decay per channel. DeltaNet
// and negative eigenvalues are gates=none and betas above 1, in the lists above.
Texts variants(const std::string& shape, const Texts& dtypes) {
  const Texts variants = {"update=additive",        "update=additive,decay=channel",
                          "decay=channel",          "decay=channel,gates=reset",
                          "steps=2,betas=wide",     "steps=3,decay=channel,keys=correlated",
                          "update=additive,steps=2"};
  const Texts options = {"", ",h0=normal", ",h0=normal,layout=vk,slots=padding", ",norm=1"};
  Texts texts;
  for (const std::string& variant : variants) {
    for (const std::string& dtype : dtypes) {
      const std::size_t i = texts.size();
      texts.push_back("gated_delta:" + shape + ",dtype=" + dtype + turn(options, i, 1) + "," +
                      variant + ",seed=" + std::to_string(i + 1));
    }
  }
  return texts;
}

Texts quick_problems() {
  return {
      "gated_delta:heads=2/4,dim=64,seq=1x200,dtype=f32,gates=mid",
      "gated_delta:heads=1/3,dim=128,seq=1x129+1x0+1x1+1x64,dtype=bf16,gates=mid,h0=normal",
      "gated_delta:heads=2/4,dim=96x192,seq=2x150,dtype=f16,gates=real,h0=normal,slots=padding",
      "gated_delta:heads=1/4,dim=64,seq=1x257,dtype=f32,gates=reset,layout=vk,h0=normal",
      "gated_delta:heads=2/2,dim=64,seq=1x193,dtype=bf16,gates=near_one,gate=logits,beta=logit",
      "gated_delta:heads=2/4,dim=64,seq=24x1,dtype=bf16,h0=normal,slots=permuted,state=bf16",
      "gated_delta:heads=2/4,dim=128,seq=70+3+0+9+1+130,dtype=bf16,h0=normal,slots=permuted,"
      "output_slots=other",
      "gated_delta:heads=1/2,dim=64,seq=14x1,dtype=f32,state=f16,h0=normal,slots=padding,"
      "output_slots=other,layout=vk,pool_pad=8",
      "gated_delta:heads=2/4,dim=128,seq=70+200+0+64+1+130,dtype=bf16,gates=mid,h0=normal,"
      "slots=padding,checkpoints=3",
      "gated_delta:heads=1/3,dim=64,seq=9+130+70,dtype=f32,gates=mid,h0=normal,layout=vk,ht=0,"
      "checkpoints=5,checkpoint_dtype=bf16",
      "gated_delta:heads=1/2,dim=64x72,seq=70+0+9,dtype=f32,gates=mid,h0=normal,slots=padding,"
      "checkpoints=3,checkpoint_dtype=i8",
      "gated_delta:heads=2/4,dim=128,seq=9x1+3,dtype=bf16,gates=mid,h0=normal,state=f16,layout=vk,"
      "slots=padding,state_rounding=stochastic",
      "gated_delta:heads=1/"
      "3,dim=64x72,seq=5x1,dtype=bf16,gates=mid,h0=normal,state=bf16,pool_pad=8,"
      "state_rounding=stochastic",
      "gated_delta:heads=2/"
      "4,dim=128,seq=1x70+3x1,dtype=bf16,gates=real,gate=logits,beta=logit,logits=token",
      "gated_delta:heads=2/4,dim=64,seq=1x200,dtype=f32,gates=none,keys=equal,gate=decay",
      "gated_delta:heads=1/2,dim=64,seq=1x200,dtype=f32,gates=tiny,norm=1,keys=unnormalised",
      "gated_delta:heads=1/2,dim=128,seq=1x160,dtype=bf16,gates=mid,betas=wide,out=f32",
      "gated_delta:heads=3/3,dim=128,seq=70+9+130,dtype=bf16,gates=mid,h0=normal,norm=1,"
      "magnitudes=edges",
      "gated_delta:heads=3/3,dim=64x96,seq=70+9+1,dtype=f16,norm=1,keys=zero,magnitudes=edges",
      "gated_delta:heads=3/3,dim=128,seq=70+9,dtype=f16,norm=1,keys=zero,magnitudes=edges",
      "gated_delta:heads=3/3,dim=64x32,seq=70+9+1,dtype=f32,gates=mid,magnitudes=edges",
  };
}

Texts large_problems() {
  return {
      "gated_delta:heads=16/32,dim=128,seq=4x8192,dtype=bf16",
      "gated_delta:heads=16/32,dim=128,seq=1x32768,dtype=bf16",
      "gated_delta:heads=16/64,dim=128,seq=1x8192,dtype=f16,gates=near_one,keys=correlated",
      "gated_delta:heads=16/48,dim=128,seq=16x1000+1x2048,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta:heads=30/30,dim=96x192,seq=2x4096,dtype=bf16,betas=wide",
      "gated_delta:heads=16/32,dim=128,seq=512x1,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta:heads=16/32,dim=128,seq=128x1,dtype=bf16,state=bf16,h0=normal,slots=permuted,"
      "layout=vk,norm=1,gate=logits",
      "gated_delta:heads=16/48,dim=128,seq=64x4,dtype=bf16,state=bf16,h0=normal,slots=padding",
      "gated_delta:heads=2/8,dim=256,seq=32x3,dtype=bf16,h0=normal,slots=padding,norm=1",
      "gated_delta:heads=16/32,dim=128,seq=1x8192,dtype=f32,gates=mid",
      "gated_delta:heads=16/32,dim=128,seq=2x4096+1x1000,dtype=bf16,h0=normal,slots=permuted,"
      "checkpoints=8,checkpoint_dtype=bf16",
      "gated_delta:heads=16/32,dim=128,seq=2x4096+1x1000,dtype=bf16,h0=normal,slots=permuted,"
      "layout=vk,checkpoints=8,checkpoint_dtype=i8",
      "gated_delta:heads=16/32,dim=128,seq=4x2048,dtype=bf16,update=additive",
      "gated_delta:heads=16/32,dim=128,seq=2x2048,dtype=bf16,h0=normal,steps=2,betas=wide",
      "gated_delta:heads=16/32,dim=128,seq=2x2048,dtype=bf16,h0=normal,decay=channel",
      "gated_delta:heads=4/12,dim=128,seq=1x1000+1x0+1x65,dtype=f32,h0=normal,slots=permuted,"
      "norm=1,update=additive,steps=3,decay=channel",
  };
}

Texts sanitizer_problems() {
  return {
      "gated_delta:heads=1/2,dim=64,seq=1x70+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding",
      "gated_delta:heads=1/2,dim=128,seq=1x129+1x3,dtype=bf16,gates=mid,h0=normal,slots=permuted,"
      "output_slots=other",
      "gated_delta:heads=1/"
      "2,dim=128,seq=1x3+1x129+1x0,dtype=bf16,gates=mid,h0=normal,checkpoints=3",
      "gated_delta:heads=1/2,dim=128,seq=1x129+1x3,dtype=bf16,gates=strong,keys=unnormalised",
      "gated_delta:heads=1/2,dim=128,seq=1x129+1x3,dtype=bf16,gates=strong,keys=unnormalised,"
      "norm=1",
      "gated_delta:heads=1/3,dim=128,seq=1x65,dtype=f16,gates=reset,state=bf16",
      "gated_delta:heads=1/1,dim=96x192,seq=1x33,dtype=bf16,gate=logits,beta=logit",
      "gated_delta:heads=1/2,dim=96x200,seq=1x3+1x1+1x0,dtype=bf16,state=bf16,h0=normal,"
      "slots=padding,layout=vk,norm=1",
      "gated_delta:heads=1/2,dim=128x72,seq=1x3+1x1,dtype=f16,h0=normal,decay=channel,steps=2",
      "gated_delta:heads=1/"
      "2,dim=128,seq=1x70+1x0+1x17,dtype=bf16,gates=mid,h0=normal,slots=padding,"
      "decay=channel",
      "gated_delta:heads=1/2,dim=64,seq=1x70+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding,"
      "update=additive",
      "gated_delta:heads=1/2,dim=128,seq=1x67+1x3,dtype=bf16,gates=mid,h0=normal,steps=2",
      "gated_delta:heads=1/2,dim=64,seq=1x33,dtype=bf16,gate=logits,beta=logit,norm=1,steps=3,"
      "decay=channel",
  };
}

Texts suite(std::string_view name) {
  Texts texts;
  if (name == "quick") {
    append(texts, quick_problems());
    append(texts, variants("heads=1/2,dim=64,seq=1x130+1x0+1x5", {"f32"}));
  } else if (name == "grid") {
    append(texts, gated_delta_grid());
    append(texts, short_sequences());
    append(texts, hard_inputs());
  } else if (name == "gpu") {
    append(texts, large_problems());
  } else if (name == "sanitizer") {
    append(texts, sanitizer_problems());
  }
  return texts;
}

// 200 tokens are three whole chunks of 64 and a tail, and more of smaller chunks.
Texts baseline() {
  return {
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal",
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal,chunk=16",
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal,chunk=32",
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal,chunk=128",
      "gated_delta:heads=1/2,dim=128x128,seq=1x200,dtype=f32,gates=real",
      "gated_delta:heads=1/2,dim=128x128,seq=1x200,dtype=bf16,gates=real",
      "gated_delta:heads=1/2,dim=128x128,seq=1x200,dtype=f16,gates=real,state=f16,h0=normal",
      "gated_delta:heads=1/3,dim=96x192,seq=1x200,dtype=bf16,gates=weak,betas=wide,out=f32",
      "gated_delta:heads=2/2,dim=64x64,seq=1x200,dtype=f32,gates=none,keys=correlated",
      "gated_delta:heads=2/2,dim=64x64,seq=1x200,dtype=f32,gates=reset,layout=vk,h0=normal",
      "gated_delta:heads=2/2,dim=64x64,seq=1x200,dtype=f32,gates=strong,keys=unnormalised,norm=1",
      "gated_delta:heads=2/4,dim=64x64,seq=1x70+1x0+1x1+1x130,dtype=f32,gates=mid,h0=normal,"
      "slots=padding,pool_pad=8",
      "gated_delta:heads=2/4,dim=64x64,seq=1x70+1x0+1x1+1x130,dtype=f32,gates=mid,h0=normal,"
      "slots=padding,output_slots=other",
      "gated_delta:heads=2/8,dim=64x64,seq=16x1,dtype=bf16,gates=real,h0=normal",
      "gated_delta:heads=1/2,dim=128x128,seq=1x200+1x70,dtype=bf16,gates=mid,h0=normal,"
      "checkpoints=2",
  };
}

// Qwen3-Next: 16/32 heads; the same over 4 and 8 ranks on a CPU.
Texts default_sweep(const DeviceInfo& device) {
  Texts texts;
  if (device.has_own_memory) {
    for (const char* seq : {"16x2048", "8x4096", "4x8192", "2x16384", "1x32768", "1x2048"}) {
      texts.push_back("gated_delta:heads=16/32,dim=128,seq=" + std::string(seq) + ",dtype=bf16");
    }
    texts.push_back("gated_delta:heads=16/64,dim=128,seq=4x8192,dtype=bf16");
    texts.push_back("gated_delta:heads=2/8,dim=128,seq=1x8192,dtype=bf16");
    texts.push_back("gated_delta:heads=16/32,dim=128,seq=128x1,dtype=bf16,h0=normal");
  } else {
    for (const char* seq : {"8x256", "4x512", "2x1024", "1x2048"}) {
      texts.push_back("gated_delta:heads=2/4,dim=128,seq=" + std::string(seq) + ",dtype=f32");
    }
    texts.push_back("gated_delta:heads=4/8,dim=128,seq=32x1,dtype=f32,h0=normal");
  }
  return texts;
}

}  // namespace

const OperationHarness& gated_delta_harness() {
  static const OperationHarness harness = {
      .operation = gated_delta_operation(),
      .draw = draw,
      .count_flops = recurrence_flop_count,
      .flops_text = recurrence_flops_text,
      .suite = suite,
      .baseline = baseline,
      .default_sweep = default_sweep,
      .takes_any_magnitude = recurrence_takes_any_magnitude,
      .inner_steps = {{gated_delta_layer_operation(), layer_to_delta, layer_to_delta},
                      {gated_delta_training_operation(), forward_of, forward_of}}};
  return harness;
}

}  // namespace gdn
