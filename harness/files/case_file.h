// Case files (docs/contract.md, section 3): cases in HDF5, schema "gdn-case/1". A case is a group:
// the problem as attributes, each operand that the call reads as a dataset of its own name.
//
// Every fault of a file is Error(bad_input), one line: the file, the dataset or attribute, what was
// found and what was expected.
//
// Attributes beside `schema` and `op` are those of the fields the operation looks at
// (interface/problem_fields.cpp); what is at its default may be absent. Shapes are those of the
// operation's schema (interface/operations/): lengths of sequences, slots, encodings of gates and the
// convolution's width are read from the datasets that are there. `pool_rows` says how many rows the
// pools have where no dataset does.
#pragma once

#include <string>

#include "interface/case.h"

namespace gdn {

/// "FILE.h5" or "FILE.h5:/group".
struct CasePath {
  std::string file;
  std::string group = "/";
  static CasePath parse(const std::string& text);
  std::string to_string() const;
};

/// The whole case, validated; values rounded to their element types. problem.case_file is `path` as
/// given.
Case read_case(const std::string& path);
/// The same with other element types than the file names: its values rounded to these instead.
Case read_case_as(const std::string& path, DType token_dtype, DType state_dtype);
/// Shapes, dtypes and options alone: what read_case(path).problem would be.
Problem read_case_problem(const std::string& path);

/// Creates the file, or adds the group to an existing case file; an existing group is an error.
void write_case(const Case& value, const std::string& path);

}  // namespace gdn
