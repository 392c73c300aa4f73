#include "harness/tables/pivot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/tables/figure_notes.h"
#include "harness/tables/idle_chunks.h"
#include "interface/error.h"

namespace gdn {
namespace {

// ---- quantities

Quantity scaled(const char* name, const char* header, double Row::*member, double factor,
                int digits = 4) {
  return {name, header, [member, factor, digits](const Row& row) {
            return significant(row.*member * factor, digits);
          }};
}

// Fractions of a ceiling: 0 means that there is none to compare with.
Quantity known_percent(const char* name, const char* header, double Row::*member) {
  return {name, header, [member](const Row& row) {
            return row.*member > 0 ? significant(row.*member * 100, 3) : std::string();
          }};
}

// "1.02 / 0.21 L": each output's error, in order: over its rounding floor where it is measured in
// floors, else over the limit of the arithmetic, marked L. A convolution's or a state's file of
// version 1 has no limits: nothing then.
std::string errors_text(const Row& row, const std::vector<std::string>& outputs) {
  if (row.errors.empty()) return "";
  std::string text;
  for (const std::string& output : outputs) {
    const double floors = row.error(output, ErrorMetric::floor_ratio);
    const double limits = row.error(output, ErrorMetric::limit_ratio);
    const std::string of_output = !std::isnan(floors)   ? significant(floors, 3)
                                  : !std::isnan(limits) ? significant(limits, 2) + " L"
                                                        : "-";
    text += (text.empty() ? "" : " / ") + of_output;
  }
  return text;
}

Quantity errors_quantity() {
  const char* const header = "error (x floor, or L: of the limit)";
  Quantity quantity = {"errors", header,
                       [](const Row& row) { return errors_text(row, outputs_of({&row})); }};
  quantity.in_table = [header](const std::vector<const Row*>& rows) {
    const std::vector<std::string> outputs = outputs_of(rows);
    Quantity here = {"errors", header,
                     [outputs](const Row& row) { return errors_text(row, outputs); }};
    for (const std::string& output : outputs) {
      here.parts += (here.parts.empty() ? "" : " / ") + output;
    }
    return here;
  };
  return quantity;
}

const std::vector<Quantity>& derived_quantities() {
  static const std::vector<Quantity> quantities = {
      scaled("time_us", "us", &Row::time_ms, 1e3),
      scaled("kilo_tokens_per_s", "Kt/s", &Row::tokens_per_s, 1e-3),
      scaled("mega_tokens_per_s", "Mt/s", &Row::tokens_per_s, 1e-6),
      known_percent("percent_of_compute", "% of compute", &Row::fraction_of_compute),
      known_percent("percent_of_bandwidth", "% of bandwidth", &Row::fraction_of_bandwidth),
      scaled("percent_spread", "spread %", &Row::time_relative_spread, 100, 2),
      {"chunk", "chunk",
       [](const Row& row) { return row.chunk == 0 ? std::string() : std::to_string(row.chunk); }},
      {"workspace_mib", "workspace MiB",
       [](const Row& row) {
         return significant(static_cast<double>(row.workspace_bytes) / (1 << 20));
       }},
      {"peak_mib", "peak MiB",
       [](const Row& row) {
         if (row.case_bytes == 0) return std::string();  // a file older than the column
         return significant(static_cast<double>(row.case_bytes + row.workspace_bytes) / (1 << 20));
       }},
      errors_quantity(),
  };
  return quantities;
}

const std::map<std::string, std::string>& column_headers() {
  static const std::map<std::string, std::string> headers = {{"time_ms", "ms"},
                                                             {"chunkwise_tflops", "TFLOP/s"},
                                                             {"recurrent_tflops", "useful TFLOP/s"},
                                                             {"tb_per_s", "TB/s"},
                                                             {"plan_choice", "plan"}};
  return headers;
}

// Text of a numeric column for people; text columns as they are.
std::string display(const Row& row, const RowColumn& column) {
  const FieldValue value = column.get(row);
  if (const auto* real = std::get_if<double>(&value)) return significant(*real);
  return value_text(value);
}

// What a cell shows of a row: the quantity where the row is ok, else why there is none.
std::string cell_text(const Row& row, const Quantity& quantity) {
  return row.ok() ? quantity.text(row) : row.status;
}

// ---- labels

double first_appearance(const Row&) { return std::nan(""); }

// Published names of the recurrence's variants; whether there is a decay at all is told by the
// gates.
std::string variant_name(const Row& row) {
  const bool decays = row.text("gates") != "none";
  const bool per_channel = row.text("decay") == "channel";
  const std::int64_t steps = row.integer("steps");
  if (row.text("update") == "additive") {
    if (!decays) return "linear attention";
    return per_channel ? "GLA (decay per channel)" : "gated linear attention";
  }
  const std::string name = steps > 1     ? "DeltaProduct n=" + std::to_string(steps)
                           : per_channel ? "KDA"
                                         : "DeltaNet";
  return decays && name != "KDA" ? "Gated " + name : name;
}

// Whether the row's problem says the field that may replace this one.
bool is_replaced_in(const Row& row, const ProblemField& field) {
  if (field.replaced_by.empty()) return false;
  static const Problem defaults;
  const auto& columns = problem_field(field.replaced_by).columns;
  return std::any_of(columns.begin(), columns.end(), [&](const FieldColumn& column) {
    const auto found = row.fields.find(column.name);
    return found != row.fields.end() && found->second != column.get(defaults);
  });
}

// Whether the column is one of a problem's field and the row has another value than usual.
bool is_off_default(const Row& row, const std::string& name) {
  static const Problem defaults;
  const auto found = row.fields.find(name);
  if (found == row.fields.end()) return false;
  for (const ProblemField& field : problem_fields()) {
    for (const FieldColumn& column : field.columns) {
      if (column.name == name) return found->second != column.get(defaults);
    }
  }
  return false;
}

// Channels of a convolution that its heads say.
constexpr const char* kOfHeads = "auto";

// Two numbers as one label, sorted by the second, then the first.
Label pair_label(const char* name, const char* first, const char* second, char separator) {
  return {name,
          [=](const Row& row) {
            if (!looks_at(row, first)) return std::string();
            return fmt::format("{}{}{}", row.integer(first), separator, row.integer(second));
          },
          [=](const Row& row) {
            return static_cast<double>(row.integer(second)) * 1e6 +
                   static_cast<double>(row.integer(first));
          },
          std::string("key") + separator + "value"};
}

const std::vector<Label>& derived_labels() {
  static const std::vector<Label> labels = {
      pair_label("heads", "num_key_heads", "num_value_heads", '/'),
      {"dims", pair_label("dims", "key_head_dim", "value_head_dim", 'x').text,
       [](const Row& row) {
         return static_cast<double>(row.integer("key_head_dim")) * 1e6 +
                static_cast<double>(row.integer("value_head_dim"));
       },
       "key x value"},
      // As problem strings have it: those of heads and those of none are not one table.
      {"channels",
       [](const Row& row) {
         if (!looks_at(row, "channels")) return std::string();
         const std::int64_t channels = row.integer("channels");
         return channels == 0 ? std::string(kOfHeads) : std::to_string(channels);
       },
       [](const Row& row) { return static_cast<double>(row.integer("channels")); }},
      {"variant",
       [](const Row& row) { return looks_at(row, "update") ? variant_name(row) : std::string(); },
       first_appearance},
      {"shape",
       [](const Row& row) {
         return is_uniform(row) ? fmt::format("{}x{}", row.integer("num_sequences"),
                                              binary_kilo(row.integer("longest_sequence")))
                                : row.text("sequences");
       },
       [](const Row& row) { return static_cast<double>(row.integer("longest_sequence")); },
       "batch x length"}};
  return labels;
}

// Labels that say the same of a row: one of a group in a pivot stands for the others.
const std::vector<std::set<std::string>>& label_groups() {
  static const std::vector<std::set<std::string>> groups = {
      {"heads", "num_key_heads", "num_value_heads"},
      {"dims", "key_head_dim", "value_head_dim"},
      {"shape", "sequences", "longest_sequence", "num_sequences", "total_tokens"},
      {"chunk", "requested_chunk"},
      {"implementation", "form"},
      {"device", "backend"}};
  return groups;
}

// What the label `variant` says of a row; none of these says it of the others.
const std::set<std::string>& told_by_variant() {
  static const std::set<std::string> names = {"update", "steps", "decay", "gates"};
  return names;
}

// What tables are split by, most telling first, when the pivot itself does not use it: what rows are
// of, every field of the problem, how and where it ran.
const std::vector<std::string>& split_labels() {
  static const std::vector<std::string> labels = [] {
    std::vector<std::string> all = {"operation", "implementation", "heads", "dims", "shape"};
    for (const ProblemField& field : problem_fields()) {
      const bool derived = field.key == "heads" || field.key == "dim" || field.key == "seq";
      for (const FieldColumn& column : field.columns) {
        if (!derived) all.push_back(column.name);
      }
    }
    all.insert(all.end(), {"mode", "device"});
    return all;
  }();
  return labels;
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : separator) + parts[i];
  return text;
}

// One axis of a pivot: distinct label texts, in order.
struct AxisEntry {
  std::vector<std::string> texts;
  std::vector<double> orders;
};

std::vector<AxisEntry> axis_of(const std::vector<const Row*>& rows,
                               const std::vector<Label>& labels) {
  std::vector<AxisEntry> entries;
  for (const Row* row : rows) {
    AxisEntry entry;
    for (const Label& label : labels) {
      entry.texts.push_back(label.text(*row));
      entry.orders.push_back(label.order(*row));
    }
    const bool known = std::any_of(entries.begin(), entries.end(), [&](const AxisEntry& other) {
      return other.texts == entry.texts;
    });
    if (!known) entries.push_back(std::move(entry));
  }
  // Labels in order of appearance keep it: among equal leading labels, only numbers are compared.
  // The rank of a text is that of its first appearance.
  std::vector<std::vector<std::string>> appearance(labels.size());
  for (const AxisEntry& entry : entries) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      auto& seen = appearance[i];
      if (std::find(seen.begin(), seen.end(), entry.texts[i]) == seen.end()) {
        seen.push_back(entry.texts[i]);
      }
    }
  }
  for (AxisEntry& entry : entries) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (!std::isnan(entry.orders[i])) continue;
      const auto& seen = appearance[i];
      entry.orders[i] =
          static_cast<double>(std::find(seen.begin(), seen.end(), entry.texts[i]) - seen.begin());
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const AxisEntry& a, const AxisEntry& b) { return a.orders < b.orders; });
  return entries;
}

