#include "harness/tables/figure_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/tables/pivot.h"

namespace gdn {
namespace {

constexpr std::size_t kMostNamed = 6;

bool shows_any(const std::set<std::string>& quantities, const std::set<std::string>& of) {
  return std::any_of(of.begin(), of.end(),
                     [&](const std::string& name) { return quantities.count(name) > 0; });
}

const std::set<std::string>& of_time() {
  static const std::set<std::string> names = {"time_ms",
                                              "time_us",
                                              "kilo_tokens_per_s",
                                              "mega_tokens_per_s",
                                              "tokens_per_s",
                                              "chunkwise_tflops",
                                              "recurrent_tflops",
                                              "tb_per_s",
                                              "percent_of_compute",
                                              "fraction_of_compute",
                                              "percent_of_bandwidth",
                                              "fraction_of_bandwidth",
                                              "relative_time",
                                              "speedup"};
  return names;
}

std::string wide_spreads(const std::vector<const Row*>& rows) {
  std::string named;
  std::size_t count = 0;
  for (const Row* row : rows) {
    if (!row->ok() || !is_wide(row->time_relative_spread)) continue;
    if (count++ >= kMostNamed) continue;
    const std::string chunk = row->chunk > 0 ? fmt::format(" chunk {}", row->chunk) : "";
    named += fmt::format("{}{}{} {} ({} %)", named.empty() ? "" : ", ", row->implementation, chunk,
                         find_label("shape").text(*row),
                         significant(100 * row->time_relative_spread, 2));
  }
  if (count == 0) return "";
  if (count > kMostNamed) named += fmt::format(" and {} more", count - kMostNamed);
  return fmt::format(
      "Spread (interquartile range over median) above {:.0f} %, marked * where it is shown: {}",
      100 * kWideSpread, named);
}

}  // namespace

bool is_wide(double relative_spread) { return relative_spread > kWideSpread; }

std::vector<std::string> figure_notes(const std::vector<const Row*>& rows,
                                      const std::set<std::string>& quantities) {
  std::vector<std::string> notes;
  if (shows_any(quantities, of_time())) {
    const std::string spreads = wide_spreads(rows);
    if (!spreads.empty()) notes.push_back(spreads);
  }
  const std::set<std::string> of_compute = {"percent_of_compute", "fraction_of_compute"};
  const bool above = std::any_of(rows.begin(), rows.end(), [](const Row* row) {
    return row->ok() && row->fraction_of_compute > 1;
  });
  if (shows_any(quantities, of_compute) && above) {
    notes.push_back(
        "Above 100 % of compute: the products of the chunkwise form are counted, whatever a kernel "
        "does; one that does less work is not held to the ceiling by that count");
  }
  if (shows_any(quantities, of_compute) || quantities.count("chunkwise_tflops") > 0) {
    std::set<std::int64_t> chunks;
    for (const Row* row : rows) {
      if (row->ok() && row->count_chunk > 0) chunks.insert(row->count_chunk);
    }
    if (chunks.size() > 1) {
      std::string named;
      for (const std::int64_t chunk : chunks) {
        named += (named.empty() ? "" : ", ") + std::to_string(chunk);
      }
      notes.push_back("TFLOP/s are counted with chunks of " + named +
                      " tokens here: a larger chunk counts more work, so that such figures compare "
                      "by time alone");
    }
  }
  return notes;
}

}  // namespace gdn
