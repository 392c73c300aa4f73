// Progress of a sweep on stderr: on a terminal one line, rewritten in place; in a log a whole line
// every so often.
#pragma once

#include "harness/sweep.h"

namespace gdn::cli {

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

}  // namespace gdn::cli
