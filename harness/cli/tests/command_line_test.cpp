// The built binary as a tool: presets measured and printed by one command, rows exported, scripts
// and manual page that know every command and flag the parser knows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "harness/problems/presets.h"
#include "harness/rows/row_store.h"
#include "harness/tables/table_presets.h"
#include "harness/tests/shell.h"
#include "harness/tests/temporary_folder.h"

namespace gdn {
namespace {

const std::string kBinary = GDN_BINARY_DIR "/gdnbench";

Finished gdnbench(const std::string& arguments) { return shell(kBinary + " " + arguments); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Help, NamesEveryOperationAndEveryBackend) {
  const std::string help = gdnbench("verify --help").text;
  const auto begin = help.find("--op ");
  const std::string of_op = help.substr(begin, help.find('\n', begin) - begin);
  for (const Operation operation : operations()) EXPECT_TRUE(has(of_op, operation->name)) << of_op;
  EXPECT_TRUE(has(of_op, Operation()->name + " (default)")) << of_op;
  for (const RowColumn& column : row_columns()) {
    if (column.name != "backend") continue;
    for (const Backend& backend : backends()) {
      EXPECT_TRUE(has(", " + column.help + ",", ", " + backend.name + ",")) << column.help;
    }
  }
}

TEST(Info, SaysWhichEmulatorHasNoClock) {
  const std::string text = gdnbench("info").text;
  if (!find_backend("cuda-emulated").status().available) GTEST_SKIP() << "not in this build";
  EXPECT_TRUE(has(text, "has no clock: it checks results")) << text;
}

// What `info` says of a backend: its line behind the name, and the next line, which has what is counted.
std::pair<std::string, std::string> said_of(const std::string& backend, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line, next; std::getline(lines, line);) {
    if (!line.starts_with(backend + " ")) continue;
    std::getline(lines, next);
    const auto behind = line.find_first_not_of(' ', backend.size());
    return {behind == std::string::npos ? "" : line.substr(behind), next};
  }
  return {};
}

TEST(Info, SaysOfEachBackendWhetherItIsThereAndInJsonNothingElse) {
  const std::string text = gdnbench("info").text;
  const std::string json = gdnbench("info --json").text;
  for (const Backend& backend : backends()) {
    const BackendStatus status = backend.status();
    const auto [own, next] = said_of(backend.name, text);
    EXPECT_NE(own, "") << backend.name << " in\n" << text;
    EXPECT_EQ(own.starts_with("absent: "), !status.available) << backend.name << " in\n" << text;
    const std::string member =
        fmt::format(R"("backend": "{}", "available": {},)", backend.name, status.available);
    EXPECT_TRUE(has(json, member)) << member << " in\n" << json;
    if (!status.available) continue;
    const DeviceInfo info = open_device(backend.name)->info();
    const bool is_processor = !info.has_own_memory && !info.emulated;
    const std::string counted =
        fmt::format(" {} {}, ", info.multiprocessors, is_processor ? "threads" : "multiprocessors");
    EXPECT_TRUE(has(next, counted)) << backend.name << counted << " in\n" << text;
  }
  EXPECT_EQ(json.rfind("{", 0), 0u) << json;
  EXPECT_FALSE(has(json, "absent: ")) << json;
}

// ---- presets

const std::string kQuickTable =
    "table --preset throughput --device cpu --impl cpu/naive,cpu/recurrent --heads 1/1 --dim 16 "
    "--seq 2x8,1x16 --hot --min-samples 3 --max-samples 3 --min-time 0 --quiet ";

TEST(TablePreset, IsMeasuredAndPrintedByOneCommand) {
  const Finished finished = gdnbench(kQuickTable);
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_TRUE(has(finished.text, "Throughput in Kt/s")) << finished.text;
  EXPECT_TRUE(has(finished.text, " 2x8 |") && has(finished.text, " 1x16 |")) << finished.text;
  EXPECT_TRUE(has(finished.text, "Command: gdnbench table --preset throughput")) << finished.text;
}

TEST(Report, RunsOfOneNameAreToldApartByTheirPlace) {
  const TemporaryFolder folder;
  std::string history;
  for (const char* week : {"a", "b", "c"}) {
    const std::string path = folder.file(std::string(week) + "/rows.h5");
    std::filesystem::create_directory(folder.file(week));
    ASSERT_EQ(gdnbench(kQuickTable + "--out " + path).code, 0);
    history += (history.empty() ? "" : ",") + path;
  }
  const std::string page = folder.file("page.html");
  const Finished finished =
      gdnbench("report " + folder.file("c/rows.h5") + " --history " + history + " --out " + page);
  ASSERT_EQ(finished.code, 0) << finished.text;
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  for (const char* label : {"2: rows 20", "3: rows 20"}) EXPECT_TRUE(has(text.str(), label));
  for (const char* none : {"1: rows 20", "4: rows 20"}) EXPECT_FALSE(has(text.str(), none));
}

TEST(TablePreset, KeepsItsRowsAndResumesFromThem) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  ASSERT_EQ(gdnbench(kQuickTable + "--out " + path).code, 0);
  const std::vector<Row> first = read_rows(path).rows;
  ASSERT_EQ(first.size(), 4u);
  // A row of another sweep in the file is no part of this table.
  Row other = first[0];
  describe_problem(Problem::parse("gated_delta:heads=2/2,dim=16x16,seq=1x16,dtype=f32"), other);
  append_row(path, other, {});
  const Finished again = gdnbench(kQuickTable + "--format csv --out " + path);
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_FALSE(has(again.text, "heads 2/2")) << again.text;
  const std::vector<Row> second = read_rows(path).rows;
  ASSERT_EQ(second.size(), 5u);
  EXPECT_EQ(second[1].date, first[1].date);
  EXPECT_EQ(second[1].time_ms, first[1].time_ms);
}

