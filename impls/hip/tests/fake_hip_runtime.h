// What the fake HIP runtime (fake_hip_runtime.cpp) noted: read by the test that opened it.
#pragma once

#include <cstddef>

struct FakeHipLaunch {
  char kernel[64];  ///< or "(event)"
  unsigned grid[3];
  unsigned block[3];
  std::size_t argument_bytes;
};

extern "C" {
void fake_hip_forget();
int fake_hip_num_launches();
const FakeHipLaunch* fake_hip_launch(int index);
}
