// Listings as cmake/pack_listing.awk packs them for the library: those of the kernels take a sixth of what they take in
// llvm-objdump's own form.
//
// First the number of distinct instructions; then each of them in a line, the number of its 32-bit words in front:
// "2 v_mul_u32_u24_e32 v74, 0x110, v71". Then the functions: a line "0000000000002100 <name>:" as it was, and a line of
// numbers of the instructions from 0 on, one after the other in memory; "@5288" in front of a number says where those
// behind it stand that do not follow the one before.
#pragma once

#include <string>
#include <string_view>

namespace gdn::gfx906 {

/// The listing in the form that CodeObject reads, with addresses and a 0 in the place of each word. Throws
/// Error(bad_input) that names the line for text that is not packed so.
std::string unpack_listing(std::string_view packed);

}  // namespace gdn::gfx906