TEST(TablePreset, JsonHoldsTheTables) {
  const Finished finished = gdnbench(kQuickTable + "--json");
  ASSERT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(finished.text.rfind("[{\"title\": \"Throughput", 0), 0u) << finished.text;
}

TEST(TablePreset, FilesAndPresetExcludeEachOther) {
  EXPECT_EQ(gdnbench("table").code, 2);
  EXPECT_EQ(gdnbench("table --preset throughput some.h5").code, 2);
  const Finished unknown = gdnbench("table --preset thruput --device cpu");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.text, "did you mean 'throughput'")) << unknown.text;
}

// A sweep of hours is not made for a table that cannot be printed.
TEST(TablePreset, WhatCannotBePrintedIsRefusedBeforeMeasuring) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  for (const auto& [flags, said] : std::vector<std::pair<std::string, std::string>>{
           {"--form chnuk", "did you mean 'chunk'"},
           {"--rows heads", "--rows and --columns go together"},
           {"--rows heads --columns shap", "did you mean 'shape'"},
           {"--rows hads --columns shape", "did you mean 'heads'"},
           {"--rows heads --columns shape --cell time_m", "did you mean 'time_ms'"},
           {"--rows heads, --columns shape", "--rows: an empty value"},
           {"--cell time_ms", "--cell: goes with --rows and --columns"}}) {
    const Finished finished = gdnbench(kQuickTable + flags + " --out " + path);
    EXPECT_EQ(finished.code, 2) << flags;
    EXPECT_TRUE(has(finished.text, said)) << finished.text;
    EXPECT_FALSE(std::filesystem::exists(path)) << flags << ": measured first";
  }
}

TEST(TableCommand, OfFilesTakesNoFlagsOfMeasuring) {
  const std::string table = "table " GDN_SOURCE_DIR "/data/fixtures/rows_of_0.1.h5 ";
  ASSERT_EQ(gdnbench(table + "--form rows --title x").code, 2);
  ASSERT_EQ(gdnbench(table + "--form rows").code, 0);
  for (const char* flag :
       {"--device cpu", "--heads 1/1", "--impl cpu/naive", "--hot", "--out x.h5"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find(' '));
    const Finished finished = gdnbench(table + flag);
    EXPECT_EQ(finished.code, 2) << flag;
    EXPECT_TRUE(has(finished.text, name + ": goes with --preset")) << finished.text;
  }
}

TEST(Presets, AreListedInOnePlaceAndNotInEveryHelp) {
  const Finished listed = gdnbench("list --presets");
  ASSERT_EQ(listed.code, 0);
  const Finished help = gdnbench("sweep --help");
  for (const Preset& preset : presets()) {
    EXPECT_TRUE(has(listed.text, preset.name)) << preset.name;
    EXPECT_FALSE(has(help.text, preset.name + " ") && preset.name.rfind("qwen", 0) == 0)
        << preset.name;
  }
  for (const TablePreset& preset : table_presets()) EXPECT_TRUE(has(listed.text, preset.name));
  EXPECT_TRUE(has(help.text, "list --presets")) << help.text;
}

