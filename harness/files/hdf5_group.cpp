#include "harness/files/hdf5_group.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "harness/run/host_memory.h"
#include "interface/error.h"

namespace gdn {
namespace {

// At exit HDF5 closes the files that are still open and writes what it has cached of them. Where that
// fails, as it does on a full disk, it crashes. Here every file is closed by its owner, but for those
// that could not be written, which stay open on purpose.
[[maybe_unused]] const herr_t kNothingClosedAtExit = H5dont_atexit();

// Closes nothing: of a file in the making, which is closed by finish() alone.
herr_t leave_open(hid_t) { return 0; }

// The system's reason where there is one ("No space left on device"), which HDF5 words within a list
// of addresses and sizes; else HDF5's.
std::string hdf5_reason() {
  const std::string text = hdf5_error_text();
  if (text.empty()) return "";
  const std::string before = "error message = '";
  const std::size_t found = text.find(before);
  if (found == std::string::npos) return " (HDF5: " + text + ")";
  const std::size_t begin = found + before.size();
  return ": " + text.substr(begin, text.find('\'', begin) - begin);
}

const char* class_name(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_INTEGER:
      return "integers";
    case H5T_FLOAT:
      return "floating point";
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "a compound type";
    default:
      return "another type";
  }
}

std::string type_text(hid_t type) {
  return std::to_string(8 * H5Tget_size(type)) + "-bit " + class_name(H5Tget_class(type));
}

// What a group or a file holds, groups and datasets alike: "/q /k", each behind
// `before`; empty if nothing.
std::string names_in(const Hdf5Handle& group, const char* before) {
  std::pair<std::string, const char*> collected{"", before};
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
    auto& [text, prefix] = *static_cast<std::pair<std::string, const char*>*>(data);
    text += (text.empty() ? "" : " ") + std::string(prefix) + name;
    return 0;
  };
  H5Literate(group.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &collected);
  return collected.first;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (shape[i] == kAnyExtent ? "*" : std::to_string(shape[i]));
  }
  return text + "]";
}

// ---- reading

GroupReader::GroupReader(const std::string& file, const std::string& group)
    : where_(file + (group == "/" ? "" : ":" + group)) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) throw_bad_input(file + ": no such file");
  if (std::filesystem::is_directory(file, ignored)) {
    throw_bad_input(file + ": a directory, expected an HDF5 file");
  }
  file_ = Hdf5Handle(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!file_.valid()) {
    const std::string reason = hdf5_error_text();
    throw_bad_input(file + ": " +
                    (H5Fis_hdf5(file.c_str()) > 0 ? "damaged or truncated HDF5 file"
                                                  : "not an HDF5 file, or not readable") +
                    (reason.empty() ? "" : " (HDF5: " + reason + ")"));
  }
  group_ = Hdf5Handle(H5Gopen2(file_.id(), group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!group_.valid()) {
    const std::string names = names_in(file_, "/");
    throw_bad_input(file + ": no group '" + group + "'; the file holds " +
                    (names.empty() ? "nothing" : names));
  }
}

void GroupReader::fail(const std::string& what) const { throw_bad_input(where_ + ": " + what); }

bool GroupReader::has_attribute(const std::string& name) const {
  return H5Aexists(group_.id(), name.c_str()) > 0;
}

bool GroupReader::has_dataset(const std::string& name) const {
  return H5Lexists(group_.id(), name.c_str(), H5P_DEFAULT) > 0;
}

Hdf5Handle GroupReader::open_attribute(const std::string& name) const {
  if (!has_attribute(name)) fail("attribute '" + name + "' is missing");
  Hdf5Handle attribute(H5Aopen(group_.id(), name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute.valid()) fail("attribute '" + name + "' cannot be opened" + hdf5_reason());
  const Hdf5Handle space(H5Aget_space(attribute.id()), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.id()) != 1) {
    fail("attribute '" + name + "' holds " +
         std::to_string(H5Sget_simple_extent_npoints(space.id())) + " values, expected one");
  }
  return attribute;
}

