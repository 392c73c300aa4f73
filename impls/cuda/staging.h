// Copies between ordinary host memory and the device, through page-locked memory of one's own:
// several threads copy side by side, each for its stream, and prepare what comes next meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gdn::cuda {

/// Two page-locked blocks, in turns: one is filled or emptied while the other is copied. Made at
/// the first copy. For one thread and one device. All throw Error(device_failure).
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Ordered on the stream; returns when `source` may change.
  void upload(void* destination, const void* source, std::int64_t bytes, cudaStream_t stream);
  /// Ordered on the stream; returns when all bytes are there.
  void download(void* destination, const void* source, std::int64_t bytes, cudaStream_t stream);

 private:
  struct Block {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;  ///< recorded after the copy that uses it
  };
  void make();
  Block blocks_[2];
  int turn_ = 0;
};

}  // namespace gdn::cuda
