// Tables against golden text, pivots that never average and never mix, forms.
#include "harness/tables/table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/tables/pivot.h"
#include "harness/tables/table_forms.h"
#include "harness/tables/table_presets.h"
#include "harness/tests/message_of.h"
#include "interface/error.h"

namespace gdn {
namespace {

Row timed_row(const std::string& problem, const std::string& implementation, double time_ms) {
  Row row;
  describe_problem(Problem::parse(problem), row);
  row.implementation = implementation;
  row.mode = "cold";
  row.status = row_status::kOk;
  row.device = "Test device";
  row.date = "2026-11-21T10:00:00Z";
  row.command = "gdnbench sweep --preset figure3";
  row.source_hash = "0123456789abcdef0123456789abcdef";
  row.time_ms = time_ms;
  row.tokens_per_s = static_cast<double>(row.integer("total_tokens")) / (time_ms * 1e-3);
  row.errors = {{"output", ErrorMetric::floor_ratio, RowError::kWhole, 1.02},
                {"output", ErrorMetric::limit_ratio, RowError::kWhole, 0.5},
                {"final_state", ErrorMetric::limit_ratio, RowError::kWhole, 0.21}};
  row.count_chunk = 64;
  return row;
}

std::string problem_of(const std::string& seq, const std::string& more = "") {
  return "gated_delta:heads=16/32,dim=128x128,seq=" + seq + ",dtype=bf16" + more;
}

Table small_table() {
  Table table;
  table.title = "Time_ms of a & b";
  table.notes = {"Device: X_1"};
  table.header = {"implementation", "2Kx16", "16Kx2"};
  table.rows = {{"cuda/fused", "1.25", ""}, {"cpu/naive", "100", "a|b, \"c\""}};
  return table;
}

TEST(Render, MarkdownGolden) {
  EXPECT_EQ(render(small_table(), TableFormat::markdown),
            "**Time_ms of a & b**\n"
            "\n"
            "| implementation | 2Kx16 |     16Kx2 |\n"
            "|:---------------|------:|----------:|\n"
            "| cuda/fused     |  1.25 |         - |\n"
            "| cpu/naive      |   100 | a\\|b, \"c\" |\n"
            "\n"
            "Device: X_1  \n");
}

TEST(Render, LatexGolden) {
  EXPECT_EQ(render(small_table(), TableFormat::latex),
            "\\begin{table}\n"
            "\\centering\n"
            "\\caption{Time\\_ms of a \\& b. Device: X\\_1.}\n"
            "\\begin{tabular}{lrr}\n"
            "\\toprule\n"
            "  implementation & 2Kx16 & 16Kx2 \\\\\n"
            "\\midrule\n"
            "  cuda/fused & 1.25 & -- \\\\\n"
            "  cpu/naive & 100 & a|b, \"c\" \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n"
            "\\end{table}\n");
}

TEST(Render, CsvGolden) {
  EXPECT_EQ(render(small_table(), TableFormat::csv),
            "# Time_ms of a & b\n"
            "# Device: X_1\n"
            "implementation,2Kx16,16Kx2\n"
            "cuda/fused,1.25,\n"
            "cpu/naive,100,\"a|b, \"\"c\"\"\"\n");
}

TEST(Render, RaggedTablesAreRefused) {
  Table table = small_table();
  table.rows[0].pop_back();
  EXPECT_THROW(render(table, TableFormat::csv), Error);
}

TEST(Significant, KeepsDigitsAndAvoidsExponents) {
  EXPECT_EQ(significant(1.23456), "1.235");
  EXPECT_EQ(significant(12345.6), "12346");
  EXPECT_EQ(significant(0.0123456), "0.01235");
  EXPECT_EQ(significant(1.2345e-7), "1.23e-07");
  EXPECT_EQ(significant(0), "0");
  EXPECT_EQ(significant(kNotMeasured), "");
}

TEST(Pivot, ConstantTokenFormIsBatchByLengthInAscendingLength) {
  std::vector<Row> rows;
  for (const char* seq : {"2x16384", "16x2048", "4x8192", "8x4096"}) {
    rows.push_back(timed_row(problem_of(seq), "cuda/fused", 32.768));
    rows.push_back(timed_row(problem_of(seq), "cuda/chunkwise", 65.536));
  }
  const auto tables = table_form("throughput", rows);
  ASSERT_EQ(tables.size(), 1u);
  const Table& table = tables[0];
  EXPECT_EQ(table.header,
            (std::vector<std::string>{"implementation", "16x2K", "8x4K", "4x8K", "2x16K"}));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0],
            (std::vector<std::string>{"cuda/fused", "1000", "1000", "1000", "1000"}));
  EXPECT_EQ(table.rows[1],
            (std::vector<std::string>{"cuda/chunkwise", "500.0", "500.0", "500.0", "500.0"}));
  EXPECT_NE(table.title.find("heads 16/32"), std::string::npos) << table.title;
  const std::string text = render(table, TableFormat::markdown);
  for (const char* said : {"Test device", "2026-11-21", "gdnbench sweep --preset figure3",
                           "cold cache", "0123456789ab"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << " missing in\n" << text;
  }
}

TEST(Pivot, RowsThatDifferElsewhereGoToTablesOfTheirOwn) {
  const std::vector<Row> rows = {timed_row(problem_of("1x2048", ",gates=weak"), "cuda/fused", 1),
                                 timed_row(problem_of("1x2048", ",gates=strong"), "cuda/fused", 2)};
  const auto tables = pivot(rows, {"T", {"implementation"}, {"shape"}, "time_ms"});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_NE(tables[0].title.find("gates weak"), std::string::npos) << tables[0].title;
  EXPECT_EQ(tables[0].rows[0][1], "1.000");
  EXPECT_EQ(tables[1].rows[0][1], "2.000");
}

TEST(Pivot, EveryFieldOfTheProblemTellsTablesApart) {
  const Row usual = timed_row(problem_of("1x2048"), "cuda/fused", 1);
  for (const char* other :
       {"scale=2", "slots=permuted", "gate=decay", "beta=logit", "pool_pad=8", "ht=0", "seed=2"}) {
    const std::vector<Row> rows = {
        usual, timed_row(problem_of("1x2048", std::string(",") + other), "cuda/fused", 2)};
    EXPECT_EQ(pivot(rows, {"T", {"implementation"}, {"shape"}, "time_ms"}).size(), 2u) << other;
  }
}

TEST(Pivot, TwoProblemsOnOneCellAreAnErrorNotAnAverage) {
  // Of a file older than the column `scale`: nothing tells these two apart.
  std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cuda/fused", 1),
                           timed_row(problem_of("1x2048", ",scale=2"), "cuda/fused", 2)};
  for (Row& row : rows) row.fields.erase("scale");
  const std::string message = message_of([&] {
    pivot(rows, {"T", {"implementation"}, {"shape"}, "time_ms"});
  });
  EXPECT_NE(message.find("scale=2"), std::string::npos) << message;
}

