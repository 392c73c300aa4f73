#include "harness/rows/row_store.h"

#include <fmt/format.h>
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

#include "harness/files/hdf5_handle.h"
#include "harness/files/whole_file.h"
#include "harness/rows/row_record.h"
#include "harness/run/host_memory.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr const char* kRowsName = "rows";
constexpr const char* kErrorsName = "errors";
constexpr const char* kSamplesName = "samples";
constexpr const char* kFirstSchema = "gdn-rows/1";  // errors were columns of /rows
constexpr std::int64_t kSpareRows = 32;             // room of a new file
constexpr std::int64_t kSpareErrors = 512;
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

// ---- errors and samples as records

// One line of /errors.
struct ErrorRecord {
  std::int64_t row = 0;
  char output[32] = {};
  char metric[16] = {};
  std::int64_t first_token = RowError::kWhole;
  double value = kNotMeasured;
};

Hdf5Handle error_type() {
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, sizeof(ErrorRecord)), H5Tclose);
  const Hdf5Handle output = fixed_string_type(sizeof(ErrorRecord::output));
  const Hdf5Handle metric = fixed_string_type(sizeof(ErrorRecord::metric));
  H5Tinsert(type.id(), "row", offsetof(ErrorRecord, row), H5T_NATIVE_INT64);
  H5Tinsert(type.id(), "output", offsetof(ErrorRecord, output), output.id());
  H5Tinsert(type.id(), "metric", offsetof(ErrorRecord, metric), metric.id());
  H5Tinsert(type.id(), "first_token", offsetof(ErrorRecord, first_token), H5T_NATIVE_INT64);
  H5Tinsert(type.id(), "value", offsetof(ErrorRecord, value), H5T_NATIVE_DOUBLE);
  return type;
}

template <std::size_t size>
void set_text(char (&destination)[size], const std::string& text) {
  if (text.size() > size) throw_bad_input("rows: '" + text + "' is too long a name for /errors");
  std::memcpy(destination, text.data(), text.size());
}

template <std::size_t size>
std::string text_of(const char (&source)[size]) {
  return std::string(source, strnlen(source, size));
}

std::vector<ErrorRecord> error_records(const Row& row, std::int64_t index) {
  std::vector<ErrorRecord> records;
  for (const RowError& error : row.errors) {
    ErrorRecord record;
    record.row = index;
    set_text(record.output, error.output);
    set_text(record.metric, name_of(error.metric));
    record.first_token = error.first_token;
    record.value = error.value;
    records.push_back(record);
  }
  return records;
}

