// Case files (contract section 3): cases and outputs in HDF5, schema "gdn-case/1".
//
// Every fault of a file is Error(bad_input), one line: the file, the dataset or attribute, what was
// found and what was expected.
//
// Beside the contract's attributes these are written when they differ from their defaults, so that
// every Case reads back as it was: conv_layout ("channels"|"time"), conv_state_in_place (0/1),
// final_state (0/1), output_dtype, pool_row_padding, pool_rows.
//
// Variants of the recurrence (interface/problem.h) are attributes too, absent in files of the gated
// delta rule: update ("delta"|"additive"), steps (n, 1..16), decay ("head"|"channel"). Datasets
// that change shape with them:
//     n > 1              k [T, n, Hk, Dk], v [T, n, Hv, Dv], beta or beta_logit [T, n, Hv]
//     decay "channel"    the gate [T, Hv, Dk]; with decay_logit also dt_bias [Hv, Dk], A_log [Hv]
#pragma once

#include <string>

#include "interface/case.h"

namespace gdn {

/// "FILE.h5" or "FILE.h5:/group".
struct CasePath {
  std::string file;
  std::string group = "/";
  static CasePath parse(const std::string& text);
  std::string to_string() const;
};

/// The whole case, validated; values rounded to token_dtype and state_dtype, gates float32.
/// problem.case_file is `path` as given.
Case read_case(const std::string& path);
/// The same with other element types than the file names: its values rounded to these instead.
Case read_case_as(const std::string& path, DType token_dtype, DType state_dtype);
/// Shapes, dtypes and options alone: what read_case(path).problem would be.
Problem read_case_problem(const std::string& path);

/// Creates the file, or adds the group to an existing case file; an existing group is an error.
void write_case(const Case& value, const std::string& path);

/// What made a set of outputs: attributes of the file that holds them.
struct OutputsOrigin {
  std::string implementation;
  std::string device;
  std::int64_t chunk = 0;
  std::string library_version;
  std::string command;
};

class GroupReader;
class GroupWriter;
void write_origin(GroupWriter& file, const OutputsOrigin& origin);
/// Attributes absent from the file are empty.
OutputsOrigin read_origin(const GroupReader& file);

/// The outputs of the case's operation; replaces the file. State pools are stored without padding,
/// as [slots, Hv, Dk, Dv] (or [.., Dv, Dk]) under the name final_state.
void write_outputs(const Case& inputs, const Outputs& outputs, const OutputsOrigin& origin,
                   const std::string& path);

/// Outputs as stored, in float64; arrays laid out as in Outputs.
struct StoredOutputs {
  std::vector<double> output;
  std::vector<double> state_pool;
  std::vector<double> conv_output;
  std::vector<double> conv_state;
  OutputsOrigin origin;  ///< fields absent from the file are empty

  /// Rounded to float32.
  Outputs narrowed() const;
};

/// Reads the outputs of the case, made by whatever program: datasets are required as the operation
/// writes them (final_state only if the problem wants one), of exactly the case's shapes; elements
/// float32 or float64. Padding after pool rows takes the case's values.
StoredOutputs read_outputs(const Case& inputs, const std::string& path);

// ---- Problems whose inputs are in a case file

/// Fields a Problem may set on top of what its case file says: dtype, out, state, ht, chunk,
/// conv_in_place. Everything else is the file's.
bool may_override_case(const std::string& field);

/// Problem::parse, completed from the file when the text has case=: "gated_delta:case=F.h5:/layer0"
/// becomes the whole problem. The operation gated_delta may be asked of a gated_delta_layer case
/// (see layer_to_delta.h). A field that contradicts the file is Error(bad_input).
Problem resolve_problem(const std::string& text);

/// The problem of a case file, read as `operation` (the file's own, or gated_delta for a layer).
Problem case_problem(const std::string& path, Operation operation);

}  // namespace gdn