TEST(Pivot, ALaterMeasurementOfTheSameKeyWins) {
  std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cuda/fused", 1),
                           timed_row(problem_of("1x2048"), "cuda/fused", 3)};
  rows[0].date = "2026-11-22T10:00:00Z";
  const auto tables = pivot(rows, {"T", {"implementation"}, {"shape"}, "time_ms"});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows[0][1], "1.000");
}

TEST(Pivot, CellsOfRowsThatAreNotOkSayWhy) {
  std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cuda/fused", 1),
                           timed_row(problem_of("1x4096"), "cuda/fused", 2)};
  rows[1].status = row_status::kOutOfMemory;
  const auto tables = pivot(rows, {"T", {"implementation"}, {"shape"}, "time_ms"});
  EXPECT_EQ(tables[0].rows[0], (std::vector<std::string>{"cuda/fused", "1.000", "out_of_memory"}));
}

TEST(Pivot, UnknownNamesGiveTheNearest) {
  const std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cuda/fused", 1)};
  EXPECT_NE(message_of([&] {
              pivot(rows, {"T", {"implementatio"}, {"shape"}, "time_ms"});
            }).find("'implementation'"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              pivot(rows, {"T", {"heads"}, {"shape"}, "kilo_token_per_s"});
            }).find("'kilo_tokens_per_s'"),
            std::string::npos);
  EXPECT_NE(message_of([&] { table_form("figure", rows); }).find("did you mean"),
            std::string::npos);
}

TEST(ChunkForm, ChunksAscendAndUnchunkedFormsAreLeftOut) {
  std::vector<Row> rows;
  for (const int chunk : {128, 16, 64}) {
    rows.push_back(timed_row(problem_of("4x8192", ",chunk=" + std::to_string(chunk)),
                             "cuda/chunkwise", chunk));
    rows.back().chunk = chunk;
  }
  rows.push_back(timed_row(problem_of("4x8192"), "cuda/naive", 1));
  const auto tables = table_form("chunk", rows);
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].header, (std::vector<std::string>{"implementation", "16", "64", "128"}));
  EXPECT_EQ(tables[0].rows.size(), 1u);
}

