// The format of rows files as others meet it: a file of an earlier version still reads, and Python
// reads what we write with the lines the documentation gives.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "harness/pivot.h"
#include "harness/row_store.h"
#include "harness/table_forms.h"
#include "harness/tests/temporary_folder.h"

namespace gdn {
namespace {

// Written by version 0.1.0 before columns were added; never to be written again.
const std::string kEarlier = GDN_SOURCE_DIR "/data/fixtures/rows_of_0.1.h5";

TEST(RowsFormat, AFileOfAnEarlierVersionStillReads) {
  const StoredRows stored = read_rows(kEarlier);
  ASSERT_EQ(stored.rows.size(), 4u);
  const Row& row = stored.rows[1];
  EXPECT_EQ(row.problem, "gated_delta:heads=1/2,dim=16x16,seq=2x96,dtype=f32");
  EXPECT_EQ(row.implementation, "cpu/chunkwise");
  EXPECT_TRUE(row.ok());
  EXPECT_GT(row.time_ms, 0);
  EXPECT_EQ(stored.samples_of(row).size(), 5u);
  // What that version did not know of is at its default, which tables show as nothing.
  EXPECT_EQ(row.update, "delta");
  EXPECT_EQ(row.steps, 1);
  EXPECT_EQ(row.case_bytes, 0);
  EXPECT_TRUE(position_errors(row).empty());
  EXPECT_EQ(find_quantity("peak_mib").text(row), "");
  EXPECT_FALSE(table_form("summary", stored.rows).empty());
}

TEST(RowsFormat, AFileOfAnEarlierVersionTakesRowsOfThisOne) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  std::filesystem::copy_file(kEarlier, path);
  Row row = read_rows(path).rows[0];
  row.implementation = "cpu/recurrent";
  row.case_bytes = 123;
  append_row(path, row, {{1, 0}, {2, 0}});
  const StoredRows stored = read_rows(path);
  ASSERT_EQ(stored.rows.size(), 5u);
  EXPECT_EQ(stored.rows[4].case_bytes, 123);
  EXPECT_EQ(stored.samples_of(stored.rows[4]).size(), 2u);
  EXPECT_EQ(stored.samples_of(stored.rows[1]).size(), 5u) << "those before are still there";
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
  const std::string script = GDN_SOURCE_DIR "/harness/tests/rows_in_python.py";
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

TEST(RowsFormat, PythonReadsTheTableAndItsSamples) {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no h5py here";
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  StoredRows stored;
  Row row;
  row.implementation = "cpu/naive";
  row.token_dtype = "bf16";
  row.time_ms = 1.5;
  stored.add(row, {{1, 0}, {1.5, 0}, {9, 0}});
  row.implementation = "cpu/recurrent";
  row.time_ms = 0.25;
  stored.add(row, {{0.25, 0}});
  write_rows(path, stored);
  const std::string text = python_reads(path);
  EXPECT_NE(text.find("columns " + std::to_string(row_columns().size()) + "\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("cpu/naive bf16 1.5 1.5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cpu/recurrent bf16 0.25 0.25\n"), std::string::npos) << text;
  const bool pandas = text.find("pandas absent") == std::string::npos;
  EXPECT_TRUE(!pandas || text.find("pandas 1 float64") != std::string::npos) << text;
}

}  // namespace
}  // namespace gdn