TEST(EstimateCommand, ProductsNoLibraryMakesAreADeviceNotAvailable) {
  const Finished finished = gdnbench("estimate --device cpu --dtype bf16");
  EXPECT_EQ(finished.code, 3) << finished.text;
  EXPECT_TRUE(has(finished.text, "no matrix library")) << finished.text;
}

TEST(EstimateCommand, AHybridWithoutTimesOfItsAttentionIsBadInput) {
  const Finished none = gdnbench("estimate --device cpu --model paper-h1-1.3b");
  EXPECT_EQ(none.code, 2) << none.text;
  EXPECT_TRUE(has(none.text, "paper-h1-1.3b: its attention layers need --attention")) << none.text;
  EXPECT_TRUE(has(none.text, "time_attention.py --models paper-h1-1.3b")) << none.text;
  const Finished no_file =
      gdnbench("estimate --device cpu --model paper-h1-1.3b --attention no_such.csv");
  EXPECT_EQ(no_file.code, 2) << no_file.text;
  EXPECT_TRUE(has(no_file.text, "no_such.csv: cannot be read")) << no_file.text;
  const Finished pure = gdnbench("estimate --device cpu --attention no_such.csv");
  EXPECT_EQ(pure.code, 2) << pure.text;
  EXPECT_TRUE(has(pure.text, "paper-1.3b has none")) << pure.text;
}

TEST(AccumulateCommand, ATableSaysWindowsStatesAndCalls) {
  const std::string accumulate = "accumulate --device cpu --impl cpu/recurrent --quiet --problem ";
  const std::string problem = "gated_delta:heads=1/1,dim=16,seq=1x12,dtype=f32,h0=normal";
  const Finished table = gdnbench(accumulate + problem + " --problem " + problem + ",state=bf16");
  EXPECT_EQ(table.code, 0) << table.text;
  for (const char* const part :
       {"token 0", "1..9", "10..11", "final state", "one a token", "state=bf16"}) {
    EXPECT_TRUE(has(table.text, part)) << part << ": " << table.text;
  }
}

TEST(AccumulateCommand, WhatIsNotCalledTokenByTokenIsBadInput) {
  const Finished norm = gdnbench(
      "accumulate --device cpu --impl cpu/naive --problem gated_rms_norm:heads=1/2,dim=16,seq=3");
  EXPECT_EQ(norm.code, 2) << norm.text;
  EXPECT_TRUE(has(norm.text, "nothing is carried from call to call")) << norm.text;
  const Finished none = gdnbench("accumulate --device cpu --impl cpu/naive");
  EXPECT_EQ(none.code, 2) << none.text;
  EXPECT_TRUE(has(none.text, "no problem")) << none.text;
}

TEST(Output, QuietSaysNothingAndJsonIsOneObject) {
  const TemporaryFolder folder;
  const std::string problem = "gated_delta:heads=1/1,dim=16x16,seq=1x8,dtype=f32";
  const std::string gen = "gen --problem " + problem + " --out ";
  EXPECT_EQ(gdnbench(gen + folder.file("quiet_case.h5") + " --quiet").text, "");
  EXPECT_EQ(gdnbench(gen + folder.file("case.h5") + " --json").text,
            "{\"file\": \"" + folder.file("case.h5") + "\", \"problem\": \"" + problem + "\"}\n");
  const std::string run = "run --case " + folder.file("case.h5") + " --impl cpu/naive --out ";
  EXPECT_EQ(gdnbench(run + folder.file("quiet_out.h5") + " --quiet").text, "");
  EXPECT_EQ(gdnbench(run + folder.file("out.h5") + " --json").text.rfind("{\"file\": ", 0), 0u);
  const std::string verify = "verify --problem " + problem + " --device cpu --impl cpu/naive";
  EXPECT_EQ(gdnbench(verify + " --quiet").text, "");
  EXPECT_NE(gdnbench(verify).text, "");
  const std::string report =
      "report " GDN_SOURCE_DIR "/data/fixtures/rows_of_0.1.h5 --out " + folder.file("page.html");
  EXPECT_EQ(gdnbench(report + " --quiet").text, "");
  EXPECT_TRUE(has(gdnbench(report + " --json").text, "\"rows\": 4"));
}

// ---- verify in shards, some of them cut

const std::string kShards =
    "verify --device cpu --impl cpu/naive,cpu/recurrent --heads 1/1 --dim 16 --seq "
    "1x8,1x16,2x5,3x3 "
    "--dtype f32 --json-lines --shard ";