// Metrics this version does not know are left out, as columns it does not know.
std::vector<RowError> errors_of(const std::vector<ErrorRecord>& records, std::int64_t first,
                                std::int64_t count) {
  std::vector<RowError> errors;
  for (std::int64_t i = first; i < first + count; ++i) {
    const ErrorRecord& record = records[static_cast<std::size_t>(i)];
    for (const auto& [name, metric] : names_of<ErrorMetric>()) {
      if (text_of(record.metric) != name) continue;
      errors.push_back({text_of(record.output), metric, record.first_token, record.value});
    }
  }
  return errors;
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

// Whether it is of the present schema; throws unless it is of one that is read.
bool is_present_schema(const std::string& path, hid_t file) {
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
  if (schema != kRowsSchema && schema != kFirstSchema) {
    fail(path, "schema '" + schema + "', expected '" + kRowsSchema + "'");
  }
  return schema == kRowsSchema;
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

// Room in a file: entries each dataset has, or may have without being written anew.
struct Room {
  std::int64_t rows = 0;
  std::int64_t errors = 0;
  std::int64_t samples = 0;
};

void write_schema(hid_t file) {
  const Hdf5Handle type = fixed_string_type(std::strlen(kRowsSchema));
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(
      H5Acreate2(file, "schema", type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  H5Awrite(attribute.id(), type.id(), kRowsSchema);
}

// The whole file as HDF5 lays it out, composed in memory.
std::vector<std::byte> file_image(const std::string& path, StoredRows stored, const Room& least) {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access.id(), std::size_t{1} << 20, false);
  const Hdf5Handle file(require_id(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()),
                                   path, "compose the file"),
                        H5Fclose);
  write_schema(file.id());
  std::vector<ErrorRecord> errors;
  for (std::size_t r = 0; r < stored.rows.size(); ++r) {
    Row& row = stored.rows[r];
    row.first_error = static_cast<std::int64_t>(errors.size());
    row.error_count = static_cast<std::int64_t>(row.errors.size());
    const std::vector<ErrorRecord> of_row = error_records(row, static_cast<std::int64_t>(r));
    errors.insert(errors.end(), of_row.begin(), of_row.end());
  }
  const RecordLayout layout = RecordLayout::for_rows(stored.rows);
  std::vector<std::byte> records(layout.bytes() * stored.rows.size());
  for (std::size_t r = 0; r < stored.rows.size(); ++r) {
    layout.pack(stored.rows[r], records.data() + r * layout.bytes());
  }
  const auto count = [](const auto& entries) { return static_cast<std::int64_t>(entries.size()); };
  create_dataset(path, file.id(), kRowsName, layout.memory_type().id(), records.data(),
                 count(stored.rows), std::max(count(stored.rows), least.rows));
  create_dataset(path, file.id(), kErrorsName, error_type().id(), errors.data(), count(errors),
                 std::max(count(errors), least.errors));
  create_dataset(path, file.id(), kSamplesName, sample_type().id(), stored.samples.data(),
                 count(stored.samples), std::max(count(stored.samples), least.samples));
  require_done(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), path, "compose the file");
  const ssize_t bytes = H5Fget_file_image(file.id(), nullptr, 0);
  if (bytes <= 0) fail(path, "could not compose the file: " + hdf5_error_text());
  std::vector<std::byte> image(static_cast<std::size_t>(bytes));
  H5Fget_file_image(file.id(), image.data(), image.size());
  return image;
}

std::int64_t error_count(const StoredRows& stored) {
  std::int64_t count = 0;
  for (const Row& row : stored.rows) count += static_cast<std::int64_t>(row.errors.size());
  return count;
}

void require_replaceable(const std::string& path) {
  const std::string obstacle = why_not_replaceable(path);
  if (!obstacle.empty()) fail(path, obstacle);
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void replace_file(const std::string& path, const std::vector<std::byte>& content) {
  require_replaceable(path);
  if (const std::error_code failure = write_whole_file(path, content.data(), content.size())) {
    fail(path, fmt::format("writing {} bytes failed: {}{}", content.size(), failure.message(),
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

// Entries of a dataset that fit beside those it has, without its being written anew.
std::int64_t room_left(const std::string& path, hid_t dataset) {
  return capacity_of(path, dataset) - extent_of(path, dataset);
}

// Whether /errors ends with lines of a row that never came: an append was killed before its row was
// there. They would be taken for those of the next row.
bool has_lines_of_no_row(const std::string& path, hid_t errors, std::int64_t num_rows) {
  const std::int64_t count = extent_of(path, errors);
  if (count == 0) return false;
  const hsize_t last = static_cast<hsize_t>(count) - 1;
  const hsize_t one = 1;
  const Hdf5Handle source(H5Dget_space(errors), H5Sclose);
  H5Sselect_hyperslab(source.id(), H5S_SELECT_SET, &last, nullptr, &one, nullptr);
  const Hdf5Handle target(H5Screate_simple(1, &one, nullptr), H5Sclose);
  ErrorRecord record;
  require_done(H5Dread(errors, error_type().id(), target.id(), source.id(), H5P_DEFAULT, &record),
               path, "read /errors");
  return record.row >= num_rows;
}

// True if the row, its errors and its samples fit the room of the file and are now in it.
bool append_in_place(const std::string& path, Row row, const std::vector<TimeSample>& samples) {
  Hdf5Handle file = open_file(path, H5F_ACC_RDWR);
  if (!is_present_schema(path, file.id())) return false;
  {
    const Hdf5Handle rows_set = open_dataset(path, file.id(), kRowsName);
    const Hdf5Handle errors_set = open_dataset(path, file.id(), kErrorsName);
    const Hdf5Handle samples_set = open_dataset(path, file.id(), kSamplesName);
    const RecordLayout layout = RecordLayout::of_dataset(path, rows_set.id());
    const std::int64_t num_rows = extent_of(path, rows_set.id());
    if (has_lines_of_no_row(path, errors_set.id(), num_rows)) return false;
    const std::vector<ErrorRecord> errors = error_records(row, num_rows);
    row.first_sample = extent_of(path, samples_set.id());
    row.first_error = extent_of(path, errors_set.id());
    row.error_count = static_cast<std::int64_t>(errors.size());
    const auto num_samples = static_cast<std::int64_t>(samples.size());
    // A dataset without entries has no capacity: the first of its kind writes the file anew.
    if (!layout.holds(row) || room_left(path, rows_set.id()) < 1 ||
        (row.error_count > 0 && room_left(path, errors_set.id()) < row.error_count) ||
        (num_samples > 0 && room_left(path, samples_set.id()) < num_samples)) {
      return false;
    }
    if (num_samples > 0) {
      extend(path, samples_set.id(), sample_type().id(), samples.data(), num_samples);
    }
    if (row.error_count > 0) {
      extend(path, errors_set.id(), error_type().id(), errors.data(), row.error_count);
    }
    require_done(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), path, "append (is the disk full?)");
    std::vector<std::byte> record(layout.bytes());
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

template <typename Entry>
std::vector<Entry> read_entries(const std::string& path, hid_t file, const char* name, hid_t type) {
  const Hdf5Handle dataset = open_dataset(path, file, name);
  std::vector<Entry> entries(count_to_read(path, dataset.id(), name, sizeof(Entry)));
  if (!entries.empty()) {
    require_done(H5Dread(dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, entries.data()), path,
                 (std::string("read /") + name).c_str());
  }
  return entries;
}

void read_errors(const std::string& path, hid_t file, std::vector<Row>& rows) {
  const auto records = read_entries<ErrorRecord>(path, file, kErrorsName, error_type().id());
  const auto size = static_cast<std::int64_t>(records.size());
  for (Row& row : rows) {
    const bool held = row.first_error >= 0 && row.error_count >= 0 && row.first_error <= size &&
                      row.error_count <= size - row.first_error;  // a sum of both may wrap
    if (!held) {
      fail(path, fmt::format("row '{}': its errors {} + {} lie outside the {} of /errors",
                             row.key(), row.first_error, row.error_count, size));
    }
    row.errors = errors_of(records, row.first_error, row.error_count);
  }
}

StoredRows read_whole(const std::string& path) {
  const Hdf5Quiet quiet;
  const Hdf5Handle file = open_file(path, H5F_ACC_RDONLY);
  const bool has_errors = is_present_schema(path, file.id());
  StoredRows stored;
  {
    const Hdf5Handle dataset = open_dataset(path, file.id(), kRowsName);
    const RecordLayout layout = RecordLayout::of_dataset(path, dataset.id());
    const std::size_t count =
        count_to_read(path, dataset.id(), kRowsName, layout.bytes() + sizeof(Row));
    std::vector<std::byte> records(count * layout.bytes());
    if (count > 0) {
      require_done(H5Dread(dataset.id(), layout.memory_type().id(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                           records.data()),
                   path, "read /rows");
    }
    for (std::size_t r = 0; r < count; ++r) {
      stored.rows.push_back(layout.unpack(records.data() + r * layout.bytes()));
    }
  }
  if (has_errors) read_errors(path, file.id(), stored.rows);
  stored.samples = read_entries<TimeSample>(path, file.id(), kSamplesName, sample_type().id());
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
  Room room;
  if (spare_rows > 0) {
    room.rows = static_cast<std::int64_t>(rows.rows.size()) + spare_rows;
    room.errors = error_count(rows) + kSpareErrors;
    room.samples = static_cast<std::int64_t>(rows.samples.size()) + kSpareSamples;
  }
  replace_file(path, file_image(path, rows, room));
}

void append_row(const std::string& path, const Row& row, const std::vector<TimeSample>& samples) {
  const Hdf5Quiet quiet;
  require_replaceable(path);
  StoredRows stored;
  if (is_there(path)) {
    Row counted = row;
    counted.sample_count = static_cast<std::int64_t>(samples.size());
    if (append_in_place(path, std::move(counted), samples)) return;
    stored = read_rows(path);
  }
  stored.add(row, samples);
  const Room room = {std::max(2 * static_cast<std::int64_t>(stored.rows.size()), kSpareRows),
                     std::max(2 * error_count(stored), kSpareErrors),
                     std::max(2 * static_cast<std::int64_t>(stored.samples.size()), kSpareSamples)};
  replace_file(path, file_image(path, stored, room));
}

void require_appendable(const std::string& path) {
  std::error_code ignored;
  require_replaceable(path);
  if (is_there(path)) read_rows(path);
  const auto folder = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail(path, "its folder '" + folder.string() + "' does not exist");
  }
  // Too long a name is found here, not when the first row has been measured.
  const WholeFile next(path);
  const bool partial_possible = access(next.partial().c_str(), F_OK) == 0 || errno == ENOENT;
  if (!partial_possible || access(folder.c_str(), W_OK) != 0) {
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
