#include "harness/files/case_attributes.h"

#include <algorithm>
#include <filesystem>

#include "harness/files/case_file.h"
#include "interface/error.h"

namespace gdn {
namespace {

void write_attribute(GroupWriter& file, const std::string& name, const FieldValue& value) {
  std::visit([&](const auto& held) { file.attribute(name, held); }, value);
}

// Whether the file says the field that may replace this one.
bool is_replaced_in(const GroupReader& file, const OperationSchema& schema,
                    const ProblemField& field) {
  if (!schema.has_field(field.replaced_by)) return false;
  const auto& attributes = problem_field(field.replaced_by).attributes;
  return std::any_of(attributes.begin(), attributes.end(), [&](const FieldAttribute& attribute) {
    return file.has_attribute(attribute.name);
  });
}

bool is_required(const OperationSchema& schema, const ProblemField& field,
                 const FieldAttribute& attribute) {
  const auto& stated = schema.stated_fields;
  return attribute.required || std::find(stated.begin(), stated.end(), field.key) != stated.end();
}

FieldValue read_attribute(const GroupReader& file, const FieldAttribute& attribute) {
  const FieldValue kind = attribute.get(Problem());
  if (std::holds_alternative<std::string>(kind)) return file.string_attribute(attribute.name);
  if (std::holds_alternative<double>(kind)) return file.number_attribute(attribute.name);
  return file.integer_attribute(attribute.name, attribute.lowest);
}

std::string text_of(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "'" + *text + "'";
  if (const auto* number = std::get_if<double>(&value)) return std::to_string(*number);
  return std::to_string(std::get<std::int64_t>(value));
}

}  // namespace

void write_problem_attributes(GroupWriter& file, const Case& c) {
  const Problem& p = c.problem;
  static const Problem defaults;
  file.attribute("schema", kCaseSchema);
  file.attribute("op", p.operation->name);
  for (const ProblemField& field : problem_fields()) {
    if (!p.operation->has_field(field.key) || is_replaced(field, p)) continue;
    const bool at_default = field.get(p) == field.get(defaults);
    for (const FieldAttribute& attribute : field.attributes) {
      if (attribute.written == FieldAttribute::Written::unless_default && at_default) continue;
      write_attribute(file, attribute.name, attribute.get(p));
    }
  }
  file.attribute("problem", p.to_string());
}

Problem read_problem_attributes(const GroupReader& file) {
  const std::string schema = file.string_attribute("schema");
  if (schema != kCaseSchema) {
    file.fail("attribute 'schema' is '" + schema + "', expected '" + kCaseSchema + "'");
  }
  Problem p;
  const std::string op = file.string_attribute("op");
  std::string known;
  bool found = false;
  for (const Operation operation : operations()) {
    known += (known.empty() ? "" : " | ") + operation->name;
    if (operation->name != op) continue;
    p.operation = operation;
    found = true;
  }
  if (!found) file.fail("attribute 'op' is '" + op + "', expected " + known);
  for (const ProblemField& field : problem_fields()) {
    if (!p.operation->has_field(field.key)) continue;
    const bool replaced = is_replaced_in(file, *p.operation, field);
    for (const FieldAttribute& attribute : field.attributes) {
      const bool required = is_required(*p.operation, field, attribute) && !replaced;
      if (!required && !file.has_attribute(attribute.name)) {
        continue;
      }
      const FieldValue value = read_attribute(file, attribute);
      if (attribute.set(p, value)) continue;
      file.fail("attribute '" + attribute.name + "' is " + text_of(value) + ", expected " +
                attribute.expected);
    }
  }
  if (p.num_value_heads % p.num_key_heads != 0) {
    file.fail("attribute 'num_value_heads' is " + std::to_string(p.num_value_heads) +
              ", expected a multiple of num_key_heads = " + std::to_string(p.num_key_heads));
  }
  return p;
}

void require_other_file(const Case& inputs, const std::string& file) {
  std::error_code ignored;
  if (inputs.problem.case_file.empty()) return;
  if (std::filesystem::equivalent(CasePath::parse(inputs.problem.case_file).file, file, ignored)) {
    throw_bad_input(file + ": holds the inputs and is not overwritten; name another output file");
  }
}

}  // namespace gdn
