// The table of Problem's fields. A new field is a member of Problem and one entry here: its text, its
// attribute in case files where inputs or results depend on it, its column in rows.
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "interface/enum_names.h"
#include "interface/error.h"
#include "interface/parse_number.h"
#include "interface/problem.h"

namespace gdn {
namespace {

using Written = FieldAttribute::Written;

std::pair<std::int64_t, std::int64_t> parse_pair(std::string_view text, char separator,
                                                 std::string_view field, const char* example) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos) {
    throw_bad_input(std::string(field) + ": '" + std::string(text) + "' is not of the form " +
                    example);
  }
  return {parse_integer(text.substr(0, at), field, 1),
          parse_integer(text.substr(at + 1), field, 1)};
}

const std::string& text_of(const FieldValue& value) { return std::get<std::string>(value); }
std::int64_t integer_of(const FieldValue& value) { return std::get<std::int64_t>(value); }

// ---- attributes of case files

FieldAttribute integer_attribute(std::string name, std::int64_t lowest,
                                 std::int64_t Problem::*member, Written written, bool required) {
  return {.name = std::move(name),
          .written = written,
          .required = required,
          .lowest = lowest,
          .get = [member](const Problem& p) { return p.*member; },
          .set =
              [member](Problem& p, const FieldValue& value) {
                p.*member = integer_of(value);
                return true;
              }};
}

// 0 or 1.
FieldAttribute flag_attribute(std::string name, bool Problem::*member, Written written) {
  return {.name = std::move(name),
          .written = written,
          .expected = "0 or 1",
          .get = [member](const Problem& p) { return std::int64_t{p.*member}; },
          .set =
              [member](Problem& p, const FieldValue& value) {
                p.*member = integer_of(value) == 1;
                return integer_of(value) <= 1;
              }};
}

template <typename Enum>
FieldAttribute named_attribute(std::string name, Enum Problem::*member, Written written) {
  return {.name = std::move(name),
          .written = written,
          .expected = all_names<Enum>(" | "),
          .get = [member](const Problem& p) { return name_of(p.*member); },
          .set =
              [member](Problem& p, const FieldValue& value) {
                for (const auto& [text, candidate] : names_of<Enum>()) {
                  if (text_of(value) != text) continue;
                  p.*member = candidate;
                  return true;
                }
                return false;
              }};
}

