#include "harness/row_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <new>
#include <thread>

#include "harness/hdf5_handle.h"
#include "harness/host_memory.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr const char* kRowsName = "rows";
constexpr const char* kSamplesName = "samples";
constexpr std::int64_t kSpareRows = 32;  // room of a new file
constexpr std::int64_t kSpareSamples = 4096;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw_bad_input("rows file '" + path + "': " + what);
}

hid_t require_id(hid_t id, const std::string& path, const char* action) {
  if (id < 0) fail(path, std::string("could not ") + action + ": " + hdf5_error_text());
  return id;
}

void require_done(herr_t status, const std::string& path, const char* action) {
  require_id(status, path, action);
}

// ---- the table as bytes

std::size_t rounded_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

Hdf5Handle string_type(std::size_t bytes) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), bytes);
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

struct Field {
  const RowColumn* column;
  std::size_t offset;
  std::size_t bytes;  // of a string: its capacity
};

// Columns of one file in its order, and where each lies in a packed record.
struct RecordLayout {
  std::vector<Field> fields;
  std::size_t bytes = 0;

  bool holds(const Row& row) const {
    if (fields.size() != row_columns().size()) return false;  // a file of fewer columns
    return std::all_of(fields.begin(), fields.end(), [&](const Field& field) {
      const auto* text = std::get_if<std::string Row::*>(&field.column->member);
      return text == nullptr || (row.**text).size() <= field.bytes;
    });
  }

  Hdf5Handle memory_type() const {
    Hdf5Handle type(H5Tcreate(H5T_COMPOUND, bytes), H5Tclose);
    for (const Field& field : fields) {
      const char* name = field.column->name.c_str();
      if (std::holds_alternative<std::string Row::*>(field.column->member)) {
        const Hdf5Handle text = string_type(field.bytes);
        H5Tinsert(type.id(), name, field.offset, text.id());
      } else if (std::holds_alternative<double Row::*>(field.column->member)) {
        H5Tinsert(type.id(), name, field.offset, H5T_NATIVE_DOUBLE);
      } else {
        H5Tinsert(type.id(), name, field.offset, H5T_NATIVE_INT64);
      }
    }
    return type;
  }

  void pack(const Row& row, std::byte* record) const {
    std::memset(record, 0, bytes);
    for (const Field& field : fields) {
      std::byte* at = record + field.offset;
      if (const auto* text = std::get_if<std::string Row::*>(&field.column->member)) {
        std::memcpy(at, (row.**text).data(), (row.**text).size());
      } else if (const auto* real = std::get_if<double Row::*>(&field.column->member)) {
        std::memcpy(at, &(row.**real), sizeof(double));
      } else {
        std::memcpy(at, &(row.*std::get<std::int64_t Row::*>(field.column->member)),
                    sizeof(std::int64_t));
      }
    }
  }

  Row unpack(const std::byte* record) const {
    Row row;
    for (const Field& field : fields) {
      const std::byte* at = record + field.offset;
      if (const auto* text = std::get_if<std::string Row::*>(&field.column->member)) {
        const char* characters = reinterpret_cast<const char*>(at);
        row.** text = std::string(characters, strnlen(characters, field.bytes));
      } else if (const auto* real = std::get_if<double Row::*>(&field.column->member)) {
        std::memcpy(&(row.**real), at, sizeof(double));
      } else {
        std::memcpy(&(row.*std::get<std::int64_t Row::*>(field.column->member)), at,
                    sizeof(std::int64_t));
      }
    }
    return row;
  }
};

// Every column, each string column wide enough for every row.
RecordLayout layout_for(const std::vector<Row>& rows) {
  RecordLayout layout;
  for (const RowColumn& column : row_columns()) {
    std::size_t bytes = sizeof(double);
    if (const auto* text = std::get_if<std::string Row::*>(&column.member)) {
      std::size_t longest = 1;
      for (const Row& row : rows) longest = std::max(longest, (row.**text).size());
      bytes = rounded_up(longest, 32);
    }
    layout.fields.push_back({&column, layout.bytes, bytes});
    layout.bytes += bytes;
  }
  return layout;
}

