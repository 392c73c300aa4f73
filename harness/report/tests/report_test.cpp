// The report page: its data are the rows whatever their strings hold, nothing is loaded from
// elsewhere, and in a real browser it draws its plots, filters its table and logs no error.
#include "harness/report/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "harness/tests/temporary_folder.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr const char* kHostile = "</script><script>window.injected=1</script><!-- \"'\\&@@DATA@@";

Row timed_row(const std::string& implementation, std::int64_t length, std::int64_t chunk) {
  Row row;
  Problem problem;
  problem.sequences = SequenceLengths::parse("4x" + std::to_string(length));
  problem.chunk = chunk;
  describe_problem(problem, row);
  row.implementation = implementation;
  row.mode = "cold";
  row.form = "chunkwise";
  row.chunk = chunk == 0 ? 64 : chunk;
  row.workspace_bytes = 1 << 20;
  row.backend = "cuda";
  row.device = "a device";
  row.date = "2026-01-01T00:00:00Z";
  row.command = "gdnbench sweep --impl cuda/fused_sm90";
  row.status = row_status::kOk;
  row.case_bytes = 2 << 20;
  row.errors = {{"output", ErrorMetric::relative_l2, RowError::kWhole, 2e-3},
                {"output", ErrorMetric::floor_ratio, RowError::kWhole, 1.1},
                {"output", ErrorMetric::relative_l2, 0, 0.001},
                {"output", ErrorMetric::relative_l2, 64, 0.002},
                {"output", ErrorMetric::relative_l2, 128, 0.0021},
                {"final_state", ErrorMetric::relative_l2, RowError::kWhole, 1e-6},
                {"final_state", ErrorMetric::floor_ratio, RowError::kWhole, 2}};
  row.time_ms = 1e-4 * static_cast<double>(length);
  row.time_first_quartile_ms = 0.99 * row.time_ms;
  row.time_third_quartile_ms = 1.02 * row.time_ms;
  row.time_relative_spread = 0.03;
  row.sample_count = 20;
  row.tokens_per_s = 4e3 * static_cast<double>(length) / row.time_ms;
  row.chunkwise_tflops = 50;
  row.tb_per_s = 1;
  row.ceiling_copy_tb_per_s = 4;
  row.ceiling_matrix_tflops = 700;
  row.ceiling_float32_tflops = 60;
  return row;
}

// Two implementations over four lengths, a chunk curve, a failed row with hostile texts.
std::vector<Row> example_rows() {
  std::vector<Row> rows;
  for (const char* implementation : {"cuda/fused", "cuda/chunkwise"}) {
    for (const std::int64_t length : {512, 1024, 2048, 4096}) {
      rows.push_back(timed_row(implementation, length, 0));
    }
    for (const std::int64_t chunk : {16, 32, 128}) {
      rows.push_back(timed_row(implementation, 2048, chunk));
    }
  }
  Row failed = timed_row("cuda/naive", 512, 0);
  failed.status = row_status::kFailed;
  failed.reason = kHostile;
  failed.time_ms = kNotMeasured;
  rows.push_back(failed);
  return rows;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(Report, StringsOfRowsEndNoElement) {
  ReportOptions options;
  options.title = kHostile;
  options.command = kHostile;
  const std::string page = report_html(example_rows(), options);
  ReportOptions plain;
  const std::vector<Row> harmless = {example_rows().front()};
  EXPECT_EQ(count(page, "</script"), count(report_html(harmless, plain), "</script"));
  EXPECT_EQ(report_json(example_rows(), options).find('<'), std::string::npos);
  EXPECT_NE(page.find("&lt;/script&gt;"), std::string::npos) << "the title is escaped";
}

TEST(Report, LoadsNothing) {
  const std::string page = report_html(example_rows(), {});
  EXPECT_NE(page.find("Content-Security-Policy"), std::string::npos);
  EXPECT_EQ(page.find(" src="), std::string::npos);
  EXPECT_EQ(page.find("<link"), std::string::npos);
  // The name of the SVG elements is the one address, and nothing is fetched from a name.
  EXPECT_EQ(count(page, "http"),
            count(page, "http://www.w3.org/2000/svg") + count(page, "http-equiv"));
}

// A convolution has no gates, betas or keys, and is no Gated DeltaNet.
TEST(Report, SaysOfAnOperationWhatItLooksAtAlone) {
  Row row = timed_row("cuda/direct", 512, 0);
  describe_problem(Problem::parse("causal_conv1d:heads=1/2,dim=32,seq=4x512"), row);
  const std::string page = report_html({row}, {});
  EXPECT_NE(page.find("<h1>Measurements of causal_conv1d</h1>"), std::string::npos);
  EXPECT_EQ(page.find("Gated DeltaNet"), std::string::npos);
  EXPECT_NE(page.find("TFLOP/s of causal_conv1d count "), std::string::npos);
  EXPECT_EQ(page.find("TFLOP/s of gated_delta"), std::string::npos);
  EXPECT_EQ(report_json({row}, {}).find("\"real\""), std::string::npos)
      << "gates of " << row.problem;
  EXPECT_NE(report_json({timed_row("cuda/fused", 512, 0)}, {}).find("\"real\""), std::string::npos)
      << "the recurrence has gates";
}

TEST(Report, NoRowsAreBadInput) { EXPECT_THROW(report_html({}, {}), Error); }

// ---- in the browser

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const std::string command = std::string("command -v ") + name + " >/dev/null 2>&1";
    if (std::system(command.c_str()) == 0) return name;
  }
  return "";
}

