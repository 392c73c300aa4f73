// The gfx906 code objects of this build: embedded in the library by cmake/GdnHip.cmake,
// so that the same bytes go to the HIP runtime and to the emulator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gdn::hip {

struct EmbeddedCodeObject {
  std::string name;                 ///< "gated_delta_fused"
  std::string_view elf;             ///< device-only ELF for plain gfx906
  std::string_view packed_listing;  ///< its listing, made at build time (emulator/packed_listing.h)

  std::string listing() const;  ///< unpacked
};

/// Those of this backend's kernels.
const std::vector<EmbeddedCodeObject>& code_objects();
/// Devices find the kernels of these as well from now on: programs bring kernels of their own.
/// The objects must stay where they are; to add them again changes nothing.
void add_code_objects(const std::vector<EmbeddedCodeObject>& objects);
/// The compiler that made them: "clang 15.0.6".
const char* code_object_compiler();

/// The object that holds the kernel, of this backend's or of those added; throws Error(bad_input) with the nearest kernel name.
const EmbeddedCodeObject& code_object_of(const std::string& kernel);

}  // namespace gdn::hip