// The columns a file has, checked against what they must be.
RecordLayout layout_of(const std::string& path, hid_t dataset) {
  const Hdf5Handle type(require_id(H5Dget_type(dataset), path, "read the type of /rows"), H5Tclose);
  if (H5Tget_class(type.id()) != H5T_COMPOUND) fail(path, "/rows is not a compound dataset");
  RecordLayout layout;
  for (const RowColumn& column : row_columns()) {
    const int index = H5Tget_member_index(type.id(), column.name.c_str());
    if (index < 0) continue;
    const Hdf5Handle member(H5Tget_member_type(type.id(), static_cast<unsigned>(index)), H5Tclose);
    const H5T_class_t found = H5Tget_class(member.id());
    const bool text = std::holds_alternative<std::string Row::*>(column.member);
    const bool real = std::holds_alternative<double Row::*>(column.member);
    const bool matches = text ? found == H5T_STRING && H5Tis_variable_str(member.id()) <= 0
                              : found == (real ? H5T_FLOAT : H5T_INTEGER);
    if (!matches) {
      fail(path, "column " + column.name + " of /rows is not " +
                     (text   ? "a string of fixed length"
                      : real ? "floating point"
                             : "an integer"));
    }
    const std::size_t bytes = text ? H5Tget_size(member.id()) : sizeof(double);
    layout.fields.push_back({&column, layout.bytes, bytes});
    layout.bytes += bytes;
  }
  for (const char* required : {"problem", "implementation", "mode", "status"}) {
    const bool present = std::any_of(layout.fields.begin(), layout.fields.end(),
                                     [&](const Field& f) { return f.column->name == required; });
    if (!present) fail(path, std::string("/rows has no column ") + required);
  }
  return layout;
}

Hdf5Handle sample_type() {
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, sizeof(TimeSample)), H5Tclose);
  H5Tinsert(type.id(), "time_ms", offsetof(TimeSample, time_ms), H5T_NATIVE_DOUBLE);
  H5Tinsert(type.id(), "clock_mhz", offsetof(TimeSample, clock_mhz), H5T_NATIVE_DOUBLE);
  return type;
}

// ---- files

Hdf5Handle open_file(const std::string& path, unsigned flags) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) fail(path, "no such file");
  if (!std::filesystem::is_regular_file(path, ignored)) fail(path, "not a regular file");
  // Another process may be appending: its turn takes milliseconds.
  for (int attempt = 0;; ++attempt) {
    const hid_t id = H5Fopen(path.c_str(), flags, H5P_DEFAULT);
    if (id >= 0) return {id, H5Fclose};
    const std::string text = hdf5_error_text();
    const bool locked = text.find("lock file") != std::string::npos;
    if (!locked || attempt == 200) {
      fail(path, locked ? "another process holds it open (" + text + ")"
                        : "not a readable HDF5 file, expected rows of schema " +
                              std::string(kRowsSchema) + " (" + text + ")");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
}

void check_schema(const std::string& path, hid_t file) {
  std::string schema;
  if (H5Aexists(file, "schema") > 0) {
    const Hdf5Handle attribute(H5Aopen(file, "schema", H5P_DEFAULT), H5Aclose);
    const Hdf5Handle type(H5Aget_type(attribute.id()), H5Tclose);
    if (H5Tget_class(type.id()) == H5T_STRING && H5Tis_variable_str(type.id()) <= 0) {
      schema.resize(H5Tget_size(type.id()));
      H5Aread(attribute.id(), type.id(), schema.data());
      schema.resize(strnlen(schema.data(), schema.size()));
    }
  }
  if (schema != kRowsSchema) {
    fail(path, "schema '" + schema + "', expected '" + kRowsSchema + "'");
  }
}

Hdf5Handle open_dataset(const std::string& path, hid_t file, const char* name) {
  // Chunks larger than the (empty) chunk cache are read and written directly: what an append writes
  // is on its way to the file before the dataset is extended.
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.id(), 0, 0, 0);
  const hid_t id = H5Dopen2(file, name, access.id());
  if (id < 0) fail(path, std::string("has no dataset /") + name);
  return {id, H5Dclose};
}

std::int64_t extent_of(const std::string& path, hid_t dataset) {
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  if (H5Sget_simple_extent_ndims(space.id()) != 1) fail(path, "a dataset is not one-dimensional");
  hsize_t extent = 0;
  H5Sget_simple_extent_dims(space.id(), &extent, nullptr);
  if (extent > static_cast<hsize_t>(std::numeric_limits<std::int64_t>::max())) {
    fail(path, fmt::format("a dataset has {} entries, more than can be counted", extent));
  }
  return static_cast<std::int64_t>(extent);
}