std::vector<std::string> texts_of(const Row& row, const std::vector<Label>& labels) {
  std::vector<std::string> texts;
  for (const Label& label : labels) texts.push_back(label.text(row));
  return texts;
}

std::vector<Label> find_labels(const std::vector<std::string>& names) {
  std::vector<Label> labels;
  for (const std::string& name : names) labels.push_back(find_label(name));
  return labels;
}

std::vector<const Row*> pointers(const std::vector<Row>& rows) {
  std::vector<const Row*> result;
  for (const Row& row : rows) result.push_back(&row);
  return result;
}

// "; heads 16/32 (key/value)"; nothing where the operation does not look at it.
void add_setting(std::string& title, const Label& label, const std::string& text) {
  if (text.empty()) return;
  title += "; " + label.name + " " + text + (label.parts.empty() ? "" : " (" + label.parts + ")");
}

bool passes(const Row& row, const std::vector<RowFilter>& filters) {
  return std::all_of(filters.begin(), filters.end(), [&](const RowFilter& filter) {
    const std::string text = filter.label.text(row);
    return std::find(filter.values.begin(), filter.values.end(), text) != filter.values.end();
  });
}

}  // namespace

bool looks_at(const Row& row, const std::string& column) {
  const auto& all = operations();
  const auto operation = std::find_if(all.begin(), all.end(), [&](const Operation candidate) {
    return candidate->name == row.operation;
  });
  if (operation == all.end()) return true;
  for (const ProblemField& field : problem_fields()) {
    for (const FieldColumn& of_field : field.columns) {
      if (of_field.name != column) continue;
      return (*operation)->has_field(field.key) && !is_replaced_in(row, field);
    }
  }
  return true;
}

