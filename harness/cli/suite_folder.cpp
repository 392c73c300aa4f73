#include "harness/cli/suite_folder.h"

#include <filesystem>

#include "harness/files/case_file.h"
#include "harness/operations/generate_case.h"
#include "interface/error.h"

namespace gdn::cli {

std::vector<SuiteProblem> suite_problems(const std::string& suite, const std::string& operation) {
  std::vector<SuiteProblem> problems;
  const Suite found = find_suite(suite);
  for (const SuiteProblem& entry : found.problems) {
    if (operation.empty() || entry.problem.operation == parse_operation(operation)) {
      problems.push_back(entry);
    }
  }
  if (problems.empty()) {
    throw_bad_input("--op " + operation + ": the suite " + found.name + " has no problem of it");
  }
  return problems;
}

std::string suite_file_name(const Problem& problem) {
  std::string name = problem.to_string();
  for (char& letter : name) {
    if (letter == ':') letter = '.';
    if (letter == '/') letter = '-';
    if (letter == ',') letter = '_';  // a problem string may name the file
  }
  return name + ".h5";
}

WrittenSuite write_suite(const std::vector<SuiteProblem>& problems, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_bad_input("--out " + folder + ": expected a folder: " + error.message());
  WrittenSuite result;
  for (const SuiteProblem& entry : problems) {
    const std::string problem = entry.problem.to_string();
    const std::string path =
        (std::filesystem::path(folder) / suite_file_name(entry.problem)).string();
    if (std::filesystem::exists(path)) {
      Problem there = read_case_problem(path);
      there.case_file.clear();
      if (there.operation != entry.problem.operation ||
          there.sequences != entry.problem.sequences) {
        throw_bad_input(path + ": holds another case, " + there.to_string());
      }
      ++result.there;
      continue;
    }
    try {
      write_case(generate_case(entry.problem), path);
    } catch (const Error& memory) {
      if (memory.kind() != ErrorKind::out_of_memory) throw;
      result.left_out.push_back(problem + ": " + memory.what());
      continue;
    }
    ++result.written;
  }
  return result;
}

}  // namespace gdn::cli
