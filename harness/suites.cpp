#include "harness/suites.h"

#include <map>
#include <sstream>

#include "harness/problem_table.h"
#include "interface/error.h"

namespace gdn {
namespace suite_text {  // embedded by cmake/GdnEmbedText.cmake
extern const char* const peers_tsv;
extern const char* const stress_tsv;
extern const char* const nightly_tsv;
}  // namespace suite_text

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
      "gated_delta:heads=16/32,dim=128,seq=4x2048,dtype=bf16,update=additive",
      "gated_delta:heads=16/32,dim=128,seq=2x2048,dtype=bf16,h0=normal,steps=2,betas=wide",
      "gated_delta:heads=16/32,dim=128,seq=2x2048,dtype=bf16,h0=normal,decay=channel",
      "gated_delta:heads=4/12,dim=128,seq=1x1000+1x0+1x65,dtype=f32,h0=normal,slots=permuted,"
      "norm=1,update=additive,steps=3,decay=channel",
      "causal_conv1d:heads=16/32,dim=128,seq=4x8192,dtype=bf16",
      "gated_delta_layer:heads=16/32,dim=128,seq=4x2048,dtype=bf16,norm=1,gate=logits,beta=logit",
  };
}

Texts sanitizer_texts() {
  return {
      "gated_delta:heads=1/2,dim=64,seq=1x70+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding",
      "gated_delta:heads=1/2,dim=128,seq=1x129+1x3,dtype=bf16,gates=mid,h0=normal,slots=permuted",
      "gated_delta:heads=1/2,dim=128,seq=1x129+1x3,dtype=bf16,gates=strong,keys=unnormalised",
      "gated_delta:heads=1/2,dim=128,seq=1x129+1x3,dtype=bf16,gates=strong,keys=unnormalised,"
      "norm=1",
      "gated_delta:heads=1/3,dim=128,seq=1x65,dtype=f16,gates=reset,state=bf16",
      "gated_delta:heads=1/1,dim=96x192,seq=1x33,dtype=bf16,gate=logits,beta=logit",
      "gated_delta:heads=1/2,dim=64,seq=1x70+1x0+1x17,dtype=f32,gates=mid,h0=normal,slots=padding,"
      "update=additive",
      "gated_delta:heads=1/2,dim=128,seq=1x67+1x3,dtype=bf16,gates=mid,h0=normal,steps=2",
      "gated_delta:heads=1/2,dim=64,seq=1x33,dtype=bf16,gate=logits,beta=logit,norm=1,steps=3,"
      "decay=channel",
      "causal_conv1d:heads=1/2,dim=64,seq=1x9+1x2+1x0,dtype=bf16,slots=permuted",
      "gated_delta_layer:heads=1/2,dim=64,seq=1x67+1x2,dtype=bf16,norm=1,gate=logits,beta=logit",
  };
}

using SuiteProblems = std::vector<SuiteProblem>;

SuiteProblems own(std::initializer_list<Texts> lists, const std::string& protects) {
  SuiteProblems problems;
  for (const Texts& texts : lists) {
    for (const std::string& text : texts) {
      problems.push_back({Problem::parse(text), "-", protects, false, false});
    }
  }
  return problems;
}

// One after the other; a problem named again is left out, its further checks are kept.
SuiteProblems joined(std::initializer_list<SuiteProblems> lists) {
  SuiteProblems all;
  std::map<std::string, std::size_t> places;
  for (const SuiteProblems& list : lists) {
    for (const SuiteProblem& entry : list) {
      const auto [place, added] = places.emplace(entry.problem.to_string(), all.size());
      if (added) {
        all.push_back(entry);
      } else {
        all[place->second].every_split |= entry.every_split;
        all[place->second].token_by_token |= entry.token_by_token;
      }
    }
  }
  return all;
}

SuiteProblems quick() {
  return own({quick_texts(), variants("heads=1/2,dim=64,seq=1x130+1x0+1x5", {"f32"})},
             "every operation, variant and option");
}
SuiteProblems grid() {
  return own(
      {gated_delta_grid(), hard_inputs(), convolutions_and_layers("1x130+1x3+1x0+1x1+1x64", "128")},
      "every length, dtype, head ratio and size, option and distribution");
}
SuiteProblems peers() { return parse_suite_file("suites/peers.tsv", suite_text::peers_tsv); }
SuiteProblems stress() { return parse_suite_file("suites/stress.tsv", suite_text::stress_tsv); }
SuiteProblems large() { return parse_suite_file("suites/nightly.tsv", suite_text::nightly_tsv); }

struct NamedSuite {
  const char* name;
  const char* help;
  SuiteProblems (*problems)();
};
constexpr NamedSuite kSuites[] = {
    {"quick", "every operation, variant and option, small", quick},
    {"full",
     "every length, dtype, head ratio and size, option, variant and distribution; the cases of "
     "other projects",
     [] {
       return joined({grid(), peers()});
     }},
    {"stress", "what kernels of this kind have failed at", [] { return joined({stress()}); }},
    {"nightly", "full, stress, and batches that fill a large device",
     [] {
       return joined({grid(), peers(), stress(), large()});
     }},
    {"gpu", "the grid of full, and batches that fill a GPU",
     [] {
       return joined({grid(), own({gpu_texts()}, "batches that fill a GPU")});
     }},
    {"sanitizer", "few and small, for compute-sanitizer",
     [] { return own({sanitizer_texts()}, "memory errors and races"); }},
};

void set_checks(const std::string& checks, SuiteProblem* entry) {
  if (checks == "-") return;
  std::istringstream stream(checks);
  for (std::string check; std::getline(stream, check, ',');) {
    if (check == "every_split") {
      entry->every_split = true;
    } else if (check == "token_by_token") {
      entry->token_by_token = true;
    } else {
      throw_bad_input("check '" + check +
                      "' is unknown; expected every_split, token_by_token or -");
    }
  }
}

}  // namespace

std::vector<SuiteProblem> parse_suite_file(const std::string& name, const std::string& text) {
  const bool of_peers = text.find("\tchecks\t") == std::string::npos;
  const TextTable table =
      TextTable::parse(name, text, {"problem", of_peers ? "origin" : "checks", "protects"});
  std::vector<SuiteProblem> problems;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::vector<std::string>& fields = table.rows[i];
    try {
      for (const std::string& problem : expand_alternatives(fields[0])) {
        SuiteProblem entry{Problem::parse(problem), of_peers ? fields[1] : "-", fields[2], false,
                           false};
        if (!of_peers) set_checks(fields[1], &entry);
        problems.push_back(std::move(entry));
      }
    } catch (const Error& error) {
      throw Error(error.kind(), table.place(i) + ": " + error.what());
    }
  }
  return problems;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const NamedSuite& suite : kSuites) names.emplace_back(suite.name);
  return names;
}

Suite find_suite(const std::string& name) {
  for (const NamedSuite& suite : kSuites) {
    if (suite.name == name) return {suite.name, suite.help, suite.problems()};
  }
  throw_bad_input("suite '" + name + "' is unknown (did you mean '" +
                  nearest_name(name, suite_names()) + "'?)");
}

}  // namespace gdn
