// Every implementation of causal_conv1d against the float64 convolution (contract section 1.2).
#include "interface/operations/causal_conv1d.h"

#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

using CausalConv1d = ImplementationTest;

TEST_P(CausalConv1d, EveryWidth) {
  for (int width = 2; width <= 15; ++width) {
    expect_all_agree({"causal_conv1d:heads=1/2,dim=24x20,seq=130+1+0+17,dtype=f32,width=" +
                      std::to_string(width)});
  }
}

TEST_P(CausalConv1d, SequencesShorterThanTheWindow) {
  for (const char* width : {"2", "4", "15"}) {
    for (const char* in_place : {"0", "1"}) {
      expect_all_agree({"causal_conv1d:heads=1,dim=16,seq=0+1+2+3+4+13+14+15+16,dtype=f32,width=" +
                        std::string(width) + ",conv_in_place=" + in_place});
    }
  }
}

TEST_P(CausalConv1d, LayoutsDtypesBiasAndActivation) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* bias : {"0", "1"}) {
        for (const char* act : {"none", "silu"}) {
          expect_all_agree(
              {"causal_conv1d:heads=1/2,dim=32,seq=70+65,conv_layout=" + std::string(layout) +
               ",dtype=" + dtype + ",bias=" + bias + ",act=" + act});
        }
      }
    }
  }
}

TEST_P(CausalConv1d, SlotsAndWindowDtypes) {
  for (const char* slots : {"identity", "permuted", "padding"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* in_place : {"0", "1"}) {
        expect_all_agree({"causal_conv1d:heads=1/2,dim=32,seq=70+0+65+2+1+9,dtype=bf16,slots=" +
                          std::string(slots) + ",state=" + state + ",conv_in_place=" + in_place});
      }
    }
  }
}

TEST_P(CausalConv1d, ManyChannels) {
  expect_all_agree({"causal_conv1d:heads=16/32,dim=128,seq=33+5,dtype=bf16"});
}

// As a server decodes them: empty ones, several tokens beside one, more sequences than a card holds at once.
TEST_P(CausalConv1d, SequencesOfATokenOrTwo) {
  for (const char* state : {"f32", "bf16"}) {
    for (const char* options : {",slots=padding", ",slots=permuted,conv_in_place=0,bias=1,act=none",
                                ",weights=f32,bias=1"}) {
      for (const char* channels : {"136", "1040"}) {
        expect_all_agree({"causal_conv1d:channels=" + std::string(channels) +
                          ",seq=1+0+2+1+1+5+0+1+3+1,dtype=bf16,state=" + state + options});
      }
    }
    for (const char* shape :
         {"channels=8,seq=701x1", "channels=520,seq=901x1", "channels=16,seq=2603x1"}) {
      expect_all_agree({"causal_conv1d:" + std::string(shape) + ",dtype=f16,slots=padding,state=" +
                        (std::string(state) == "f32" ? "f32" : "f16")});
    }
  }
}

// Channels that belong to no heads: one alone, fewer than a vector, no multiple of a vector, a tile or
// a block, and one more than published models have.
TEST_P(CausalConv1d, AnyNumberOfChannels) {
  for (const char* channels : {"1", "3", "5", "130", "6145"}) {
    for (const char* layout : {"channels", "time"}) {
      for (const char* options :
           {",dtype=f32,width=9,act=none", ",dtype=bf16,bias=1,slots=padding,state=f16",
            ",dtype=f16,width=2,slots=permuted,conv_in_place=0"}) {
        expect_all_agree({"causal_conv1d:channels=" + std::string(channels) +
                          ",seq=70+0+1+2,conv_layout=" + layout + options});
      }
    }
  }
}

// What channels are of changes nothing of what becomes of them.
TEST_P(CausalConv1d, ChannelsOfHeadsAndOfNoneGiveTheSameBits) {
  const Case of_heads =
      generate_case(Problem::parse("causal_conv1d:heads=1/2,dim=24x41,seq=70+1,dtype=bf16,bias=1"));
  Case of_none = of_heads;
  of_none.problem = Problem::parse("causal_conv1d:channels=130,seq=70+1,dtype=bf16,bias=1");
  const Outputs expected = execute(implementation(), of_heads, device());
  const Outputs outputs = execute(implementation(), of_none, device());
  for (const char* name : {"conv_output", "conv_state"}) {
    EXPECT_TRUE(same_bits(outputs[name], expected[name])) << name;
  }
}

