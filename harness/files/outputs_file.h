// Outputs files: what an implementation made of a case, in a file of the same form as the case's.
#pragma once

#include <string>

#include "harness/files/case_file.h"

namespace gdn {

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

/// The outputs of the case's operation, under their names after the call; replaces the file. Pools
/// are stored without padding. float32 as run, or float64 as the reference makes them.
void write_outputs(const Case& inputs, const Outputs& outputs, const OutputsOrigin& origin,
                   const std::string& path);
void write_outputs(const Case& inputs, const Arrays<double>& outputs, const OutputsOrigin& origin,
                   const std::string& path);

/// Outputs as stored, in float64; arrays laid out as in Outputs.
struct StoredOutputs {
  Arrays<double> arrays;
  OutputsOrigin origin;  ///< fields absent from the file are empty

  /// Rounded to float32.
  Outputs narrowed() const;
};

/// Reads the outputs of the case, made by whatever program: datasets are required as the operation
/// writes them (not those on request, nor pools that the problem does not write), of exactly the
/// case's shapes; elements float32 or float64. Padding after pool rows takes the case's values.
StoredOutputs read_outputs(const Case& inputs, const std::string& path);

}  // namespace gdn