std::string GroupReader::string_attribute(const std::string& name) const {
  const Hdf5Handle attribute = open_attribute(name);
  const Hdf5Handle type(H5Aget_type(attribute.id()), H5Tclose);
  if (H5Tget_class(type.id()) != H5T_STRING) {
    fail("attribute '" + name + "' is " + type_text(type.id()) + ", expected text");
  }
  std::string text;
  if (H5Tis_variable_str(type.id()) > 0) {
    char* data = nullptr;
    if (H5Aread(attribute.id(), type.id(), &data) < 0) {
      fail("attribute '" + name + "' cannot be read" + hdf5_reason());
    }
    if (data != nullptr) text = data;
    H5free_memory(data);
  } else {
    std::vector<char> data(H5Tget_size(type.id()) + 1, '\0');
    if (H5Aread(attribute.id(), type.id(), data.data()) < 0) {
      fail("attribute '" + name + "' cannot be read" + hdf5_reason());
    }
    text = data.data();
    if (H5Tget_strpad(type.id()) == H5T_STR_SPACEPAD) {
      text.erase(text.find_last_not_of(' ') + 1);
    }
  }
  return text;
}

double GroupReader::number_attribute(const std::string& name) const {
  const Hdf5Handle attribute = open_attribute(name);
  const Hdf5Handle type(H5Aget_type(attribute.id()), H5Tclose);
  const H5T_class_t type_class = H5Tget_class(type.id());
  double value = 0;
  if (type_class != H5T_FLOAT && type_class != H5T_INTEGER) {
    fail("attribute '" + name + "' is " + type_text(type.id()) + ", expected a number");
  }
  if (H5Aread(attribute.id(), H5T_NATIVE_DOUBLE, &value) < 0) {
    fail("attribute '" + name + "' cannot be read" + hdf5_reason());
  }
  if (!std::isfinite(value)) fail("attribute '" + name + "' is not finite");
  return value;
}

std::int64_t GroupReader::integer_attribute(const std::string& name, std::int64_t lowest) const {
  const Hdf5Handle attribute = open_attribute(name);
  const Hdf5Handle type(H5Aget_type(attribute.id()), H5Tclose);
  // h5py stores Python bools as an enumeration over integers.
  const H5T_class_t type_class = H5Tget_class(type.id());
  std::int64_t value = 0;
  if (type_class == H5T_ENUM) {
    signed char flag = 0;
    if (H5Tget_size(type.id()) != 1 || H5Aread(attribute.id(), type.id(), &flag) < 0) {
      fail("attribute '" + name + "' cannot be read as an integer");
    }
    value = flag;
  } else {
    if (type_class != H5T_INTEGER) {
      fail("attribute '" + name + "' is " + type_text(type.id()) + ", expected an integer");
    }
    if (H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) < 0) {
      fail("attribute '" + name + "' cannot be read" + hdf5_reason());
    }
  }
  if (value < lowest) {
    fail("attribute '" + name + "' is " + std::to_string(value) + ", expected at least " +
         std::to_string(lowest));
  }
  return value;
}

std::string GroupReader::string_attribute_or(const std::string& name,
                                             const std::string& otherwise) const {
  return has_attribute(name) ? string_attribute(name) : otherwise;
}

std::int64_t GroupReader::integer_attribute_or(const std::string& name, std::int64_t lowest,
                                               std::int64_t otherwise) const {
  return has_attribute(name) ? integer_attribute(name, lowest) : otherwise;
}