// Lengths below and above the window's, an empty sequence, both layouts, and every slot map.
TEST_P(CausalConv1d, WindowsReadOrWrittenAloneOrNotAtAll) {
  for (const char* window : {"read", "written", "none"}) {
    for (const char* layout : {"channels", "time"}) {
      for (const char* options :
           {",dtype=f32", ",dtype=bf16,width=9,state=f16,slots=padding,bias=1",
            ",dtype=f16,width=2,slots=permuted,act=none"}) {
        expect_all_agree({"causal_conv1d:channels=36,seq=70+0+1+2+130,window=" +
                          std::string(window) + ",conv_layout=" + layout + options});
      }
    }
  }
}

// Windows as some servers hold them, channels fastest: in place and not, of every width.
TEST_P(CausalConv1d, WindowsWithChannelsFastest) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* options :
         {",dtype=f32", ",dtype=bf16,width=9,state=f16,slots=padding,bias=1",
          ",dtype=f16,width=2,slots=permuted,act=none", ",dtype=bf16,width=3,conv_in_place=0",
          ",dtype=bf16,window=read", ",dtype=f32,width=15,window=written"}) {
      expect_all_agree(
          {"causal_conv1d:channels=36,seq=70+0+1+2+130,window_layout=channels,conv_layout=" +
           std::string(layout) + options});
      expect_all_agree({"causal_conv1d:channels=5,seq=17x1,window_layout=channels,conv_layout=" +
                        std::string(layout) + options});
    }
  }
}

// Windows that hold more than the convolution reads: as the tokens, more than a warp, more than a tile.
// Of sequences shorter and longer, both layouts of windows and of tokens.
TEST_P(CausalConv1d, WindowsLongerThanTheConvolutionReads) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* options :
         {",dtype=f32,window_length=3", ",dtype=f32,window_length=4",
          ",dtype=bf16,width=9,window_length=14,state=f16,slots=padding",
          ",dtype=f16,width=2,window_length=15,slots=permuted,act=none",
          ",dtype=bf16,window_length=71,conv_in_place=0", ",dtype=bf16,window_length=70",
          ",dtype=bf16,window_length=40,window=read", ",dtype=f32,window_length=33,window=written",
          ",dtype=bf16,window_length=100,window_layout=channels,bias=1"}) {
      expect_all_agree({"causal_conv1d:channels=36,seq=70+0+1+2+130,conv_layout=" +
                        std::string(layout) + options});
      expect_all_agree(
          {"causal_conv1d:channels=5,seq=17x1,conv_layout=" + std::string(layout) + options});
    }
  }
}

// Windows of three or four inputs, which kernels may hold in vectors, of sequences of every length around
// theirs: read, moved, begun anew and left alone, in every type, layout and place.
TEST_P(CausalConv1d, ShortWindowsOfEveryForm) {
  const std::string sequences = "causal_conv1d:channels=36,seq=0+1+2+3+4+5+70+0+1+3";
  for (const char* form : {"", ",window_layout=channels", ",window_length=4",
                           ",window_length=4,window_layout=channels"}) {
    for (const char* options :
         {",dtype=f32,fresh=1", ",dtype=bf16,fresh=1,conv_in_place=0,bias=1",
          ",dtype=f16,state=f32,slots=padding", ",dtype=bf16,window=read",
          ",dtype=f32,window=written", ",dtype=bf16,state=f16,residual=1,slots=permuted",
          ",dtype=f16,state=f32,residual=tensor,slots=padding,fresh=1",
          ",dtype=bf16,fresh=1,weights=f32"}) {
      expect_all_agree({sequences + form + options});
    }
  }
}

// Sequences that start from zeros beside others that go on, empty ones of both kinds among them.
TEST_P(CausalConv1d, SequencesThatStartAnewBesideOthers) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* options :
         {",dtype=f32", ",dtype=bf16,width=9,window_length=14,state=f16,slots=padding",
          ",dtype=f16,width=2,slots=permuted,act=none", ",dtype=bf16,conv_in_place=0",
          ",dtype=bf16,window=read",
          ",dtype=bf16,window_length=40,window_layout=channels,bias=1"}) {
      expect_all_agree({"causal_conv1d:channels=36,seq=70+70+0+0+1+1+2+2+130,fresh=1,conv_layout=" +
                        std::string(layout) + options});
      expect_all_agree({"causal_conv1d:channels=5,seq=17x1,fresh=1,conv_layout=" +
                        std::string(layout) + options});
    }
  }
}

