// Times of attention kernels that are not this project's, from a file: what
// scripts/peers/time_attention.py measured on a device, a line for each kernel, shape and batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/measure/pass.h"
#include "interface/dtype.h"
#include "interface/sequence_lengths.h"

namespace gdn {

/// Causal softmax attention: value and key heads are equally many and equally wide.
struct AttentionShape {
  std::int64_t query_heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  ///< tokens that a query sees, its own among them; 0: all up to its own

  /// "16/2:128:2048", as time_attention.py takes it in front of the batch.
  std::string to_string() const;
  bool operator==(const AttentionShape&) const = default;
};

/// One line of the file.
struct AttentionTime {
  std::string device;  ///< as the driver names it
  std::string kernel;  ///< with its version
  AttentionShape shape;
  SequenceLengths sequences;
  DType dtype = DType::bfloat16;
  double forward_ms = 0;
  double forward_backward_ms = 0;  ///< of a forward pass and the backward pass of it

  double time_ms(Pass pass) const {
    return pass == Pass::forward ? forward_ms : forward_backward_ms;
  }
};

class AttentionTimes {
 public:
  /// Throws Error(bad_input) naming the file, the line and what was expected.
  static AttentionTimes parse(const std::string& name, const std::string& text);
  /// Of a file; throws as parse() does, and where it cannot be read.
  static AttentionTimes read(const std::string& path);

  const std::string& name() const { return name_; }
  const std::vector<AttentionTime>& lines() const { return lines_; }
  /// Names of the devices in the file, each once, in order.
  std::vector<std::string> devices() const;
  /// The quickest kernel of a pass on a device; nullptr where none was timed.
  const AttentionTime* quickest(const std::string& device, const AttentionShape& shape,
                                const SequenceLengths& sequences, DType dtype, Pass pass) const;

 private:
  std::string name_;
  std::vector<AttentionTime> lines_;
};

}  // namespace gdn
