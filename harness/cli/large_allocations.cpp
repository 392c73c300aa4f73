// Large blocks of memory on huge pages, touched by several threads at once. Verification fills and
// drops vectors of gigabytes, and where they are touched first is most of its time: a virtual
// machine gets memory that it has not used for a while from its host, page by page, at 3 s per GB
// on one thread (10 GB, two cores: 28 s by one thread, 17 s by two, 1 to 5 s when used just
// before).
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these bring their own

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = 4 * kHugePage;
constexpr std::size_t kWorthAThread = std::size_t{128} << 20;
constexpr std::size_t kMostThreads = 16;

// Touches part `part` of `parts`; a system that cannot do so ahead of use does it in use.
void touch(char* memory, std::size_t pages, std::size_t part, std::size_t parts) {
#ifdef MADV_POPULATE_WRITE
  const std::size_t begin = pages * part / parts * kHugePage;
  const std::size_t end = pages * (part + 1) / parts * kHugePage;
  if (end > begin) madvise(memory + begin, end - begin, MADV_POPULATE_WRITE);
#else
  static_cast<void>(memory), static_cast<void>(pages);
  static_cast<void>(part), static_cast<void>(parts);
#endif
}

void touch_by_threads(char* memory, std::size_t pages) {
  const std::size_t threads =
      std::min({pages * kHugePage / kWorthAThread, kMostThreads,
                static_cast<std::size_t>(std::thread::hardware_concurrency())});
  if (threads < 2) return;
  std::thread others[kMostThreads];
  try {
    for (std::size_t i = 1; i < threads; ++i) {
      others[i] = std::thread(touch, memory, pages, i, threads);
    }
  } catch (const std::system_error&) {  // no thread to be had: that part is touched in use
  }
  touch(memory, pages, 0, threads);
  for (std::thread& other : others) {
    if (other.joinable()) other.join();
  }
}

void* allocate(std::size_t bytes) {
  if (bytes < kLarge) return std::malloc(bytes > 0 ? bytes : 1);
  if (bytes > static_cast<std::size_t>(-1) - kHugePage) return nullptr;
  const std::size_t pages = (bytes + kHugePage - 1) / kHugePage;
  void* const memory = std::aligned_alloc(kHugePage, pages * kHugePage);
  if (memory == nullptr) return nullptr;
#ifdef MADV_HUGEPAGE
  madvise(memory, pages * kHugePage, MADV_HUGEPAGE);  // refused: small pages do
#endif
  touch_by_threads(static_cast<char*>(memory), pages);
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  for (;;) {
    if (void* const memory = allocate(bytes)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