// Entries of a dataset about to be read: a file may declare any number of them, stored or not.
std::size_t count_to_read(const std::string& path, hid_t dataset, const char* name,
                          std::size_t bytes_each) {
  const std::int64_t count = extent_of(path, dataset);
  const std::string why =
      exceeds_host(static_cast<long double>(count) * static_cast<long double>(bytes_each));
  if (!why.empty()) fail(path, fmt::format("/{} of {} entries takes {}", name, count, why));
  return static_cast<std::size_t>(count);
}

// Entries that fit without allocating: the size of the one chunk, if it is there.
std::int64_t capacity_of(const std::string& path, hid_t dataset) {
  if (extent_of(path, dataset) == 0) return 0;
  const Hdf5Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  hsize_t chunk = 0;
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED) return extent_of(path, dataset);
  H5Pget_chunk(properties.id(), 1, &chunk);
  return static_cast<std::int64_t>(chunk);
}

void create_dataset(const std::string& path, hid_t file, const char* name, hid_t type,
                    const void* data, std::int64_t count, std::int64_t capacity) {
  const hsize_t extent = static_cast<hsize_t>(count);
  const hsize_t room = static_cast<hsize_t>(std::max<std::int64_t>(capacity, 1));
  const Hdf5Handle space(H5Screate_simple(1, &extent, &room), H5Sclose);
  const Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(properties.id(), 1, &room);
  const bool never_extended = count > 0 && count == static_cast<std::int64_t>(room);
  if (never_extended && H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) {
    H5Pset_shuffle(properties.id());
    H5Pset_deflate(properties.id(), 6);
  }
  H5Pset_alloc_time(properties.id(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties.id(), H5D_FILL_TIME_ALLOC);
  H5Pset_obj_track_times(properties.id(), false);  // an append must not rewrite a time stamp
  const Hdf5Handle dataset(require_id(H5Dcreate2(file, name, type, space.id(), H5P_DEFAULT,
                                                 properties.id(), H5P_DEFAULT),
                                      path, "create a dataset"),
                           H5Dclose);
  if (count > 0) {
    require_done(H5Dwrite(dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), path,
                 "compose a dataset");
  }
}

// The whole file as HDF5 lays it out, composed in memory.
std::vector<std::byte> file_image(const std::string& path, const StoredRows& stored,
                                  std::int64_t row_capacity, std::int64_t sample_capacity) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access.id(), std::size_t{1} << 20, false);
  const Hdf5Handle file(require_id(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()),
                                   path, "compose the file"),
                        H5Fclose);
  {
    const Hdf5Handle type = string_type(std::strlen(kRowsSchema));
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hdf5Handle attribute(
        H5Acreate2(file.id(), "schema", type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    H5Awrite(attribute.id(), type.id(), kRowsSchema);
  }
  const RecordLayout layout = layout_for(stored.rows);
  std::vector<std::byte> records(layout.bytes * stored.rows.size());
  for (std::size_t r = 0; r < stored.rows.size(); ++r) {
    layout.pack(stored.rows[r], records.data() + r * layout.bytes);
  }
  const std::int64_t rows = static_cast<std::int64_t>(stored.rows.size());
  const std::int64_t samples = static_cast<std::int64_t>(stored.samples.size());
  create_dataset(path, file.id(), kRowsName, layout.memory_type().id(), records.data(), rows,
                 std::max(rows, row_capacity));
  create_dataset(path, file.id(), kSamplesName, sample_type().id(), stored.samples.data(), samples,
                 std::max(samples, sample_capacity));
  require_done(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), path, "compose the file");
  const ssize_t bytes = H5Fget_file_image(file.id(), nullptr, 0);
  if (bytes <= 0) fail(path, "could not compose the file: " + hdf5_error_text());
  std::vector<std::byte> image(static_cast<std::size_t>(bytes));
  H5Fget_file_image(file.id(), image.data(), image.size());
  return image;
}

void require_regular_or_absent(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail(path, "not a regular file");
  }
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The name of what is written before it takes the target's place.
std::string partial_of(const std::string& path) {
  return path + ".partial." + std::to_string(getpid());
}

