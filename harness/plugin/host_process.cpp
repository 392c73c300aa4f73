#include "harness/plugin/host_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "interface/error.h"

extern char** environ;

namespace gdn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAboveTheHosts = 10;  // descriptors that are not those that the process gets
constexpr int kLookEvery_ms = 20;
constexpr auto kToEnd = std::chrono::seconds(2);

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::device_unavailable,
              "no process for a plug-in: " + what + ": " + std::strerror(errno));
}

int moved_up(int descriptor) {
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, kAboveTheHosts);
  close(descriptor);
  if (moved < 0) refuse("descriptor");
  return moved;
}

// The exit status once it has ended; after a while it is made to.
int status_of_ended(pid_t process) {
  int status = 0;
  for (const auto begin = Clock::now(); Clock::now() - begin < kToEnd;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process || (ended < 0 && errno != EINTR)) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(process, SIGKILL);
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

std::string ending_text(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

HostProcess::HostProcess(std::string path, PluginSettings settings)
    : path_(std::move(path)), settings_(std::move(settings)) {}

HostProcess::~HostProcess() { end(); }

void HostProcess::start() {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) refuse("socket");
  socket_ = moved_up(sockets[0]);
  const int theirs = moved_up(sockets[1]);
  const int memory = moved_up(memfd_create("gdnbench-plugin", MFD_CLOEXEC));
  void* mapped = MAP_FAILED;
  if (ftruncate(memory, sizeof(CallPage)) == 0) {
    mapped = mmap(nullptr, sizeof(CallPage), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  }
  if (mapped == MAP_FAILED) refuse("shared memory");
  page_ = new (mapped) CallPage;

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs, kSocketOfHost);
  posix_spawn_file_actions_adddup2(&actions, memory, kCallPageOfHost);
  std::string name = "gdnbench", command = kHostCommand;
  const std::array<char*, 3> argv = {name.data(), command.data(), nullptr};
  const int failure =
      posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(theirs);
  close(memory);
  if (failure != 0) {
    process_ = 0;
    end();
    errno = failure;
    refuse("/proc/self/exe");
  }
}

// Of no process too.
void HostProcess::end() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
  if (process_ > 0) {
    kill(process_, SIGKILL);
    status_of_ended(std::exchange(process_, 0));
  }
  if (page_ != nullptr) munmap(std::exchange(page_, nullptr), sizeof(CallPage));
}

bool HostProcess::wait_for_answer() const {
  pollfd answer{socket_, POLLIN, 0};
  std::uint64_t changes = 0;
  auto changed = Clock::now();
  while (true) {
    const int ready = poll(&answer, 1, kLookEvery_ms);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // receiving tells what is wrong
    const std::uint64_t latest = page_->changes.load(std::memory_order_acquire);
    const bool in_plugin = page_->call.load(std::memory_order_relaxed) != PluginCall::none;
    if (latest != changes || !in_plugin) {
      changes = latest;
      changed = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - changed).count() > settings_.limit_s) {
      return false;
    }
  }
}

void HostProcess::throw_ended() {
  const PluginCall call = page_->call.load();
  const int status = status_of_ended(std::exchange(process_, 0));
  end();
  const std::string where = call == PluginCall::none
                                ? "between two calls of the plug-in, which may have broken memory"
                                : std::string("in ") + to_string(call);
  throw Error(ErrorKind::device_failure,
              fmt::format("its process ended {}: {}", where, ending_text(status)));
}

void HostProcess::throw_hung() {
  const PluginCall call = page_->call.load();
  ++hangs_;
  end();
  throw Error(ErrorKind::device_failure,
              fmt::format("{} took longer than {:g} s (--plugin-limit), and its process was ended",
                          to_string(call), settings_.limit_s));
}

Message HostProcess::exchange(const Message& request) {
  Message answer;
  if (!send_message(socket_, request)) throw_ended();
  if (!wait_for_answer()) throw_hung();
  if (!receive_message(socket_, answer)) throw_ended();
  if (answer.get<Answered>() == Answered::result) return answer;
  const auto kind = answer.get<ErrorKind>();
  throw Error(kind, answer.get_text());
}

Message HostProcess::open() {
  start();
  Message request;
  request.put(Request::open);
  request.put_text(path_);
  request.put_text(settings_.device);
  request.put(settings_.exact_buffers);
  try {
    return exchange(request);
  } catch (const Error&) {
    end();
    throw;
  }
}

std::vector<Description> HostProcess::describe() {
  const std::lock_guard lock(mutex_);
  end();
  Message answer = open();
  std::vector<Description> descriptions;
  for (std::size_t left = answer.get_count(); left > 0; --left) {
    descriptions.push_back(get_described(answer));
  }
  return descriptions;
}

Message HostProcess::ask(const Message& request) {
  const std::lock_guard lock(mutex_);
  if (hangs_ >= kMostHangs) {
    throw Error(ErrorKind::device_failure,
                fmt::format("not run: {} calls before it took longer than the limit", hangs_));
  }
  if (process_ == 0) open();
  return exchange(request);
}

void HostProcess::restart() {
  const std::lock_guard lock(mutex_);
  end();
}

}  // namespace gdn
