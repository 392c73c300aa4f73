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

}  // namespace

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

}  // namespace gdn::cli