// Writes beside the target and renames over it: the target is the old file or the new one, never
// a part.
void replace_file(const std::string& path, const std::vector<std::byte>& content) {
  require_regular_or_absent(path);
  const std::string partial = partial_of(path);
  const int descriptor = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(path, std::string("cannot be written: ") + std::strerror(errno));
  int failure = 0;
  for (std::size_t written = 0; written < content.size() && failure == 0;) {
    const ssize_t step = write(descriptor, content.data() + written, content.size() - written);
    if (step > 0) {
      written += static_cast<std::size_t>(step);
    } else if (step == 0 || errno != EINTR) {
      failure = step == 0 ? ENOSPC : errno;
    }
  }
  if (failure == 0 && fsync(descriptor) != 0 && errno != EINVAL) failure = errno;
  if (close(descriptor) != 0 && failure == 0) failure = errno;
  if (failure == 0 && std::rename(partial.c_str(), path.c_str()) != 0) failure = errno;
  if (failure != 0) {
    unlink(partial.c_str());
    fail(path, fmt::format("writing {} bytes failed: {}{}", content.size(), std::strerror(failure),
                           is_there(path) ? "; the rows stored before are intact" : ""));
  }
}

// Extends a dataset and writes its new entries; both fit the allocated chunk.
void extend(const std::string& path, hid_t dataset, hid_t type, const void* data,
            std::int64_t count) {
  const hsize_t first = static_cast<hsize_t>(extent_of(path, dataset));
  const hsize_t step = static_cast<hsize_t>(count);
  const hsize_t extent = first + step;
  require_done(H5Dset_extent(dataset, &extent), path, "extend a dataset");
  const Hdf5Handle target(H5Dget_space(dataset), H5Sclose);
  H5Sselect_hyperslab(target.id(), H5S_SELECT_SET, &first, nullptr, &step, nullptr);
  const Hdf5Handle source(H5Screate_simple(1, &step, nullptr), H5Sclose);
  require_done(H5Dwrite(dataset, type, source.id(), target.id(), H5P_DEFAULT, data), path,
               "append (is the disk full?)");
}

// True if the row and its samples fit the room of the file and are now in it.
bool append_in_place(const std::string& path, Row row, const std::vector<TimeSample>& samples) {
  Hdf5Handle file = open_file(path, H5F_ACC_RDWR);
  check_schema(path, file.id());
  {
    const Hdf5Handle rows_set = open_dataset(path, file.id(), kRowsName);
    const Hdf5Handle samples_set = open_dataset(path, file.id(), kSamplesName);
    const RecordLayout layout = layout_of(path, rows_set.id());
    row.first_sample = extent_of(path, samples_set.id());
    const std::int64_t count = static_cast<std::int64_t>(samples.size());
    if (!layout.holds(row) ||
        extent_of(path, rows_set.id()) + 1 > capacity_of(path, rows_set.id()) ||
        (count > 0 && row.first_sample + count > capacity_of(path, samples_set.id()))) {
      return false;
    }
    if (count > 0) {
      extend(path, samples_set.id(), sample_type().id(), samples.data(), count);
      require_done(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), path, "append (is the disk full?)");
    }
    std::vector<std::byte> record(layout.bytes);
    layout.pack(row, record.data());
    extend(path, rows_set.id(), layout.memory_type().id(), record.data(), 1);
  }
  require_done(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), path, "append (is the disk full?)");
  if (!file.close()) fail(path, "could not be closed: " + hdf5_error_text());
  return true;
}

}  // namespace

void StoredRows::add(Row row, const std::vector<TimeSample>& row_samples) {
  row.first_sample = static_cast<std::int64_t>(samples.size());
  row.sample_count = static_cast<std::int64_t>(row_samples.size());
  samples.insert(samples.end(), row_samples.begin(), row_samples.end());
  rows.push_back(std::move(row));
}

bool StoredRows::holds_samples_of(const Row& row) const {
  const auto size = static_cast<std::int64_t>(samples.size());
  return row.first_sample >= 0 && row.sample_count >= 0 && row.first_sample <= size &&
         row.sample_count <= size - row.first_sample;  // a sum of both may wrap
}

std::vector<TimeSample> StoredRows::samples_of(const Row& row) const {
  if (!holds_samples_of(row)) {
    throw_bad_input("row '" + row.key() + "': its samples lie outside /samples");
  }
  const auto first = samples.begin() + row.first_sample;
  return {first, first + row.sample_count};
}