TEST(ChunkForm, ShowsTimeWorkspaceAndPeakMemory) {
  Row row = timed_row(problem_of("4x8192", ",chunk=64"), "cuda/chunkwise", 2);
  row.chunk = 64;
  row.workspace_bytes = 3 << 20;
  row.case_bytes = 5 << 20;
  Row older = timed_row(problem_of("4x8192", ",chunk=128"), "cuda/chunkwise", 3);
  older.chunk = 128;
  older.workspace_bytes = 4 << 20;  // of a file that does not say what the case took
  const auto tables = table_form("chunk", {row, older});
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].rows[0], (std::vector<std::string>{"cuda/chunkwise", "2.000", "3.000"}));
  EXPECT_EQ(tables[1].rows[0], (std::vector<std::string>{"cuda/chunkwise", "3.000", "4.000"}));
  EXPECT_EQ(tables[2].rows[0], (std::vector<std::string>{"cuda/chunkwise", "8.000", ""}));
}

TEST(SpeedupForm, HoldsEachRowToTheQuickestRecurrentOneOnItsProblem) {
  const auto row = [](const std::string& dim, const std::string& seq, const std::string& more,
                      const std::string& implementation, const std::string& form, double time_ms) {
    Row made = timed_row("gated_delta:heads=4/4,dim=" + dim + ",seq=" + seq + ",dtype=bf16" + more,
                         implementation, time_ms);
    made.form = form;
    return made;
  };
  std::vector<Row> rows = {row("64", "2x1024", "", "cuda/recurrent", "recurrent", 8),
                           row("64", "2x1024", "", "cuda/recurrent_staged", "recurrent", 6),
                           row("64", "2x1024", "", "cuda/fused", "fused", 3),
                           row("64", "1x2048", "", "cuda/recurrent", "recurrent", 12),
                           row("64", "1x2048", "", "cuda/fused", "fused", 2),
                           row("128", "1x2048", "", "cuda/recurrent", "recurrent", 5),
                           row("128", "1x2048", "", "cuda/fused", "fused", 10),
                           // Without a counterpart: other gates.
                           row("128", "2x1024", ",gates=none", "cuda/fused", "fused", 1)};
  rows.push_back(row("128", "2x1024", "", "cuda/recurrent", "recurrent", 1));
  rows.back().status = row_status::kFailed;  // a wrong result is no baseline
  rows.push_back(row("128", "2x1024", "", "cuda/fused", "fused", 1));
  const auto tables = table_form("speedup", rows);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].header,
            (std::vector<std::string>{"implementation", "dims (key x value)", "2x1K", "1x2K"}));
  ASSERT_EQ(tables[0].rows.size(), 2u);
  EXPECT_EQ(tables[0].rows[0], (std::vector<std::string>{"cuda/fused", "64x64", "2.00", "6.00"}));
  EXPECT_EQ(tables[0].rows[1], (std::vector<std::string>{"cuda/fused", "128x128", "", "0.500"}));
  EXPECT_NE(tables[0].notes[0].find("cuda/recurrent_staged, cuda/recurrent"), std::string::npos)
      << tables[0].notes[0];
}

TEST(SpeedupForm, AChunkAskedForMeetsTheRecurrentFormOfTheSameWork) {
  Row recurrent = timed_row(problem_of("4x8192"), "cuda/recurrent", 4);
  recurrent.form = "recurrent";
  Row chunked = timed_row(problem_of("4x8192", ",chunk=32"), "cuda/chunkwise", 1);
  chunked.form = "chunkwise";
  EXPECT_EQ(table_form("speedup", {recurrent, chunked})[0].rows[0][2], "4.00");
  Row elsewhere = recurrent;
  elsewhere.device = "another device";
  EXPECT_NE(message_of([&] {
              table_form("speedup", {elsewhere, chunked});
            }).find("no row fits"),
            std::string::npos);
}

TEST(UpdatesForm, NamesVariantsAndHoldsThemToGatedDeltaNet) {
  std::vector<Row> rows = {
      timed_row(problem_of("1x2048", ",gates=real"), "cpu/recurrent", 4),
      timed_row(problem_of("1x2048", ",gates=none"), "cpu/recurrent", 3),
      timed_row(problem_of("1x2048", ",gates=real,update=additive"), "cpu/recurrent", 2),
      timed_row(problem_of("1x2048", ",gates=none,update=additive"), "cpu/recurrent", 1),
      timed_row(problem_of("1x2048", ",gates=real,steps=2"), "cpu/recurrent", 8),
      timed_row(problem_of("1x2048", ",gates=real,decay=channel"), "cpu/recurrent", 6)};
  const auto tables = table_form("updates", rows);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].header,
            (std::vector<std::string>{"implementation", "shape (batch x length)", "Gated DeltaNet",
                                      "DeltaNet", "gated linear attention", "linear attention",
                                      "Gated DeltaProduct n=2", "KDA"}));
  EXPECT_EQ(tables[1].rows.at(0),
            (std::vector<std::string>{"cpu/recurrent", "1x2K", "1.00", "0.750", "0.500", "0.250",
                                      "2.00", "1.50"}));
  EXPECT_NE(message_of([&] { table_form("updates", {rows[0]}); }).find("several variants"),
            std::string::npos);
}

