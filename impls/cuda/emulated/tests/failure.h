// The failure a launch reports, for tests of the emulated grid.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "interface/error.h"

namespace gdn::cuda_grid {

/// "" if the launch does not fail.
inline std::string failure_of(const std::function<void()>& launch) {
  try {
    launch();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device_failure);
    return error.what();
  }
  return "";
}

inline void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace gdn::cuda_grid
