// JSON that other programs read: whatever a text holds, it comes back.
#include "harness/files/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace gdn {
namespace {

TEST(Json, TextsAreQuotedAndWhatJsonForbidsInThemIsEscaped) {
  EXPECT_EQ(json_string(""), "\"\"");
  EXPECT_EQ(json_string("seq=1x5+1x3, 40 %"), "\"seq=1x5+1x3, 40 %\"");
  EXPECT_EQ(json_string("a \"name\""), R"("a \"name\"")");
  EXPECT_EQ(json_string("C:\\rows\\new.h5"), R"("C:\\rows\\new.h5")");
  EXPECT_EQ(json_string("two\nlines\tand a tab"), R"("two\nlines\tand a tab")");
  EXPECT_EQ(json_string(std::string("\0\r\x1b\x1f ", 5)), R"("\u0000\u000d\u001b\u001f ")");
  EXPECT_EQ(json_string("10 \xC2\xB5s"), "\"10 \xC2\xB5s\"");  // UTF-8 as it is
}

TEST(Json, NumbersAreExactAndWhatIsNoneIsNull) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(-3), "-3");
  EXPECT_EQ(json_number(1e-300), "1e-300");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "null");
}

TEST(Json, ObjectsHaveTheirMembersInOrder) {
  EXPECT_EQ(json_object({}), "{}");
  EXPECT_EQ(json_object({{"b", "1"}}), R"({"b": 1})");
  EXPECT_EQ(json_object({{"b", "1"}, {"a \"b\"", json_string("x")}, {"c", "[]"}}),
            R"({"b": 1, "a \"b\"": "x", "c": []})");
}

}  // namespace
}  // namespace gdn