std::optional<DType> dtype_of_file(const std::string& name) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    if (long_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

FieldAttribute dtype_attribute(std::string name, DType Problem::*member, bool required) {
  return {.name = std::move(name),
          .written = Written::always,
          .required = required,
          .expected = "float32 | float16 | bfloat16",
          .get = [member](const Problem& p) { return long_name(p.*member); },
          .set =
              [member](Problem& p, const FieldValue& value) {
                const auto dtype = dtype_of_file(text_of(value));
                p.*member = dtype.value_or(p.*member);
                return dtype.has_value();
              }};
}

// ---- columns of rows

FieldColumn integer_column(std::string name, std::string help, std::int64_t Problem::*member) {
  return {std::move(name), std::move(help), [member](const Problem& p) { return p.*member; }};
}

FieldColumn text_column(std::string name, std::string help,
                        std::string (*text)(const Problem& problem)) {
  return {std::move(name), std::move(help), [text](const Problem& p) { return text(p); }};
}

// ---- fields

// A field whose values come from a table of names; `column`: what rows call it.
template <typename Enum>
ProblemField named_field(std::string key, std::string help, Enum Problem::*member,
                         std::string column) {
  return {.key = key,
          .help = help + ": " + all_names<Enum>(),
          .set = [key, member](Problem& p,
                               std::string_view text) { p.*member = parse_name<Enum>(text, key); },
          .get = [member](const Problem& p) { return name_of(p.*member); },
          .columns = {{std::move(column), std::move(help),
                       [member](const Problem& p) { return name_of(p.*member); }}}};
}

ProblemField flag_field(std::string key, std::string help, bool Problem::*member,
                        std::string column) {
  ProblemField field = named_field(std::move(key), std::move(help), member, std::move(column));
  field.columns.front().get = [member](const Problem& p) { return std::int64_t{p.*member}; };
  return field;
}

ProblemField integer_field(std::string key, std::string help, std::int64_t lowest,
                           std::int64_t Problem::*member, std::string column) {
  return {.key = key,
          .help = help,
          .set = [key, lowest, member](
                     Problem& p,
                     std::string_view text) { p.*member = parse_integer(text, key, lowest); },
          .get = [member](const Problem& p) { return std::to_string(p.*member); },
          .columns = {integer_column(std::move(column), std::move(help), member)}};
}

ProblemField dtype_field(std::string key, std::string help, DType Problem::*member,
                         std::string column) {
  return {.key = key,
          .help = help + ": f32|bf16|f16",
          .set = [key, member](Problem& p,
                               std::string_view text) { p.*member = parse_dtype(text, key); },
          .get = [member](const Problem& p) { return short_name(p.*member); },
          .columns = {{std::move(column), "element type of the " + help,
                       [member](const Problem& p) { return short_name(p.*member); }}}};
}

// A distribution by name, or LOW..HIGH (one number: a constant), which stands for `uniform`.
template <typename Enum>
ProblemField distribution_field(std::string key, std::string help, Enum uniform,
                                Enum Problem::*member, ValueRange Problem::*range) {
  const std::string expected = all_names<Enum>() + "|LOW..HIGH|NUMBER";
  ProblemField field;
  field.key = key;
  field.help = help + ": " + expected;
  field.set = [=](Problem& p, std::string_view text) {
    const bool number =
        !text.empty() && std::string_view("-.0123456789").find(text[0]) != std::string_view::npos;
    if (!number) {
      p.*member = parse_name<Enum>(text, key);
      return;
    }
    const auto dots = text.find("..");
    const bool constant = dots == std::string_view::npos;
    const std::string wanted = key + "=" + expected;
    const double low = parse_number(text.substr(0, dots), text, wanted);
    p.*member = uniform;
    p.*range = {low, constant ? low : parse_number(text.substr(dots + 2), text, wanted)};
  };
  field.get = [=](const Problem& p) {
    if (p.*member != uniform) return name_of(p.*member);
    const ValueRange& r = p.*range;
    const std::string low = shortest_text(r.low);
    return r.low == r.high ? low : low + ".." + shortest_text(r.high);
  };
  field.columns = {{key, help, [get = field.get](const Problem& p) { return get(p); }}};
  return field;
}

ProblemField heads_field() {
  ProblemField field;
  field.key = "heads";
  field.help = "key/value heads Hk/Hv, as 16/32 (one number: equal)";
  field.always_printed = true;
  field.replaced_by = "channels";
  field.set = [](Problem& p, std::string_view text) {
    if (text.find('/') == std::string_view::npos) {
      p.num_key_heads = p.num_value_heads = parse_integer(text, "heads", 1);
      return;
    }
    std::tie(p.num_key_heads, p.num_value_heads) = parse_pair(text, '/', "heads", "16/32");
  };
  field.get = [](const Problem& p) {
    return std::to_string(p.num_key_heads) + "/" + std::to_string(p.num_value_heads);
  };
  field.columns = {integer_column("num_key_heads", "Hk", &Problem::num_key_heads),
                   integer_column("num_value_heads", "Hv", &Problem::num_value_heads)};
  field.attributes = {
      integer_attribute("num_key_heads", 1, &Problem::num_key_heads, Written::always, true),
      integer_attribute("num_value_heads", 1, &Problem::num_value_heads, Written::always, true)};
  return field;
}

ProblemField dim_field() {
  ProblemField field;
  field.key = "dim";
  field.help = "key x value head dim DkxDv, as 96x192 (one number: equal)";
  field.always_printed = true;
  field.replaced_by = "channels";
  field.set = [](Problem& p, std::string_view text) {
    if (text.find('x') == std::string_view::npos) {
      p.key_head_dim = p.value_head_dim = parse_integer(text, "dim", 1);
      return;
    }
    std::tie(p.key_head_dim, p.value_head_dim) = parse_pair(text, 'x', "dim", "96x192");
  };
  field.get = [](const Problem& p) {
    return std::to_string(p.key_head_dim) + "x" + std::to_string(p.value_head_dim);
  };
  field.columns = {integer_column("key_head_dim", "Dk", &Problem::key_head_dim),
                   integer_column("value_head_dim", "Dv", &Problem::value_head_dim)};
  field.attributes = {
      integer_attribute("key_head_dim", 1, &Problem::key_head_dim, Written::always, true),
      integer_attribute("value_head_dim", 1, &Problem::value_head_dim, Written::always, true)};
  return field;
}

ProblemField channels_field() {
  ProblemField field;
  field.key = "channels";
  field.help = "channels of a convolution by itself, or auto: 2 Hk Dk + Hv Dv";
  field.set = [](Problem& p, std::string_view text) {
    p.channels = text == "auto" ? 0 : parse_integer(text, "channels", 1);
  };
  field.get = [](const Problem& p) {
    return p.channels == 0 ? std::string("auto") : std::to_string(p.channels);
  };
  field.columns = {integer_column("channels",
                                  "channels of a convolution by itself; 0: those of its heads",
                                  &Problem::channels)};
  field.attributes = {
      integer_attribute("channels", 1, &Problem::channels, Written::unless_default, false)};
  return field;
}

// In case files the dataset sequence_offsets says it.
ProblemField seq_field() {
  ProblemField field;
  field.key = "seq";
  field.help = "sequence lengths, as 4x8192 or 1x63+2x64+1x0";
  field.always_printed = true;
  field.set = [](Problem& p, std::string_view text) { p.sequences = SequenceLengths::parse(text); };
  field.get = [](const Problem& p) { return p.sequences.to_string(); };
  field.columns = {{"sequences", "sequence lengths, COUNTxLENGTH joined by +",
                    [](const Problem& p) { return p.sequences.to_string(); }},
                   {"num_sequences", "N", [](const Problem& p) { return p.num_sequences(); }},
                   {"total_tokens", "T", [](const Problem& p) { return p.total_tokens(); }},
                   {"longest_sequence", "tokens of the longest sequence",
                    [](const Problem& p) { return p.sequences.longest(); }}};
  return field;
}

// "auto" is what the sequences say; a case file always holds the number.
ProblemField pool_rows_field() {
  ProblemField field;
  field.key = "pool_rows";
  field.help =
      "rows of every pool, or auto: as many as sequences, 3 more with slots, twice as many and 3 "
      "more "
      "with output slots";
  field.set = [](Problem& p, std::string_view text) {
    p.pool_rows = text == "auto" ? 0 : parse_integer(text, "pool_rows", 1);
  };
  field.get = [](const Problem& p) {
    return p.pool_rows == 0 ? std::string("auto") : std::to_string(p.pool_rows);
  };
  field.columns = {{"pool_rows", "rows of every pool; 0: as the problem's sequences say",
                    [](const Problem& p) { return p.pool_rows; }}};
  field.attributes = {{.name = "pool_rows",
                       .written = Written::always,
                       .lowest = 1,
                       .get = [](const Problem& p) { return p.num_pool_rows(); },
                       .set =
                           [](Problem& p, const FieldValue& value) {
                             p.pool_rows = integer_of(value);
                             return true;
                           }}};
  return field;
}

ProblemField window_length_field() {
  ProblemField field;
  field.key = "window_length";
  field.help = "inputs that a convolution window holds, or auto: width - 1";
  field.set = [](Problem& p, std::string_view text) {
    p.window_length = text == "auto" ? 0 : parse_integer(text, "window_length", 1);
  };
  field.get = [](const Problem& p) {
    return p.window_length == 0 ? std::string("auto") : std::to_string(p.window_length);
  };
  field.columns = {integer_column("window_length",
                                  "inputs that a convolution window holds; 0: width - 1",
                                  &Problem::window_length)};
  field.attributes = {integer_attribute("window_length", 1, &Problem::window_length,
                                        Written::unless_default, false)};
  return field;
}

// In case files the attribute says that it is the input, as a flag, and the dataset residual that it is
// the operand.
ProblemField residual_field() {
  ProblemField field =
      named_field("residual", "what the convolution adds behind its activation, 1: its input",
                  &Problem::conv_residual, "conv_residual");
  const auto is_input = [](const Problem& p) {
    return std::int64_t{p.conv_residual == ConvResidual::input};
  };
  field.columns = {
      {"conv_residual", "the convolution's input is added behind its activation", is_input},
      {"conv_residual_tensor", "the operand residual is added behind the convolution's activation",
       [](const Problem& p) { return std::int64_t{p.conv_residual == ConvResidual::tensor}; }}};
  field.attributes = {{.name = "conv_residual",
                       .expected = "0 or 1",
                       .get = is_input,
                       .set = [](Problem& p, const FieldValue& value) {
                         p.conv_residual =
                             integer_of(value) == 1 ? ConvResidual::input : ConvResidual::none;
                         return integer_of(value) <= 1;
                       }}};
  return field;
}

ProblemField token_dtype_field() {
  ProblemField field = dtype_field("dtype", "tokens", &Problem::token_dtype, "token_dtype");
  field.help = "token dtype: f32|bf16|f16";
  field.always_printed = true;
  field.attributes = {dtype_attribute("token_dtype", &Problem::token_dtype, true)};
  return field;
}

// float32 where tokens need not be, or else the token dtype; `column`: what rows and case files call it.
ProblemField float32_or_token_field(std::string key, std::string help,
                                    std::optional<DType> Problem::*member, std::string column,
                                    std::string (*effective)(const Problem& problem)) {
  ProblemField field;
  field.key = key;
  field.help = help + ": token|f32";
  field.set = [key, member](Problem& p, std::string_view text) {
    if (text == "token") {
      (p.*member).reset();
    } else if (parse_dtype(text, key) == DType::float32) {
      p.*member = DType::float32;
    } else {
      throw_bad_input(key + ": '" + std::string(text) + "'; expected token or f32");
    }
  };
  field.get = [member](const Problem& p) { return p.*member ? "f32" : "token"; };
  field.columns = {text_column(column, "element type of the " + help, effective)};
  field.attributes = {{.name = std::move(column),
                       .expected = "float32",
                       .get = [](const Problem&) { return std::string("float32"); },
                       .set =
                           [member](Problem& p, const FieldValue& value) {
                             p.*member = DType::float32;
                             return text_of(value) == "float32";
                           }}};
  return field;
}

ProblemField output_dtype_field() {
  ProblemField field = float32_or_token_field(
      "out", "output", &Problem::output_dtype, "output_dtype",
      [](const Problem& p) { return short_name(p.effective_output_dtype()); });
  field.help = "output dtype: token|f32";
  return field;
}

ProblemField state_dtype_field() {
  ProblemField field = dtype_field("state", "state pool", &Problem::state_dtype, "state_dtype");
  field.help = "state pool dtype: f32|bf16|f16";
  field.attributes = {dtype_attribute("state_dtype", &Problem::state_dtype, false)};
  return field;
}

ProblemField checkpoint_dtype_field() {
  ProblemField field;
  field.key = "checkpoint_dtype";
  field.help = "element type of states inside a call: state|f32|bf16|f16|i8";
  field.set = [](Problem& p, std::string_view text) {
    p.checkpoint_dtype.reset();
    if (text == "state") return;
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::int8}) {
      if (text != short_name(dtype) && text != long_name(dtype)) continue;
      p.checkpoint_dtype = dtype;
      return;
    }
    throw_bad_input("checkpoint_dtype: '" + std::string(text) +
                    "' is no element type; expected state, f32, bf16, f16 or i8");
  };
  field.get = [](const Problem& p) {
    return p.checkpoint_dtype ? short_name(*p.checkpoint_dtype) : std::string("state");
  };
  field.columns = {
      text_column("checkpoint_dtype", "element type of states inside a call",
                  [](const Problem& p) { return short_name(p.effective_checkpoint_dtype()); })};
  field.attributes = {
      {.name = "checkpoint_dtype",
       .expected = "float32 | float16 | bfloat16 | int8",
       .get = [](const Problem& p) { return long_name(p.effective_checkpoint_dtype()); },
       .set =
           [](Problem& p, const FieldValue& value) {
             const std::string& name = text_of(value);
             p.checkpoint_dtype =
                 name == long_name(DType::int8) ? DType::int8 : dtype_of_file(name);
             return p.checkpoint_dtype.has_value();
           }}};
  return field;
}