TEST(StepsForm, CostIsRelativeToOneStepOfTheSameImplementation) {
  const std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cpu/recurrent", 4),
                                 timed_row(problem_of("1x2048", ",steps=2"), "cpu/recurrent", 7),
                                 timed_row(problem_of("1x2048", ",steps=4"), "cpu/recurrent", 12),
                                 timed_row(problem_of("1x2048", ",steps=4"), "cpu/chunkwise", 1)};
  const auto tables = table_form("steps", rows);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].header,
            (std::vector<std::string>{"implementation", "shape (batch x length)", "1", "2", "4"}));
  EXPECT_EQ(tables[1].rows.at(0),
            (std::vector<std::string>{"cpu/recurrent", "1x2K", "1.00", "1.75", "3.00"}));
  EXPECT_EQ(tables[1].rows.at(1).back(), "") << "nothing to hold it to";
  EXPECT_NE(message_of([&] { table_form("steps", {rows[0]}); }).find("several n"),
            std::string::npos);
}

TEST(TablePresets, AreSweepsWhoseRowsFillTheirForm) {
  DeviceInfo gpu;
  gpu.backend = gpu.runs = "cuda";
  gpu.has_own_memory = true;
  DeviceInfo cpu;
  cpu.backend = cpu.runs = "cpu";
  for (const TablePreset& preset : table_presets()) {
    const auto names = table_form_names();
    EXPECT_NE(std::find(names.begin(), names.end(), preset.form), names.end()) << preset.name;
    for (const DeviceInfo& device : {gpu, cpu}) {
      std::vector<Row> rows;
      std::int64_t tokens = 0;
      for (const Problem& problem : table_problems(preset, device, {})) {
        tokens = std::max(tokens, problem.total_tokens());
        for (const char* form : {"recurrent", "chunkwise"}) {
          Row row = timed_row(problem.to_string(), std::string("x/") + form, 1);
          row.form = form;
          row.chunk = form[0] == 'c' ? std::max<std::int64_t>(problem.chunk, 16) : 0;
          if (!preset.timed) row.mode = kVerifyMode;
          rows.push_back(row);
        }
      }
      EXPECT_FALSE(table_form(preset.form, rows).empty()) << preset.name << " " << device.backend;
      EXPECT_TRUE(device.backend != "cpu" || tokens <= 4096) << preset.name << ": long on a CPU";
    }
  }
}

TEST(TablePresets, AxesGivenOverrideTheirOwn) {
  DeviceInfo cpu;
  cpu.backend = cpu.runs = "cpu";
  for (const Problem& problem :
       table_problems(find_table_preset("throughput"), cpu, {{"heads", {"1/1"}}})) {
    EXPECT_EQ(problem.num_value_heads, 1) << problem.to_string();
  }
  EXPECT_NE(message_of([] { find_table_preset("troughput"); }).find("'throughput'"),
            std::string::npos);
}

TEST(HeadsForm, HeadsAreLines) {
  std::vector<Row> rows;
  for (const char* heads : {"16/64", "2/8"}) {
    rows.push_back(
        timed_row("gated_delta:heads=" + std::string(heads) + ",dim=128x128,seq=1x8192,dtype=bf16",
                  "cuda/fused", 1));
  }
  const auto tables = table_form("heads", rows);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows[0][0], "2/8");
  EXPECT_EQ(tables[0].rows[1][0], "16/64");
}

TEST(ErrorsForm, ShowsRatiosToTheFloorOrToTheLimit) {
  const Row row = timed_row(problem_of("1x64"), "cpu/naive", 1);
  const auto tables = table_form("errors", {row});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].label_columns, 3u);
  EXPECT_EQ(tables[0].rows[0],
            (std::vector<std::string>{"cpu/naive", "bf16", "1x64", "1.02 / 0.21 L"}));
}

Row convolution_row(const std::string& seq) {
  Row row =
      timed_row("causal_conv1d:heads=1/2,dim=32x32,seq=" + seq + ",dtype=bf16", "cpu/direct", 1);
  row.errors = {{"conv_output", ErrorMetric::relative_l2, RowError::kWhole, 1.6e-3},
                {"conv_output", ErrorMetric::floor_ratio, RowError::kWhole, 1.03},
                {"conv_state", ErrorMetric::relative_l2, RowError::kWhole, 0},
                {"conv_state", ErrorMetric::limit_ratio, RowError::kWhole, 0}};
  return row;
}

