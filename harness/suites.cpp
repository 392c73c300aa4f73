#include "harness/suites.h"

#include <algorithm>

#include "interface/error.h"

namespace gdn {
namespace {

using Texts = std::vector<std::string>;

// One of `values`, turning with `step` values per problem: combinations differ from problem to
// problem without the whole product being run.
std::string turn(const Texts& values, std::size_t index, std::size_t step) {
  return values[index / step % values.size()];
}

// Every length (with the edges of every chunk size), dtype and head size; options turn with them.
Texts gated_delta_grid() {
  const Texts lengths = {
      "1x1",   "1x2",   "1x15",         "1x16",   "1x17",  "1x31+1x33",
      "1x63",  "1x64",  "1x65+1x0+1x1", "1x127",  "1x128", "1x129+1x5+1x0+1x191",
      "1x257", "3x100", "1x1000",       "1x4096", "40x1",  "1x300+1x1+1x64+1x16+1x2"};
  const Texts dims = {"64", "128", "96x192", "256"};
  const Texts dtypes = {"f32", "bf16", "f16"};
  const Texts heads = {"1/1", "2/4", "1/3", "3/3", "1/4", "2/6"};
  const Texts options = {
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
  };
  const Texts encodings = {"", ",gate=decay", ",gate=neg_log_decay", ",gate=logits",
                           ",gate=logits,beta=logit"};
  const Texts gates = {"mid", "real", "weak", "strong", "near_one", "none", "reset", "tiny"};
  Texts texts;
  for (const std::string& length : lengths) {
    for (const std::string& dim : dims) {
      for (const std::string& dtype : dtypes) {
        const std::size_t i = texts.size();
        const std::string option = turn(options, i, 1);
        texts.push_back("gated_delta:heads=" + turn(heads, i, 1) + ",dim=" + dim +
                        ",seq=" + length + ",dtype=" + dtype + ",gates=" + turn(gates, i, 3) +
                        option + turn(encodings, i, 2) + ",seed=" + std::to_string(i + 1));
      }
    }
  }
  return texts;
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

Texts convolutions_and_layers(const std::string& seq, const std::string& dim) {
  const std::string shape = "heads=1/2,dim=" + dim + ",seq=" + seq;
  Texts texts;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const std::string conv = "causal_conv1d:" + shape + ",dtype=" + dtype;
    texts.push_back(conv);
    texts.push_back(conv + ",width=2,act=none,slots=padding");
    texts.push_back(conv + ",width=3,bias=1,slots=permuted,conv_in_place=0");
    texts.push_back(conv + ",conv_layout=time,state=bf16");
    const std::string layer = "gated_delta_layer:" + shape + ",dtype=" + dtype + ",norm=1";
    texts.push_back(layer + ",gate=logits,beta=logit");
    texts.push_back(layer + ",h0=normal,gates=mid,bias=1,slots=permuted");
    texts.push_back(layer + ",h0=normal,state=bf16,layout=vk,conv_in_place=0,gate=decay");
  }
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
  for (const char* variant : {"update=additive", "decay=channel"}) {
    texts.push_back("gated_delta_layer:" + shape + ",dtype=bf16,gate=logits,beta=logit," + variant);
  }
  return texts;
}

Texts quick_texts() {
  Texts texts = {
      "gated_delta:heads=2/4,dim=64,seq=1x200,dtype=f32,gates=mid",
      "gated_delta:heads=1/3,dim=128,seq=1x129+1x0+1x1+1x64,dtype=bf16,gates=mid,h0=normal",
      "gated_delta:heads=2/4,dim=96x192,seq=2x150,dtype=f16,gates=real,h0=normal,slots=padding",
      "gated_delta:heads=1/4,dim=64,seq=1x257,dtype=f32,gates=reset,layout=vk,h0=normal",
      "gated_delta:heads=2/2,dim=64,seq=1x193,dtype=bf16,gates=near_one,gate=logits,beta=logit",
      "gated_delta:heads=2/4,dim=64,seq=24x1,dtype=bf16,h0=normal,slots=permuted,state=bf16",
      "gated_delta:heads=2/4,dim=64,seq=1x200,dtype=f32,gates=none,keys=equal,gate=decay",
      "gated_delta:heads=1/2,dim=64,seq=1x200,dtype=f32,gates=tiny,norm=1,keys=unnormalised",
      "gated_delta:heads=1/2,dim=128,seq=1x160,dtype=bf16,gates=mid,betas=wide,out=f32",
  };
  for (const std::string& text : convolutions_and_layers("1x70+1x2+1x0", "64")) {
    texts.push_back(text);
  }
  return texts;
}

Texts gpu_texts() {
  return {
      "gated_delta:heads=16/32,dim=128,seq=4x8192,dtype=bf16",
      "gated_delta:heads=16/32,dim=128,seq=1x32768,dtype=bf16",
      "gated_delta:heads=16/64,dim=128,seq=1x8192,dtype=f16,gates=near_one,keys=correlated",
      "gated_delta:heads=16/48,dim=128,seq=16x1000+1x2048,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta:heads=30/30,dim=96x192,seq=2x4096,dtype=bf16,betas=wide",
      "gated_delta:heads=16/32,dim=128,seq=512x1,dtype=bf16,h0=normal,slots=permuted",
      "gated_delta:heads=16/32,dim=128,seq=1x8192,dtype=f32,gates=mid",
      "causal_conv1d:heads=16/32,dim=128,seq=4x8192,dtype=bf16",
      "gated_delta_layer:heads=16/32,dim=128,seq=4x2048,dtype=bf16,norm=1,gate=logits,beta=logit",
  };
}

Texts sanitizer_texts() {
  return {
      "gated_delta:heads=1/2,dim=64,seq=1x70+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding",
      "gated_delta:heads=1/2,dim=128,seq=1x129+1x3,dtype=bf16,gates=mid,h0=normal,slots=permuted",
      "gated_delta:heads=1/3,dim=128,seq=1x65,dtype=f16,gates=reset,state=bf16",
      "gated_delta:heads=1/1,dim=96x192,seq=1x33,dtype=bf16,gate=logits,beta=logit",
      "causal_conv1d:heads=1/2,dim=64,seq=1x9+1x2+1x0,dtype=bf16,slots=permuted",
      "gated_delta_layer:heads=1/2,dim=64,seq=1x67+1x2,dtype=bf16,norm=1,gate=logits,beta=logit",
  };
}

std::vector<Problem> parsed(std::initializer_list<Texts> lists) {
  std::vector<Problem> problems;
  for (const Texts& texts : lists) {
    for (const std::string& text : texts) problems.push_back(Problem::parse(text));
  }
  return problems;
}

}  // namespace

const std::vector<Suite>& suites() {
  static const std::vector<Suite> all = [] {
    const Texts small_variants = variants("heads=1/2,dim=64,seq=1x130+1x0+1x5", {"f32"});
    const Texts more_variants =
        variants("heads=2/4,dim=128x96,seq=1x200+1x1+1x65", {"f32", "bf16", "f16"});
    const Texts mixed = convolutions_and_layers("1x130+1x3+1x0+1x1+1x64", "128");
    return std::vector<Suite>{
        {"quick", "every operation, variant and option, small",
         parsed({quick_texts(), small_variants})},
        {"full", "every length, dtype, head ratio and size, option, variant and distribution",
         parsed({gated_delta_grid(), hard_inputs(), more_variants, mixed})},
        {"gpu", "full, and batches that fill a GPU",
         parsed({gated_delta_grid(), hard_inputs(), more_variants, mixed, gpu_texts()})},
        {"sanitizer", "few and small, for compute-sanitizer", parsed({sanitizer_texts()})},
    };
  }();
  return all;
}

const Suite& find_suite(const std::string& name) {
  std::vector<std::string> names;
  for (const Suite& suite : suites()) {
    if (suite.name == name) return suite;
    names.push_back(suite.name);
  }
  throw_bad_input("suite '" + name + "' is unknown (did you mean '" + nearest_name(name, names) +
                  "'?)");
}

}  // namespace gdn
