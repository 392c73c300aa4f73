#include "harness/rows/row_record.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "interface/error.h"

namespace gdn {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw_bad_input("rows file '" + path + "': " + what);
}

std::size_t rounded_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// ---- files of "gdn-rows/1": errors as columns

void add_error(Row& row, const std::string& output, ErrorMetric metric, double value) {
  if (!std::isnan(value)) row.errors.push_back({output, metric, RowError::kWhole, value});
}

RowColumn legacy_metric(const std::string& prefix, const std::string& output, ErrorMetric metric) {
  return {prefix + "_" + name_of(metric), "", [](const Row&) -> FieldValue { return kNotMeasured; },
          [output, metric](Row& row, const FieldValue& value) {
            add_error(row, output, metric, std::get<double>(value));
          }};
}

// A state of float32 beside 16-bit tokens is not measured in floors (Row's metric floor_ratio).
void drop_floors_that_measure_nothing(Row& row) {
  const double tokens = unit_roundoff(parse_dtype(row.text("token_dtype"), "token_dtype"));
  const double states = unit_roundoff(parse_dtype(row.text("state_dtype"), "state_dtype"));
  const double outputs = unit_roundoff(parse_dtype(row.text("output_dtype"), "output_dtype"));
  std::erase_if(row.errors, [&](const RowError& error) {
    if (error.metric != ErrorMetric::floor_ratio) return false;
    if (error.output == "output") return outputs < tokens;
    return error.output != "conv_output" && states < tokens;
  });
}

// An output made on request had an error of exactly 0 where nobody had asked for it.
void drop_errors_of_what_was_not_made(Row& row) {
  const Operation operation = parse_operation(row.operation);
  std::erase_if(row.errors, [&](const RowError& error) {
    const Operand* output = operation->find_output(error.output);
    return output != nullptr && output->hand_over.on_request && error.value == 0;
  });
}

// "0:0.0021 64:0.0023 ...".
void add_positions(Row& row, const std::string& output, const std::string& text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    RowError window{output, ErrorMetric::relative_l2, 0, 0};
    const auto token = std::from_chars(at, end, window.first_token);
    const bool colon = token.ec == std::errc() && token.ptr != end && *token.ptr == ':';
    const auto error = colon ? std::from_chars(token.ptr + 1, end, window.value) : token;
    if (!colon || error.ec != std::errc() || (error.ptr != end && *error.ptr != ' ')) {
      throw_bad_input("row '" + row.key() + "': error by position '" + text +
                      "', expected 'TOKEN:ERROR TOKEN:ERROR ...'");
    }
    row.errors.push_back(window);
    at = error.ptr == end ? end : error.ptr + 1;
  }
}

std::vector<RowColumn> legacy_error_columns() {
  std::vector<RowColumn> columns;
  const std::pair<const char*, const char*> outputs[] = {{"output", "output"},
                                                         {"state", "final_state"},
                                                         {"conv_output", "conv_output"},
                                                         {"conv_state", "conv_state"}};
  for (const auto& [prefix, output] : outputs) {
    for (const auto& [name, metric] : names_of<ErrorMetric>()) {
      columns.push_back(legacy_metric(prefix, output, metric));
    }
  }
  columns.push_back({"output_error_by_position", "",
                     [](const Row&) -> FieldValue { return std::string(); },
                     [](Row& row, const FieldValue& value) {
                       add_positions(row, "output", std::get<std::string>(value));
                     }});
  return columns;
}

}  // namespace

Hdf5Handle fixed_string_type(std::size_t bytes) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), bytes);
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

RecordLayout::Kind RecordLayout::kind_of(const RowColumn& column) {
  if (column.is_text()) return Kind::text;
  return column.is_real() ? Kind::real : Kind::integer;
}

void RecordLayout::add(const RowColumn& column, Kind kind, std::size_t bytes) {
  fields_.push_back({column, kind, bytes_, bytes});
  bytes_ += bytes;
}

RecordLayout RecordLayout::for_rows(const std::vector<Row>& rows) {
  RecordLayout layout;
  for (const RowColumn& column : row_columns()) {
    const Kind kind = kind_of(column);
    std::size_t bytes = sizeof(double);
    if (kind == Kind::text) {
      std::size_t longest = 1;
      for (const Row& row : rows) longest = std::max(longest, column_text(row, column).size());
      bytes = rounded_up(longest, 32);
    }
    layout.add(column, kind, bytes);
  }
  layout.complete_ = true;
  return layout;
}