std::string merged(const std::string& file, const std::string& parts) {
  return shell("python3 " GDN_SOURCE_DIR "/scripts/merge_verify_shards.py " + file + " " + parts)
      .text;
}

void keep_bytes(const std::string& path, std::size_t bytes) {
  const std::string text = shell("cat " + path).text;
  std::ofstream(path, std::ios::trunc) << text.substr(0, bytes);
}

TEST(VerifyShards, ACutOneIsNeverTakenForAWhole) {
  if (shell("python3 --version").code != 0) GTEST_SKIP() << "no python3";
  const TemporaryFolder folder;
  const std::string parts = folder.file("1") + " " + folder.file("2");
  for (const char* shard : {"1", "2"}) {
    ASSERT_EQ(gdnbench(kShards + shard + "/2 >" + folder.file(shard)).code, 0);
  }
  const std::string first = shell("cat " + folder.file("1")).text;
  EXPECT_EQ(first.rfind("{\"results_ahead\": 4}\n", 0), 0u) << first;
  EXPECT_TRUE(
      has(merged(folder.file("all"), parts), "8 results, 0 not reached (0 of 2 shards were cut)"));

  // The last result is cut in its middle.
  keep_bytes(folder.file("1"), first.size() - 20);
  EXPECT_TRUE(
      has(merged(folder.file("all"), parts), "7 results, 1 not reached (1 of 2 shards were cut)"));
  EXPECT_TRUE(has(shell("cat " + folder.file("all")).text, "\"not_reached\": 1"));
  // Nothing but the announcement; then not even that.
  keep_bytes(folder.file("1"), first.find('\n') + 1);
  EXPECT_TRUE(has(merged(folder.file("all"), parts), "4 results, 4 not reached"));
  keep_bytes(folder.file("1"), 0);
  EXPECT_TRUE(has(merged(folder.file("all"), parts), "run the step again"));
}

// The longer sequence is 10 times the operations of the shorter one (6 * 16 * 16 per token).
TEST(VerifyShards, OneThatHoldsNothingThatFitsIsNoErrorWhereAnotherHoldsSomething) {
  const std::string verify =
      "verify --device cpu --impl cpu/naive --heads 1/1 --dim 16 --seq 1x10,1x100 --dtype f32 ";
  const Finished first = gdnbench(verify + "--largest 2e4 --shard 1/2");
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_TRUE(has(first.text, "1 passed, ")) << first.text;
  const Finished second = gdnbench(verify + "--largest 2e4 --shard 2/2");
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_TRUE(has(second.text, "1 too large: this shard holds nothing that fits")) << second.text;
  // Where no shard holds anything, or there is but one, nothing verified is an error.
  for (const char* all : {"--largest 1 --shard 2/2", "--largest 1 --shard 1/1", "--largest 1"}) {
    const Finished none = gdnbench(verify + all);
    EXPECT_EQ(none.code, 2) << all << ": " << none.text;
    EXPECT_TRUE(has(none.text, "nothing was verified")) << all << ": " << none.text;
  }
}

TEST(Verify, ThoseOfASuiteThatOpNames) {
  const Finished some =
      gdnbench("verify --device cpu --suite quick --op causal_conv1d --errors-only");
  EXPECT_EQ(some.code, 0) << some.text;
  EXPECT_TRUE(has(some.text, "causal_conv1d:")) << some.text;
  EXPECT_FALSE(has(some.text, "gated_delta")) << some.text;
}

// Conditioning is the recurrence's: of a convolution nothing is amplified, and nothing is said.
TEST(Verify, DetailIsOfTheOperationThatIsVerified) {
  const std::string of_convolution = "causal_conv1d:heads=1/2,dim=16,seq=2x100";
  const Finished convolution =
      gdnbench("verify --device cpu --errors-only -v --problem " + of_convolution);
  EXPECT_EQ(convolution.code, 0) << of_convolution << "\n" << convolution.text;
  EXPECT_FALSE(has(convolution.text, "conditioning")) << of_convolution << "\n" << convolution.text;
  EXPECT_FALSE(has(convolution.text, "chunk inverse")) << convolution.text;
  for (const char* named : {"relative L2", "limit", "floor", "scaled max", "worst relative L2"}) {
    EXPECT_TRUE(has(convolution.text, named)) << named << " not in\n" << convolution.text;
  }
  const Finished rule = gdnbench(
      "verify --device cpu --impl cpu/naive --errors-only -v --problem "
      "gated_delta:heads=1/2,dim=16,seq=2x100");
  EXPECT_TRUE(has(rule.text, "conditioning: growth of the chunk inverse")) << rule.text;
}