TEST_P(CausalConv1d, TheInputAddedToTheOutput) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* options :
         {",dtype=f32", ",dtype=bf16,width=9,state=f16,slots=padding,bias=1",
          ",dtype=f16,width=2,slots=permuted,act=none", ",dtype=bf16,window=none"}) {
      expect_all_agree({"causal_conv1d:channels=36,seq=70+0+1+2+130,residual=1,conv_layout=" +
                        std::string(layout) + options});
      expect_all_agree({"causal_conv1d:channels=5,seq=17x1,residual=1,conv_layout=" +
                        std::string(layout) + options});
    }
  }
}

// Tokens that fill tiles and do not, of vectors of channels and of none, whatever windows there are.
TEST_P(CausalConv1d, ATensorAddedToTheOutput) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* options :
         {",dtype=f32", ",dtype=bf16,width=9,state=f16,slots=padding,bias=1",
          ",dtype=f16,width=2,slots=permuted,act=none", ",dtype=bf16,window=none",
          ",dtype=bf16,window_order=ring,window_length=7"}) {
      for (const char* shape : {"channels=36,seq=70+0+1+2+130", "channels=5,seq=17x1",
                                "channels=8,seq=9x1", "channels=36,seq=256+512+8"}) {
        expect_all_agree({"causal_conv1d:" + std::string(shape) +
                          ",residual=tensor,conv_layout=" + layout + options});
      }
    }
  }
}

// The sum is rounded once, and the input as a tensor gives the bits of the input itself.
TEST_P(CausalConv1d, TheInputAsATensorGivesTheSameBits) {
  for (const char* options :
       {"channels=36,seq=70+0+1", "channels=5,seq=70+0+1,slots=padding",
        "channels=36,seq=256+70,conv_layout=time", "channels=36,seq=9x1,window=none"}) {
    const Case itself = generate_case(
        Problem::parse("causal_conv1d:dtype=bf16,residual=1," + std::string(options)));
    Case tensor = itself;
    tensor.problem.conv_residual = ConvResidual::tensor;
    tensor["residual"] = itself["qkv"];
    const Outputs expected = execute(implementation(), itself, device());
    const Outputs outputs = execute(implementation(), tensor, device());
    for (const char* name : {"conv_output", "conv_state"}) {
      if (!expected.has(name)) continue;
      EXPECT_TRUE(same_bits(outputs[name], expected[name])) << options << " " << name;
    }
  }
}

// The convolution is 1 + 2^-12, which a 16-bit type rounds to 1: with the tensor -1 it is 2^-12.
TEST_P(CausalConv1d, ATensorIsAddedBeforeTheRounding) {
  for (const char* dtype : {"bf16", "f16"}) {
    for (const char* options :
         {"channels=36,seq=70+1", "channels=5,seq=70", "channels=36,seq=256,conv_layout=time",
          "channels=36,seq=70,conv_layout=time"}) {
      Case c =
          generate_case(Problem::parse("causal_conv1d:act=none,width=2,residual=tensor,dtype=" +
                                       std::string(dtype) + "," + options));
      std::fill(c["qkv"].begin(), c["qkv"].end(), 1.0f);
      std::fill(c["conv_state"].begin(), c["conv_state"].end(), 1.0f);
      std::fill(c["residual"].begin(), c["residual"].end(), -1.0f);
      for (std::int64_t i = 0; i < 2 * c.problem.conv_channels(); ++i) {
        c["conv_weight"].at(i) = i % 2 == 0 ? 1.0f : 0x1p-12f;
      }
      const Outputs outputs = execute(implementation(), c, device());
      for (const float y : outputs["conv_output"]) {
        ASSERT_EQ(y, 0x1p-12f) << c.problem.to_string();
      }
    }
  }
}

TEST_P(CausalConv1d, Float32WeightsBeside16BitTokens) {
  for (const char* dtype : {"bf16", "f16"}) {
    for (const char* layout : {"channels", "time"}) {
      for (const char* options :
           {"", ",bias=1,width=3,act=none", ",bias=1,width=9,state=f16,slots=padding",
            ",bias=1,window=none", ",width=2,window_layout=channels,slots=permuted",
            ",bias=1,window_length=9,fresh=1", ",bias=1,residual=1", ",bias=1,residual=tensor"}) {
        for (const char* shape :
             {"channels=36,seq=70+0+1+2+130", "channels=5,seq=17x1", "channels=36,seq=9x1"}) {
          expect_all_agree({"causal_conv1d:" + std::string(shape) + ",weights=f32,dtype=" + dtype +
                            ",conv_layout=" + layout + options});
        }
      }
    }
  }
}

