#include "harness/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace gdn::cli {
namespace {

std::string clock_text(double seconds) {
  if (std::isnan(seconds)) return "?";
  const std::int64_t whole = static_cast<std::int64_t>(seconds + 0.5);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

class ProgressLine {
 public:
  ProgressLine(bool quiet, double log_every_s);

  void show(const SweepProgress& progress);
  void clear() const;

 private:
  enum class Form { kNone, kRewritten, kLog };
  Form form_;
  double log_every_s_;
  double logged_s_ = 0;
};

ProgressLine::ProgressLine(bool quiet, double log_every_s)
    : form_(quiet                        ? Form::kNone
            : isatty(STDERR_FILENO) == 1 ? Form::kRewritten
                                         : Form::kLog),
      log_every_s_(log_every_s) {}

void ProgressLine::show(const SweepProgress& progress) {
  if (form_ == Form::kNone) return;
  if (form_ == Form::kLog && !(progress.elapsed_s - logged_s_ >= log_every_s_)) return;
  logged_s_ = progress.elapsed_s;
  const double rate =
      progress.elapsed_s > 0 ? static_cast<double>(progress.done) / progress.elapsed_s : 0;
  std::string line = fmt::format("{}/{}  {:.2f} rows/s  {} left  {}", progress.done, progress.total,
                                 rate, clock_text(progress.left_s), progress.current);
  if (form_ == Form::kRewritten && line.size() > 110) line.resize(110);
  const char* const start = form_ == Form::kRewritten ? "\r\033[K" : "";
  fmt::print(stderr, "{}{}{}", start, line, form_ == Form::kRewritten ? "" : "\n");
  std::fflush(stderr);
}

void ProgressLine::clear() const {
  if (form_ == Form::kRewritten) fmt::print(stderr, "\r\033[K");
}

}  // namespace

SweepTotals sweep_with_progress(const std::vector<Problem>& problems,
                                const std::vector<const Implementation*>& implementations,
                                Device& device, const SweepOptions& options, RowSink& sink,
                                bool quiet, double log_every_s) {
  ProgressLine line(quiet, log_every_s);
  const SweepTotals totals = sweep(
      problems, implementations, device, options, sink,
      [&](const SweepProgress& progress) { line.show(progress); },
      [&](const Row& row) {
        if (row.ok() || row.status == row_status::kSkipped) return;
        line.clear();
        fmt::print(stderr, "gdnbench: {}: {} on {}: {}\n", row.status, row.implementation,
                   row.problem, row.reason);
      });
  line.clear();
  return totals;
}

}  // namespace gdn::cli
