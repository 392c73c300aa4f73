// The whole-model estimate: the model it says it is, sums that are the parts', products that are
// right before their time counts.
#include "harness/measure/model_estimate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "interface/error.h"
#include "interface/forwarding_device.h"

namespace gdn {
namespace {

Row mixer_row(const ModelShape& model, const std::string& sequences, double time_ms) {
  Row row;
  describe_problem(mixer_problem(model, SequenceLengths::parse(sequences), DType::bfloat16), row);
  row.implementation = "x/fused";
  row.mode = "cold";
  row.device = "a device";
  row.date = "2026-11-21T10:00:00Z";
  row.status = row_status::kOk;
  row.time_ms = time_ms;
  return row;
}

// Every product takes one millisecond.
std::vector<TimedProduct> equal_products(const ModelShape& model) {
  std::vector<TimedProduct> timed;
  for (const ModelProduct& product : products_of(model)) {
    ProductTime time;
    time.time_ms.median = 1;
    timed.push_back({product, time});
  }
  return timed;
}

TEST(ModelShapes, EachHasTheParametersThatItsNameSaysAndMixersThatAreProblems) {
  // Without embeddings, norms and convolutions, which are below 10 % of it. Of Jet-Nemotron the
  // products that make the weights of its convolution are left out too, 64 and 123 million.
  const struct {
    const char* name;
    double parameters;
  } models[] = {
      {"paper-1.3b", 1.3e9},
      {"paper-h1-1.3b", 1.3e9},
      // Their names leave out the logits, 49 million, and round down.
      {"paper-0.4b", 0.52e9},
      {"paper-h1-0.4b", 0.53e9},
      {"jet-nemotron-2b", 1.85e9},
      {"jet-nemotron-4b", 3.7e9},
  };
  ASSERT_EQ(std::size(models), model_shapes().size());
  for (const auto& [name, parameters] : models) {
    const ModelShape& model = find_model_shape(name);
    EXPECT_NEAR(static_cast<double>(product_parameters(model)), parameters, 0.04 * parameters)
        << name;
    EXPECT_NO_THROW(mixer_problem(model, SequenceLengths::parse("4x64"), DType::bfloat16)) << name;
    EXPECT_FALSE(model.source.empty()) << name;
  }
  EXPECT_THROW(find_model_shape("paper-13b"), Error);
}

TEST(ModelShapes, LayersOfHybridsAreAsManyAsTheirConfigurationsSay) {
  const auto layers = [](const char* name) { return find_model_shape(name).layers(); };
  EXPECT_EQ(layers("paper-0.4b"), 11);
  EXPECT_EQ(layers("paper-1.3b"), 16);
  EXPECT_EQ(layers("paper-h1-0.4b"), 12);
  EXPECT_EQ(layers("paper-h1-1.3b"), 18);
  EXPECT_EQ(layers("jet-nemotron-2b"), 28);
  EXPECT_EQ(layers("jet-nemotron-4b"), 36);
}

TEST(ModelShapes, ProjectionsOfAttentionAreProductsAndEveryLayerHasAFeedForwardPart) {
  const ModelShape& model = find_model_shape("jet-nemotron-4b");
  std::map<std::string, ModelProduct> products;
  for (const ModelProduct& product : products_of(model)) {
    EXPECT_TRUE(products.emplace(product.name, product).second) << product.name << " twice";
  }
  const struct {
    const char* name;
    std::int64_t count, columns, inner;
  } expected[] = {
      {"query, key", 2 * 26, 16 * 128, 2048},   {"value, output gate", 2 * 26, 16 * 256, 2048},
      {"decay, beta", 2 * 26, 16, 2048},        {"output", 26, 2048, 16 * 256},
      {"attention query", 10, 16 * 128, 2048},  {"attention key, value", 2 * 10, 2 * 128, 2048},
      {"attention output", 10, 2048, 16 * 128}, {"feed-forward in", 2 * 36, 11008, 2048},
      {"feed-forward out", 36, 2048, 11008},    {"logits", 1, 151936, 2048},
  };
  ASSERT_EQ(products.size(), std::size(expected));
  for (const auto& [name, count, columns, inner] : expected) {
    const ModelProduct& product = products.at(name);
    EXPECT_EQ(product.count, count) << name;
    EXPECT_EQ(product.columns, columns) << name;
    EXPECT_EQ(product.inner, inner) << name;
  }
}

TEST(Estimate, AddsTheMixerOfEveryLayerAndEveryProduct) {
  const ModelShape& model = find_model_shape("paper-1.3b");
  const ModelEstimate whole =
      estimate(model, mixer_row(model, "2x1024", 0.5), equal_products(model));
  EXPECT_DOUBLE_EQ(whole.mixer_ms, 16 * 0.5);
  EXPECT_DOUBLE_EQ(whole.products_ms, 16 * (2 + 2 + 2 + 1 + 2 + 1) + 1);
  EXPECT_DOUBLE_EQ(whole.kilo_tokens_per_s(), 2048 / (8.0 + 161));
}

TEST(Estimate, RowsWithoutATimeAreRefused) {
  const ModelShape& model = find_model_shape("paper-1.3b");
  Row row = mixer_row(model, "2x1024", 0.5);
  row.status = row_status::kFailed;
  EXPECT_THROW(estimate(model, row, equal_products(model)), Error);
  EXPECT_THROW(estimate(model, mixer_row(model, "2x1024", kNotMeasured), equal_products(model)),
               Error);
}

TEST(Estimate, TablesSayThatTheyAreEstimatesAndWhatIsPublished) {
  const ModelShape& model = find_model_shape("paper-1.3b");
  const auto tables =
      estimate_tables(model, {Pass::forward,
                              {mixer_row(model, "2x1024", 0.5), mixer_row(model, "1x2048", 1)},
                              {{2048, equal_products(model)}},
                              {}});
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].title.rfind("Estimate for paper-1.3b", 0), 0u) << tables[0].title;
  EXPECT_EQ(tables[0].header, (std::vector<std::string>{"implementation", "2x1K", "1x2K"}));
  EXPECT_EQ(tables[0].rows[0], (std::vector<std::string>{"x/fused", "12.12", "11.57"}));
  EXPECT_EQ(tables[1].rows[0][1], "4.73");
  EXPECT_EQ(tables[2].rows.size(), products_of(model).size());
  const std::string text = render(tables[0], TableFormat::markdown);
  for (const char* said : {"ESTIMATE", "Figure 3 of arXiv 2412.06464", "forward pass only",
                           "16 layers of width 2400, 9 heads of 200x400, feed-forward 5888"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << " missing in\n" << text;
  }
}

// ---- of a training step

Row training_row(const ModelShape& model, const std::string& sequences, double time_ms) {
  Row row = mixer_row(model, sequences, time_ms);
  describe_problem(training_problem(model, SequenceLengths::parse(sequences), DType::bfloat16),
                   row);
  return row;
}

std::vector<Row> beside(const ModelShape& model, const std::string& sequences) {
  std::vector<Row> rows;
  for (const Problem& problem :
       problems_beside_training(model, SequenceLengths::parse(sequences), DType::bfloat16)) {
    rows.push_back(mixer_row(model, sequences, 0.25));
    describe_problem(problem, rows.back());
  }
  return rows;
}

TEST(TrainingEstimate, EveryProductStandsThereWithItsTwoGradients) {
  const ModelShape& model = find_model_shape("paper-1.3b");
  constexpr std::int64_t kTokens = 2048;
  const auto forward = products_of(model);
  const auto training = training_products_of(model, kTokens);
  ASSERT_EQ(training.size(), 3 * forward.size());
  const auto operations = [&](const ModelProduct& p) {
    return p.count * (p.rows > 0 ? p.rows : kTokens) * p.columns * p.inner;
  };
  for (std::size_t i = 0; i < forward.size(); ++i) {
    const ModelProduct &y = training[3 * i], &d_x = training[3 * i + 1], &d_w = training[3 * i + 2];
    EXPECT_EQ(y.name, forward[i].name);
    for (const ModelProduct* one : {&y, &d_x, &d_w}) {
      EXPECT_EQ(operations(*one), operations(forward[i])) << one->name;
    }
    // d_x = d_y W^T is as large as x, d_W = x^T d_y as W.
    EXPECT_EQ(d_x.columns, y.inner) << y.name;
    EXPECT_EQ(d_x.rows, 0) << y.name;
    EXPECT_EQ(std::make_pair(d_w.rows, d_w.columns), std::make_pair(y.inner, y.columns)) << y.name;
  }
}

TEST(TrainingEstimate, PartsAreThoseOfALayerOnTheSameTokens) {
  const ModelShape& model = find_model_shape("paper-1.3b");
  const Problem step = training_problem(model, SequenceLengths::parse("2x16"), DType::float32);
  std::vector<std::string> operations;
  for (const Problem& problem : problems_beside_training(model, step.sequences, DType::float32)) {
    operations.push_back(to_string(problem.operation));
    EXPECT_EQ(problem.total_tokens(), step.total_tokens());
    if (problem.operation->name.rfind("causal_conv1d", 0) == 0) {
      EXPECT_EQ(problem.conv_channels(), 2 * 9 * 200 + 9 * 400) << problem.to_string();
    }
  }
  EXPECT_EQ(operations, (std::vector<std::string>{"causal_conv1d", "causal_conv1d_backward",
                                                  "gated_rms_norm", "gated_rms_norm_backward"}));
}

TEST(TrainingEstimate, AddsEveryPartOfEveryLayer) {
  const ModelShape& model = find_model_shape("paper-1.3b");
  EstimateParts parts{Pass::training, {training_row(model, "2x1024", 0.5)}, {}, {}};
  parts.beside["2x1024"] = beside(model, "2x1024");
  for (const ModelProduct& product : training_products_of(model, 2048)) {
    parts.products[2048].push_back({product, {}});
    parts.products[2048].back().time.time_ms.median = 1;
  }
  const ModelEstimate whole =
      estimate(model, parts.mixers[0], parts.products[2048], parts.beside["2x1024"]);
  EXPECT_DOUBLE_EQ(whole.mixer_ms, 16 * (0.5 + 4 * 0.25));
  EXPECT_DOUBLE_EQ(whole.products_ms, 3 * (16 * (2 + 2 + 2 + 1 + 2 + 1) + 1));
  const auto tables = estimate_tables(model, parts);
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_NE(tables[0].title.find("training Kt/s"), std::string::npos) << tables[0].title;
  EXPECT_EQ(tables[2].rows.size(), 4u);
  ASSERT_EQ(tables[3].rows.size(), 3 * products_of(model).size());
  const ModelProduct y = products_of(model)[0];
  EXPECT_EQ(tables[3].rows[0][2], fmt::format("2048x{}x{}", y.inner, y.columns));
  EXPECT_EQ(tables[3].rows[2][2], fmt::format("{}x2048x{}", y.inner, y.columns));
  const std::string text = render(tables[0], TableFormat::markdown);
  for (const char* said : {"ESTIMATE", "optimiser", "forward and backward"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << " missing in\n" << text;
  }
  parts.beside["2x1024"][2].time_ms = kNotMeasured;
  EXPECT_THROW(estimate_tables(model, parts), Error);
}

// ---- of a hybrid

std::string attention_line(const std::string& kernel, const std::string& shape,
                           const std::string& forward_ms, const std::string& forward_backward_ms) {
  return "a device," + kernel + "," + shape + "," + forward_ms + ",1,1,graph," +
         forward_backward_ms + ",1,1,graph,0.002\n";
}

AttentionTimes attention_file(const std::string& lines) {
  return AttentionTimes::parse(
      "times.csv",
      "device,kernel,query_heads,kv_heads,head_dim,window,sequences,dtype,forward_ms,forward_q1_ms,"
      "forward_q3_ms,forward_mode,forward_backward_ms,forward_backward_q1_ms,"
      "forward_backward_q3_ms,forward_backward_mode,error\n" +
          lines);
}

// Both kinds of jet-nemotron-4b at 2x1024.
std::string both_kinds() {
  return attention_line("cudnn 9", "16,2,128,0,2x1024,bf16", "2", "7") +
         attention_line("flex 2", "16,2,128,0,2x1024,bf16", "3", "6") +
         attention_line("cudnn 9", "16,2,128,2048,2x1024,bf16", "0.5", "1.5");
}

std::map<std::string, std::vector<TimedAttention>> attention_at(const std::string& lines,
                                                                const std::string& batches,
                                                                Pass pass,
                                                                DType dtype = DType::bfloat16,
                                                                const char* device = "a device") {
  return attention_of(find_model_shape("jet-nemotron-4b"), {SequenceLengths::parse(batches)}, dtype,
                      device, pass, attention_file(lines));
}

TEST(HybridEstimate, AddsTheQuickestAttentionOfEveryLayerOfEachKind) {
  const ModelShape& model = find_model_shape("jet-nemotron-4b");
  const auto forward = attention_at(both_kinds(), "2x1024", Pass::forward).at("2x1024");
  ASSERT_EQ(forward.size(), 2u);
  EXPECT_EQ(forward[0].kernel, "cudnn 9");
  const auto training = attention_at(both_kinds(), "2x1024", Pass::training).at("2x1024");
  EXPECT_EQ(training[0].kernel, "flex 2");

  const auto products = equal_products(model);
  const ModelEstimate whole =
      estimate(model, mixer_row(model, "2x1024", 0.5), products, {}, forward);
  EXPECT_DOUBLE_EQ(whole.mixer_ms, 26 * 0.5);
  EXPECT_DOUBLE_EQ(whole.attention_ms, 3 * 2 + 7 * 0.5);
  EXPECT_DOUBLE_EQ(whole.products_ms, 26 * 7 + 10 * 4 + 36 * 3 + 1);
  EXPECT_DOUBLE_EQ(whole.kilo_tokens_per_s(), 2048 / (13 + 9.5 + 331));

  const ModelEstimate step = estimate(model, training_row(model, "2x1024", 1.0), products,
                                      beside(model, "2x1024"), training);
  EXPECT_DOUBLE_EQ(step.mixer_ms, 26 * (1.0 + 4 * 0.25));
  EXPECT_DOUBLE_EQ(step.attention_ms, 3 * 6 + 7 * 1.5);
}

TEST(HybridEstimate, AKindOfAttentionWithoutATimeIsNoEstimate) {
  const ModelShape& model = find_model_shape("jet-nemotron-4b");
  auto attention = attention_at(both_kinds(), "2x1024", Pass::forward).at("2x1024");
  attention.pop_back();
  EXPECT_THROW(
      estimate(model, mixer_row(model, "2x1024", 0.5), equal_products(model), {}, attention),
      Error);
  EXPECT_THROW(estimate(model, mixer_row(model, "2x1024", 0.5), equal_products(model)), Error);
}

TEST(HybridEstimate, TablesHaveTheSharesOfMixersAttentionAndProducts) {
  const ModelShape& model = find_model_shape("jet-nemotron-4b");
  EstimateParts parts{
      Pass::forward, {mixer_row(model, "2x1024", 0.5)}, {{2048, equal_products(model)}}, {}};
  parts.attention = attention_at(both_kinds(), "2x1024", Pass::forward);
  const auto tables = estimate_tables(model, parts);
  ASSERT_EQ(tables.size(), 6u);
  const double all_ms = 13 + 9.5 + 331;
  const std::pair<const char*, double> shares[] = {
      {"share of the mixers of Gated DeltaNet", 13 / all_ms},
      {"share of attention", 9.5 / all_ms},
      {"share of dense products", 331 / all_ms}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NE(tables[1 + i].title.find(shares[i].first), std::string::npos) << tables[1 + i].title;
    EXPECT_NEAR(std::stod(tables[1 + i].rows[0][1]), 100 * shares[i].second, 0.05);
  }
  EXPECT_EQ(tables[4].title, "Measured attention of jet-nemotron-4b, 2x1024");
  ASSERT_EQ(tables[4].rows.size(), 2u);
  EXPECT_EQ(tables[4].rows[1],
            (std::vector<std::string>{"16/2:128:2048", "7", "cudnn 9", "0.5000", "3.500"}));
  const std::string text = render(tables[0], TableFormat::markdown);
  for (const char* said :
       {"time_attention.py", "none of which is this project's", "36 layers",
        "7 of attention of 16/2 heads of 128, window 2048",
        "3 of attention of 16/2 heads of 128, all tokens; ", "window 2048; feed-forward 11008"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << " missing in\n" << text;
  }
  EXPECT_EQ(text.find("Figure 3"), std::string::npos) << "a figure of another model";
}

TEST(HybridEstimate, WhatIsMissingIsNamedWithTheCommandThatMeasuresIt) {
  const std::string command =
      "scripts/peers/time_attention.py --shapes 16/2:128:0:2x1024,16/2:128:2048:2x1024 --out";
  const auto refusal = [&](const std::string& lines, DType dtype, const char* device) {
    try {
      attention_at(lines, "2x1024", Pass::forward, dtype, device);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  const std::string full_alone = attention_line("cudnn 9", "16,2,128,0,2x1024,bf16", "2", "7");
  const struct {
    std::string refused, said;
  } cases[] = {
      {refusal(full_alone, DType::bfloat16, "a device"),
       "times.csv: no time of attention 16/2:128:2048:2x1024 in bf16 on 'a device'; "},
      {refusal(both_kinds(), DType::float16, "a device"),
       "no time of attention 16/2:128:0:2x1024 in f16"},
      {refusal(both_kinds(), DType::bfloat16, "this card"),
       "times.csv: times of attention on 'a device', expected on 'this card', this device; "},
  };
  for (const auto& [refused, said] : cases) {
    EXPECT_NE(refused.find(said), std::string::npos) << refused;
    EXPECT_NE(refused.find(command), std::string::npos) << refused;
    EXPECT_EQ(refused.find('\n'), std::string::npos) << refused;
  }
}

MeasureOptions quick() {
  MeasureOptions options;
  options.mode = CacheMode::hot;
  options.stopping.min_samples = options.stopping.max_samples = 2;
  options.stopping.min_time_s = 0;
  return options;
}

// Operations of a product, by the time and the rate that it says it has.
double operations_of(const ProductTime& time) { return time.tflops * time.time_ms.median * 1e9; }

TEST(ProductTime, ProductsOfAModelHaveARowForEachTokenUnlessTheySayHowMany) {
  constexpr std::int64_t kTokens = 5;
  const ModelShape model = {"small", "a test", 1, 12, 20, 2, 6, 8, 30};
  const auto device = open_device("cpu");
  for (const Pass pass : {Pass::forward, Pass::training}) {
    const auto expected =
        pass == Pass::forward ? products_of(model) : training_products_of(model, kTokens);
    const auto timed = time_products(model, kTokens, DType::float32, *device, quick(), pass);
    ASSERT_EQ(timed.size(), expected.size());
    for (std::size_t i = 0; i < timed.size(); ++i) {
      const ModelProduct& product = expected[i];
      const auto rows = static_cast<double>(product.rows == 0 ? kTokens : product.rows);
      const double operations = 2 * rows * static_cast<double>(product.columns * product.inner);
      EXPECT_EQ(timed[i].product.name, product.name);
      EXPECT_NEAR(operations_of(timed[i].time), operations, 1e-6 * operations) << product.name;
    }
  }
}

TEST(ProductTime, TheCpusProductsAreRightAtEveryEdge) {
  const auto device = open_device("cpu");
  // Below one block of columns, at it, one beyond, several.
  for (const std::int64_t columns : {1, 9, 255, 256, 257, 700}) {
    const ProductTime time = time_product({17, columns, 33, DType::float32}, *device, quick());
    EXPECT_EQ(time.time_ms.count, 2) << columns;
    EXPECT_GT(time.tflops, 0) << columns;
  }
}

/// A CPU whose launches go as a fault says: it is given what to run, and the entries of what was
/// allocated last, which is the result.
class FaultyProducts final : public ForwardingDevice {
 public:
  using Fault = std::function<void(const std::function<void()>& launch, float* result)>;
  FaultyProducts(Device& inner, Fault fault) : ForwardingDevice(inner), fault_(std::move(fault)) {}

  DeviceBuffer allocate(std::int64_t bytes) override {
    DeviceBuffer buffer = inner_.allocate(bytes);
    result_ = buffer.as<float>();
    return buffer;
  }
  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    return inner_.time_launch(prepare, [&] { fault_(launch, result_); });
  }

 private:
  Fault fault_;
  float* result_ = nullptr;
};

TEST(ProductTime, AWrongProductHasNoTime) {
  constexpr std::int64_t kRows = 17, kColumns = 700;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto add = [&](std::int64_t row, std::int64_t column, float error) {
    return [=](const std::function<void()>& launch, float* result) {
      launch();
      result[row * kColumns + column] += error;
    };
  };
  int runs = 0;
  const struct {
    const char* said;  ///< of the first entry that is wrong
    FaultyProducts::Fault fault;
  } faults[] = {
      {"entry [0, 0] is", add(0, 0, 1e-2f)},
      {"entry [8, 350] is", add(8, 350, -1e-2f)},
      {"entry [16, 699] is", add(16, 699, 1e-2f)},
      {"entry [16, 3] is nan", add(16, 3, nan)},
      {"entry [0, 256] is nan",  // a block of columns left out
       [&](const std::function<void()>& launch, float* result) {
         launch();
         for (std::int64_t row = 0; row < kRows; ++row) {
           std::fill_n(result + row * kColumns + 256, 256, nan);
         }
       }},
      {"entry [0, 0] is",  // only the first launch, which is not timed, does its work
       [&](const std::function<void()>& launch, float*) {
         if (runs++ == 0) launch();
       }},
  };
  const auto cpu = open_device("cpu");
  for (const auto& [said, fault] : faults) {
    FaultyProducts device(*cpu, fault);
    try {
      time_product({kRows, kColumns, 33, DType::float32}, device, quick());
      ADD_FAILURE() << "timed a wrong product: " << said;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device_failure);
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  }
}

TEST(ProductTime, WhatADeviceHasNoLibraryForIsSaid) {
  const auto device = open_device("cpu");
  try {
    time_product({4, 4, 4, DType::bfloat16}, *device, quick());
    FAIL() << "timed a product in bfloat16";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("bfloat16 on cpu: no matrix library"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace gdn