// Float32 weights and bias keep all their bits. The outputs are what the token dtype would round off: with
// inputs of 1 they are 3 * 2^-12, of which the weights have one part and the bias two.
TEST_P(CausalConv1d, Float32WeightsAndBiasAreNotRounded) {
  for (const char* dtype : {"bf16", "f16"}) {
    for (const std::int64_t width : {2, 4, 9}) {
      for (const char* options :
           {"channels=36,seq=70+1", "channels=5,seq=70+1", "channels=36,seq=9x1",
            "channels=36,seq=70+1,window_layout=channels", "channels=36,seq=70,conv_layout=time",
            "channels=36,seq=70,conv_layout=time,window_layout=channels"}) {
        Case c = generate_case(Problem::parse("causal_conv1d:" + std::string(options) +
                                              ",act=none,bias=1,weights=f32,dtype=" + dtype +
                                              ",width=" + std::to_string(width)));
        std::fill(c["qkv"].begin(), c["qkv"].end(), 1.0f);
        std::fill(c["conv_state"].begin(), c["conv_state"].end(), 1.0f);
        std::fill(c["conv_bias"].begin(), c["conv_bias"].end(), 1 + 0x1p-11f);
        for (std::int64_t i = 0; i < c.problem.conv_channels() * width; ++i) {
          c["conv_weight"].at(i) = i % width == 0           ? -2.0f
                                   : i % width == width - 1 ? 1 + 0x1p-12f
                                                            : 0.0f;
        }
        const Outputs outputs = execute(implementation(), c, device());
        for (const float y : outputs["conv_output"]) {
          ASSERT_EQ(y, 3 * 0x1p-12f) << c.problem.to_string();
        }
      }
    }
  }
}

// Rings of as many places as are read and more, calls shorter and longer than they are, empty sequences,
// every slot map, both layouts of windows and of tokens.
TEST_P(CausalConv1d, WindowsThatAreRings) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* options :
         {",dtype=f32", ",dtype=bf16,window_length=4,bias=1",
          ",dtype=bf16,width=9,window_length=14,state=f16,slots=padding",
          ",dtype=f16,width=2,window_length=15,slots=permuted,act=none",
          ",dtype=bf16,window_length=71,conv_in_place=0", ",dtype=bf16,width=3,conv_in_place=0",
          ",dtype=bf16,window_length=40,window=read", ",dtype=f32,window_length=33,window=written",
          ",dtype=bf16,window_length=100,window_layout=channels,slots=padding",
          ",dtype=f16,window_length=9,fresh=1,weights=f32,residual=1"}) {
      for (const char* shape :
           {"channels=36,seq=70+0+1+2+130+9", "channels=5,seq=17x1", "channels=36,seq=9x5"}) {
        expect_all_agree({"causal_conv1d:" + std::string(shape) +
                          ",window_order=ring,conv_layout=" + layout + options});
      }
    }
  }
}

// A ring holds what a window with its oldest input first holds, each input at a place of its own: from
// the same inputs the outputs have the same bits, and so do the rings.
TEST_P(CausalConv1d, RingsAreTurnedWindows) {
  for (const std::int64_t places : {3, 7}) {
    const Case straight = generate_case(
        Problem::parse("causal_conv1d:channels=36,seq=70+0+2+1,dtype=bf16,slots=permuted,"
                       "window_length=" +
                       std::to_string(places)));
    Case ring = straight;
    ring.problem.window_order = WindowOrder::ring;
    ring.other_indices["window_position"] = {0, 5, 1023, kLargestIndex};
    // Of every row that a sequence owns; input j from the oldest one on goes to (first + j) mod places.
    const auto turned = [&](const std::vector<float>& rows, bool after) {
      std::vector<float> result = rows;
      for (std::int64_t n = 0; n < 4; ++n) {
        const std::int64_t first =
            ring.other_indices["window_position"].at(n) % places + (after ? straight.length(n) : 0);
        for (std::int64_t c = 0; c < 36; ++c) {
          const std::int64_t row = (straight.slot(n) * 36 + c) * places;
          for (std::int64_t j = 0; j < places; ++j) {
            result.at(row + (first + j) % places) = rows.at(row + j);
          }
        }
      }
      return result;
    };
    ring["conv_state"] = turned(straight["conv_state"], false);
    const Outputs expected = execute(implementation(), straight, device());
    const Outputs outputs = execute(implementation(), ring, device());
    EXPECT_TRUE(same_bits(outputs["conv_output"], expected["conv_output"]))
        << ring.problem.to_string();
    EXPECT_TRUE(same_bits(outputs["conv_state"], turned(expected["conv_state"], true)))
        << ring.problem.to_string();
  }
}