// A key head's number taken for a value head's leads to the wrong numbers; a tensor has neither.
TEST(Verify, DetailNamesTheUnitThatAnOutputIsJudgedBy) {
  const Finished gradients = gdnbench(
      "verify --device cpu --impl cpu/naive --errors-only -v --problem "
      "gated_delta_backward:heads=2/4,dim=16,seq=20,gate=logits");
  EXPECT_EQ(gradients.code, 0) << gradients.text;
  const auto line_after = [&](const std::string& output, int count) {
    const std::string padded = output + std::string(15 - output.size(), ' ');
    std::size_t at = gradients.text.find("\n       " + padded + " sequence");
    for (int i = 0; at != std::string::npos && i < count; ++i) {
      at = gradients.text.find('\n', at + 1);
    }
    if (at == std::string::npos) return std::string();
    return gradients.text.substr(at + 1, gradients.text.find('\n', at + 1) - at - 1);
  };
  EXPECT_TRUE(has(line_after("d_q", 0), "sequence key head ")) << gradients.text;
  EXPECT_TRUE(has(line_after("d_v", 0), "sequence     head ")) << gradients.text;
  EXPECT_TRUE(has(line_after("d_A_log", 1), "       -        -  ")) << gradients.text;
  // Columns stand under their names, however long the output's.
  for (const char* output : {"d_q", "d_initial_state"}) {
    const std::string head = line_after(output, 0), row = line_after(output, 1);
    EXPECT_EQ(head.size(), row.size()) << head << "\n" << row;
  }
}

// ---- verify side by side

