// The hash that rows carry is the one that sha256sum prints.
#include "plugin/file_hash.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/tests/message_of.h"
#include "harness/tests/temporary_folder.h"

namespace gdn {
namespace {

// FIPS 180-4's own examples, and lengths at which the padding takes a block of its own.
TEST(FileHash, IsSha256) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(sha256(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(FileHash, IsOfTheFilesBytes) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("three")) << "abc";
  EXPECT_EQ(file_hash(folder.file("three")), sha256("abc"));
  const std::string refused = message_of([&] { file_hash(folder.file("absent")); });
  EXPECT_NE(refused.find("absent"), std::string::npos) << refused;
  EXPECT_NE(refused.find("No such file"), std::string::npos) << refused;
}

}  // namespace
}  // namespace gdn