TEST(Names, EveryNumberOfACellIsNamedInTheCaption) {
  const auto of_rule = table_form("errors", {timed_row(problem_of("1x64"), "cpu/naive", 1)});
  EXPECT_NE(of_rule.at(0).title.find("each cell: output / final_state"), std::string::npos)
      << of_rule[0].title;
  EXPECT_EQ(of_rule[0].header.at(2), "shape (batch x length)");
  const auto of_convolution = table_form("errors", {convolution_row("1x64")});
  EXPECT_NE(of_convolution.at(0).title.find("each cell: conv_output / conv_state"),
            std::string::npos)
      << of_convolution[0].title;
  // A row without one of the outputs keeps the others in their places.
  Row without = timed_row(problem_of("1x64"), "cpu/other", 1);
  without.errors.erase(without.errors.begin(), without.errors.begin() + 2);
  const auto both = table_form("errors", {timed_row(problem_of("1x64"), "cpu/naive", 1), without});
  EXPECT_EQ(both.at(0).rows.at(1).back(), "- / 0.21 L");
  const auto pivoted =
      pivot({convolution_row("1x64")}, {"", {"heads"}, {"shape"}, "kilo_tokens_per_s"});
  EXPECT_EQ(pivoted.at(0).title.rfind("Kt/s by shape (batch x length)", 0), 0u) << pivoted[0].title;
  EXPECT_EQ(pivoted[0].header.at(0), "heads (key/value)");
}

TEST(Names, TheSummaryHasAColumnForEachOutputOfItsOperation) {
  Row verified = convolution_row("1x64");
  verified.mode = kVerifyMode;
  const Table table = table_form("summary", {verified}).at(0);
  EXPECT_EQ(table.header, (std::vector<std::string>{
                              "implementation", "conv_output relative L2", "conv_state relative L2",
                              "conv_output error / floor", "conv_state error / limit"}));
  EXPECT_EQ(table.rows.at(0),
            (std::vector<std::string>{"cpu/direct", "0.001600", "0", "1.03", "0"}));
}

TEST(Names, NothingIsSaidOfFieldsTheOperationDoesNotLookAt) {
  // Beside rows of the recurrence, whose gates tell tables apart.
  const std::vector<Row> rows = {convolution_row("1x64"),
                                 timed_row(problem_of("1x64", ",gates=weak"), "cpu/naive", 1)};
  for (const char* form : {"errors", "heads", "throughput"}) {
    for (const Table& table : table_form(form, rows)) {
      const std::string text = render(table, TableFormat::markdown);
      const bool of_convolution = table.title.find("causal_conv1d") != std::string::npos;
      EXPECT_EQ(text.find(" real"), std::string::npos) << text;
      if (!of_convolution) continue;
      for (const char* field : {"gates", "betas", "keys", "gate_encoding", "normalize_qk"}) {
        EXPECT_EQ(text.find(field), std::string::npos) << field << " in " << text;
      }
    }
  }
  EXPECT_EQ(find_label("variant").text(rows[0]), "") << "no Gated DeltaNet: " << rows[0].problem;
  EXPECT_EQ(find_label("variant").text(rows[1]), "Gated DeltaNet");
}

TEST(Names, ChannelsOfNoHeadsStandInThePlaceOfHeadsAndDims) {
  const Row of_none = timed_row("causal_conv1d:channels=6145,seq=1x64,dtype=bf16", "cpu/direct", 1);
  const Row of_heads = convolution_row("1x64");
  EXPECT_EQ(find_label("heads").text(of_none), "");
  EXPECT_EQ(find_label("dims").text(of_none), "");
  EXPECT_EQ(find_label("num_key_heads").text(of_none), "");
  EXPECT_EQ(find_label("channels").text(of_none), "6145");
  EXPECT_EQ(find_label("heads").text(of_heads), "1/2");
  EXPECT_EQ(find_label("dims").text(of_heads), "32x32");
  EXPECT_EQ(find_label("channels").text(of_heads), "auto");
  EXPECT_EQ(find_label("channels").text(timed_row(problem_of("1x64"), "cpu/naive", 1)), "");
  const PivotOptions options = {"", {"implementation"}, {"shape"}, "kilo_tokens_per_s"};
  const std::string alone = pivot({of_none}, options).at(0).title;
  EXPECT_NE(alone.find("; channels 6145"), std::string::npos) << alone;
  EXPECT_EQ(alone.find("heads"), std::string::npos) << alone;
  EXPECT_EQ(alone.find("dims"), std::string::npos) << alone;
  const std::string without = pivot({of_heads}, options).at(0).title;
  EXPECT_EQ(without.find("channels"), std::string::npos) << without;
  const auto both = pivot({of_none, of_heads}, options);
  ASSERT_EQ(both.size(), 2u) << "channels tell tables apart";
  for (const Table& table : both) {
    const bool heads = table.title.find("heads 1/2") != std::string::npos;
    const bool channels = table.title.find("channels 6145") != std::string::npos;
    EXPECT_NE(heads, channels) << table.title;
  }
}