// Runs after the page's own scripts and leaves what it saw as the page's title.
constexpr const char* kProbe = R"probe(
<script>
{
const seen = [];
const marks = (id) => document.querySelectorAll(`#plot-${id} .mark:not(.legend)`).length;
const lines = () => document.querySelectorAll("#rows tbody tr").length;
for (const id of ["throughput", "error-length", "error-implementation", "roofline", "chunk", "drift",
                  "error-position", "history"])
  seen.push(id + "=" + marks(id));
// What tells a series from the others by eye: its colours and its shape, that is, on which side of
// the middle each corner lies.
const look = (mark) => {
  const corners = (mark.getAttribute("points") || "").split(" ").map((at) => at.split(",").map(Number));
  const middle = (axis) => corners.reduce((sum, at) => sum + at[axis], 0) / corners.length;
  const side = (at, axis) => Math.sign(Math.trunc(at[axis] - middle(axis)));
  const style = getComputedStyle(mark);
  return [mark.tagName, style.stroke, style.fill,
          ...corners.map((at) => side(at, 0) + "/" + side(at, 1))].join(" ");
};
const looks = (chosen) =>
  new Set([...document.querySelectorAll(`#plot-throughput .mark${chosen}`)].map(look)).size;
seen.push("legend-looks=" + looks(".legend"), "looks=" + looks(":not(.legend)"));
seen.push("rows=" + lines());
const commands = [...document.querySelectorAll("dt")].filter((term) => term.textContent === "Command");
if (commands.length > 0)
  seen.push("commands=" + commands.length,
            "last-command=" + commands.at(-1).nextElementSibling.textContent.split(",")[0].replaceAll(" ", "_"));
const found = (word) => {
  const field = document.getElementById("search");
  const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); };
  type(word);
  const number = lines();
  type("");
  return number;
};
seen.push("find-shape=" + found("4x2k"), "find-command=" + found("fused_sm90"),
          "find-time=" + found("0.2048"));
document.getElementById("all-columns").click();
seen.push("find-command-shown=" + found("fused_sm90"));
document.getElementById("all-columns").click();
const heads = [...document.querySelectorAll("#rows th")].map((cell) => cell.textContent);
seen.push("ms=" + heads.includes("ms"), "us=" + heads.includes("us"));
seen.push("throughput-of=" +
          document.querySelector("#plot-throughput .note").textContent.replaceAll(" ", "_"));
// Texts of a plot that print over one another; those on their side are left out.
const overlaps = (id) => {
  const boxes = [...document.querySelectorAll(`#plot-${id} svg text`)]
      .filter((text) => !text.getAttribute("transform")).map((text) => text.getBoundingClientRect());
  let pairs = 0;
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1) pairs++;
  }));
  return pairs;
};
document.body.style.width = "390px";
update();
const picture = document.querySelector("#plot-roofline svg");
seen.push("narrow=" + (picture !== null && picture.clientWidth < 390),
          "overlaps=" + overlaps("roofline"));
