// Files are replaced as a whole: the target is the earlier file or the new one.
#include "harness/files/whole_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "harness/tests/temporary_folder.h"

namespace gdn {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::error_code write_text(const std::string& path, const std::string& text) {
  return write_whole_file(path, text.data(), text.size());
}

std::ptrdiff_t files_in(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

TEST(WholeFile, ReplacesWhatWasThereAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  const std::string path = folder.file("page.html");
  EXPECT_FALSE(write_text(path, "first, the longer one"));
  EXPECT_FALSE(write_text(path, "second"));
  EXPECT_EQ(content_of(path), "second");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(WholeFile, OneThatIsNotPutInPlaceLeavesTheEarlierFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("page.html");
  ASSERT_FALSE(write_text(path, "earlier"));
  {
    WholeFile next(path);
    ASSERT_FALSE(next.copy_earlier());
    EXPECT_EQ(content_of(next.partial()), "earlier");
    std::ofstream(next.partial()) << "half of";
  }
  EXPECT_EQ(content_of(path), "earlier");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(WholeFile, KeepsPermissionsAndSymbolicLinks) {
  const TemporaryFolder folder;
  const std::string path = folder.file("page.html");
  const std::string link = folder.file("link.html");
  ASSERT_FALSE(write_text(path, "earlier"));
  const auto permissions = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(path, permissions);
  std::filesystem::create_symlink(path, link);
  EXPECT_FALSE(write_text(link, "later"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(content_of(path), "later");
  EXPECT_EQ(std::filesystem::status(path).permissions(), permissions);
}

// A rename over a device would make a file of it.
TEST(WholeFile, DevicesAreWrittenAsTheyAre) {
  EXPECT_EQ(write_text("/dev/full", "text"), std::errc::no_space_on_device);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_EQ(why_not_replaceable("/dev/full"), "not a regular file");
}

TEST(WholeFile, AFolderThatIsNotThereIsTheSystemsReason) {
  const TemporaryFolder folder;
  EXPECT_EQ(write_text(folder.file("none/page.html"), "text"),
            std::errc::no_such_file_or_directory);
}

}  // namespace
}  // namespace gdn