ProblemField scale_field() {
  ProblemField field;
  field.key = "scale";
  field.help = "output scale: auto (1/sqrt(Dk)) or a number";
  field.set = [](Problem& p, std::string_view text) {
    if (text == "auto") {
      p.scale.reset();
      return;
    }
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      throw_bad_input("scale: '" + std::string(text) + "'; expected auto or a finite number");
    }
    p.scale = value;
  };
  field.get = [](const Problem& p) { return p.scale ? shortest_text(*p.scale) : "auto"; };
  field.columns = {text_column("scale", "output scale, or auto: 1/sqrt(Dk)", [](const Problem& p) {
    return p.scale ? shortest_text(*p.scale) : std::string("auto");
  })};
  field.attributes = {{.name = "scale",
                       .get = [](const Problem& p) { return p.effective_scale(); },
                       .set =
                           [](Problem& p, const FieldValue& value) {
                             p.scale = std::get<double>(value);
                             return true;
                           }}};
  return field;
}

// `column`: what rows and case files call it; `wanted`: "norm_eps=NUMBER, as 1e-6".
ProblemField number_field(std::string key, std::string help, double Problem::*member,
                          const std::string& column, const std::string& column_help,
                          const std::string& wanted) {
  const auto text = [member](const Problem& p) { return shortest_text(p.*member); };
  return {.key = std::move(key),
          .help = std::move(help),
          .set = [member, wanted](
                     Problem& p,
                     std::string_view given) { p.*member = parse_number(given, given, wanted); },
          .get = text,
          .columns = {{column, column_help, text}},
          .attributes = {{.name = column,
                          .get = [member](const Problem& p) { return p.*member; },
                          .set =
                              [member](Problem& p, const FieldValue& value) {
                                p.*member = std::get<double>(value);
                                return true;
                              }}}};
}