// Windows inside a call, in every form that windows have: at the first tokens, which still see the old window, and
// where padding and empty sequences leave zeros.
TEST_P(CausalConv1d, WindowsInsideACall) {
  for (const char* layout : {"channels", "time"}) {
    for (const char* options :
         {",dtype=f32", ",dtype=bf16,state=bf16,slots=permuted,conv_in_place=0",
          ",dtype=f16,window_layout=channels,slots=padding", ",dtype=bf16,window_length=71",
          ",dtype=bf16,window_order=ring,window_length=7,slots=padding", ",dtype=bf16,fresh=1",
          ",dtype=f32,window=read", ",dtype=bf16,window=written,width=9", ",dtype=bf16,width=2",
          ",dtype=f16,window_order=ring,window_layout=channels,fresh=1"}) {
      for (const char* checkpoints : {",checkpoints=1", ",checkpoints=6"}) {
        expect_all_agree({"causal_conv1d:channels=36,seq=70+0+1+2+3+130,conv_layout=" +
                          std::string(layout) + options + checkpoints});
      }
      expect_all_agree({"causal_conv1d:channels=133,seq=9x4,conv_layout=" + std::string(layout) +
                        options + ",checkpoints=3"});
    }
  }
}

// Bit for bit: whoever continues from a checkpoint gets what a call would have left that ends there.
TEST_P(CausalConv1d, ACheckpointIsTheWindowOfACallThatEndsThere) {
  for (const char* more : {"", ",window_order=ring,window_length=7", ",window_layout=channels",
                           ",state=bf16,slots=permuted,conv_in_place=0"}) {
    Case inputs = generate_case(Problem::parse(
        "causal_conv1d:channels=36,seq=150,dtype=bf16,checkpoints=5" + std::string(more)));
    SCOPED_TRACE(inputs.problem.to_string());
    const std::vector<std::int64_t> counts = {1, 3, 0, 131, 150};
    inputs.other_indices["checkpoint_tokens"] = counts;
    const Outputs outputs = execute(implementation(), inputs, device());
    const std::int64_t elements = 36 * inputs.problem.window_places();
    for (std::size_t j = 0; j < counts.size(); ++j) {
      SCOPED_TRACE("after " + std::to_string(counts[j]) + " tokens");
      const auto at = [&](const std::vector<float>& rows, std::int64_t row) {
        return std::vector<float>(rows.begin() + row * elements,
                                  rows.begin() + (row + 1) * elements);
      };
      std::vector<float> expected(static_cast<std::size_t>(elements), 0.0f);
      if (counts[j] > 0) {
        const Case part = first_part(inputs, after(counts[j]));
        expected = at(execute(implementation(), part, device())["conv_state"], part.slot(0));
      }
      EXPECT_TRUE(
          same_bits(at(outputs["checkpoint_windows"], static_cast<std::int64_t>(j)), expected));
    }
  }
}

// The same windows in either layout give the same bits.
TEST_P(CausalConv1d, TheLayoutOfWindowsChangesNoBit) {
  const Case by_time = generate_case(
      Problem::parse("causal_conv1d:channels=36,seq=70+0+2,dtype=bf16,slots=permuted"));
  Case by_channels = by_time;
  by_channels.problem.window_layout = WindowLayout::channels;
  const auto transposed = [](const std::vector<float>& rows) {
    std::vector<float> result(rows.size());
    for (std::size_t row = 0; row < rows.size(); row += 36 * 3) {
      for (std::size_t c = 0; c < 36; ++c) {
        for (std::size_t j = 0; j < 3; ++j) result[row + j * 36 + c] = rows[row + c * 3 + j];
      }
    }
    return result;
  };
  by_channels["conv_state"] = transposed(by_time["conv_state"]);
  const Outputs expected = execute(implementation(), by_time, device());
  const Outputs outputs = execute(implementation(), by_channels, device());
  EXPECT_TRUE(same_bits(outputs["conv_output"], expected["conv_output"]));
  EXPECT_TRUE(same_bits(outputs["conv_state"], transposed(expected["conv_state"])));
}

