#include "harness/files/case_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "harness/files/case_attributes.h"
#include "harness/files/hdf5_group.h"
#include "harness/run/host_memory.h"
#include "harness/run/memory_needed.h"
#include "interface/error.h"
#include "interface/nearest_name.h"
#include "interface/operations/batch_operands.h"

namespace gdn {
namespace {

bool is_stored_input(const Operand& operand) {
  return operand.role != Role::output && !operand.is_index() && !operand.hand_over.between_steps;
}

// Indices beside those that every batch has.
bool is_index_of_its_own(const Operand& operand) {
  return operand.is_index() && operand.name != "sequence_offsets" && operand.name != "slot_index";
}

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What a group has, by name; groups inside it are cases or outputs of their own.
struct NamesThere {
  Names attributes;
  Names datasets;
};

NamesThere names_there(const CasePath& path) {
  NamesThere there;
  const Hdf5Quiet quiet;
  const Hdf5Handle file(H5Fopen(path.file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  const Hdf5Handle group(H5Gopen2(file.id(), path.group.c_str(), H5P_DEFAULT), H5Gclose);
  const auto take_attribute = [](hid_t, const char* name, const H5A_info_t*,
                                 void* names) -> herr_t {
    static_cast<Names*>(names)->emplace_back(name);
    return 0;
  };
  H5Aiterate2(group.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take_attribute, &there.attributes);
  const auto take_dataset = [](hid_t in, const char* name, const H5L_info_t*,
                               void* names) -> herr_t {
    const Hdf5Handle object(H5Oopen(in, name, H5P_DEFAULT), H5Oclose);
    if (H5Iget_type(object.id()) != H5I_GROUP) static_cast<Names*>(names)->emplace_back(name);
    return 0;
  };
  H5Literate(group.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take_dataset, &there.datasets);
  return there;
}

// Those of every operation: files of earlier versions state some that theirs does not look at. What
// made the outputs that may lie beside a case, and a free text, are for readers.
Names known_attributes() {
  Names known = {"schema",     "op",     "problem",         "description", "implementation",
                 "chunk_size", "device", "library_version", "command"};
  for (const ProblemField& field : problem_fields()) {
    for (const FieldAttribute& attribute : field.attributes) known.push_back(attribute.name);
  }
  return known;
}

// Outputs may lie beside the case they are of.
Names known_datasets(const OperationSchema& schema) {
  Names known;
  for (const Operand& operand : schema.operands) {
    if (operand.hand_over.between_steps) continue;
    known.push_back(operand.name);
    if (!operand.in_place.name_after.empty()) known.push_back(operand.in_place.name_after);
  }
  return known;
}

// Reading a case: first the problem, from attributes, datasets that are there and extents; then the
// arrays.
class CaseReader {
 public:
  explicit CaseReader(const std::string& path)
      : path_(CasePath::parse(path)),
        file_(path_.file, path_.group),
        problem_(read_problem_attributes(file_)) {
    require_known_names();
    find_what_is_there();
    infer_extents();
    read_batch();
    read_pool_rows();
    problem_.case_file = path;
    try {
      problem_.validate();
    } catch (const Error& error) {
      file_.fail(error.what());
    }
    require_room_for_pools();
  }

  const Problem& problem() const { return problem_; }
  void use_dtypes(DType token_dtype, DType state_dtype) {
    problem_.token_dtype = token_dtype;
    problem_.state_dtype = state_dtype;
  }

  Case read() {
    require_host_memory(problem_);
    Case c;
    c.problem = problem_;
    c.sequence_offsets = offsets_;
    c.slot_index = slots_;
    for (const Operand& operand : schema().operands) {
      if (is_stored_input(operand) && is_present(operand, problem_))
        c[operand.name] = values(operand);
      if (is_index_of_its_own(operand) && is_present(operand, problem_)) {
        c.other_indices[operand.name] = file_.integers(operand.name, extents(operand, problem_),
                                                       shape_names(operand, problem_));
      }
    }
    try {
      validate(c);
    } catch (const Error& error) {
      file_.fail(error.what());
    }
    return c;
  }

 private:
  const OperationSchema& schema() const { return *problem_.operation; }

  // A misspelt name of something optional would count as its absence, and another problem be read.
  void require_known_names() const {
    const NamesThere there = names_there(path_);
    const Names attributes = known_attributes();
    for (const std::string& name : there.attributes) {
      if (contains(attributes, name)) continue;
      file_.fail("attribute '" + name + "' is unknown (did you mean '" +
                 nearest_name(name, attributes) + "'?)");
    }
    const Names datasets = known_datasets(schema());
    for (const std::string& name : there.datasets) {
      if (contains(datasets, name)) continue;
      file_.fail("dataset '" + name + "' is no operand of " + schema().name + " (did you mean '" +
                 nearest_name(name, datasets) + "'?)");
    }
  }

  // What the datasets that are there, and those that are not, say of the problem.
  void find_what_is_there() {
    std::vector<std::string> looked_at;
    for (const Operand& operand : schema().operands) {
      if (!is_stored_input(operand) && !is_index_of_its_own(operand)) continue;
      if (operand.in_file.alternatives.empty()) {
        if (operand.in_file.infer_presence != nullptr) {
          try {
            operand.in_file.infer_presence(problem_, file_.has_dataset(operand.name));
          } catch (const Error& error) {
            file_.fail(error.what());
          }
        }
      } else if (std::find(looked_at.begin(), looked_at.end(), operand.in_file.alternatives) ==
                 looked_at.end()) {
        looked_at.push_back(operand.in_file.alternatives);
        choose_one_of(operand.in_file.alternatives);
      }
    }
  }

  void choose_one_of(const std::string& alternatives) {
    std::string all;
    std::string found;
    const Operand* chosen = nullptr;
    int count = 0;
    for (const Operand& operand : schema().operands) {
      if (operand.in_file.alternatives != alternatives) continue;
      all += (all.empty() ? "" : " | ") + operand.name;
      if (!file_.has_dataset(operand.name)) continue;
      found += (found.empty() ? "'" : " and '") + operand.name + "'";
      chosen = &operand;
      ++count;
    }
    if (count == 0) file_.fail("a dataset is missing: exactly one of " + all + " is needed");
    if (count > 1)
      file_.fail("datasets " + found + " are both there; expected exactly one of " + all);
    chosen->in_file.infer_presence(problem_, true);
  }

  // Dimensions that no attribute says, from the first dataset that has them.
  void infer_extents() {
    Names known;
    for (const Operand& operand : schema().operands) {
      if (!is_stored_input(operand) || !is_present(operand, problem_)) continue;
      const std::vector<Dimension> dimensions = operand.shape(problem_);
      Shape expected;
      bool any_unknown = false;
      for (const Dimension& dimension : dimensions) {
        const bool unknown = dimension.infer != nullptr && !contains(known, dimension.name);
        const bool free = unknown || dimension.cut == Cut::pool_rows;
        expected.push_back(free ? kAnyExtent : dimension.size(problem_));
        any_unknown = any_unknown || unknown;
      }
      if (!any_unknown) continue;
      const Shape found = file_.shape(operand.name, expected, shape_names(operand, problem_));
      for (std::size_t i = 0; i < dimensions.size(); ++i) {
        if (dimensions[i].infer == nullptr || contains(known, dimensions[i].name)) continue;
        dimensions[i].infer(problem_, found[i]);
        known.emplace_back(dimensions[i].name);
      }
    }
  }

  void read_batch() {
    const std::int64_t tokens = problem_.total_tokens();
    offsets_ = {0, tokens};
    if (file_.has_dataset("sequence_offsets")) {
      offsets_ = file_.integers("sequence_offsets", {kAnyExtent}, "[N + 1]");
    }
    try {
      problem_.sequences = SequenceLengths::from_offsets(offsets_);
    } catch (const Error& error) {
      file_.fail(error.what());
    }
    if (offsets_.back() != tokens) {
      file_.fail("dataset 'sequence_offsets' ends at " + std::to_string(offsets_.back()) +
                 ", expected the number of tokens, " + std::to_string(tokens));
    }
    if (schema().find("slot_index") == nullptr || !file_.has_dataset("slot_index")) return;
    slots_ = file_.integers("slot_index", {problem_.num_sequences()}, "[N]");
    const bool padding = std::find(slots_.begin(), slots_.end(), -1) != slots_.end();
    problem_.slots = padding ? SlotMap::padding : SlotMap::permuted;
  }

  // All pools have the same rows: as many as the attribute says or a stored pool has, or else as the
  // slots need.
  void read_pool_rows() {
    std::int64_t rows = problem_.num_sequences();
    for (const std::int64_t slot : slots_) rows = std::max(rows, slot + 1);
    if (problem_.output_slots == OutputSlots::other) {
      const Shape shape = {problem_.num_sequences()};
      for (const std::int64_t slot : file_.integers(kOutputSlotIndex, shape, "[N]"))
        rows = std::max(rows, slot + 1);
    }
    const std::int64_t least = problem_.slots == SlotMap::identity ? problem_.num_sequences() : 1;
    rows = file_.integer_attribute_or("pool_rows", least, rows);
    bool fixed = file_.has_attribute("pool_rows");
    for (const Operand& operand : schema().operands) {
      if (!is_pool(operand) || !file_.has_dataset(operand.name)) continue;
      const Shape expected = extents(operand, problem_, fixed ? rows : kAnyExtent);
      rows = file_.shape(operand.name, expected, shape_names(operand, problem_))[0];
      fixed = true;
    }
    problem_.set_pool_rows(rows);
  }

  bool is_pool(const Operand& operand) const {
    return is_stored_input(operand) && is_present(operand, problem_) &&
           cut_of(operand, problem_) == Cut::pool_rows;
  }

  // Rows and padding are numbers in the file, and no array need be there that has their size.
  void require_room_for_pools() const {
    long double of_row = 0;
    for (const Operand& operand : schema().operands) {
      if (!is_pool(operand)) continue;
      of_row += static_cast<long double>(row_elements(operand, problem_));
      if (operand.pool.row_padding != nullptr) {
        of_row += static_cast<long double>(operand.pool.row_padding(problem_));
      }
    }
    const std::string why =
        exceeds_host(sizeof(float) * of_row * static_cast<long double>(problem_.num_pool_rows()));
    if (why.empty()) return;
    file_.fail("a pool of " + std::to_string(problem_.num_pool_rows()) +
               " rows (attribute 'pool_rows', dataset 'slot_index') with attribute "
               "'pool_row_padding' = " +
               std::to_string(problem_.pool_row_padding) + " takes " + why);
  }

  std::vector<float> values(const Operand& operand) const {
    const Problem& p = problem_;
    const bool pool = cut_of(operand, p) == Cut::pool_rows;
    // A dataset of its name is then the output.
    if (operand.role == Role::in_place && !is_read(operand, p)) {
      return std::vector<float>(static_cast<std::size_t>(element_count(operand, p)),
                                std::numeric_limits<float>::quiet_NaN());
    }
    if (operand.in_file.when_absent != WhenAbsent::not_allowed &&
        !file_.has_dataset(operand.name)) {
      const float value = operand.in_file.when_absent == WhenAbsent::zeros
                              ? 0.0f
                              : std::numeric_limits<float>::quiet_NaN();
      return std::vector<float>(static_cast<std::size_t>(element_count(operand, p)), value);
    }
    std::vector<float> stored =
        file_.floats(operand.name, extents(operand, p), shape_names(operand, p));
    const DType dtype = operand.dtype(p);
    for (float& value : stored) value = round_to(dtype, value);
    if (!pool || row_stride(operand, p) == row_elements(operand, p)) return stored;
    std::vector<float> padded(static_cast<std::size_t>(element_count(operand, p)),
                              std::numeric_limits<float>::quiet_NaN());
    copy_into_padded(operand, p, stored, padded);
    return padded;
  }

  CasePath path_;
  GroupReader file_;
  Problem problem_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> slots_;
};

}  // namespace

CasePath CasePath::parse(const std::string& text) {
  CasePath path;
  const auto colon = text.rfind(":/");
  path.file = text.substr(0, colon);
  if (colon != std::string::npos) path.group = text.substr(colon + 1);
  if (path.file.empty()) throw_bad_input("case '" + text + "': expected FILE.h5 or FILE.h5:/group");
  return path;
}

std::string CasePath::to_string() const { return group == "/" ? file : file + ":" + group; }

Case read_case(const std::string& path) { return CaseReader(path).read(); }

Case read_case_as(const std::string& path, DType token_dtype, DType state_dtype) {
  CaseReader reader(path);
  reader.use_dtypes(token_dtype, state_dtype);
  return reader.read();
}

Problem read_case_problem(const std::string& path) { return CaseReader(path).problem(); }

void write_case(const Case& c, const std::string& path) {
  validate(c);
  const Problem& p = c.problem;
  const CasePath target = CasePath::parse(path);
  require_other_file(c, target.file);
  GroupWriter file(target.file, target.group, GroupWriter::Mode::add_group);
  write_problem_attributes(file, c);
  file.dataset("sequence_offsets", c.sequence_offsets);
  if (!c.slot_index.empty()) file.dataset("slot_index", c.slot_index);
  for (const Operand& operand : p.operation->operands) {
    if (is_index_of_its_own(operand) && is_present(operand, p)) {
      file.dataset(operand.name, extents(operand, p), c.indices(operand));
    }
    if (!is_stored_input(operand) || !is_present(operand, p)) continue;
    if (operand.role == Role::in_place && !is_read(operand, p)) continue;
    file.dataset(operand.name, extents(operand, p), without_padding(operand, p, c[operand.name]));
  }
  file.finish();
}

}  // namespace gdn