ProblemField chunk_field() {
  ProblemField field;
  field.key = "chunk";
  field.help = "chunk size in tokens (with steps: in steps), or auto";
  field.set = [](Problem& p, std::string_view text) {
    p.chunk = text == "auto" ? 0 : parse_integer(text, "chunk", 1);
  };
  field.get = [](const Problem& p) {
    return p.chunk == 0 ? std::string("auto") : std::to_string(p.chunk);
  };
  field.columns = {integer_column(
      "requested_chunk", "chunk asked for; 0 = the implementation chooses", &Problem::chunk)};
  return field;
}

ProblemField seed_field() {
  ProblemField field;
  field.key = "seed";
  field.help = "seed of the generated inputs";
  field.set = [](Problem& p, std::string_view text) {
    p.seed = static_cast<std::uint64_t>(parse_integer(text, "seed", 0));
  };
  field.get = [](const Problem& p) { return std::to_string(p.seed); };
  field.columns = {{"seed", "seed of the inputs",
                    [](const Problem& p) { return static_cast<std::int64_t>(p.seed); }}};
  return field;
}

ProblemField case_field() {
  ProblemField field;
  field.key = "case";
  field.help = "inputs from a case file, as FILE.h5:/group";
  field.set = [](Problem& p, std::string_view text) { p.case_file = std::string(text); };
  field.get = [](const Problem& p) { return p.case_file; };
  field.columns = {text_column("case_file", "case file of the inputs; empty = generated",
                               [](const Problem& p) { return p.case_file; })};
  return field;
}