// What a row held does not matter where it is only written, and stays where it is only read; the
// arithmetic is that of windows of zeros.
TEST_P(CausalConv1d, WindowsThatAreNotReadAreZeros) {
  Case carried =
      generate_case(Problem::parse("causal_conv1d:heads=1/2,dim=24,seq=70+0+2,dtype=bf16"));
  std::fill(carried["conv_state"].begin(), carried["conv_state"].end(), 0.0f);
  const Outputs expected = execute(implementation(), carried, device());

  Case written = carried;
  written.problem.conv_window = ConvWindow::written;
  std::fill(written["conv_state"].begin(), written["conv_state"].end(), 3.0f);
  const Outputs of_written = execute(implementation(), written, device());
  EXPECT_TRUE(same_bits(of_written["conv_output"], expected["conv_output"]));
  EXPECT_TRUE(same_bits(of_written["conv_state"], expected["conv_state"]));

  Case none = carried;
  none.problem.conv_window = ConvWindow::none;
  none.arrays.erase("conv_state");
  const Outputs of_none = execute(implementation(), none, device());
  EXPECT_TRUE(same_bits(of_none["conv_output"], expected["conv_output"]));
  EXPECT_FALSE(of_none.has("conv_state"));
}

TEST_P(CausalConv1d, WindowsThatAreReadAloneKeepTheirBits) {
  const Case inputs = generate_case(
      Problem::parse("causal_conv1d:heads=1/2,dim=24,seq=70+0+2,dtype=bf16,window=read"));
  Case carried = inputs;
  carried.problem.conv_window = ConvWindow::carried;
  const Outputs outputs = execute(implementation(), inputs, device());
  EXPECT_TRUE(same_bits(outputs["conv_output"],
                        execute(implementation(), carried, device())["conv_output"]));
  EXPECT_TRUE(same_bits(outputs["conv_state"], inputs["conv_state"]));
}

// Two calls joined by the window give the bits of one: windows hold raw inputs.
TEST_P(CausalConv1d, TwoCallsJoinedByTheWindowAreEqualToOne) {
  const Case whole =
      generate_case(Problem::parse("causal_conv1d:heads=1/2,dim=32,seq=90,dtype=f32"));
  if (!implementation().supports(whole.problem)) GTEST_SKIP();
  const std::int64_t channels = whole.problem.conv_channels();
  const Outputs once = execute(implementation(), whole, device());
  for (const std::int64_t cut : {1, 2, 64, 89}) {
    const Outputs first = execute(implementation(), case_of_pieces(whole, {{0, 0, cut}}), device());
    Case rest = case_of_pieces(whole, {{0, cut, 90}});
    rest["conv_state"] = first["conv_state"];
    const Outputs second = execute(implementation(), rest, device());
    EXPECT_TRUE(
        same_bits(second["conv_output"], token_range(once["conv_output"], channels, cut, 90)));
    EXPECT_TRUE(same_bits(second["conv_state"], once["conv_state"]));
  }
}

// Of two calls the second one goes on at the place of the ring where the first one ended.
TEST_P(CausalConv1d, TwoCallsJoinedByTheRingAreEqualToOne) {
  for (const char* options : {"", ",window_length=7", ",window=written", ",fresh=1"}) {
    const Case whole = generate_case(
        Problem::parse("causal_conv1d:channels=36,seq=90+2+0+11,dtype=bf16,window_order=ring" +
                       std::string(options)));
    const Outputs once = execute(implementation(), whole, device());
    for (const std::int64_t cut : {1, 2, 7, 64}) {
      const Outputs first = execute(implementation(), first_part(whole, after(cut)), device());
      const Case rest = second_part(whole, after(cut), first);
      const Outputs twice =
          joined(whole, after(cut), first, execute(implementation(), rest, device()));
      EXPECT_EQ(first_difference(once, twice), "") << whole.problem.to_string() << " cut " << cut;
    }
  }
}

GDN_INSTANTIATE_FOR(CausalConv1d, causal_conv1d_operation());

}  // namespace
}  // namespace gdn