std::multiset<std::string> lines_of(const std::string& text) {
  std::multiset<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

// Largest problems first, but otherwise what one after the other prints.
TEST(VerifyJobs, PrintTheSameLines) {
  const std::string verify =
      "verify --device cpu --heads 1/2 --dim 16 --seq 1x8,2x40,1x1 --dtype f32,bf16 --jobs ";
  const Finished one = gdnbench(verify + "1");
  ASSERT_EQ(one.code, 0) << one.text;
  for (const char* jobs : {"2", "7"}) {
    const Finished several = gdnbench(verify + jobs);
    EXPECT_EQ(several.code, 0);
    EXPECT_EQ(lines_of(several.text), lines_of(one.text)) << jobs << " jobs";
    const std::size_t last_line = several.text.rfind('\n', several.text.size() - 2) + 1;
    EXPECT_TRUE(has(several.text.substr(last_line), " passed, 0 failed")) << several.text;
  }
  EXPECT_EQ(gdnbench(verify + "0").code, 2);
}

// ---- rows

TEST(RowsCommand, MergesFiltersAndExports) {
  const TemporaryFolder folder;
  const std::string rows = GDN_SOURCE_DIR "/data/fixtures/rows_of_0.1.h5";
  const std::string part = folder.file("part.h5");
  const Finished kept =
      gdnbench("rows " + rows + " --where token_dtype=bf16 --out " + part + " --json");
  ASSERT_EQ(kept.code, 0) << kept.text;
  EXPECT_TRUE(has(kept.text, "\"rows\": 2, \"of\": 4")) << kept.text;
  EXPECT_EQ(read_rows(part).samples.size(), 10u);
  const std::string again = "rows " + part + " --out " + part;
  EXPECT_TRUE(has(gdnbench(again).text, " rows in " + part));
  EXPECT_EQ(gdnbench(again + " --quiet").text, "");
  const Finished csv = gdnbench("rows " + part + " --columns implementation,token_dtype");
  EXPECT_EQ(csv.text, "implementation,token_dtype\ncpu/naive,bf16\ncpu/chunkwise,bf16\n");
  const Finished merged =
      gdnbench("rows " + part + " " + rows + " --columns implementation,sample_count --json");
  EXPECT_EQ(merged.text,
            "[\n{\"implementation\": \"cpu/naive\", \"sample_count\": 5},\n"
            "{\"implementation\": \"cpu/chunkwise\", \"sample_count\": 5},\n"
            "{\"implementation\": \"cpu/naive\", \"sample_count\": 5},\n"
            "{\"implementation\": \"cpu/chunkwise\", \"sample_count\": 5}\n]\n");
  EXPECT_EQ(gdnbench("rows " + part + " --columns time_m").code, 2);
  EXPECT_EQ(gdnbench("rows " + folder.file("absent.h5")).code, 2);
}

// ---- completion and manual

std::set<std::string> commands_in_help() {
  std::istringstream help(gdnbench("--help").text);
  std::set<std::string> names;
  bool listing = false;
  for (std::string line; std::getline(help, line);) {
    if (line.rfind("Subcommands:", 0) == 0) {
      listing = true;
    } else if (listing && line.rfind("  ", 0) == 0 && line[2] != ' ') {
      names.insert(line.substr(2, line.find(' ', 2) - 2));
    } else if (listing && line.empty()) {
      break;
    }
  }
  return names;
}

// Long flags of a command's --help.
std::set<std::string> flags_in_help(const std::string& command) {
  std::istringstream help(gdnbench(command + " --help").text);
  std::set<std::string> flags;
  for (std::string line; std::getline(help, line);) {
    if (line.rfind("Example", 0) == 0) break;
    const auto at = line.find("--");
    if (at != std::string::npos && line.find_first_not_of(' ') == line.find('-')) {
      flags.insert(line.substr(at, line.find_first_of(" ,=", at) - at));
    }
  }
  return flags;
}

// What bash offers after the words.
std::string completed(const std::string& words) {
  const Finished finished =
      shell("bash -c 'source <(" + kBinary + " completion bash); COMP_WORDS=(" + words +
            "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gdnbench; "
            "echo \"${COMPREPLY[@]}\"'");
  EXPECT_EQ(finished.code, 0) << finished.text;
  return finished.text;
}

TEST(Completion, BashCompletesCommandsFlagsAndValues) {
  EXPECT_EQ(completed("gdnbench swe"), "sweep\n");
  EXPECT_EQ(completed("gdnbench sweep --retry"), "--retry-failed\n");
  EXPECT_EQ(completed("gdnbench sweep --preset qwen3.5-27"),
            "qwen3.5-27b qwen3.5-27b-tp2 qwen3.5-27b-tp4 qwen3.5-27b-tp8\n");
  EXPECT_EQ(completed("gdnbench table --preset thr"), "throughput\n");
  EXPECT_EQ(completed("gdnbench verify --impl cpu/naive,cpu/chu"), "cpu/naive,cpu/chunkwise\n");
  EXPECT_EQ(completed("gdnbench table --format l"), "latex\n");
  EXPECT_EQ(completed("gdnbench sweep --dtype b"), "bf16\n");
}

TEST(Completion, EveryShellsScriptNamesEveryCommandAndFlag) {
  const auto commands = commands_in_help();
  ASSERT_GE(commands.size(), 14u);
  for (const char* shell_name : {"bash", "zsh", "fish"}) {
    const std::string script = gdnbench(std::string("completion ") + shell_name).text;
    for (const std::string& command : commands) {
      EXPECT_TRUE(has(script, command)) << shell_name << ": " << command;
    }
    for (const std::string& flag : flags_in_help("sweep")) {
      const bool fish = std::string(shell_name) == "fish";
      EXPECT_TRUE(has(script, fish ? "-l " + flag.substr(2) + " " : flag)) << shell_name << flag;
    }
    const std::string present = std::string("command -v ") + shell_name + " >/dev/null";
    if (std::system(present.c_str()) != 0) continue;
    const TemporaryFolder folder;
    std::ofstream(folder.file("script")) << script;
    const Finished parsed = shell(std::string(shell_name) + " -n " + folder.file("script"));
    EXPECT_EQ(parsed.code, 0) << shell_name << ": " << parsed.text;
  }
  EXPECT_EQ(gdnbench("completion csh").code, 2);
}

TEST(Manual, NamesEveryCommandAndFlag) {
  const std::string page = gdnbench("man").text;
  EXPECT_EQ(page.rfind(".TH GDNBENCH 1", 0), 0u);
  for (const std::string& command : commands_in_help()) {
    EXPECT_TRUE(has(page, "\\fB" + command + "\\fR")) << command;
    for (const std::string& flag : flags_in_help(command)) {
      std::string escaped;
      for (const char c : flag) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      EXPECT_TRUE(has(page, "\\fB" + escaped + "\\fR")) << command << " " << flag;
    }
  }
  if (std::system("command -v groff >/dev/null") != 0) return;
  const Finished formatted = shell(kBinary + " man | groff -man -ww -Tascii >/dev/null");
  EXPECT_EQ(formatted.text, "") << "groff's warnings";
}

}  // namespace
}  // namespace gdn
