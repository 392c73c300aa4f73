// What an action that must be refused says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "interface/error.h"

namespace gdn {

/// The words of the bad_input that `action` throws; empty, which no expected words are in, where it
/// throws nothing.
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace gdn
