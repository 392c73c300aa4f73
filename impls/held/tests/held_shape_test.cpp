// Tensors laid against operands: which dimensions stand for which, and what is refused.
#include "held/held_shape.h"

#include <gtest/gtest.h>

#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"

namespace gdn {
namespace {

const char* const kConvolution = "causal_conv1d:channels=6,seq=2x4,dtype=f32,slots=permuted";

HeldShape laid(const HeldTensor& tensor) {
  const Problem problem = Problem::parse(kConvolution);
  return held_shape(tensor, problem.operation->at(tensor.operand), problem);
}

std::string refusal(const HeldTensor& tensor) {
  try {
    laid(tensor);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

TEST(HeldShape, BatchAndLengthTogetherAreTheTokens) {
  const HeldShape shape = laid({.operand = "qkv", .extents = {2, 4, 6}, .strides = {24, 1, 4}});
  EXPECT_EQ(shape.operand_dimension, (std::vector<std::size_t>{0, 0, 1}));
  EXPECT_EQ(shape.merged_strides(2), std::nullopt) << "sequences 24 apart, tokens 1";
  const HeldShape follows = laid({.operand = "qkv", .extents = {2, 4, 6}, .strides = {32, 8, 1}});
  EXPECT_EQ(follows.merged_strides(2), (std::vector<std::int64_t>{8, 1}));
}

TEST(HeldShape, DimensionsOfOneEntryMayStandAnywhereTheyAdd) {
  for (const std::vector<std::int64_t>& extents :
       {std::vector<std::int64_t>{1, 8, 6}, {8, 1, 6}, {8, 6, 1}, {1, 2, 4, 1, 6, 1}}) {
    EXPECT_EQ(laid({.operand = "qkv", .extents = extents}).merged_strides(2),
              (std::vector<std::int64_t>{6, 1}));
  }
}

TEST(HeldShape, APoolMayHaveAnyNumberOfRows) {
  for (const std::int64_t rows : {1, 5, 900}) {
    EXPECT_EQ(laid({.operand = "conv_state", .extents = {rows, 6, 3}}).extents.front(), rows);
  }
}

TEST(HeldShape, WhatIsNotTheOperandsShapeIsRefusedByName) {
  EXPECT_EQ(
      refusal({.operand = "qkv", .extents = {6, 8}}),
      "qkv: shape [6, 8], expected [T = 8, channels = 6] or dimensions that multiply to these");
  EXPECT_NE(refusal({.operand = "qkv", .extents = {8}}), "");
  EXPECT_NE(refusal({.operand = "qkv", .extents = {8, 6, 2}}), "");
  EXPECT_NE(refusal({.operand = "qkv", .extents = {3, 3, 6}}), "");
  EXPECT_EQ(refusal({.operand = "conv_state", .extents = {5, 3, 6}}),
            "conv_state: shape [5, 3, 6], expected [slots, channels = 6, width - 1 = 3]");
}

TEST(HeldShape, StridesThatCannotBeAreRefused) {
  EXPECT_EQ(refusal({.operand = "qkv", .strides = {6}}),
            "qkv: 1 strides, expected one for each of its 2 dimensions");
  EXPECT_EQ(refusal({.operand = "qkv", .strides = {6, -1}}),
            "qkv: strides [6, -1], expected none below 0");
  float place = 0;
  EXPECT_EQ(
      refusal({.operand = "conv_output", .written = &place, .strides = {4, 1}}),
      "conv_output: is written, but its strides [4, 1] lay several of its elements on one place");
  EXPECT_NE(refusal({.operand = "conv_output", .written = &place, .strides = {0, 1}}), "");
  EXPECT_EQ(refusal({.operand = "conv_output", .written = &place, .strides = {1, 8}}), "");
  EXPECT_EQ(refusal({.operand = "qkv", .read = &place, .strides = {0, 1}}), "") << "read alone";
}

}  // namespace
}  // namespace gdn