TEST(Errors, AreOfEachOutputInOrderInFloorsElseOfTheLimit) {
  const auto text_of = [](const std::vector<RowError>& errors) {
    Row row;
    row.errors = errors;
    return find_quantity("errors").text(row);
  };
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({{"output", ErrorMetric::floor_ratio, RowError::kWhole, 1.02},
                     {"final_state", ErrorMetric::floor_ratio, RowError::kWhole, 1.5}}),
            "1.02 / 1.50");
  EXPECT_EQ(text_of({{"final_state", ErrorMetric::limit_ratio, RowError::kWhole, 0.21},
                     {"conv_output", ErrorMetric::limit_ratio, RowError::kWhole, 0.5},
                     {"conv_output", ErrorMetric::floor_ratio, RowError::kWhole, 1.02}}),
            "0.21 L / 1.02");
  // Of a file of the first schema: a state finer than the tokens, and no limits.
  EXPECT_EQ(text_of({{"output", ErrorMetric::floor_ratio, RowError::kWhole, 1.02},
                     {"final_state", ErrorMetric::relative_l2, RowError::kWhole, 1e-6}}),
            "1.02 / -");
  EXPECT_EQ(find_quantity("error_in_floors").name, "errors") << "what commands called it before";
}

TEST(Quantities, OfErrorsAreFoundByOutputAndMetric) {
  const Row row = timed_row(problem_of("1x64"), "cpu/naive", 1);
  EXPECT_EQ(find_quantity("final_state_limit_ratio").text(row), "0.2100");
  EXPECT_EQ(find_quantity("state_limit_ratio").text(row), "0.2100");
  EXPECT_EQ(find_quantity("conv_output_floor").text(row), "");
}

TEST(SummaryForm, FailedRowsShowTheirReason) {
  Row failed = timed_row(problem_of("1x64"), "cuda/broken", 1);
  failed.status = row_status::kFailed;
  failed.reason = "output: head 3";
  const auto tables =
      table_form("summary", {timed_row(problem_of("1x64"), "cpu/naive", 1), failed});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].header.back(), "status");
  EXPECT_EQ(tables[0].rows[0].back(), "");
  EXPECT_EQ(tables[0].rows[1].back(), "failed: output: head 3");
  EXPECT_EQ(tables[0].rows[1].size(), tables[0].header.size());
}

TEST(SummaryForm, ReasonsStandInAColumnOfTheirOwnAndNotUnderChunk) {
  Row skipped = timed_row(problem_of("1x64", ",chunk=24"), "cuda/chunkwise", 1);
  skipped.form = "chunkwise";
  skipped.status = row_status::kSkipped;
  skipped.reason = "chunk=24 is not in 32, 64";
  Row ran = timed_row(problem_of("1x64", ",chunk=32"), "cuda/chunkwise", 1);
  ran.form = "chunkwise";
  ran.chunk = 32;
  const auto tables = table_form("summary", {ran, skipped});
  ASSERT_EQ(tables.size(), 1u) << "chunks are lines of one table";
  const Table& table = tables[0];
  EXPECT_EQ(table.header[1], "chunk");
  EXPECT_EQ(table.rows.at(0)[1], "32");
  EXPECT_EQ(table.rows.at(1)[1], "24");
  EXPECT_EQ(table.header.back(), "status");
  EXPECT_EQ(table.rows.at(1).back(), "skipped: chunk=24 is not in 32, 64");
  EXPECT_EQ(table.rows.at(1)[2], "") << "nothing else is known of it";
  EXPECT_EQ(table.title.find("chunk="), std::string::npos) << table.title;
}

