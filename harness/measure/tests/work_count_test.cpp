// Work counts against values computed by hand, and the refusal of impossible figures.
#include "harness/measure/work_count.h"

#include <gtest/gtest.h>

#include "harness/operations/operation_harness.h"
#include "interface/error.h"

namespace gdn {
namespace {

// Only what counting looks at: shapes, offsets and slots.
Case shapes_of(const std::string& problem, std::vector<std::int64_t> slots = {}) {
  Case c;
  c.problem = Problem::parse(problem);
  c.sequence_offsets = c.problem.sequences.offsets();
  c.slot_index = std::move(slots);
  return c;
}

TEST(WorkCount, ChunkwiseCountAtEqualDimsIsThePapersForm) {
  // 2 (3 D^2 + 4 C D) per token and value head, D = 128, C = 64: 163840.
  const WorkCount work =
      count_work(shapes_of("gated_delta:heads=1/2,dim=128x128,seq=1x100,dtype=bf16"), 64);
  EXPECT_EQ(work.tokens, 100);
  EXPECT_EQ(work.count_chunk, 64);
  EXPECT_DOUBLE_EQ(work.flops_chunkwise, 163840.0 * 100 * 2);
  EXPECT_DOUBLE_EQ(work.flops_recurrent, 7.0 * 128 * 128 * 100 * 2);
}

TEST(WorkCount, ChunkwiseCountGeneralisesToUnequalDims) {
  // 2 (3 * 96 * 192 + 2 * 32 * (96 + 192)) = 147456.
  const WorkCount work =
      count_work(shapes_of("gated_delta:heads=1/1,dim=96x192,seq=1x10,dtype=f32"), 32);
  EXPECT_DOUBLE_EQ(work.flops_chunkwise, 147456.0 * 10);
}

TEST(WorkCount, StepsRepeatTheCorrectionAndTheUpdateButNotTheReading) {
  // n = 3, D = 8, C = 16: recurrent (4 * 3 + 3) 64; chunkwise 2 (7 * 64 + 4 * 16 * 16).
  const WorkCount work =
      count_work(shapes_of("gated_delta:heads=1/2,dim=8,seq=10,dtype=bf16,steps=3,ht=0"), 16);
  EXPECT_EQ(work.tokens, 10);
  EXPECT_DOUBLE_EQ(work.flops_recurrent, 15.0 * 64 * 10 * 2);
  EXPECT_DOUBLE_EQ(work.flops_chunkwise, 2.0 * (7 * 64 + 4 * 16 * 16) * 10 * 2);
  // q, three k, three v in 16 bits; one gate and three betas.
  EXPECT_DOUBLE_EQ(work.bytes_read,
                   10 * (8 + 3 * 8 + 3 * 2 * 8) * 2.0 + 10 * 2 * (1 + 3) * 4.0 + 2 * 8.0);
  EXPECT_DOUBLE_EQ(work.bytes_written, 10 * 2 * 8 * 2.0);
}

TEST(WorkCount, TheAdditiveUpdateHasNoCorrection) {
  // D = 8, C = 16: recurrent 5 * 64; chunkwise 2 (2 * 64 + 16 * 16).
  const WorkCount work =
      count_work(shapes_of("gated_delta:heads=1/1,dim=8,seq=10,update=additive"), 16);
  EXPECT_DOUBLE_EQ(work.flops_recurrent, 5.0 * 64 * 10);
  EXPECT_DOUBLE_EQ(work.flops_chunkwise, 2.0 * (2 * 64 + 16 * 16) * 10);
}

TEST(WorkCount, ChannelDecaysAreReadButTheirProductsAreNotCounted) {
  const Case per_head = shapes_of("gated_delta:heads=1/2,dim=8,seq=10,gate=logits");
  const Case per_channel =
      shapes_of("gated_delta:heads=1/2,dim=8,seq=10,gate=logits,decay=channel");
  const WorkCount head = count_work(per_head, 16), channel = count_work(per_channel, 16);
  EXPECT_DOUBLE_EQ(channel.flops_chunkwise, head.flops_chunkwise);
  EXPECT_DOUBLE_EQ(channel.flops_recurrent, head.flops_recurrent);
  // Logits and dt_bias have 7 more values per head.
  EXPECT_DOUBLE_EQ(channel.bytes_read - head.bytes_read, (10 + 1) * 2 * 7 * 4.0);
}

TEST(WorkCount, UnchunkedPlansAreCountedAtTheNominalChunk) {
  const Case c = shapes_of("gated_delta:heads=1/1,dim=64x64,seq=1x10,dtype=f32");
  EXPECT_EQ(count_work(c, 0).count_chunk, kNominalChunk);
  EXPECT_DOUBLE_EQ(count_work(c, 0).flops_chunkwise, count_work(c, 64).flops_chunkwise);
}

TEST(WorkCount, BytesAreEachInputOnceAndEachOutputOnce) {
  // T = 10, Hk = 2, Hv = 4, Dk = 8, Dv = 16, bf16 tokens, float32 state present and written.
  const WorkCount work =
      count_work(shapes_of("gated_delta:heads=2/4,dim=8x16,seq=2x5,dtype=bf16,h0=normal"), 0);
  const double tokens = 10 * (2 * 2 * 8 + 4 * 16) * 2.0;  // q, k, v
  const double gates = 10 * 4 * 2 * 4.0;
  const double offsets = 3 * 8.0;
  const double states = 2 * 4 * 8 * 16 * 4.0;
  EXPECT_DOUBLE_EQ(work.bytes_read, tokens + gates + offsets + states);
  EXPECT_DOUBLE_EQ(work.bytes_written, 10 * 4 * 16 * 2.0 + states);
  EXPECT_DOUBLE_EQ(work.bytes_moved(), work.bytes_read + work.bytes_written);
}

TEST(WorkCount, ANormReadsTwoArraysAndWritesOne) {
  const WorkCount work =
      count_work(shapes_of("gated_rms_norm:heads=2/4,dim=8x16,seq=2x5,dtype=bf16,out=f32"), 0);
  EXPECT_EQ(work.tokens, 10);
  EXPECT_EQ(work.count_chunk, 0);
  EXPECT_DOUBLE_EQ(work.flops_recurrent, 5.0 * 10 * 4 * 16);
  EXPECT_DOUBLE_EQ(work.flops_chunkwise, work.flops_recurrent);
  EXPECT_DOUBLE_EQ(work.bytes_read, (2 * 10 * 4 * 16 + 16) * 2.0 + 3 * 8.0);
  EXPECT_DOUBLE_EQ(work.bytes_written, 10 * 4 * 16 * 4.0);
}

// Rows are read for the drafts of all sequences, and written where some tokens are accepted.
TEST(WorkCount, ADraftWritesTheRowsOfAcceptedTokens) {
  Case drafts = shapes_of("gated_delta_verify:heads=2/4,dim=8x16,seq=3x5,dtype=bf16,h0=normal");
  const double row = 4 * 8 * 16 * 4.0;
  const double output = 15 * 4 * 16 * 2.0;
  drafts.other_indices["accepted"] = {5, 1, 2};
  const WorkCount all = count_work(drafts, 0);
  EXPECT_EQ(all.tokens, 15);
  EXPECT_DOUBLE_EQ(all.bytes_written, output + 3 * row);
  drafts.other_indices["accepted"] = {0, 1, 0};
  const WorkCount one = count_work(drafts, 0);
  EXPECT_DOUBLE_EQ(one.bytes_written, output + row);
  EXPECT_DOUBLE_EQ(one.bytes_read, all.bytes_read);
}

TEST(WorkCount, StatesNeitherReadNorWrittenAreNotCounted) {
  const WorkCount with =
      count_work(shapes_of("gated_delta:heads=1/1,dim=8x8,seq=1x4,dtype=f32,h0=normal"), 0);
  const WorkCount without =
      count_work(shapes_of("gated_delta:heads=1/1,dim=8x8,seq=1x4,dtype=f32,ht=0"), 0);
  EXPECT_DOUBLE_EQ(with.bytes_read - without.bytes_read, 8 * 8 * 4.0);
  EXPECT_DOUBLE_EQ(with.bytes_written - without.bytes_written, 8 * 8 * 4.0);
}

TEST(WorkCount, PaddingSequencesAndEmptyOnesAreNoWork) {
  const std::string problem = "gated_delta:heads=1/1,dim=8x8,seq=1x4+1x6+1x0,dtype=f32,h0=normal";
  const WorkCount all = count_work(shapes_of(problem, {0, 1, 2}), 0);
  const WorkCount padded = count_work(shapes_of(problem, {0, -1, 2}), 0);
  EXPECT_EQ(all.tokens, 10);
  EXPECT_EQ(padded.tokens, 4);
  EXPECT_DOUBLE_EQ(padded.flops_recurrent, 7.0 * 8 * 8 * 4);
  // 6 tokens of q, k, v (8 each), gate and beta, and one state fewer; the empty one never counted.
  EXPECT_DOUBLE_EQ(all.bytes_read - padded.bytes_read, 6 * (3 * 8 + 2) * 4.0 + 8 * 8 * 4.0);
}

TEST(WorkCount, ConvolutionCountsItsTaps) {
  // channels = 2 * 1 * 8 + 2 * 8 = 32, width 4, bias.
  const WorkCount work =
      count_work(shapes_of("causal_conv1d:heads=1/2,dim=8x8,seq=1x10,dtype=f32,bias=1"), 0);
  EXPECT_DOUBLE_EQ(work.flops_chunkwise, 10 * 32 * 9.0);
  EXPECT_DOUBLE_EQ(work.flops_recurrent, 10 * 32 * 9.0);
  const double window = 32 * 3 * 4.0;
  EXPECT_DOUBLE_EQ(work.bytes_read, (10 * 32 + 32 * 4 + 32) * 4.0 + window + 2 * 8.0);
  EXPECT_DOUBLE_EQ(work.bytes_written, 10 * 32 * 4.0 + window);
}

TEST(WorkCount, LayerIsBothAndItsIntermediateStaysInside) {
  const std::string shape = "heads=1/2,dim=8x8,seq=1x10,dtype=f32";
  const WorkCount conv = count_work(shapes_of("causal_conv1d:" + shape), 0);
  const WorkCount delta = count_work(shapes_of("gated_delta:" + shape), 16);
  const WorkCount layer = count_work(shapes_of("gated_delta_layer:" + shape), 16);
  EXPECT_DOUBLE_EQ(layer.flops_chunkwise, conv.flops_chunkwise + delta.flops_chunkwise);
  const double intermediate = 10 * 32 * 4.0;  // written by one, read by the other
  const double offsets = 2 * 8.0;             // read by both, counted once
  EXPECT_DOUBLE_EQ(layer.bytes_moved(),
                   conv.bytes_moved() + delta.bytes_moved() - 2 * intermediate - offsets);
}

TEST(WorkCount, ALayerThatEndsInTheGatedNormCountsItToo) {
  const std::string shape = "gated_delta_layer:heads=1/2,dim=8x6,seq=1x10,dtype=f32";
  const WorkCount without = count_work(shapes_of(shape), 16);
  const WorkCount with = count_work(shapes_of(shape + ",gated_norm=1"), 16);
  // Five operations for each of the 10 * 2 * 6 elements.
  EXPECT_DOUBLE_EQ(with.flops_chunkwise, without.flops_chunkwise + 5.0 * 10 * 2 * 6);
  EXPECT_DOUBLE_EQ(with.flops_recurrent, without.flops_recurrent + 5.0 * 10 * 2 * 6);
}

// Of each gradient the count that its text names, of the tokens that are not padding.
TEST(WorkCount, GradientsAreCountedAsTheirTextsSay) {
  struct Counted {
    const char* problem;
    std::int64_t chunk;
    double chunkwise;
    double recurrent;
    const char* text;
  };
  const std::vector<std::int64_t> slots = {1, -1};
  // 10 tokens of 2 heads, Dk = 8, Dv = 6: Dk Dv = 48, Dk + Dv = 14.
  const Counted all[] = {
      {"gated_delta_backward:heads=1/2,dim=8x6,seq=10+7,slots=padding", 16,
       10.0 * 2 * 2 * (8 * 48 + 4 * 16 * 14), 10.0 * 2 * 22 * 48,
       "2 (8 Dk Dv + 4 C (Dk + Dv)) per token and value head, C = 16"},
      {"gated_delta_backward:heads=1/2,dim=8x6,seq=10+7,slots=padding", 0,
       10.0 * 2 * 2 * (8 * 48 + 4 * 64 * 14), 10.0 * 2 * 22 * 48,
       "2 (8 Dk Dv + 4 C (Dk + Dv)) per token and value head, C = chunk (64 where not chunked)"},
      {"gated_delta_training:heads=1/2,dim=8x6,seq=10+7,slots=padding", 16,
       10.0 * 2 * 2 * (11 * 48 + 6 * 16 * 14), 10.0 * 2 * (22 + 7) * 48,
       "2 (11 Dk Dv + 6 C (Dk + Dv)) per token and value head, C = 16"},
      {"gated_delta_training:heads=1/2,dim=8x6,seq=10+7,slots=padding", 0,
       10.0 * 2 * 2 * (11 * 48 + 6 * 64 * 14), 10.0 * 2 * (22 + 7) * 48,
       "2 (11 Dk Dv + 6 C (Dk + Dv)) per token and value head, C = chunk (64 where not chunked)"},
      {"gated_delta_layer_backward:heads=1/2,dim=8x6,seq=10+7,slots=padding", 16,
       10.0 * 2 * 2 * (8 * 48 + 4 * 16 * 14) + 10.0 * 28 * (8 + 24),
       10.0 * 2 * 22 * 48 + 10.0 * 28 * (8 + 24),
       "2 (8 Dk Dv + 4 C (Dk + Dv)) per token and value head, C = 16, and what the "
       "convolution, its gradients and the norm's take"},
      {"gated_delta_layer_backward:heads=1/2,dim=8x6,seq=10+7,slots=padding,gated_norm=1", 16,
       10.0 * 2 * 2 * (11 * 48 + 6 * 16 * 14) + 10.0 * 28 * (8 + 24) + 10.0 * 12 * 15,
       10.0 * 2 * (22 + 7) * 48 + 10.0 * 28 * (8 + 24) + 10.0 * 12 * 15,
       "2 (8 Dk Dv + 4 C (Dk + Dv)) per token and value head, C = 16, and what the "
       "convolution, its gradients and the norm's take"},
      {"causal_conv1d_backward:channels=5,seq=10+7,width=3,slots=padding", 0, 10.0 * 5 * 18,
       10.0 * 5 * 18, "6 width (+ 2 with a bias, + 1 with a residual) per token and channel"},
      {"causal_conv1d_backward:channels=5,seq=10+7,width=3,bias=1,residual=1,slots=padding", 0,
       10.0 * 5 * 21, 10.0 * 5 * 21,
       "6 width (+ 2 with a bias, + 1 with a residual) per token and channel"},
      {"gated_rms_norm_backward:heads=1/2,dim=8x6,seq=10+7", 0, 17.0 * 2 * 6 * 15,
       17.0 * 2 * 6 * 15, "15 per element of y"},
      // Beside them what runs forward, with what it may add.
      {"causal_conv1d:channels=5,seq=10+7,width=3,residual=tensor,slots=padding", 0, 10.0 * 5 * 7,
       10.0 * 5 * 7, "2 width (+ 1 with a bias, + 1 with a residual) per token and channel"},
      {"gated_rms_norm:heads=1/2,dim=8x6,seq=10+7", 0, 17.0 * 2 * 6 * 5, 17.0 * 2 * 6 * 5,
       "5 per element of y"},
  };
  for (const Counted& counted : all) {
    const Problem problem = Problem::parse(counted.problem);
    const bool has_slots = problem.slots == SlotMap::padding;
    const WorkCount work = count_work(
        shapes_of(counted.problem, has_slots ? slots : std::vector<std::int64_t>{}), counted.chunk);
    EXPECT_DOUBLE_EQ(work.flops_chunkwise, counted.chunkwise) << counted.problem;
    EXPECT_DOUBLE_EQ(work.flops_recurrent, counted.recurrent) << counted.problem;
    EXPECT_EQ(harness_of(problem.operation).flops_text(counted.chunk), counted.text)
        << counted.problem;
  }
}

DeviceInfo gpu() {
  DeviceInfo info;
  info.backend = info.runs = "cuda";
  info.has_own_memory = info.flush_is_certain = true;
  info.l2_bytes = 1000;
  return info;
}

DeviceInfo cpu() {
  DeviceInfo info = open_device("cpu")->info();
  info.l2_bytes = 1000;
  return info;
}

WorkCount work_of(double flops, double bytes_read, double bytes_written) {
  WorkCount work;
  work.tokens = 1000;
  work.flops_chunkwise = 2 * flops;
  work.flops_recurrent = flops;
  work.bytes_read = bytes_read;
  work.bytes_written = bytes_written;
  return work;
}

TEST(Rates, AreWorkOverTime) {
  const Device::Ceilings ceilings{4.0, 800.0, 50.0};
  const Rates r =
      rates(work_of(1e9, 2e6, 1e6 + 1000), 0.5, DType::bfloat16, CacheMode::cold, gpu(), ceilings);
  EXPECT_DOUBLE_EQ(r.tokens_per_s, 2e6);
  EXPECT_DOUBLE_EQ(r.recurrent_tflops, 2.0);
  EXPECT_DOUBLE_EQ(r.chunkwise_tflops, 4.0);
  EXPECT_DOUBLE_EQ(r.fraction_of_compute, 4.0 / 800);
  EXPECT_NEAR(r.tb_per_s, 3.001e6 / 0.5e-3 / 1e12, 1e-15);
  // The outputs' last 1000 bytes may still be in the cache.
  EXPECT_NEAR(r.fraction_of_bandwidth, 3e6 / 0.5e-3 / 1e12 / 4.0, 1e-12);
  EXPECT_DOUBLE_EQ(rates(work_of(1e9, 0, 0), 0.5, DType::float32, CacheMode::cold, gpu(), ceilings)
                       .fraction_of_compute,
                   4.0 / 50);
  EXPECT_THROW(rates(work_of(1, 1, 1), 0, DType::float32, CacheMode::cold, gpu(), ceilings), Error);
}

TEST(Rates, CeilingsNotMeasuredGiveNoFraction) {
  const Rates r = rates(work_of(1e9, 2e6, 0), 0.5, DType::bfloat16, CacheMode::cold, gpu(), {});
  EXPECT_EQ(r.fraction_of_compute, 0);
  EXPECT_EQ(r.fraction_of_bandwidth, 0);
}

TEST(ImpossibleFigure, IsFoundAboveEitherCeilingAndNotBelow) {
  const Device::Ceilings ceilings{4.0, 800.0, 50.0};
  // 4e9 bytes need 1 ms at 4 TB/s; 8e11 operations 1 ms at 800 TFLOP/s.
  const WorkCount traffic = work_of(1, 4e9, 0);
  const WorkCount arithmetic = work_of(8e11, 1, 0);
  EXPECT_EQ(impossible_figure(traffic, 1.01, CacheMode::cold, gpu(), ceilings), "");
  EXPECT_EQ(impossible_figure(arithmetic, 1.01, CacheMode::cold, gpu(), ceilings), "");
  EXPECT_NE(
      impossible_figure(traffic, 0.9, CacheMode::cold, gpu(), ceilings).find("copy bandwidth"),
      std::string::npos);
  EXPECT_NE(impossible_figure(arithmetic, 0.9, CacheMode::cold, gpu(), ceilings).find("TFLOP/s"),
            std::string::npos);
  EXPECT_NE(impossible_figure(traffic, 0, CacheMode::cold, gpu(), ceilings), "");
  EXPECT_NE(impossible_figure(traffic, -1, CacheMode::cold, gpu(), ceilings), "");
}

TEST(ImpossibleFigure, OnACpuOnlyWhatNoLoadExplains) {
  const Device::Ceilings ceilings{0.02, 0, 0.1};
  const WorkCount work = work_of(1e8, 1, 0);  // 1 ms at 0.1 TFLOP/s
  EXPECT_EQ(impossible_figure(work, 0.5, CacheMode::cold, cpu(), ceilings), "");
  EXPECT_NE(impossible_figure(work, 0.05, CacheMode::cold, cpu(), ceilings), "");
  EXPECT_NE(impossible_figure(work, 0.5, CacheMode::cold, gpu(), ceilings), "");
  DeviceInfo emulator;
  emulator.emulated = emulator.flush_is_certain = true;
  EXPECT_NE(impossible_figure(work, 0.5, CacheMode::cold, emulator, ceilings), "")
      << "a modelled time does not depend on the load";
}

// A flush need not empty a CPU's cache: what fits it may have stayed there.
TEST(Rates, OnACpuOnlyTrafficBeyondTheCacheIsCompulsory) {
  const Device::Ceilings ceilings{4.0, 0, 50.0};
  const WorkCount work = work_of(1e9, 3000, 0);
  const auto fraction = [&](const DeviceInfo& device) {
    return rates(work, 1, DType::float32, CacheMode::cold, device, ceilings).fraction_of_bandwidth;
  };
  EXPECT_NEAR(fraction(gpu()) / fraction(cpu()), 3000.0 / 2000, 1e-9);
}

TEST(ImpossibleFigure, WhatFitsTheCacheMayBeatMemoryWhenHot) {
  const Device::Ceilings ceilings{4.0, 800.0, 50.0};
  DeviceInfo device = gpu();
  device.l2_bytes = 50'000'000;
  const WorkCount work = work_of(1, 4e7, 0);  // 10 us at 4 TB/s
  EXPECT_EQ(impossible_figure(work, 0.005, CacheMode::hot, device, ceilings), "");
  EXPECT_NE(impossible_figure(work, 0.005, CacheMode::cold, device, ceilings), "");
}

// A container need not show the machine's caches.
TEST(ImpossibleFigure, NoTrafficIsImpossibleWhereTheCacheIsUnknown) {
  const Device::Ceilings ceilings{4.0, 800.0, 50.0};
  const WorkCount work = work_of(1, 4e9, 4e9);  // 2 ms at 4 TB/s
  for (DeviceInfo device : {cpu(), gpu()}) {
    device.l2_bytes = 0;
    for (const CacheMode mode : {CacheMode::cold, CacheMode::hot}) {
      EXPECT_EQ(impossible_figure(work, 1e-3, mode, device, ceilings), "");
      EXPECT_EQ(rates(work, 1, DType::float32, mode, device, ceilings).fraction_of_bandwidth, 0);
    }
    EXPECT_NE(impossible_figure(work_of(8e12, 1, 1), 0.9, CacheMode::hot, device, ceilings), "")
        << "arithmetic needs no cache";
  }
}

TEST(CacheModeNames, RoundTrip) {
  for (const CacheMode mode : {CacheMode::cold, CacheMode::hot}) {
    EXPECT_EQ(parse_name<CacheMode>(name_of(mode), "cache mode"), mode);
  }
  EXPECT_EQ(name_of(CacheMode::cold), "cold");
  EXPECT_EQ(name_of(CacheMode::hot), "hot");
  EXPECT_THROW(parse_name<CacheMode>("warm", "cache mode"), Error);
}

}  // namespace
}  // namespace gdn
