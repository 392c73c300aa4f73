// The format of rows files as others meet it: a file of an earlier version still reads, and Python
// reads what we write with the lines the documentation gives.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "harness/rows/row_store.h"
#include "harness/tables/pivot.h"
#include "harness/tables/table_forms.h"
#include "harness/tests/temporary_folder.h"
#include "interface/error.h"

namespace gdn {
namespace {

// Written by version 0.1.0, schema "gdn-rows/1", before columns were added; never to be written
// again.
const std::string kEarlier = GDN_SOURCE_DIR "/data/fixtures/rows_of_0.1.h5";

std::string schema_of(const std::string& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t attribute = H5Aopen(file, "schema", H5P_DEFAULT);
  const hid_t type = H5Aget_type(attribute);
  std::string schema(H5Tget_size(type), '\0');
  H5Aread(attribute, type, schema.data());
  H5Tclose(type);
  H5Aclose(attribute);
  H5Fclose(file);
  return schema;
}

TEST(RowsFormat, AFileOfAnEarlierVersionStillReads) {
  ASSERT_EQ(schema_of(kEarlier), "gdn-rows/1");
  const StoredRows stored = read_rows(kEarlier);
  ASSERT_EQ(stored.rows.size(), 4u);
  const Row& row = stored.rows[1];
  EXPECT_EQ(row.problem, "gated_delta:heads=1/2,dim=16x16,seq=2x96,dtype=f32");
  EXPECT_EQ(row.implementation, "cpu/chunkwise");
  EXPECT_TRUE(row.ok());
  EXPECT_GT(row.time_ms, 0);
  EXPECT_EQ(stored.samples_of(row).size(), 5u);
  EXPECT_EQ(row.operation, "gated_delta");
  EXPECT_EQ(row.integer("num_value_heads"), 2);
  EXPECT_EQ(row.text("token_dtype"), "f32");
  // What that version did not know of is at its default, which tables show as nothing.
  EXPECT_EQ(row.text("update"), "delta");
  EXPECT_EQ(row.integer("steps"), 1);
  EXPECT_EQ(row.case_bytes, 0);
  EXPECT_TRUE(position_errors(row, "output").empty());
  EXPECT_EQ(find_quantity("peak_mib").text(row), "");
  EXPECT_FALSE(table_form("summary", stored.rows).empty());
}

// The errors were columns then; read, they are lines as those of today.
TEST(RowsFormat, ErrorsOfAnEarlierVersionAreLines) {
  const StoredRows stored = read_rows(kEarlier);
  const Row& float32 = stored.rows[1];
  const Row& bfloat16 = stored.rows[3];
  ASSERT_EQ(float32.text("token_dtype"), "f32");
  ASSERT_EQ(bfloat16.text("token_dtype"), "bf16");
  // As h5dump prints them.
  EXPECT_EQ(float32.error("output", ErrorMetric::relative_l2), 1.612778200046443e-07);
  EXPECT_EQ(float32.error("output", ErrorMetric::floor), 2.6320205847834293e-08);
  EXPECT_EQ(float32.error("output", ErrorMetric::floor_ratio), 6.127528824700082);
  EXPECT_EQ(float32.error("output", ErrorMetric::scaled_max), 1.7822909798507503e-07);
  EXPECT_EQ(float32.error("final_state", ErrorMetric::relative_l2), 1.6849389342170542e-07);
  EXPECT_EQ(float32.error("final_state", ErrorMetric::floor), 2.731319043089249e-08);
  EXPECT_EQ(float32.error("final_state", ErrorMetric::floor_ratio), 6.168956857970389);
  EXPECT_EQ(float32.error("final_state", ErrorMetric::scaled_max), 1.604621817824643e-07);
  EXPECT_TRUE(std::isnan(float32.error("output", ErrorMetric::limit))) << "it knew no limits";
  EXPECT_TRUE(std::isnan(float32.error("conv_output", ErrorMetric::relative_l2)));
  // A float32 state beside bfloat16 tokens: many roundings, which the floor does not measure.
  EXPECT_TRUE(std::isnan(bfloat16.error("final_state", ErrorMetric::floor_ratio)));
  EXPECT_FALSE(std::isnan(bfloat16.error("final_state", ErrorMetric::floor)));
  EXPECT_FALSE(std::isnan(bfloat16.error("output", ErrorMetric::floor_ratio)));
}

TEST(RowsFormat, AFileOfAnEarlierVersionTakesRowsOfThisOne) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  std::filesystem::copy_file(kEarlier, path);
  const StoredRows before = read_rows(path);
  Row row = before.rows[0];
  row.implementation = "cpu/recurrent";
  row.case_bytes = 123;
  row.errors.push_back({"output", ErrorMetric::limit, RowError::kWhole, 4e-3});
  append_row(path, row, {{1, 0}, {2, 0}});
  EXPECT_EQ(schema_of(path), kRowsSchema) << "written anew as it would be written now";
  const StoredRows stored = read_rows(path);
  ASSERT_EQ(stored.rows.size(), 5u);
  EXPECT_EQ(stored.rows[4].case_bytes, 123);
  EXPECT_EQ(stored.rows[4].errors, row.errors);
  EXPECT_EQ(stored.samples_of(stored.rows[4]).size(), 2u);
  for (std::size_t r = 0; r < before.rows.size(); ++r) {
    EXPECT_EQ(stored.rows[r].problem, before.rows[r].problem);
    EXPECT_EQ(stored.rows[r].errors, before.rows[r].errors) << before.rows[r].key();
    EXPECT_FALSE(stored.rows[r].errors.empty()) << before.rows[r].key();
    EXPECT_EQ(stored.samples_of(stored.rows[r]).size(), 5u) << "those before are still there";
  }
}

// A row of "gdn-rows/1" as a later 0.1 wrote it: with errors by position, and those of a
// convolution.
struct FirstSchemaRow {
  char problem[64] = "gated_delta_layer:heads=1/1,dim=16x16,seq=1x96,dtype=bf16";
  char implementation[16] = "cpu/chunkwise";
  char mode[16] = "verify";
  char status[16] = "ok";
  char operation[32] = "gated_delta_layer";
  char token_dtype[16] = "bf16";
  char output_dtype[16] = "bf16";
  char state_dtype[16] = "bf16";
  char output_error_by_position[64] = "";
  double output_relative_l2 = 2e-3;
  double output_floor_ratio = 1.25;
  double state_relative_l2 = 3e-3;
  double state_floor_ratio = 1.5;
  double conv_output_relative_l2 = 4e-3;
  double conv_output_floor_ratio = 1.75;
  double conv_state_relative_l2 = 0;
  double conv_state_floor_ratio = 0;
};

void write_first_schema(const std::string& path, const FirstSchemaRow& row) {
  const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof row);
  const auto add_text = [&](const char* name, std::size_t offset, std::size_t bytes) {
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, bytes);
    H5Tset_strpad(text, H5T_STR_NULLPAD);
    H5Tset_cset(text, H5T_CSET_UTF8);
    H5Tinsert(type, name, offset, text);
    H5Tclose(text);
  };
  const auto add_real = [&](const char* name, std::size_t offset) {
    H5Tinsert(type, name, offset, H5T_NATIVE_DOUBLE);
  };
  using R = FirstSchemaRow;
  add_text("problem", offsetof(R, problem), sizeof row.problem);
  add_text("implementation", offsetof(R, implementation), sizeof row.implementation);
  add_text("mode", offsetof(R, mode), sizeof row.mode);
  add_text("status", offsetof(R, status), sizeof row.status);
  add_text("operation", offsetof(R, operation), sizeof row.operation);
  add_text("token_dtype", offsetof(R, token_dtype), sizeof row.token_dtype);
  add_text("output_dtype", offsetof(R, output_dtype), sizeof row.output_dtype);
  add_text("state_dtype", offsetof(R, state_dtype), sizeof row.state_dtype);
  add_text("output_error_by_position", offsetof(R, output_error_by_position),
           sizeof row.output_error_by_position);
  add_real("output_relative_l2", offsetof(R, output_relative_l2));
  add_real("output_floor_ratio", offsetof(R, output_floor_ratio));
  add_real("state_relative_l2", offsetof(R, state_relative_l2));
  add_real("state_floor_ratio", offsetof(R, state_floor_ratio));
  add_real("conv_output_relative_l2", offsetof(R, conv_output_relative_l2));
  add_real("conv_output_floor_ratio", offsetof(R, conv_output_floor_ratio));
  add_real("conv_state_relative_l2", offsetof(R, conv_state_relative_l2));
  add_real("conv_state_floor_ratio", offsetof(R, conv_state_floor_ratio));

  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::string schema = "gdn-rows/1";
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, schema.size());
  const hid_t scalar = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, "schema", text, scalar, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, text, schema.data());
  const hsize_t one = 1, none = 0;
  const hid_t one_row = H5Screate_simple(1, &one, nullptr);
  const hid_t rows = H5Dcreate2(file, "rows", type, one_row, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(rows, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &row);
  const hid_t sample = H5Tcreate(H5T_COMPOUND, 2 * sizeof(double));
  H5Tinsert(sample, "time_ms", 0, H5T_NATIVE_DOUBLE);
  H5Tinsert(sample, "clock_mhz", sizeof(double), H5T_NATIVE_DOUBLE);
  const hid_t no_samples = H5Screate_simple(1, &none, nullptr);
  const hid_t samples =
      H5Dcreate2(file, "samples", sample, no_samples, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  for (const hid_t set : {rows, samples}) H5Dclose(set);
  for (const hid_t space : {one_row, no_samples, scalar}) H5Sclose(space);
  for (const hid_t of : {type, sample, text}) H5Tclose(of);
  H5Aclose(attribute);
  H5Fclose(file);
}

TEST(RowsFormat, EveryErrorColumnOfTheFirstSchemaIsALine) {
  const TemporaryFolder folder;
  const std::string path = folder.file("first.h5");
  FirstSchemaRow written;
  std::strcpy(written.output_error_by_position, "0:0.00125 64:2e-07 128:nan");
  write_first_schema(path, written);
  const Row row = read_rows(path).rows.at(0);
  EXPECT_EQ(row.error("output", ErrorMetric::relative_l2), 2e-3);
  EXPECT_EQ(row.error("output", ErrorMetric::floor_ratio), 1.25);
  EXPECT_EQ(row.error("final_state", ErrorMetric::relative_l2), 3e-3);
  EXPECT_EQ(row.error("final_state", ErrorMetric::floor_ratio), 1.5) << "a bfloat16 state's counts";
  EXPECT_EQ(row.error("conv_output", ErrorMetric::relative_l2), 4e-3);
  EXPECT_EQ(row.error("conv_output", ErrorMetric::floor_ratio), 1.75);
  EXPECT_EQ(row.error("conv_state", ErrorMetric::relative_l2), 0);
  EXPECT_EQ(row.error("conv_state", ErrorMetric::floor_ratio), 0);
  const auto windows = position_errors(row, "output");
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[1].first_token, 64);
  EXPECT_EQ(windows[1].value, 2e-7);
  EXPECT_TRUE(std::isnan(windows[2].value));
}

