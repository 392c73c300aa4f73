#include "harness/plugin/hosted_plugins.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "harness/plugin/host_process.h"
#include "harness/plugin/told_results.h"
#include "interface/added_implementations.h"
#include "interface/error.h"
#include "plugin/file_hash.h"

namespace gdn {
namespace {

class OfHost final : public HostedImplementation {
 public:
  OfHost(std::shared_ptr<HostProcess> host, std::size_t which, Description description,
         std::string hash)
      : host_(std::move(host)),
        which_(which),
        description_(std::move(description)),
        hash_(std::move(hash)) {}

  const Description& description() const override { return description_; }
  const std::string& file_hash() const override { return hash_; }

  // A plug-in that fails to answer is asked to run all the same, and fails there, where it counts.
  Support supports(const Problem& problem) const override {
    if (Support named = description_support(description_, problem); !named) return named;
    const std::lock_guard lock(mutex_);
    const auto [at, is_unknown] = supports_.try_emplace(problem.to_string());
    if (is_unknown) {
      try {
        Message answer = host_->ask(request(Request::supports, problem));
        at->second.ok = answer.get<bool>();
        at->second.reason = answer.get_text();
      } catch (const Error&) {
        at->second = Support::yes();
      }
    }
    return at->second;
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    const std::lock_guard lock(mutex_);
    const auto [at, is_unknown] = workspaces_.try_emplace(problem.to_string(), 0);
    if (is_unknown) {
      try {
        at->second = host_->ask(request(Request::workspace_bytes, problem)).get<std::int64_t>();
      } catch (const Error&) {
        at->second = 0;
      }
    }
    return at->second;
  }

 private:
  template <typename Body>
  auto answered(const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      const std::string line = error.what();
      const bool is_named = line.rfind(description_.name, 0) == 0;
      throw Error(error.kind(), is_named ? line : description_.name + ": " + line);
    }
  }

 public:
  JudgedApart verify(const Problem& problem, const VerifyOptions& options) const override {
    Message asked = request(Request::verify, problem);
    asked.put(options);
    return answered([&] {
      Message answer = host_->ask(asked);
      JudgedApart judged;
      judged.coverage = answer.get_text();
      judged.result = get_result(answer, problem.operation);
      if (judged.result.verdict == Verdict::failed) host_->restart();
      return judged;
    });
  }

  Row row(const Problem& problem, const SweepOptions& options,
          std::vector<TimeSample>& samples) const override {
    Message asked = request(Request::row, problem);
    put_options(asked, options);
    return answered([&] {
      Message answer = host_->ask(asked);
      Row row = get_row(answer, samples);
      if (row.status == row_status::kFailed || row.status == row_status::kDeviceFailure) {
        host_->restart();
      }
      return row;
    });
  }

 private:
  Message request(Request what, const Problem& problem) const {
    Message message;
    message.put(what);
    message.put(which_);
    message.put_text(problem.to_string());
    return message;
  }

  std::shared_ptr<HostProcess> host_;
  std::size_t which_;
  Description description_;
  std::string hash_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Support> supports_;  // by problem
  mutable std::map<std::string, std::int64_t> workspaces_;
};

class Failed final : public HostedImplementation {
 public:
  Failed(Description description, std::string reason, std::string hash)
      : description_(std::move(description)), reason_(std::move(reason)), hash_(std::move(hash)) {}

  const Description& description() const override { return description_; }
  const std::string& file_hash() const override { return hash_; }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  JudgedApart verify(const Problem&, const VerifyOptions&) const override { fail(); }
  Row row(const Problem&, const SweepOptions&, std::vector<TimeSample>&) const override { fail(); }

 private:
  [[noreturn]] void fail() const { throw Error(ErrorKind::bad_input, reason_); }

  Description description_;
  std::string reason_;
  std::string hash_;
};

// They live as long as the list that they are added to.
std::vector<std::unique_ptr<const HostedImplementation>>& hosted() {
  static std::vector<std::unique_ptr<const HostedImplementation>> all;
  return all;
}

const HostedImplementation& add(std::unique_ptr<const HostedImplementation> made) {
  hosted().push_back(std::move(made));
  add_implementation(*hosted().back());
  return *hosted().back();
}

void require_own_names(const std::string& path, const std::vector<Description>& descriptions) {
  for (const Description& description : descriptions) {
    for (const Implementation* const other : all_implementations()) {
      if (other->description().name != description.name) continue;
      throw_bad_input("plug-in '" + path + "': " + description.name +
                      " is the name of another implementation, expected one of its own");
    }
  }
}

}  // namespace

HostedPlugin host_plugin_file(const std::string& path, const PluginSettings& settings) {
  HostedPlugin plugin{path, {}, ""};
  const std::string hash = file_hash(path);
  const auto host = std::make_shared<HostProcess>(path, settings);
  std::vector<Description> descriptions;
  try {
    descriptions = host->describe();
  } catch (const Error& error) {
    const std::string line = error.what();
    plugin.failure = line.rfind("plug-in '", 0) == 0 ? line : "plug-in '" + path + "': " + line;
    return plugin;
  }
  require_own_names(path, descriptions);
  for (std::size_t i = 0; i < descriptions.size(); ++i) {
    plugin.implementations.push_back(
        &add(std::make_unique<OfHost>(host, i, std::move(descriptions[i]), hash)));
  }
  return plugin;
}

const HostedImplementation& add_failed_plugin(const HostedPlugin& plugin, Operation operation,
                                              const std::string& backend) {
  Description description;
  description.name = "plugin/" + std::filesystem::path(plugin.path).filename().string();
  description.operation = operation;
  description.backend = backend;
  description.form = "plugin";
  description.summary = "could not be loaded";
  return add(
      std::make_unique<Failed>(std::move(description), plugin.failure, file_hash(plugin.path)));
}

}  // namespace gdn
