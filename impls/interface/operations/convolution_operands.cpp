#include "interface/operations/convolution_operands.h"

#include "interface/case.h"
#include "interface/enum_names.h"
#include "interface/error.h"
#include "interface/operations/dimensions.h"

namespace gdn {
namespace {

using Dimensions = std::vector<Dimension>;

constexpr Dimension kChannels = {"channels", [](const Problem& p) { return p.conv_channels(); }};
constexpr Dimension kWidth = {"width", [](const Problem& p) { return p.conv_width; }, Cut::whole,
                              Heads::none,
                              [](Problem& p, std::int64_t width) { p.conv_width = width; }};
constexpr Dimension kWindow = {"width - 1", [](const Problem& p) { return p.window_places(); }};

constexpr Dimension kLongWindow = {"window_length",
                                   [](const Problem& p) { return p.window_places(); }};
constexpr std::int64_t kLongestWindow = 65536;

constexpr const char* kHasWindow = "has_window";
constexpr const char* kWindowPosition = "window_position";

Dimensions token_shape(const Problem& p) {
  if (p.conv_layout == ConvLayout::channels) return {dimension::T, kChannels};
  return {kChannels, dimension::T};
}

}  // namespace

std::vector<Operand> convolution_operands() {
  return {
      {.name = "qkv",
       .shape = token_shape,
       .dtype = element_type::token,
       .takes_token_stride = true,
       .may_have_rows = true},
      {.name = "conv_weight",
       .shape =
           [](const Problem&) {
             return Dimensions{kChannels, kWidth};
           },
       .dtype = element_type::conv_weight},
      {.name = "conv_bias",
       .shape = [](const Problem&) { return Dimensions{kChannels}; },
       .dtype = element_type::conv_weight,
       .present = [](const Problem& p) { return p.conv_bias; },
       .in_file = {.infer_presence = [](Problem& p, bool present) { p.conv_bias = present; }}},
  };
}

Operand convolution_residual_operand() {
  return {.name = "residual",
          .shape = token_shape,
          .dtype = element_type::token,
          .present = [](const Problem& p) { return p.conv_residual == ConvResidual::tensor; },
          .takes_token_stride = true,
          .may_have_rows = true,
          .in_file = {.infer_presence = [](Problem& p, bool present) {
            if (!present) return;
            if (p.conv_residual == ConvResidual::input) {
              throw_bad_input(
                  "attribute 'conv_residual' is 1, the input, beside the dataset 'residual', "
                  "expected one of them");
            }
            p.conv_residual = ConvResidual::tensor;
          }}};
}

bool has_windows(const Problem& p) { return p.conv_window != ConvWindow::none; }

Operand convolution_window_operand() {
  return {.name = "conv_state",
          .role = Role::in_place,
          .shape =
              [](const Problem& p) {
                const Dimension& places = p.window_length == 0 ? kWindow : kLongWindow;
                if (p.window_layout == WindowLayout::channels) {
                  return Dimensions{dimension::slots, places, kChannels};
                }
                return Dimensions{dimension::slots, kChannels, places};
              },
          .dtype = element_type::state,
          .present = has_windows,
          .in_place = {.read = [](const Problem& p) { return p.reads_conv_window(); },
                       .written = [](const Problem& p) { return p.writes_conv_window(); },
                       .make_written =
                           [](Problem& p) {
                             p.conv_window =
                                 p.reads_conv_window() ? ConvWindow::carried : ConvWindow::written;
                           },
                       .make_read =
                           [](Problem& p) {
                             p.conv_window =
                                 p.writes_conv_window() ? ConvWindow::carried : ConvWindow::read;
                           }},
          .pool = {.out_of_place = [](const Problem& p) { return !p.conv_state_in_place; },
                   .written_by_empty_sequences = true},
          .judging = {.per = JudgedPer::sequence, .is_copy = true},
          .in_file = {.when_absent = WhenAbsent::zeros}};
}

Operand has_window_operand() {
  return {
      .name = kHasWindow,
      .shape = [](const Problem&) { return Dimensions{dimension::N}; },
      .present = [](const Problem& p) { return p.fresh_windows; },
      .in_file = {.infer_presence = [](Problem& p, bool present) { p.fresh_windows = present; }},
      .index_rule = {[](const Case&, std::int64_t, std::int64_t value) {
                       return value == 0 || value == 1;
                     },
                     "0 or 1"}};
}

Operand window_position_operand() {
  return {.name = kWindowPosition,
          .shape = [](const Problem&) { return Dimensions{dimension::N}; },
          .present = [](const Problem& p) { return p.window_order == WindowOrder::ring; },
          .in_file = {.infer_presence =
                          [](Problem& p, bool present) {
                            p.window_order =
                                present ? WindowOrder::ring : WindowOrder::oldest_first;
                          }},
          .index_rule = {[](const Case&, std::int64_t, std::int64_t value) { return value >= 0; },
                         "0 or more"}};
}

void fit_convolution_part(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  const Problem& p = whole.problem;
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t before = parts[n].first_token - whole.first_token(parts[n].sequence);
    if (before <= 0) continue;
    if (p.fresh_windows) part.other_indices[kHasWindow][n] = 1;
    if (p.window_order != WindowOrder::ring) continue;
    // The same place of the ring as the sum has, which may be larger than an int64.
    std::int64_t& position = part.other_indices[kWindowPosition][n];
    position = position % p.window_places() + before;
  }
}

