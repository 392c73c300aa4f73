#include "harness/files/outputs_file.h"

#include <algorithm>
#include <limits>

#include "harness/files/case_attributes.h"
#include "harness/files/hdf5_group.h"
#include "interface/error.h"

namespace gdn {
namespace {

template <typename Scalar>
void write_arrays(const Case& inputs, const Arrays<Scalar>& outputs, const OutputsOrigin& origin,
                  const std::string& path) {
  const Problem& p = inputs.problem;
  const CasePath target = CasePath::parse(path);
  require_other_file(inputs, target.file);
  GroupWriter file(target.file, target.group, GroupWriter::Mode::replace_file);
  write_problem_attributes(file, inputs);
  write_origin(file, origin);
  for (const Operand& operand : p.operation->operands) {
    if (!operand.is_output() || !is_written(operand, p) || operand.hand_over.between_steps)
      continue;
    const std::vector<Scalar>* values = outputs.find(operand.output_name());
    if (values == nullptr || (values->empty() && operand.hand_over.on_request)) continue;
    file.dataset(operand.output_name(), extents(operand, p), without_padding(operand, p, *values));
  }
  file.finish();
}

}  // namespace

void write_origin(GroupWriter& file, const OutputsOrigin& origin) {
  file.attribute("implementation", origin.implementation);
  file.attribute("device", origin.device);
  file.attribute("chunk_size", origin.chunk);
  file.attribute("library_version", origin.library_version);
  file.attribute("command", origin.command);
}

OutputsOrigin read_origin(const GroupReader& file) {
  OutputsOrigin origin;
  origin.implementation = file.string_attribute_or("implementation", "");
  origin.device = file.string_attribute_or("device", "");
  origin.chunk = file.integer_attribute_or("chunk_size", 0, 0);
  origin.library_version = file.string_attribute_or("library_version", "");
  origin.command = file.string_attribute_or("command", "");
  return origin;
}

void write_outputs(const Case& inputs, const Outputs& outputs, const OutputsOrigin& origin,
                   const std::string& path) {
  write_arrays(inputs, outputs, origin, path);
}

void write_outputs(const Case& inputs, const Arrays<double>& outputs, const OutputsOrigin& origin,
                   const std::string& path) {
  write_arrays(inputs, outputs, origin, path);
}

StoredOutputs read_outputs(const Case& inputs, const std::string& path) {
  const Problem& p = inputs.problem;
  const CasePath source = CasePath::parse(path);
  const GroupReader file(source.file, source.group);
  StoredOutputs stored;
  for (const Operand& operand : p.operation->operands) {
    if (!operand.is_output() || operand.hand_over.between_steps || !is_present(operand, p))
      continue;
    const std::string& name = operand.output_name();
    if (operand.hand_over.on_request && !file.has_dataset(name)) continue;
    std::vector<double>& values = stored.arrays[name];
    if (operand.role == Role::in_place) {
      const std::vector<float>& before = inputs[operand.name];
      values.assign(before.begin(), before.end());
    } else {
      values.assign(static_cast<std::size_t>(element_count(operand, p)),
                    std::numeric_limits<double>::quiet_NaN());
    }
    if (!is_written(operand, p)) continue;
    std::vector<double> read = file.doubles(name, extents(operand, p), shape_names(operand, p));
    if (operand.pool.row_padding != nullptr) {
      copy_into_padded(operand, p, read, values);
    } else {
      values = std::move(read);
    }
  }
  stored.origin = read_origin(file);
  return stored;
}

Outputs StoredOutputs::narrowed() const {
  Outputs narrow;
  for (const auto& [name, values] : arrays) {
    std::vector<float>& rounded = narrow[name];
    rounded.resize(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(),
                   [](double value) { return static_cast<float>(value); });
  }
  return narrow;
}

}  // namespace gdn
