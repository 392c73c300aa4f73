// The page harness/gfx906/analysis/README.md: its tables are made here, between lines
//     <!-- table NAME -->  and  <!-- end -->
// and can be printed, written into the page and checked against it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gdn::hip {

struct Block {
  std::string name;
  std::function<std::string()> text;
};
const std::vector<Block>& page_blocks();

/// The page with the block's text in its place. Throws Error(bad_input) if it has no such block.
std::string with_block(const std::string& page, const std::string& name, const std::string& text);
/// What the page says in the block.
std::string block_of(const std::string& page, const std::string& name);
/// "clang 15.0.6", as the page's line "Compiled by ..." names it; empty if there is none.
std::string compiler_of(const std::string& page);

}  // namespace gdn::hip
