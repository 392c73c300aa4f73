// Cases and outputs in files of other systems' conventions (convention.h), to and from ours.
//
// Such a file is an HDF5 group: the attributes `convention` (its name), `op` ("gated_delta", the
// default, or "causal_conv1d"), `token_dtype`, `state_dtype` (default float32); the datasets of the
// convention, float32 or float64, under its own names and in its own axis order (`gdnbench convert
// --list` prints them). Where the convention has them: `scale`, the norm's attribute, `final_state`
// (0/1), `activation`; for a convolution `num_key_heads`, `num_value_heads`, `key_head_dim` and
// `value_head_dim` if its channels are to be known as q, k and v. Every other fact is a shape.
//
// What needs no rounding is converted bit for bit. Roundings happen where the encodings differ:
// gates and betas once to float32; q once to float32 where the caller scales it; q and k once where
// a norm that is not ours is applied.
#pragma once

#include <string>

#include "harness/conventions/semantics.h"
#include "harness/files/outputs_file.h"

namespace gdn::conventions {

/// Throws Error(bad_input), one line: file, dataset or attribute, what was found and expected.
Case import_case(const Convention& convention, const std::string& path);

/// Creates the file, or adds the group to an existing one.
void export_case(const Convention& convention, const Case& ours, const std::string& path,
                 const ConvertOptions& options = {});

struct ImportedOutputs {
  Outputs outputs;  ///< laid out as the case says
  OutputsOrigin origin;
};
/// Outputs that some program made of the inputs `ours`, exported to the convention.
ImportedOutputs import_outputs(const Convention& convention, const Case& ours,
                               const std::string& path);

/// Replaces the file.
void export_outputs(const Convention& convention, const Case& ours, const Outputs& outputs,
                    const OutputsOrigin& origin, const std::string& path);

}  // namespace gdn::conventions