// A sweep over chunks runs a recurrent form once for each, and it is the same run each time.
TEST(IdleChunks, FormsWithoutChunksAreListedOnce) {
  std::vector<Row> rows;
  for (const char* chunk : {"16", "32", "64"}) {
    const std::string problem = problem_of("1x2048", std::string(",chunk=") + chunk);
    rows.push_back(timed_row(problem, "cuda/recurrent", 2));
    rows.back().form = "recurrent";
    rows.back().date = std::string("2026-11-21T10:00:") + chunk + "Z";
    rows.push_back(timed_row(problem, "cuda/chunkwise", 1));
    rows.back().form = "chunkwise";
    rows.back().chunk = std::stoi(chunk);
  }
  rows[4].time_ms = 3;  // measured last
  const auto lines_of = [](const std::vector<Table>& tables, const std::string& implementation) {
    std::vector<std::string> cells;
    for (const Table& table : tables) {
      for (const auto& line : table.rows) {
        if (line[0] == implementation) cells.push_back(line[1].empty() ? line[2] : line[1]);
      }
    }
    return cells;
  };
  const auto summary = table_form("summary", rows);
  ASSERT_EQ(summary.size(), 1u);
  EXPECT_EQ(lines_of(summary, "cuda/recurrent"), std::vector<std::string>{"3.000"});
  EXPECT_EQ(lines_of(summary, "cuda/chunkwise"), (std::vector<std::string>{"16", "32", "64"}));
  const auto pivoted = pivot(rows, {"T", {"implementation"}, {"shape"}, "time_ms"});
  EXPECT_EQ(lines_of(pivoted, "cuda/recurrent"), std::vector<std::string>{"3.000"});
  EXPECT_EQ(lines_of(pivoted, "cuda/chunkwise").size(), 3u);
  const auto raw = table_form("rows", rows);
  EXPECT_EQ(raw.at(0).rows.size(), rows.size()) << "every row is every row";
}

TEST(ErrorsForm, SaysWhichStepsAndDecayItsRowsHave) {
  const Row usual = timed_row(problem_of("1x64"), "cpu/naive", 1);
  const Row product = timed_row(problem_of("1x64", ",steps=2"), "cpu/naive", 1);
  const Row channel = timed_row(problem_of("1x64", ",decay=channel"), "cpu/naive", 1);
  const auto title_of = [](const Row& row) { return table_form("errors", {row}).at(0).title; };
  EXPECT_NE(title_of(product).find("; steps 2"), std::string::npos) << title_of(product);
  EXPECT_NE(title_of(channel).find("; decay channel"), std::string::npos) << title_of(channel);
  EXPECT_EQ(title_of(usual).find("steps"), std::string::npos) << title_of(usual);
  EXPECT_EQ(table_form("errors", {usual, product, channel}).size(), 3u) << "they stand apart";
}

TEST(Shapes, AreBatchByLengthAsInProblemStrings) {
  const auto shape = [](const std::string& seq) {
    return find_label("shape").text(timed_row(problem_of(seq), "cuda/fused", 1));
  };
  EXPECT_EQ(shape("16x2048"), "16x2K");
  EXPECT_EQ(shape("3x100"), "3x100");
  EXPECT_EQ(shape("1x73+2x48"), "1x73+2x48");
  EXPECT_EQ(find_label("shape").heading(), "shape (batch x length)");
}

// Commands are long: behind everything, and in LaTeX no part of what is typeset.
TEST(Render, SaysEachCommandOnceBehindAllTables) {
  Table first = small_table();
  first.origin = {"Command: gdnbench sweep --a", "Sources: 0123"};
  Table second = small_table();
  second.title = "Second";
  second.origin = {"Command: gdnbench sweep --b", "Sources: 0123"};
  const std::string latex = render({first, second}, TableFormat::latex);
  EXPECT_EQ(latex.substr(latex.rfind("\\end{table}\n")),
            "\\end{table}\n"
            "% Command: gdnbench sweep --a\n"
            "% Sources: 0123\n"
            "% Command: gdnbench sweep --b\n");
  const std::string markdown = render({first, second}, TableFormat::markdown);
  const std::string end =
      "\nCommand: gdnbench sweep --a  \nSources: 0123  \nCommand: gdnbench sweep --b  \n";
  ASSERT_GT(markdown.size(), end.size());
  EXPECT_EQ(markdown.substr(markdown.size() - end.size()), end) << markdown;
  EXPECT_EQ(markdown.find("Command: "), markdown.size() - end.size() + 1);
  const auto pivoted = pivot({timed_row(problem_of("1x2048"), "cuda/fused", 1)},
                             {"T", {"implementation"}, {"shape"}, "time_ms"});
  const std::string typeset = render(pivoted, TableFormat::latex);
  const auto caption = typeset.find("\\caption{");
  const auto command = typeset.find("gdnbench sweep --preset figure3");
  EXPECT_GT(command, typeset.find("\\end{table}")) << typeset;
  EXPECT_NE(caption, std::string::npos);
}

std::string notes_of(const std::vector<Row>& rows, const std::string& cell) {
  std::string text;
  for (const Table& table : pivot(rows, {"T", {"implementation"}, {"shape"}, cell})) {
    for (const std::string& note : table.notes) text += note + "\n";
  }
  return text;
}

