// Files of attention times: what is read of a line, which kernel is taken, what is refused.
#include "harness/measure/attention_times.h"

#include <gtest/gtest.h>

#include "interface/error.h"

namespace gdn {
namespace {

const std::string kHeader =
    "device,kernel,query_heads,kv_heads,head_dim,window,sequences,dtype,forward_ms,forward_q1_ms,"
    "forward_q3_ms,forward_mode,forward_backward_ms,forward_backward_q1_ms,forward_backward_q3_ms,"
    "forward_backward_mode,error\n";

std::string line(const std::string& device, const std::string& kernel, const std::string& shape,
                 const std::string& forward_ms, const std::string& forward_backward_ms) {
  return device + "," + kernel + "," + shape + "," + forward_ms + ",0.9,1.1,graph," +
         forward_backward_ms + ",3,4,eager,0.002\n";
}

std::string refusal_of(const std::string& text) {
  try {
    AttentionTimes::parse("times.csv", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "not refused";
}

TEST(AttentionTimes, ALineHasItsShapeItsBatchAndBothTimes) {
  const AttentionTimes times = AttentionTimes::parse(
      "times.csv", kHeader + line("a card", "cudnn 9", "16,2,128,2048,4x8192,bf16", "1.5", "6.25"));
  ASSERT_EQ(times.lines().size(), 1u);
  const AttentionTime& one = times.lines()[0];
  EXPECT_EQ(one.device, "a card");
  EXPECT_EQ(one.kernel, "cudnn 9");
  EXPECT_EQ(one.shape, (AttentionShape{16, 2, 128, 2048}));
  EXPECT_EQ(one.shape.to_string(), "16/2:128:2048");
  EXPECT_EQ(one.sequences, SequenceLengths::parse("4x8192"));
  EXPECT_EQ(one.dtype, DType::bfloat16);
  EXPECT_DOUBLE_EQ(one.time_ms(Pass::forward), 1.5);
  EXPECT_DOUBLE_EQ(one.time_ms(Pass::training), 6.25);
}

TEST(AttentionTimes, TheQuickestOfEachPassIsTakenOfTheSameDeviceShapeBatchAndType) {
  const std::string shape = "16,2,128,2048,4x8192,bf16";
  const AttentionTimes times = AttentionTimes::parse(
      "times.csv", kHeader + line("a card", "cudnn", shape, "2", "6") +
                       line("a card", "flash", shape, "1.5", "7") +
                       line("a card", "flex", shape, "3", "8") +
                       line("another card", "cudnn", shape, "1", "1") +
                       line("a card", "cudnn", "16,16,128,2048,4x8192,bf16", "1", "1") +
                       line("a card", "cudnn", "16,2,64,2048,4x8192,bf16", "1", "1") +
                       line("a card", "cudnn", "16,2,128,0,4x8192,bf16", "1", "1") +
                       line("a card", "cudnn", "16,2,128,2048,8x4096,bf16", "1", "1") +
                       line("a card", "cudnn", "16,2,128,2048,4x8192,f16", "1", "1"));
  EXPECT_EQ(times.devices(), (std::vector<std::string>{"a card", "another card"}));
  const auto quickest = [&](const std::string& device, const std::string& sequences, Pass pass) {
    return times.quickest(device, {16, 2, 128, 2048}, SequenceLengths::parse(sequences),
                          DType::bfloat16, pass);
  };
  EXPECT_EQ(quickest("a card", "4x8192", Pass::forward)->kernel, "flash");
  EXPECT_EQ(quickest("a card", "4x8192", Pass::training)->kernel, "cudnn");
  EXPECT_EQ(quickest("a card", "1x8192", Pass::forward), nullptr);
  EXPECT_EQ(quickest("a third card", "4x8192", Pass::forward), nullptr);
}

TEST(AttentionTimes, AMalformedFileIsRefusedByTheLineAndTheColumn) {
  const std::string shape = "16,2,128,2048,4x8192,bf16";
  const struct {
    std::string text, said;
  } cases[] = {
      {"", "times.csv: no header line"},
      {kHeader, "times.csv: no times below the header line"},
      {"device,kernel\na card,cudnn\n", "times.csv, line 1: the header must be device | kernel | "},
      {"device;kernel\n", "separated by commas"},
      {kHeader + "a card,cudnn,16\n", "times.csv, line 2: 3 fields, 17 are expected"},
      {kHeader + line("", "cudnn", shape, "1", "2"), "times.csv, line 2: 'device' is empty"},
      {kHeader + line("a", "b", shape, "1", "2") + line("a", "b", shape, "fast", "2"),
       "times.csv, line 3, forward_ms: fast'; expected a time in milliseconds above 0"},
      {kHeader + line("a", "b", shape, "0", "2"), "forward_ms: 0'; expected a time"},
      {kHeader + line("a", "b", shape, "nan", "2"), "forward_ms: nan'; expected a time"},
      {kHeader + line("a", "b", shape, "1", "inf"), "forward_backward_ms: inf'; expected a time"},
      {kHeader + line("a", "b", "0,2,128,2048,4x8192,bf16", "1", "2"),
       "times.csv, line 2, query_heads: '0' is not an integer of at least 1"},
      {kHeader + line("a", "b", "16,2,128,-1,4x8192,bf16", "1", "2"), "window: '-1'"},
      {kHeader + line("a", "b", "16,2,128,0,4by8192,bf16", "1", "2"),
       "times.csv, line 2, sequences: "},
      {kHeader + line("a", "b", "16,2,128,0,4x8192,bf17", "1", "2"),
       "times.csv, line 2, dtype: 'bf17' is no element type"},
  };
  for (const auto& [text, said] : cases) {
    const std::string refusal = refusal_of(text);
    EXPECT_NE(refusal.find(said), std::string::npos) << refusal << " lacks " << said;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  }
  EXPECT_THROW(AttentionTimes::read("/no/such/times.csv"), Error);
}

}  // namespace
}  // namespace gdn
