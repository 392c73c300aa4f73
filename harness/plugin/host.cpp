#include "harness/plugin/host.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "harness/operations/make_case.h"
#include "harness/plugin/requests.h"
#include "harness/plugin/told_results.h"
#include "harness/run/guarded_device.h"
#include "harness/verify/checked_reference.h"
#include "interface/error.h"
#include "interface/forwarding_device.h"
#include "plugin/call_mark.h"
#include "plugin/plugin_library.h"

namespace gdn {
namespace {

// A device that marks where the process waits for it: there a kernel that never ends shows.
class MarkedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void download(void* destination, const void* source, std::int64_t bytes) override {
    const CallMark mark(PluginCall::wait);
    inner_.download(destination, source, bytes);
  }
  std::uint64_t fingerprint(const void* data, std::int64_t bytes) override {
    const CallMark mark(PluginCall::wait);
    return inner_.fingerprint(data, bytes);
  }
  void synchronize() override {
    const CallMark mark(PluginCall::wait);
    inner_.synchronize();
  }
  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    const CallMark mark(PluginCall::wait);
    return inner_.time_launch(prepare, launch);
  }
};

class Host {
 public:
  Message answer(Message& request) {
    Message answer;
    try {
      Message result;
      result.put(Answered::result);
      serve(request, result);
      return result;
    } catch (const Error& error) {
      put_error(answer, error.kind(), error.what());
    } catch (const std::bad_alloc&) {
      put_error(answer, ErrorKind::out_of_memory, "host memory ran out");
    } catch (const std::exception& error) {
      put_error(answer, ErrorKind::device_failure, std::string("unexpected: ") + error.what());
    }
    return answer;
  }

 private:
  static void put_error(Message& answer, ErrorKind kind, const std::string& line) {
    answer.put(Answered::error);
    answer.put(kind);
    answer.put_text(line);
  }

  void serve(Message& request, Message& result) {
    const auto asked = request.get<Request>();
    if (asked == Request::open) return open(request, result);
    const auto which = request.get<std::size_t>();
    const Implementation& implementation = *implementations_.at(which);
    const Problem problem = Problem::parse(request.get_text());
    switch (asked) {
      case Request::open:
        return;
      case Request::supports: {
        const Support support = implementation.supports(problem);
        result.put(support.ok);
        result.put_text(support.reason);
        return;
      }
      case Request::workspace_bytes:
        result.put(implementation.workspace_bytes(problem));
        return;
      case Request::verify: {
        const auto options = request.get<VerifyOptions>();
        const CheckedReference& reference = reference_of(problem, options);
        const VerifyResult judged = verify(implementation, reference, device(), options);
        result.put_text(reference.coverage());
        put_result(result, judged);
        return;
      }
      case Request::row: {
        const SweepOptions options = get_options(request);
        std::vector<TimeSample> samples;
        const Row row = sweep_row(
            implementation, problem,
            [&]() -> const CheckedReference& { return reference_of(problem, options.verify); },
            device(), options, samples);
        put_row(result, row, samples);
        return;
      }
    }
  }

  void open(Message& request, Message& result) {
    const std::string path = request.get_text();
    device_name_ = request.get_text();
    use_exact_buffers(request.get<bool>());
    implementations_ = load_plugin(path);
    result.put(implementations_.size());
    for (const auto& implementation : implementations_) {
      put_described(result, implementation->description());
    }
  }

  Device& device() {
    if (!device_) {
      opened_ = open_device(device_name_);
      device_ = std::make_unique<MarkedDevice>(*opened_);
    }
    return *device_;
  }

  // Inputs and reference of the latest problem: its implementations follow each other.
  const CheckedReference& reference_of(const Problem& problem, const VerifyOptions& options) {
    Message as_bytes;
    as_bytes.put(options);
    const std::string key = problem.to_string() + as_bytes.bytes();
    if (!reference_ || key != reference_is_of_) {
      reference_.reset();
      inputs_.emplace(make_case(problem));
      reference_.emplace(*inputs_, options);
      reference_is_of_ = key;
    }
    return *reference_;
  }

  std::vector<std::unique_ptr<const PluginImplementation>> implementations_;
  std::string device_name_;
  std::unique_ptr<Device> opened_;
  std::unique_ptr<Device> device_;
  std::optional<Case> inputs_;
  std::optional<CheckedReference> reference_;
  std::string reference_is_of_;
};

// Ends the process when the one that started it is gone, be it that a call of the plug-in never ends.
void end_with_parent() {
  std::thread([] {
    pollfd parent{kSocketOfHost, POLLRDHUP, 0};
    while (poll(&parent, 1, -1) <= 0) continue;
    _exit(0);
  }).detach();
}

}  // namespace

int host_plugin() {
  void* const page =
      mmap(nullptr, sizeof(CallPage), PROT_READ | PROT_WRITE, MAP_SHARED, kCallPageOfHost, 0);
  if (page == MAP_FAILED) return 2;  // nobody started it as a host
  mark_calls_in(*static_cast<CallPage*>(page));
  dup2(STDERR_FILENO, STDOUT_FILENO);  // what a plug-in prints does not mix with results
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  end_with_parent();
  Host host;
  Message request;
  while (receive_message(kSocketOfHost, request)) {
    if (!send_message(kSocketOfHost, host.answer(request))) break;
  }
  _exit(0);  // without the plug-in's destructors
}

}  // namespace gdn
