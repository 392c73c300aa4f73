// A convention in words, for `gdnbench convert --list`.
#include <fmt/format.h>

#include "harness/conventions/convention.h"
#include "interface/gate_encoding_table.h"

namespace gdn::conventions {
namespace {

std::string names(const std::vector<DType>& dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += (text.empty() ? "" : " | ") + long_name(dtype);
  return text;
}

std::string text_of(const Norm& norm) {
  const std::string rule = norm.rule == NormRule::epsilon_added
                               ? fmt::format("x / sqrt(sum x^2 + {:g})", norm.epsilon)
                               : fmt::format("x / sqrt(max(sum x^2, {:g}^2))", norm.epsilon);
  switch (norm.place) {
    case NormPlace::in_kernel:
      return rule + ", always, in the kernel";
    case NormPlace::in_kernel_by_flag:
      return fmt::format("{}, in the kernel if attribute {} = 1 (absent: {})", rule, norm.attribute,
                         norm.on_by_default ? 1 : 0);
    case NormPlace::before:
      return fmt::format("{}, before; attribute {} = epsilon: q and k stand before it", rule,
                         norm.attribute);
    case NormPlace::before_flag_ignored:
      return rule + ", before; attribute " + norm.attribute + " does nothing and must be 0";
  }
  return "?";
}

const char* text_of(ScaleRule rule) {
  switch (rule) {
    case ScaleRule::argument:
      return "attribute scale, 1/sqrt(Dk) if absent";
    case ScaleRule::argument_zero_is_default:
      return "attribute scale, 1/sqrt(Dk) if absent or 0";
    case ScaleRule::fixed:
      return "1/sqrt(Dk)";
    case ScaleRule::by_caller:
      return "q arrives scaled";
  }
  return "?";
}

std::string batch_text(const Batch& batch) {
  switch (batch.kind) {
    case BatchKind::ragged:
      return "ragged, " + batch.offsets + " [N + 1]";
    case BatchKind::equal_lengths:
      return "sequences of equal length";
    case BatchKind::either:
      return "[N, time, ..], or [1, T, ..] with " + batch.offsets + " [N + 1]";
    case BatchKind::one_token:
      return "one token per sequence";
  }
  return "?";
}

std::string slots_text(const Slots& slots) {
  if (slots.dataset.empty()) return "none: sequence n owns row n";
  std::string text = slots.dataset + " [N]" + (slots.required ? "" : " (optional)");
  if (slots.first_row > 0) text += fmt::format(", padding below {}", slots.first_row);
  if (slots.padding.empty()) return text + ", no padding";
  return text + (slots.first_row > 0 ? "" : ", padding -1") + " with a state in " +
         names(slots.padding);
}

std::string text_of(const Array& array) { return array.name + " " + axes_text(array.axes); }

void add(std::string& text, const char* what, const std::string& value) {
  text += fmt::format("    {:<14} {}\n", what, value);
}

}  // namespace

std::string describe(const Convention& c) {
  std::string text = c.name + "\n";
  add(text, "described", c.source);
  if (!c.remark.empty()) add(text, "mind", c.remark);
  add(text, "batch", batch_text(c.batch));
  add(text, "slots", slots_text(c.slots));
  add(text, "tokens", names(c.token_dtypes));
  add(text, "states", names(c.state_dtypes));
  if (c.qkv.exists()) {
    add(text, "q, k, v", text_of(c.qkv) + ", channels [q | k | v]");
  } else {
    add(text, "q, k, v", text_of(c.query) + ", " + text_of(c.key) + ", " + text_of(c.value));
  }
  add(text, "key head of h", c.heads == HeadMap::grouped ? "h / (Hv/Hk)" : "h % Hk");
  add(text, "norm of q, k", text_of(c.norm));
  add(text, "scale", text_of(c.scale));
  add(text, "gate",
      text_of(c.gate) + ": " + std::string(entry_of(c.gate_encoding).meaning) +
          (c.gates_in_token_dtype ? ", in the token dtype" : ", float32"));
  add(text, "beta", text_of(c.beta) + ": " + entry_of(c.beta_encoding).meaning);
  add(text, "state before",
      text_of(c.initial_state) + (c.initial_state_required ? "" : " (optional)"));
  if (c.packed_outputs.empty()) {
    add(text, "outputs", text_of(c.output));
    add(text, "state after", text_of(c.final_state));
  } else {
    add(text, "outputs",
        c.packed_outputs + " [T + N Dk, Hv Dv]: " + axes_text(c.output.axes) + ", then " +
            axes_text(c.final_state.axes));
  }
  if (!c.convolution) return text;
  const Convolution& conv = *c.convolution;
  add(text, "convolution", conv.source);
  add(text, "  batch, slots", batch_text(conv.batch) + "; " + slots_text(conv.slots));
  add(text, "  input",
      text_of(conv.input) + (conv.window.exists() ? "" : ", the window in front, along time"));
  add(text, "  weight, bias",
      text_of(conv.weight) + ", " + (conv.bias.empty() ? "no bias" : conv.bias + " [channels]"));
  add(text, "  activation",
      conv.activation == ActivationRule::argument ? "attribute activation"
      : conv.activation == ActivationRule::silu   ? "silu"
                                                  : "none");
  const std::string entries = fmt::format(
      "window = width{}{}", conv.unused_window == 0 ? " - 1" : "",
      conv.unused_window == 0 ? ", oldest first" : ", oldest first, the oldest never read");
  if (conv.window.exists()) add(text, "  window", text_of(conv.window) + ", " + entries);
  add(text, "  outputs", text_of(conv.output) + ", " + text_of(conv.new_window));
  return text;
}

}  // namespace gdn::conventions