bool is_uniform(const Row& row) {
  return row.integer("num_sequences") * row.integer("longest_sequence") ==
         row.integer("total_tokens");
}

std::string binary_kilo(std::int64_t tokens) {
  return tokens >= 1024 && tokens % 1024 == 0 ? std::to_string(tokens / 1024) + "K"
                                              : std::to_string(tokens);
}

std::vector<std::string> distinct(const std::vector<const Row*>& rows,
                                  const std::function<std::string(const Row&)>& text) {
  std::vector<std::string> values;
  for (const Row* row : rows) {
    const std::string value = text(*row);
    if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(value);
    }
  }
  return values;
}

std::vector<std::string> outputs_of(const std::vector<const Row*>& rows) {
  std::vector<std::string> outputs;
  for (const Row* row : rows) {
    for (const RowError& error : row->errors) {
      const bool known = std::find(outputs.begin(), outputs.end(), error.output) != outputs.end();
      if (!known) outputs.push_back(error.output);
    }
  }
  return outputs;
}

std::vector<Quantity> error_quantities(const std::vector<const Row*>& rows) {
  std::vector<Quantity> quantities;
  for (const std::string& output : outputs_of(rows)) {
    const bool in_floors = std::any_of(rows.begin(), rows.end(), [&](const Row* row) {
      return !std::isnan(row->error(output, ErrorMetric::floor_ratio));
    });
    const ErrorMetric metric = in_floors ? ErrorMetric::floor_ratio : ErrorMetric::limit_ratio;
    quantities.push_back({output + "_error",
                          output + (in_floors ? " error / floor" : " error / limit"),
                          [output, metric, in_floors](const Row& row) {
                            return significant(row.error(output, metric), in_floors ? 3 : 2);
                          }});
  }
  return quantities;
}