ProblemField with(ProblemField field, FieldAttribute attribute) {
  field.attributes.push_back(std::move(attribute));
  return field;
}

ProblemField of_inputs(ProblemField field) {
  field.of_inputs = true;
  return field;
}

std::vector<ProblemField> make_fields() {
  using P = Problem;
  constexpr Written kAlways = Written::always;
  constexpr Written kUnlessDefault = Written::unless_default;
  return {
      heads_field(),
      dim_field(),
      channels_field(),
      seq_field(),
      token_dtype_field(),
      output_dtype_field(),
      state_dtype_field(),
      with(named_field("layout", "state layout", &P::state_layout, "state_layout"),
           named_attribute("state_layout", &P::state_layout, kAlways)),
      // In case files the dataset initial_state says it.
      named_field("h0", "initial state", &P::initial_state, "initial_state"),
      with(flag_field("ht", "final state wanted", &P::final_state, "final_state"),
           flag_attribute("final_state", &P::final_state, kUnlessDefault)),
      // In case files the dataset slot_index says it.
      named_field("slots", "map of sequences to pool rows", &P::slots, "slots"),
      // In case files the dataset output_slot_index says it.
      named_field("output_slots", "pool rows that final states are written to", &P::output_slots,
                  "output_slots"),
      // In case files the dataset rounding_seed says it.
      named_field("state_rounding", "how final states are rounded to pools of 16 bits",
                  &P::state_rounding, "state_rounding"),
      with(
          integer_field("checkpoints", "states inside a call that are handed out, of each sequence",
                        0, &P::checkpoints, "checkpoints"),
          integer_attribute("checkpoints", 0, &P::checkpoints, kUnlessDefault, false)),
      checkpoint_dtype_field(),
      // In case files the dataset ring_key says it.
      integer_field("ring", "tokens that a ring has places for", 1, &P::ring, "ring"),
      with(integer_field("pool_pad", "unused elements after each pool row", 0, &P::pool_row_padding,
                         "pool_row_padding"),
           integer_attribute("pool_row_padding", 0, &P::pool_row_padding, kUnlessDefault, false)),
      pool_rows_field(),
      with(flag_field("norm", "l2-normalise q and k in the kernel", &P::normalize_qk,
                      "normalize_qk"),
           flag_attribute("normalize_qk", &P::normalize_qk, kAlways)),
      scale_field(),
      with(named_field("update",
                       "update rule; additive: gated linear attention, Mamba2 (no delta "
                       "term)",
                       &P::update, "update"),
           named_attribute("update", &P::update, kUnlessDefault)),
      with(integer_field("steps", "Householder steps per token, 1..16; more than 1: DeltaProduct",
                         1, &P::steps, "steps"),
           integer_attribute("steps", 1, &P::steps, kUnlessDefault, false)),
      with(named_field("decay", "one decay per value head, or per key channel too (KDA)", &P::decay,
                       "decay"),
           named_attribute("decay", &P::decay, kUnlessDefault)),
      // In case files the names of the datasets say gate and beta.
      named_field("gate", "gate encoding", &P::gate_encoding, "gate_encoding"),
      number_field("bound", "of gate=bounded, log decays in -bound..0: a number above 0, at most 5",
                   &P::decay_bound, "decay_bound", "bound of the log decays of gate=bounded",
                   "bound=NUMBER, as 5"),
      named_field("beta", "beta encoding", &P::beta_encoding, "beta_encoding"),
      with(named_field("logits", "element type of logits", &P::logit_type, "logit_type"),
           named_attribute("logit_type", &P::logit_type, kUnlessDefault)),
      chunk_field(),
      // In case files the extents of conv_weight say it.
      integer_field("width", "convolution width, 2..15", 2, &P::conv_width, "conv_width"),
      // In case files the dataset conv_bias says it.
      flag_field("bias", "convolution bias", &P::conv_bias, "conv_bias"),
      with(named_field("act", "convolution activation", &P::activation, "activation"),
           named_attribute("activation", &P::activation, kAlways)),
      with(named_field("conv_layout", "convolution token layout", &P::conv_layout, "conv_layout"),
           named_attribute("conv_layout", &P::conv_layout, kUnlessDefault)),
      with(flag_field("conv_in_place", "convolution window updated in place",
                      &P::conv_state_in_place, "conv_state_in_place"),
           flag_attribute("conv_state_in_place", &P::conv_state_in_place, kUnlessDefault)),
      with(named_field("window", "what a call makes of the convolution window", &P::conv_window,
                       "conv_window"),
           named_attribute("conv_window", &P::conv_window, kUnlessDefault)),
      with(named_field("window_layout", "convolution window layout", &P::window_layout,
                       "window_layout"),
           named_attribute("window_layout", &P::window_layout, kUnlessDefault)),
      window_length_field(),
      // In case files the dataset window_position says it.
      named_field("window_order", "order of inputs in a convolution window", &P::window_order,
                  "window_order"),
      // In case files the dataset has_window says it.
      flag_field("fresh", "has_window says which sequences start from zeros", &P::fresh_windows,
                 "fresh_windows"),
      residual_field(),
      float32_or_token_field(
          "weights", "convolution's weights and bias", &P::conv_weight_dtype, "conv_weight_dtype",
          [](const Problem& p) { return short_name(p.effective_conv_weight_dtype()); }),
      // In case files the dataset z says it.
      flag_field("gated_norm", "the layer ends in the gated norm", &P::gated_norm, "gated_norm"),
      with(named_field("norm_gate", "gate of the gated norm", &P::norm_gate, "norm_gate"),
           named_attribute("norm_gate", &P::norm_gate, kAlways)),
      number_field("norm_eps",
                   "epsilon of the gated norm, added to the mean of the squares: a positive number",
                   &P::norm_eps, "norm_eps", "epsilon of the gated norm",
                   "norm_eps=NUMBER, as 1e-6"),
      of_inputs(distribution_field("gates", "distribution of log_decay (none: DeltaNet)",
                                   GateDistribution::uniform, &P::gates, &P::gate_range)),
      of_inputs(distribution_field("betas",
                                   "distribution of beta (two, wide: negative eigenvalues)",
                                   BetaDistribution::uniform, &P::betas, &P::beta_range)),
      of_inputs(named_field("keys", "distribution of keys", &P::keys, "keys")),
      of_inputs(named_field("magnitudes", "rows of tokens: ordinary, or zeros, small and large",
                            &P::magnitudes, "magnitudes")),
      of_inputs(
          named_field("accepted", "how many draft tokens are accepted", &P::accepted, "accepted")),
      of_inputs(named_field("ring_fill", "how much rings hold, and which are folded", &P::ring_fill,
                            "ring_fill")),
      seed_field(),
      case_field(),
  };
}

}  // namespace

const std::vector<ProblemField>& problem_fields() {
  static const std::vector<ProblemField> fields = make_fields();
  return fields;
}

const ProblemField& problem_field(std::string_view key) {
  std::vector<std::string> keys;
  for (const ProblemField& field : problem_fields()) {
    if (field.key == key) return field;
    keys.push_back(field.key);
  }
  throw_bad_input("problem: unknown field '" + std::string(key) + "' (did you mean '" +
                  nearest_name(key, keys) + "'?)");
}

bool is_replaced(const ProblemField& field, const Problem& problem) {
  if (field.replaced_by.empty()) return false;
  static const Problem defaults;
  const ProblemField& other = problem_field(field.replaced_by);
  return other.get(problem) != other.get(defaults);
}

}  // namespace gdn