TEST(RowsFormat, FloorsOfTypesFinerThanTheTokensAreDropped) {
  const TemporaryFolder folder;
  const std::string path = folder.file("first.h5");
  FirstSchemaRow written;
  std::strcpy(written.state_dtype, "f32");
  std::strcpy(written.output_dtype, "f32");
  write_first_schema(path, written);
  const Row row = read_rows(path).rows.at(0);
  for (const char* output : {"output", "final_state", "conv_state"}) {
    EXPECT_TRUE(std::isnan(row.error(output, ErrorMetric::floor_ratio))) << output;
    EXPECT_FALSE(std::isnan(row.error(output, ErrorMetric::relative_l2))) << output;
  }
  EXPECT_EQ(row.error("conv_output", ErrorMetric::floor_ratio), 1.75) << "of the tokens' type";
}

TEST(RowsFormat, MalformedErrorsByPositionOfTheFirstSchemaAreNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("first.h5");
  for (const char* wrong : {"64", "64:", "a:1", "0:1 64", "0:1,64:2"}) {
    FirstSchemaRow written;
    std::strcpy(written.output_error_by_position, wrong);
    write_first_schema(path, written);
    try {
      read_rows(path);
      ADD_FAILURE() << "'" << wrong << "' was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find("expected 'TOKEN:ERROR"), std::string::npos)
          << error.what();
    }
  }
}

