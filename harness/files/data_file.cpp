#include "harness/files/data_file.h"

#include <filesystem>

namespace gdn {

std::string find_data_file(const std::string& name) {
  const std::filesystem::path file = std::filesystem::path("data") / name;
  std::error_code ignored;
  // The path as typed from the repository's root keeps Problem strings the same on every machine.
  if (std::filesystem::exists(file, ignored)) return file.string();
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& place :
       {folder, folder.parent_path(), folder.parent_path() / "share" / "gdnbench"}) {
    if (std::filesystem::exists(place / file, ignored)) return (place / file).string();
  }
  return "";
}

}  // namespace gdn