std::vector<std::string> quantity_names() {
  std::vector<std::string> names;
  for (const Quantity& quantity : derived_quantities()) names.push_back(quantity.name);
  for (const RowColumn& column : row_columns()) names.push_back(column.name);
  return names;
}

Quantity find_quantity(const std::string& name) {
  for (const Quantity& quantity : derived_quantities()) {
    if (quantity.name == name) return quantity;
  }
  // Files of earlier versions call it so in their commands.
  if (name == "error_in_floors") return find_quantity("errors");
  try {
    const RowColumn column = find_row_column(name);
    const auto header = column_headers().find(name);
    return {name, header == column_headers().end() ? name : header->second,
            [column](const Row& row) { return display(row, column); }};
  } catch (const Error&) {
    throw_bad_input("quantity '" + name + "' is unknown (did you mean '" +
                    nearest_name(name, quantity_names()) + "'?)");
  }
}

Label find_label(const std::string& name) {
  std::vector<std::string> names;
  for (const Label& label : derived_labels()) {
    if (label.name == name) return label;
    names.push_back(label.name);
  }
  for (const RowColumn& column : row_columns()) {
    names.push_back(column.name);
    if (column.name != name) continue;
    const auto text = [&column](const Row& row) {
      return looks_at(row, column.name) ? column_text(row, column) : std::string();
    };
    if (column.is_text() || column.is_real()) return {name, text, first_appearance};
    return {name, text, [&column](const Row& row) {
              return static_cast<double>(std::get<std::int64_t>(column.get(row)));
            }};
  }
  throw_bad_input("label '" + name + "' is unknown (did you mean '" + nearest_name(name, names) +
                  "'?)");
}

RowFilter parse_row_filter(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) {
    throw_bad_input("filter '" + text + "': expected COLUMN=VALUE or COLUMN=A|B");
  }
  RowFilter filter{find_label(text.substr(0, equals)), {}};
  std::string rest = text.substr(equals + 1);
  while (true) {
    const auto bar = rest.find('|');
    filter.values.push_back(rest.substr(0, bar));
    if (bar == std::string::npos) return filter;
    rest = rest.substr(bar + 1);
  }
}

std::vector<Row> filtered(const std::vector<Row>& rows, const std::vector<RowFilter>& filters) {
  std::vector<Row> result;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(result),
               [&](const Row& row) { return passes(row, filters); });
  return result;
}

StoredRows filtered(const StoredRows& stored, const std::vector<RowFilter>& filters) {
  StoredRows result;
  for (const Row& row : stored.rows) {
    if (passes(row, filters)) result.add(row, stored.samples_of(row));
  }
  return result;
}

std::vector<std::string> provenance_notes(const std::vector<const Row*>& rows) {
  std::vector<std::string> notes;
  const auto devices = distinct(rows, [](const Row& row) {
    return row.device + (row.driver_version.empty() ? "" : ", driver " + row.driver_version);
  });
  auto days = distinct(rows, [](const Row& row) { return row.date.substr(0, 10); });
  std::sort(days.begin(), days.end());
  const auto modes = distinct(rows, [](const Row& row) {
    return row.mode == "cold"  ? "cold cache"
           : row.mode == "hot" ? "hot cache"
                               : std::string("verified, not timed");
  });
  std::string when = days.empty() ? "" : days.front();
  if (days.size() > 1) when += " to " + days.back();
  notes.push_back("Device: " + joined(devices, "; ") + ". Date: " + when + ". " +
                  joined(modes, ", "));
  if (std::any_of(rows.begin(), rows.end(),
                  [](const Row* row) { return row->modelled_time != 0; })) {
    notes.push_back("Times of this device come from a model, not from a clock");
  }
  return notes;
}

std::vector<std::string> origin_lines(const std::vector<const Row*>& rows) {
  std::vector<std::string> lines;
  for (const std::string& command : distinct(rows, [](const Row& row) { return row.command; })) {
    lines.push_back("Command: " + command);
  }
  const auto hashes = distinct(rows, [](const Row& row) { return row.source_hash.substr(0, 12); });
  if (!hashes.empty()) lines.push_back("Sources: " + joined(hashes, ", "));
  return lines;
}

