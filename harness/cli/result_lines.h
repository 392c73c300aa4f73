// The results of `verify --json-lines --out FILE`: a head, then a line for each result as it is made. What a run that
// was cut has left in the file is not made again.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/verify/verify.h"

namespace gdn::cli {

/// The file, held by this process alone for as long as the object lives (flock on the file itself).
class ResultLinesFile {
 public:
  /// `head` is a new file's first line, without its end, and must be an earlier file's: it says what the results are
  /// of. The last line of an earlier file, where it was cut, is removed. Throws Error(bad_input) that names the file
  /// and says what is wrong with it: another head, a line that is no result, a result that is there twice, another
  /// process that writes it.
  ResultLinesFile(const std::string& path, const std::string& head);
  ~ResultLinesFile();
  ResultLinesFile(const ResultLinesFile&) = delete;
  ResultLinesFile& operator=(const ResultLinesFile&) = delete;

  /// Of a result that was there when the file was opened.
  struct Earlier {
    Verdict verdict = Verdict::passed;
    bool shows_limits_gone = false;  ///< the line has kLimitsGone
  };
  using Key = std::pair<std::string, std::string>;  ///< problem, implementation
  const std::map<Key, Earlier>& earlier() const { return earlier_; }

  /// Adds a line, without its end. Throws Error(bad_input) where it cannot be written whole.
  void add(const std::string& line);

  /// The member of a result's line that lists known limits which the result shows to be gone.
  static constexpr const char* kLimitsGone = "limits_gone";

 private:
  [[noreturn]] void refuse(const std::string& reason) const;
  void append(const std::string& text);
  std::string content() const;
  void read_earlier(const std::string& lines);

  std::string path_;
  int descriptor_ = -1;
  std::map<Key, Earlier> earlier_;
};

}  // namespace gdn::cli