document.body.style.width = "";
update();
const select = document.getElementById("filter-implementation");
select.value = "2";
select.dispatchEvent(new Event("change"));
seen.push("filtered=" + lines(), "filtered-throughput=" + marks("throughput"));
const search = document.getElementById("search");
search.value = "nothing like it";
search.dispatchEvent(new Event("input"));
seen.push("none=" + lines());
search.value = "";
search.dispatchEvent(new Event("input"));
const saved = [];
URL.createObjectURL = (blob) => { saved.push(blob.type); return "#"; };
for (const button of document.querySelectorAll("#plot-roofline button, #rows-csv")) button.click();
document.getElementById("all-columns").click();
document.querySelector("#rows thead button").click();
const before = getComputedStyle(document.body).backgroundColor;
document.getElementById("theme").click();
const after = getComputedStyle(document.body).backgroundColor;
seen.push("saved=" + saved.join("+"), "columns=" + document.querySelectorAll("#rows th").length,
          "theme=" + (before !== after), "injected=" + (window.injected || 0),
          "wide=" + (document.documentElement.scrollWidth > innerWidth),
          "errors=" + window.problems.length, ...window.problems);
document.body.replaceChildren("PROBE " + seen.join(" ") + " END");
}
</script>
)probe";

// Before everything: whatever goes wrong is kept.
constexpr const char* kWatch = R"watch(
<script>
window.problems = [];
addEventListener("error", (event) => window.problems.push(event.message));
addEventListener("unhandledrejection", (event) => window.problems.push(String(event.reason)));
document.addEventListener("securitypolicyviolation",
                          (event) => window.problems.push("loads " + event.blockedURI));
console.error = (...texts) => window.problems.push(texts.join(" "));
</script>
)watch";

std::string probed(const std::string& name, const std::string& page, const std::string& flags) {
  const TemporaryFolder folder;
  std::string watched = page;
  watched.insert(watched.find("<title>"), kWatch);
  watched.insert(watched.rfind("</body>"), kProbe);
  std::ofstream(folder.file("page.html")) << watched;
  const std::string command = "HOME='" + folder.file("") + "' timeout 100 " + name +
                              " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage " +
                              flags + " --user-data-dir='" + folder.file("profile") +
                              "' --virtual-time-budget=5000 --dump-dom 'file://" +
                              folder.file("page.html") + "' >'" + folder.file("dom") +
                              "' 2>/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(folder.file("dom"));
  std::stringstream dom;
  dom << file.rdbuf();
  const std::string text = dom.str();
  const auto begin = text.find("PROBE ");
  return begin == std::string::npos ? "no result: " + text.substr(0, 400)
                                    : text.substr(begin, text.find(" END") + 4 - begin);
}

void expect_working(const std::string& flags) {
  const std::string name = browser();
  if (name.empty()) GTEST_SKIP() << "no chromium here";
  ReportOptions options;
  options.title = kHostile;
  options.baseline = example_rows();
  options.history = {{"first", example_rows()}, {kHostile, example_rows()}};
  const std::string result = probed(name, report_html(example_rows(), options), flags);
  for (const char* expected : {" throughput=14 ",
                               " error-length=14 ",
                               " error-implementation=14 ",
                               " roofline=14 ",
                               " chunk=8 ",
                               " drift=14 ",
                               " error-position=24 ",
                               " history=4 ",
                               " rows=15 ",
                               " find-shape=8 ",
                               " find-command=0 ",
                               " find-time=8 ",
                               " find-command-shown=15 ",
                               " ms=true ",
                               " us=false ",
                               " narrow=true ",
                               " overlaps=0 ",
                               " filtered=7 ",
                               " filtered-throughput=7 ",
                               " none=0 ",
                               " saved=image/svg+xml+text/csv+text/csv ",
                               " theme=true ",
                               " injected=0 ",
                               " wide=false ",
                               " errors=0 "}) {
    EXPECT_NE(result.find(expected), std::string::npos) << "'" << expected << "' not in " << result;
  }
  EXPECT_NE(result.find(" columns=" + std::to_string(columns_of(example_rows()).size()) + " "),
            std::string::npos)
      << result;
}

TEST(ReportInBrowser, WorksLight) {
  expect_working("--blink-settings=preferredColorScheme=1 --window-size=1200,900");
}
TEST(ReportInBrowser, WorksDarkOnANarrowScreen) {
  expect_working("--blink-settings=preferredColorScheme=0 --window-size=500,900");
}

TEST(ReportInBrowser, NoTwoOf64SeriesLookAlike) {
  const std::string name = browser();
  if (name.empty()) GTEST_SKIP() << "no chromium here";
  std::vector<Row> rows;
  for (int i = 0; i < 64; ++i) {
    rows.push_back(timed_row("cuda/form_" + std::to_string(i), 512, 0));
  }
  const std::string result = probed(name, report_html(rows, {}), "--window-size=1200,900");
  for (const char* expected :
       {" throughput=64 ", " legend-looks=64 ", " looks=64 ", " errors=0 "}) {
    EXPECT_NE(result.find(expected), std::string::npos) << "'" << expected << "' not in " << result;
  }
}