TEST(RowsFormat, FilteredFilesKeepTheirSamples) {
  const StoredRows stored = read_rows(kEarlier);
  const StoredRows kept = filtered(stored, {parse_row_filter("token_dtype=bf16")});
  ASSERT_EQ(kept.rows.size(), 2u);
  EXPECT_EQ(kept.samples.size(), 10u);
  EXPECT_EQ(kept.samples_of(kept.rows[1]).at(4).time_ms,
            stored.samples_of(stored.rows[3]).at(4).time_ms);
}

std::string python_reads(const std::string& path) {
  const std::string script = GDN_SOURCE_DIR "/harness/rows/tests/rows_in_python.py";
  std::string text;
  // The distribution's own interpreter has the distribution's packages.
  FILE* pipe = popen(("/usr/bin/python3 '" + script + "' '" + path + "' 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) {
    text += buffer.data();
  }
  pclose(pipe);
  return text;
}

TEST(RowsFormat, PythonReadsTheTablesAndTheSamples) {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no h5py here";
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  StoredRows stored;
  Row row;
  row.implementation = "cpu/naive";
  row.fields["token_dtype"] = "bf16";
  row.time_ms = 1.5;
  row.errors = {{"output", ErrorMetric::relative_l2, RowError::kWhole, 0.002},
                {"output", ErrorMetric::relative_l2, 64, 0.001},
                {"final_state", ErrorMetric::limit_ratio, RowError::kWhole, 0.25}};
  stored.add(row, {{1, 0}, {1.5, 0}, {9, 0}});
  row.implementation = "cpu/recurrent";
  row.time_ms = 0.25;
  row.errors = {{"output", ErrorMetric::relative_l2, RowError::kWhole, 0.003}};
  stored.add(row, {{0.25, 0}});
  write_rows(path, stored);
  const std::string text = python_reads(path);
  EXPECT_NE(text.find("columns " + std::to_string(row_columns().size()) + "\n"), std::string::npos)
      << text;
  for (const char* line :
       {"cpu/naive bf16 1.5 1.5\n", "cpu/recurrent bf16 0.25 0.25\n",
        "error 0 output relative_l2 -1 0.002\n", "error 0 output relative_l2 64 0.001\n",
        "error 0 final_state limit_ratio -1 0.25\n", "error 1 output relative_l2 -1 0.003\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "not in\n" << text;
  }
  if (text.find("pandas absent") != std::string::npos) return;
  for (const char* line :
       {"pandas rows 1 float64\n", "pandas errors 1 float64\n", "pandas joined cpu/naive 0.002\n",
        "pandas joined cpu/recurrent 0.003\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "not in\n" << text;
  }
}

}  // namespace
}  // namespace gdn