std::vector<Table> pivot(const std::vector<Row>& rows, const PivotOptions& options) {
  return pivot(rows, options, find_quantity(options.cell));
}

std::vector<Table> pivot(const std::vector<Row>& given_rows, const PivotOptions& options,
                         const Quantity& quantity) {
  if (given_rows.empty()) throw_bad_input("table: no rows");
  const std::vector<Row> rows = without_idle_chunks(given_rows);
  const std::vector<Label> row_labels = find_labels(options.row_labels);
  const std::vector<Label> column_labels = find_labels(options.column_labels);

  std::set<std::string> used(options.row_labels.begin(), options.row_labels.end());
  used.insert(options.column_labels.begin(), options.column_labels.end());
  const std::set<std::string> given = used;
  for (const auto& group : label_groups()) {
    const bool stands = std::any_of(group.begin(), group.end(),
                                    [&](const std::string& name) { return given.count(name) > 0; });
    if (stands) used.insert(group.begin(), group.end());
  }
  if (given.count("variant") > 0) used.insert(told_by_variant().begin(), told_by_variant().end());
  const std::vector<const Row*> all = pointers(rows);
  std::vector<Label> sections;   // tell tables apart
  std::vector<Label> constants;  // the same everywhere: said once in the title
  for (const std::string& name : split_labels()) {
    if (used.count(name) > 0) continue;
    const Label label = find_label(name);
    (distinct(all, label.text).size() > 1 ? sections : constants).push_back(label);
  }

  std::vector<Table> tables;
  for (const AxisEntry& section : axis_of(all, sections)) {
    std::vector<const Row*> members;
    for (const Row* row : all) {
      if (texts_of(*row, sections) == section.texts) members.push_back(row);
    }
    const Quantity shown = quantity.in_table == nullptr ? quantity : quantity.in_table(members);
    const std::vector<AxisEntry> row_axis = axis_of(members, row_labels);
    const std::vector<AxisEntry> column_axis = axis_of(members, column_labels);

    std::map<std::pair<std::string, std::string>, const Row*> cells;
    for (const Row* row : members) {
      const auto place = std::make_pair(joined(texts_of(*row, row_labels), "\n"),
                                        joined(texts_of(*row, column_labels), " "));
      const auto [cell, inserted] = cells.try_emplace(place, row);
      if (inserted) continue;
      if (cell->second->key() != row->key()) {
        throw_bad_input("table: '" + cell->second->key() + "' and '" + row->key() +
                        "' fall on one cell; tell them apart with --rows, --columns or --where");
      }
      if (row->date >= cell->second->date) cell->second = row;  // measured again later
    }

    Table table;
    table.title = options.title;
    if (table.title.empty()) {
      table.title = shown.header + " by ";
      for (const Label& label : column_labels) {
        table.title += (&label == column_labels.data() ? "" : ", ") + label.heading();
      }
    }
    if (!shown.parts.empty()) table.title += "; each cell: " + shown.parts;
    for (const Label& label : constants) {
      const std::string text = label.text(*members.front());
      const bool says_something =
          label.name == "operation" || label.name == "heads" || label.name == "dims" ||
          (label.name == "channels" && text != kOfHeads) || label.name == "token_dtype" ||
          label.name == "shape" || label.name == "gates" ||
          is_off_default(*members.front(), label.name);
      if (says_something) add_setting(table.title, label, text);
    }
    for (std::size_t i = 0; i < sections.size(); ++i) {
      add_setting(table.title, sections[i], section.texts[i]);
    }
    table.label_columns = row_labels.size();
    for (const Label& label : row_labels) table.header.push_back(label.heading());
    for (const AxisEntry& column : column_axis) {
      // Without a text where the operation does not look at what columns are told apart by.
      const std::string text = joined(column.texts, " ");
      table.header.push_back(text.empty() ? shown.header : text);
    }
    for (const AxisEntry& line : row_axis) {
      table.rows.push_back(line.texts);
      for (const AxisEntry& column : column_axis) {
        const auto cell = cells.find({joined(line.texts, "\n"), joined(column.texts, " ")});
        table.rows.back().push_back(cell == cells.end() ? "" : cell_text(*cell->second, shown));
      }
    }
    table.notes = figure_notes(members, {shown.name});
    const auto notes = provenance_notes(members);
    table.notes.insert(table.notes.end(), notes.begin(), notes.end());
    table.origin = origin_lines(members);
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace gdn