TEST(FigureNotes, NameTimesWhoseSpreadIsWide) {
  Row steady = timed_row(problem_of("1x2048"), "cuda/fused", 1);
  steady.time_relative_spread = 0.049;
  Row wide = timed_row(problem_of("1x4096"), "cuda/fused", 1);
  wide.time_relative_spread = 0.12;
  for (const char* cell : {"time_ms", "kilo_tokens_per_s"}) {
    const std::string notes = notes_of({steady, wide}, cell);
    EXPECT_NE(notes.find("above 5 %, marked * where it is shown: cuda/fused 1x4K (12 %)\n"),
              std::string::npos)
        << notes;
  }
  EXPECT_EQ(notes_of({steady}, "time_ms").find("above"), std::string::npos);
  EXPECT_EQ(notes_of({wide}, "errors").find("above"), std::string::npos) << "no time is shown";
  const Table summary = table_form("summary", {steady, wide}).at(1);
  const auto spread = std::find(summary.header.begin(), summary.header.end(), "spread %");
  ASSERT_NE(spread, summary.header.end());
  EXPECT_EQ(summary.rows[0][static_cast<std::size_t>(spread - summary.header.begin())], "12 *");
}

TEST(FigureNotes, ExplainSharesOfComputeAboveAHundred) {
  Row within = timed_row(problem_of("1x2048"), "cuda/fused", 1);
  within.fraction_of_compute = 0.99;
  Row above = timed_row(problem_of("1x4096"), "cuda/recurrent", 1);
  above.fraction_of_compute = 1.3;
  const auto said = [](const std::vector<Row>& rows, const char* cell) {
    return notes_of(rows, cell).find("Above 100 % of compute") != std::string::npos;
  };
  EXPECT_TRUE(said({within, above}, "percent_of_compute"));
  EXPECT_FALSE(said({within}, "percent_of_compute"));
  EXPECT_FALSE(said({within, above}, "time_ms"));
}

TEST(FigureNotes, SayThatTflopsOfDifferentChunksDoNotCompare) {
  Row small = timed_row(problem_of("1x2048"), "cuda/fused", 1);
  small.chunkwise_tflops = 10;
  Row large = small;
  large.implementation = "cuda/chunkwise";
  const auto said = [&](const char* cell) {
    return notes_of({small, large}, cell).find("chunks of 64, 128 tokens") != std::string::npos;
  };
  EXPECT_FALSE(said("chunkwise_tflops")) << "one chunk";
  large.count_chunk = 128;
  EXPECT_TRUE(said("chunkwise_tflops"));
  EXPECT_TRUE(said("percent_of_compute"));
  EXPECT_FALSE(said("time_ms"));
  const Table summary = table_form("summary", {small, large}).at(0);
  EXPECT_NE(render(summary, TableFormat::markdown).find("chunks of 64, 128 tokens"),
            std::string::npos);
}

TEST(RowsForm, IsEveryColumnOfEveryRowAndOfItsErrors) {
  const std::vector<Row> rows = {timed_row(problem_of("1x64"), "cpu/naive", 1)};
  const auto tables = table_form("rows", rows);
  EXPECT_EQ(tables[0].header.size(), columns_of(rows).size());
  const auto has = [&](const std::string& name) {
    return std::count(tables[0].header.begin(), tables[0].header.end(), name) == 1;
  };
  for (const RowColumn& column : row_columns()) EXPECT_TRUE(has(column.name)) << column.name;
  EXPECT_TRUE(has("output_floor_ratio"));
  EXPECT_TRUE(has("final_state_limit_ratio"));
}

TEST(RowFilters, KeepTheRowsThatMatchAll) {
  const std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cuda/fused", 1),
                                 timed_row(problem_of("1x4096"), "cuda/fused", 2),
                                 timed_row(problem_of("1x4096"), "cuda/naive", 3)};
  EXPECT_EQ(filtered(rows, {parse_row_filter("shape=1x4K")}).size(), 2u);
  EXPECT_EQ(filtered(rows, {parse_row_filter("shape=1x4K"),
                            parse_row_filter("implementation=cuda/naive|cpu/naive")})
                .size(),
            1u);
  // Any of the values, the first and the last among them.
  for (const char* names : {"cuda/naive|cpu/naive", "cpu/naive|cuda/naive", "a|cuda/naive|b"}) {
    const RowFilter filter = parse_row_filter(std::string("implementation=") + names);
    EXPECT_EQ(filtered(rows, {filter}).size(), 1u) << names;
  }
  EXPECT_THROW(parse_row_filter("shape"), Error);
}

}  // namespace
}  // namespace gdn