Hdf5Handle GroupReader::open_dataset(const std::string& name) const {
  if (!has_dataset(name)) {
    const std::string names = names_in(group_, "");
    fail("dataset '" + name + "' is missing; there " +
         (names.empty() ? "is nothing" : "are: " + names));
  }
  Hdf5Handle dataset(H5Dopen2(group_.id(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.valid()) fail("'" + name + "' is not a readable dataset" + hdf5_reason());
  return dataset;
}

Shape GroupReader::shape(const std::string& name, const Shape& expected,
                         const std::string& meaning) const {
  const Hdf5Handle dataset = open_dataset(name);
  const Hdf5Handle space(H5Dget_space(dataset.id()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.id());
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank > 0 ? rank : 0));
  if (rank > 0) H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  const Shape found(extents.begin(), extents.end());
  bool matches = found.size() == expected.size();
  for (std::size_t i = 0; matches && i < found.size(); ++i) {
    matches = expected[i] == kAnyExtent || expected[i] == found[i];
  }
  if (!matches) {
    fail("dataset '" + name + "' has shape " + shape_text(found) + ", expected " +
         shape_text(expected) + " = " + meaning);
  }
  return found;
}

std::size_t GroupReader::count_to_read(const std::string& name, const Shape& expected,
                                       const std::string& meaning, std::size_t bytes_each) const {
  const Shape found = shape(name, expected, meaning);
  long double bytes = static_cast<long double>(bytes_each);
  for (const std::int64_t extent : found) {
    bytes *= static_cast<long double>(static_cast<std::uint64_t>(extent));  // as the file has it
  }
  const std::string why = exceeds_host(bytes);
  if (!why.empty()) fail("dataset '" + name + "' of shape " + shape_text(found) + " takes " + why);
  return static_cast<std::size_t>(element_count(found));
}

void GroupReader::read(const std::string& name, bool integers, hid_t memory_type,
                       void* destination) const {
  const Hdf5Handle dataset = open_dataset(name);
  const Hdf5Handle type(H5Dget_type(dataset.id()), H5Tclose);
  const H5T_class_t type_class = H5Tget_class(type.id());
  const std::size_t bytes = H5Tget_size(type.id());
  if (integers ? type_class != H5T_INTEGER
               : type_class != H5T_FLOAT || (bytes != 4 && bytes != 8)) {
    fail("dataset '" + name + "' holds " + type_text(type.id()) + ", expected " +
         (integers ? "integers" : "float32 or float64"));
  }
  if (H5Dread(dataset.id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, destination) < 0) {
    fail("dataset '" + name + "' cannot be read" + hdf5_reason());
  }
}

std::vector<float> GroupReader::floats(const std::string& name, const Shape& expected,
                                       const std::string& meaning) const {
  std::vector<float> values(count_to_read(name, expected, meaning, sizeof(float)));
  read(name, false, H5T_NATIVE_FLOAT, values.data());
  return values;
}

std::vector<double> GroupReader::doubles(const std::string& name, const Shape& expected,
                                         const std::string& meaning) const {
  std::vector<double> values(count_to_read(name, expected, meaning, sizeof(double)));
  read(name, false, H5T_NATIVE_DOUBLE, values.data());
  return values;
}

std::vector<std::int64_t> GroupReader::integers(const std::string& name, const Shape& expected,
                                                const std::string& meaning) const {
  std::vector<std::int64_t> values(count_to_read(name, expected, meaning, sizeof(std::int64_t)));
  read(name, true, H5T_NATIVE_INT64, values.data());
  return values;
}

// ---- writing

GroupWriter::GroupWriter(const std::string& file, const std::string& group, Mode mode)
    : where_(file + (group == "/" ? "" : ":" + group)), aside_(file) {
  std::error_code ignored;
  const bool existing = mode == Mode::add_group && std::filesystem::exists(file, ignored);
  const std::string obstacle = why_not_replaceable(file);
  if (!obstacle.empty()) throw_bad_input(file + ": " + obstacle);
  if (existing) {
    require_free(file, group);
    if (const std::error_code failure = aside_.copy_earlier()) {
      fail("cannot be written: " + failure.message());
    }
  }
  const char* const partial = aside_.partial().c_str();
  file_ = Hdf5Handle(existing ? H5Fopen(partial, H5F_ACC_RDWR, H5P_DEFAULT)
                              : H5Fcreate(partial, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                     leave_open);
  if (!file_.valid()) {
    throw_bad_input(file + ": cannot be " + (existing ? "opened" : "created") + hdf5_reason());
  }
  if (group == "/") {
    group_ = Hdf5Handle(H5Gopen2(file_.id(), "/", H5P_DEFAULT), leave_open);
  } else {
    const Hdf5Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(links.id(), 1);
    group_ = Hdf5Handle(H5Gcreate2(file_.id(), group.c_str(), links.id(), H5P_DEFAULT, H5P_DEFAULT),
                        leave_open);
  }
  if (!group_.valid()) fail("the group cannot be made" + hdf5_reason());
}

// Before the file is copied.
void GroupWriter::require_free(const std::string& file, const std::string& group) const {
  const Hdf5Handle earlier(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!earlier.valid()) throw_bad_input(file + ": cannot be opened" + hdf5_reason());
  if (group == "/") {
    throw_bad_input(file + ": the file exists; name a group (FILE.h5:/group) to add one");
  }
  if (Hdf5Handle(H5Oopen(earlier.id(), group.c_str(), H5P_DEFAULT), H5Oclose).valid()) {
    fail("'" + group + "' is there already; name another group");
  }
}

void GroupWriter::fail(const std::string& what) const { throw_bad_input(where_ + ": " + what); }

void GroupWriter::write_attribute(const std::string& name, hid_t type, const void* value) {
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(
      H5Acreate2(group_.id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute.valid() || H5Awrite(attribute.id(), type, value) < 0) {
    fail("attribute '" + name + "' cannot be written" + hdf5_reason());
  }
}

void GroupWriter::attribute(const std::string& name, const std::string& value) {
  const Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  const char* text = value.c_str();
  write_attribute(name, type.id(), &text);
}

void GroupWriter::attribute(const std::string& name, std::int64_t value) {
  write_attribute(name, H5T_NATIVE_INT64, &value);
}

void GroupWriter::attribute(const std::string& name, double value) {
  write_attribute(name, H5T_NATIVE_DOUBLE, &value);
}

void GroupWriter::write_dataset(const std::string& name, const Shape& shape, std::size_t count,
                                hid_t type, const void* values) {
  if (static_cast<std::size_t>(element_count(shape)) != count) {
    fail("dataset '" + name + "' of shape " + shape_text(shape) + " was given " +
         std::to_string(count) + " values");
  }
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const Hdf5Handle space(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose);
  const hid_t dataset = H5Dcreate2(group_.id(), name.c_str(), type, space.id(), H5P_DEFAULT,
                                   H5P_DEFAULT, H5P_DEFAULT);
  // Of small arrays the last bytes reach the file as late as the dataset is closed.
  if (dataset < 0 ||
      (count > 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) ||
      H5Dclose(dataset) < 0) {
    fail("dataset '" + name + "' cannot be written" + hdf5_reason());
  }
}

void GroupWriter::dataset(const std::string& name, const Shape& shape,
                          const std::vector<float>& values) {
  write_dataset(name, shape, values.size(), H5T_NATIVE_FLOAT, values.data());
}

void GroupWriter::dataset(const std::string& name, const Shape& shape,
                          const std::vector<double>& values) {
  write_dataset(name, shape, values.size(), H5T_NATIVE_DOUBLE, values.data());
}

void GroupWriter::dataset(const std::string& name, const std::vector<std::int64_t>& values) {
  dataset(name, {static_cast<std::int64_t>(values.size())}, values);
}

void GroupWriter::dataset(const std::string& name, const Shape& shape,
                          const std::vector<std::int64_t>& values) {
  write_dataset(name, shape, values.size(), H5T_NATIVE_INT64, values.data());
}

void GroupWriter::finish() {
  if (H5Fflush(file_.id(), H5F_SCOPE_GLOBAL) < 0 || H5Gclose(group_.id()) < 0 ||
      H5Fclose(file_.id()) < 0) {
    fail("cannot be written to the end" + hdf5_reason());
  }
  if (const std::error_code failure = aside_.put_in_place()) {
    fail("cannot be written to the end: " + failure.message());
  }
}

}  // namespace gdn