// A variant of the recurrence is another setting: its points are not strung on the plain rule's
// line.
TEST(ReportInBrowser, VariantsArePlottedApart) {
  const std::string name = browser();
  if (name.empty()) GTEST_SKIP() << "no chromium here";
  std::vector<Row> rows = example_rows();
  for (const std::int64_t length : {512, 1024}) {
    rows.push_back(timed_row("cuda/fused", length, 0));
    rows.back().fields["update"] = std::string("additive");
    rows.push_back(timed_row("cuda/fused", length, 0));
    rows.back().fields["steps"] = std::int64_t{2};
    rows.push_back(timed_row("cuda/fused", length, 0));
    rows.back().fields["decay"] = std::string("channel");
  }
  const std::string result = probed(name, report_html(rows, {}), "--window-size=1200,900");
  for (const char* expected : {" throughput=14 ", " error-length=14 ", " rows=21 ", " errors=0 "}) {
    EXPECT_NE(result.find(expected), std::string::npos) << "'" << expected << "' not in " << result;
  }
}

// On a phone two ceilings end close to each other, wherever the rows lie beside the ridge.
TEST(ReportInBrowser, RooflineLabelsDoNotOverlapOnANarrowScreen) {
  const std::string name = browser();
  if (name.empty()) GTEST_SKIP() << "no chromium here";
  for (const double tflops : {0.002, 50.0}) {
    std::vector<Row> rows = example_rows();
    for (Row& row : rows) {
      row.fields["token_dtype"] = std::string("bf16");
      row.chunkwise_tflops = tflops;
    }
    const std::string result = probed(name, report_html(rows, {}), "--window-size=1200,900");
    for (const char* expected : {" roofline=14 ", " narrow=true ", " overlaps=0 ", " errors=0 "}) {
      EXPECT_NE(result.find(expected), std::string::npos)
          << "'" << expected << "' not in " << result;
    }
  }
}

// The operation that most rows are of is what the file is about, wherever the alphabet puts it and
// however many lengths another has.
TEST(ReportInBrowser, TheFirstPlotIsOfTheOperationWithTheMostRows) {
  const std::string name = browser();
  if (name.empty()) GTEST_SKIP() << "no chromium here";
  std::vector<Row> rows;
  for (const std::int64_t length : {128, 256, 512, 1024, 2048, 4096, 8192}) {
    rows.push_back(timed_row("cuda/direct", length, 0));
    describe_problem(
        Problem::parse("causal_conv1d:heads=1/2,dim=32,seq=4x" + std::to_string(length)),
        rows.back());
  }
  for (const Row& row : example_rows()) rows.push_back(row);
  const std::string result = probed(name, report_html(rows, {}), "--window-size=1200,900");
  for (const char* expected : {"operation_gated_delta,", " errors=0 "}) {
    EXPECT_NE(result.find(expected), std::string::npos) << "'" << expected << "' not in " << result;
  }
}

// Rows of an operation that lacks most fields, beside those of one that has them.
TEST(ReportInBrowser, ShowsAnOperationWithoutGates) {
  const std::string name = browser();
  if (name.empty()) GTEST_SKIP() << "no chromium here";
  std::vector<Row> rows = example_rows();
  rows.front().fields["gates"] = std::string("weak");
  rows.push_back(timed_row("cuda/direct", 512, 0));
  describe_problem(Problem::parse("causal_conv1d:heads=1/2,dim=32,seq=4x512"), rows.back());
  const std::string result = probed(name, report_html(rows, {}), "--window-size=1200,900");
  for (const char* expected : {" rows=16 ", " errors=0 "}) {
    EXPECT_NE(result.find(expected), std::string::npos) << "'" << expected << "' not in " << result;
  }
}

// More commands than the summary has room for are counted, never left out without a word.
TEST(ReportInBrowser, CommandsThatAreNotListedAreCounted) {
  const std::string name = browser();
  if (name.empty()) GTEST_SKIP() << "no chromium here";
  std::vector<Row> rows = example_rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].command = "gdnbench sweep --part " + std::to_string(i);
  }
  ASSERT_EQ(rows.size(), 15u);
  const std::string result = probed(name, report_html(rows, {}), "--window-size=1200,900");
  for (const char* expected : {" commands=13 ", " last-command=and_3_more ", " errors=0 "}) {
    EXPECT_NE(result.find(expected), std::string::npos) << "'" << expected << "' not in " << result;
  }
}

}  // namespace
}  // namespace gdn