Operand convolution_output_operand(bool on_request) {
  return {.name = "conv_output",
          .role = Role::output,
          .shape = token_shape,
          .dtype = element_type::token,
          .may_have_rows = true,
          .judging = {.per = JudgedPer::sequence},
          .hand_over = {.on_request = on_request}};
}

std::vector<std::string> convolution_fields() {
  return {"slots",         "pool_rows",   "state",         "width",     "bias",
          "act",           "conv_layout", "conv_in_place", "window",    "window_layout",
          "window_length", "fresh",       "weights",       "magnitudes"};
}

HonouredFields convolution_options() {
  return {"slots", "pool_rows", "state", "width", "bias", "act", "conv_layout", "conv_in_place"};
}

HonouredFields convolution_window_options() {
  return {"window", "window_layout", "window_length", "fresh"};
}

WindowStrides window_strides(const Problem& p) {
  const std::int64_t places = p.window_places();
  const std::int64_t row = p.conv_channels() * places;
  if (p.window_layout == WindowLayout::channels) return {row, 1, p.conv_channels()};
  return {row, places, 1};
}

void validate_convolution(const Problem& p) {
  if (!p.conv_state_in_place && p.conv_window != ConvWindow::carried) {
    throw_bad_input("problem: window=" + name_of(p.conv_window) +
                    " is one array; conv_in_place=0 needs window=carried");
  }
  if (p.fresh_windows && !p.reads_conv_window()) {
    throw_bad_input("problem: fresh=1: window=" + name_of(p.conv_window) +
                    " reads no windows, expected carried or read");
  }
  if (p.window_length != 0 &&
      (p.window_length < p.conv_width - 1 || p.window_length > kLongestWindow)) {
    throw_bad_input("problem: window_length=" + std::to_string(p.window_length) +
                    ": width=" + std::to_string(p.conv_width) + " expects auto or " +
                    std::to_string(p.conv_width - 1) + ".." + std::to_string(kLongestWindow));
  }
  if (has_windows(p)) return;
  if (p.window_length != 0) {
    throw_bad_input("problem: window_length=" + std::to_string(p.window_length) +
                    ": window=none has no windows, expected another");
  }
  if (p.window_order != WindowOrder::oldest_first) {
    throw_bad_input("problem: window_order=ring: window=none has no windows, expected another");
  }
  if (p.window_layout != WindowLayout::time) {
    throw_bad_input(
        "problem: window_layout=channels: window=none has no windows, expected another");
  }
}

}  // namespace gdn