namespace {

StoredRows read_whole(const std::string& path) {
  const Hdf5Quiet quiet;
  const Hdf5Handle file = open_file(path, H5F_ACC_RDONLY);
  check_schema(path, file.id());
  StoredRows stored;
  {
    const Hdf5Handle dataset = open_dataset(path, file.id(), kRowsName);
    const RecordLayout layout = layout_of(path, dataset.id());
    const std::size_t count =
        count_to_read(path, dataset.id(), kRowsName, layout.bytes + sizeof(Row));
    std::vector<std::byte> records(count * layout.bytes);
    if (count > 0) {
      require_done(H5Dread(dataset.id(), layout.memory_type().id(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                           records.data()),
                   path, "read /rows");
    }
    for (std::size_t r = 0; r < count; ++r) {
      stored.rows.push_back(layout.unpack(records.data() + r * layout.bytes));
    }
  }
  const Hdf5Handle dataset = open_dataset(path, file.id(), kSamplesName);
  stored.samples.resize(count_to_read(path, dataset.id(), kSamplesName, sizeof(TimeSample)));
  if (!stored.samples.empty()) {
    require_done(H5Dread(dataset.id(), sample_type().id(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                         stored.samples.data()),
                 path, "read /samples");
  }
  for (const Row& row : stored.rows) {
    if (!stored.holds_samples_of(row)) {
      fail(path, fmt::format("row '{}': its samples {} + {} lie outside the {} of /samples",
                             row.key(), row.first_sample, row.sample_count, stored.samples.size()));
    }
  }
  return stored;
}

}  // namespace

StoredRows read_rows(const std::string& path) {
  try {
    return read_whole(path);
  } catch (const std::bad_alloc&) {
    fail(path, "host memory ran out reading it");
  }
}

void write_rows(const std::string& path, const StoredRows& rows, std::int64_t spare_rows) {
  const Hdf5Quiet quiet;
  const std::int64_t row_capacity = static_cast<std::int64_t>(rows.rows.size()) + spare_rows;
  const std::int64_t sample_capacity =
      static_cast<std::int64_t>(rows.samples.size()) + (spare_rows > 0 ? kSpareSamples : 0);
  replace_file(path, file_image(path, rows, row_capacity, sample_capacity));
}

void append_row(const std::string& path, const Row& row, const std::vector<TimeSample>& samples) {
  const Hdf5Quiet quiet;
  require_regular_or_absent(path);
  StoredRows stored;
  if (is_there(path)) {
    Row counted = row;
    counted.sample_count = static_cast<std::int64_t>(samples.size());
    if (append_in_place(path, std::move(counted), samples)) return;
    stored = read_rows(path);
  }
  stored.add(row, samples);
  const std::int64_t rows = static_cast<std::int64_t>(stored.rows.size());
  const std::int64_t taken = static_cast<std::int64_t>(stored.samples.size());
  replace_file(path, file_image(path, stored, std::max(2 * rows, kSpareRows),
                                std::max(2 * taken, kSpareSamples)));
}

void require_appendable(const std::string& path) {
  std::error_code ignored;
  require_regular_or_absent(path);
  if (is_there(path)) read_rows(path);
  const auto folder = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail(path, "its folder '" + folder.string() + "' does not exist");
  }
  // Too long a name is found here, not when the first row has been measured.
  const bool partial_possible = access(partial_of(path).c_str(), F_OK) == 0 || errno == ENOENT;
  if (!partial_possible || access(folder.c_str(), W_OK) != 0 ||
      (is_there(path) && access(path.c_str(), W_OK) != 0)) {
    fail(path, std::string("cannot be written: ") + std::strerror(errno));
  }
}

StoredRows merge_rows(const std::vector<std::string>& paths) {
  StoredRows all;
  std::map<std::string, std::size_t> latest;  // key and device -> index in all.rows
  for (const std::string& path : paths) {
    const StoredRows part = read_rows(path);
    for (const Row& row : part.rows) {
      const auto [entry, inserted] =
          latest.try_emplace(row.key() + " " + row.device, all.rows.size());
      if (inserted) {
        all.add(row, part.samples_of(row));
      } else if (row.date >= all.rows[entry->second].date) {
        all.add(row, part.samples_of(row));
        std::swap(all.rows[entry->second], all.rows.back());
        all.rows.pop_back();
      }
    }
  }
  // Samples of rows that were replaced are left behind.
  StoredRows merged;
  for (const Row& row : all.rows) merged.add(row, all.samples_of(row));
  return merged;
}

}  // namespace gdn