RecordLayout RecordLayout::of_dataset(const std::string& path, hid_t dataset) {
  const hid_t id = H5Dget_type(dataset);
  if (id < 0) fail(path, "could not read the type of /rows: " + hdf5_error_text());
  const Hdf5Handle type(id, H5Tclose);
  if (H5Tget_class(type.id()) != H5T_COMPOUND) fail(path, "/rows is not a compound dataset");
  RecordLayout layout;
  const auto take = [&](const RowColumn& column) {
    const int index = H5Tget_member_index(type.id(), column.name.c_str());
    if (index < 0) return;
    const Hdf5Handle member(H5Tget_member_type(type.id(), static_cast<unsigned>(index)), H5Tclose);
    const H5T_class_t found = H5Tget_class(member.id());
    const Kind kind = kind_of(column);
    const bool matches = kind == Kind::text
                             ? found == H5T_STRING && H5Tis_variable_str(member.id()) <= 0
                             : found == (kind == Kind::real ? H5T_FLOAT : H5T_INTEGER);
    if (!matches) {
      fail(path, "column " + column.name + " of /rows is not " +
                     (kind == Kind::text   ? "a string of fixed length"
                      : kind == Kind::real ? "floating point"
                                           : "an integer"));
    }
    layout.add(column, kind, kind == Kind::text ? H5Tget_size(member.id()) : sizeof(double));
  };
  for (const RowColumn& column : row_columns()) take(column);
  layout.complete_ = layout.fields_.size() == row_columns().size();
  const std::size_t before = layout.fields_.size();
  for (const RowColumn& column : legacy_error_columns()) take(column);
  layout.has_legacy_errors_ = layout.fields_.size() != before;
  layout.complete_ = layout.complete_ && !layout.has_legacy_errors_;
  for (const char* required : {"problem", "implementation", "mode", "status"}) {
    const bool present = std::any_of(layout.fields_.begin(), layout.fields_.end(),
                                     [&](const Field& f) { return f.column.name == required; });
    if (!present) fail(path, std::string("/rows has no column ") + required);
  }
  return layout;
}

bool RecordLayout::holds(const Row& row) const {
  if (!complete_) return false;  // a file of fewer columns
  return std::all_of(fields_.begin(), fields_.end(), [&](const Field& field) {
    return field.kind != Kind::text || column_text(row, field.column).size() <= field.bytes;
  });
}

Hdf5Handle RecordLayout::type_of(const Field& field) {
  if (field.kind == Kind::text) return fixed_string_type(field.bytes);
  return Hdf5Handle(H5Tcopy(field.kind == Kind::real ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64),
                    H5Tclose);
}

Hdf5Handle RecordLayout::memory_type() const {
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, bytes_), H5Tclose);
  for (const Field& field : fields_) {
    const Hdf5Handle of_field = type_of(field);
    H5Tinsert(type.id(), field.column.name.c_str(), field.offset, of_field.id());
  }
  return type;
}

void RecordLayout::pack(const Row& row, std::byte* record) const {
  std::memset(record, 0, bytes_);
  for (const Field& field : fields_) {
    const FieldValue value = field.column.get(row);
    std::byte* at = record + field.offset;
    if (const auto* text = std::get_if<std::string>(&value)) {
      std::memcpy(at, text->data(), text->size());
    } else {
      std::visit(
          [&](const auto& number) {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(number)>>) {
              std::memcpy(at, &number, sizeof number);
            }
          },
          value);
    }
  }
}

Row RecordLayout::unpack(const std::byte* record) const {
  Row row;
  for (const Field& field : fields_) {
    const std::byte* at = record + field.offset;
    FieldValue value;
    if (field.kind == Kind::text) {
      const char* characters = reinterpret_cast<const char*>(at);
      value = std::string(characters, strnlen(characters, field.bytes));
    } else if (field.kind == Kind::real) {
      double real = 0;
      std::memcpy(&real, at, sizeof real);
      value = real;
    } else {
      std::int64_t integer = 0;
      std::memcpy(&integer, at, sizeof integer);
      value = integer;
    }
    field.column.set(row, value);
  }
  if (has_legacy_errors_) {
    drop_floors_that_measure_nothing(row);
    drop_errors_of_what_was_not_made(row);
  }
  return row;
}

}  // namespace gdn
