// What a check against an error baseline finds, and in which order it is told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/rows/grown_errors.h"

namespace gdn {

struct BaselineFinding {
  /// From the worst to the one that may be meant.
  enum class Kind {
    not_ok,      ///< a row that is not ok: above the absolute limits
    grown,       ///< an error that grew
    gone,        ///< stored, and its implementation or case is gone
    not_stored,  ///< nothing is stored of it
  };
  Kind kind = Kind::not_ok;
  std::string implementation;
  std::string operation;
  std::string problem;
  std::string what;                 ///< one line
  std::optional<GrownError> error;  ///< of kind `grown`
};

/// "not_ok", "grown", "gone", "not_stored".
std::string name_of(BaselineFinding::Kind kind);

/// Those of one implementation and operation, the worst first.
struct BaselineFindings {
  std::string implementation;
  std::string operation;
  std::vector<BaselineFinding> findings;
};

/// By kind, and of errors that grew by how many times the allowed one they are. Groups stand in the
/// order of their worst findings. What is equally bad keeps its order.
std::vector<BaselineFindings> worst_first(std::vector<BaselineFinding> findings);

}  // namespace gdn
