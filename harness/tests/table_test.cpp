// Tables against golden text, pivots that never average and never mix, forms.
#include "harness/table.h"

#include <gtest/gtest.h>

#include <functional>

#include "harness/pivot.h"
#include "harness/table_forms.h"
#include "interface/error.h"

namespace gdn {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

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
  row.tokens_per_s = static_cast<double>(row.total_tokens) / (time_ms * 1e-3);
  row.output_floor_ratio = 1.02;
  row.state_floor_ratio = 1.5;
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

TEST(Pivot, ConstantTokenFormIsLengthByBatchInAscendingLength) {
  std::vector<Row> rows;
  for (const char* seq : {"2x16384", "16x2048", "4x8192", "8x4096"}) {
    rows.push_back(timed_row(problem_of(seq), "cuda/fused", 32.768));
    rows.push_back(timed_row(problem_of(seq), "cuda/chunkwise", 65.536));
  }
  const auto tables = table_form("throughput", rows);
  ASSERT_EQ(tables.size(), 1u);
  const Table& table = tables[0];
  EXPECT_EQ(table.header,
            (std::vector<std::string>{"implementation", "2Kx16", "4Kx8", "8Kx4", "16Kx2"}));
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

TEST(Pivot, TwoProblemsOnOneCellAreAnErrorNotAnAverage) {
  // The scale is no column: nothing tells these two apart.
  const std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cuda/fused", 1),
                                 timed_row(problem_of("1x2048", ",scale=2"), "cuda/fused", 2)};
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
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].header, (std::vector<std::string>{"implementation", "16", "64", "128"}));
  EXPECT_EQ(tables[0].rows.size(), 1u);
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

TEST(ErrorsForm, ShowsRatiosToTheFloor) {
  const auto tables = table_form("errors", {timed_row(problem_of("1x64"), "cpu/naive", 1)});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].label_columns, 3u);
  EXPECT_EQ(tables[0].rows[0],
            (std::vector<std::string>{"cpu/naive", "bf16", "64x1", "1.02 / 1.50"}));
}

TEST(SummaryForm, FailedRowsShowTheirReason) {
  Row failed = timed_row(problem_of("1x64"), "cuda/broken", 1);
  failed.status = row_status::kFailed;
  failed.reason = "output: head 3";
  const auto tables =
      table_form("summary", {timed_row(problem_of("1x64"), "cpu/naive", 1), failed});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows[1][1], "failed: output: head 3");
  EXPECT_EQ(tables[0].rows[1].size(), tables[0].header.size());
}

TEST(RowsForm, IsEveryColumnOfEveryRow) {
  const auto tables = table_form("rows", {timed_row(problem_of("1x64"), "cpu/naive", 1)});
  EXPECT_EQ(tables[0].header.size(), row_columns().size());
}

TEST(RowFilters, KeepTheRowsThatMatchAll) {
  const std::vector<Row> rows = {timed_row(problem_of("1x2048"), "cuda/fused", 1),
                                 timed_row(problem_of("1x4096"), "cuda/fused", 2),
                                 timed_row(problem_of("1x4096"), "cuda/naive", 3)};
  EXPECT_EQ(filtered(rows, {parse_row_filter("shape=4Kx1")}).size(), 2u);
  EXPECT_EQ(filtered(rows, {parse_row_filter("shape=4Kx1"),
                            parse_row_filter("implementation=cuda/naive|cpu/naive")})
                .size(),
            1u);
  EXPECT_THROW(parse_row_filter("shape"), Error);
}

}  // namespace
}  // namespace gdn
