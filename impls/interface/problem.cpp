#include "interface/problem.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "interface/error.h"

namespace gdn {
namespace {

std::int64_t parse_integer(std::string_view text, std::string_view field, std::int64_t lowest) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < lowest) {
    throw_bad_input(std::string(field) + ": '" + std::string(text) +
                    "' is not an integer of at least " + std::to_string(lowest));
  }
  return value;
}

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

template <typename Enum>
using NameTable = std::vector<std::pair<const char*, Enum>>;

template <typename Enum>
std::string name_of(const NameTable<Enum>& table, Enum value) {
  for (const auto& [name, candidate] : table) {
    if (candidate == value) return name;
  }
  throw_bad_input("an enumeration of Problem holds a value without a name");
}

template <typename Enum>
std::string all_names(const NameTable<Enum>& table) {
  std::string names;
  for (const auto& entry : table) names += (names.empty() ? "" : "|") + std::string(entry.first);
  return names;
}

template <typename Enum>
Enum parse_name(const NameTable<Enum>& table, std::string_view text, std::string_view field) {
  std::vector<std::string> names;
  for (const auto& [name, value] : table) {
    if (text == name) return value;
    names.emplace_back(name);
  }
  throw_bad_input(std::string(field) + ": unknown value '" + std::string(text) + "'; expected " +
                  all_names(table) + " (did you mean '" + nearest_name(text, names) + "'?)");
}

const NameTable<Operation> kOperations = {{"gated_delta", Operation::gated_delta},
                                          {"causal_conv1d", Operation::causal_conv1d},
                                          {"gated_delta_layer", Operation::gated_delta_layer}};
const NameTable<UpdateRule> kUpdateRules = {{"delta", UpdateRule::delta},
                                            {"additive", UpdateRule::additive}};
const NameTable<DecayPer> kDecays = {{"head", DecayPer::head}, {"channel", DecayPer::channel}};
const NameTable<StateLayout> kStateLayouts = {{"kv", StateLayout::kv}, {"vk", StateLayout::vk}};
const NameTable<GateEncoding> kGateEncodings = {{"log_decay", GateEncoding::log_decay},
                                                {"decay", GateEncoding::decay},
                                                {"neg_log_decay", GateEncoding::neg_log_decay},
                                                {"logits", GateEncoding::logits}};
const NameTable<BetaEncoding> kBetaEncodings = {{"beta", BetaEncoding::beta},
                                                {"logit", BetaEncoding::logit}};
const NameTable<GateDistribution> kGates = {
    {"real", GateDistribution::real},     {"none", GateDistribution::none},
    {"weak", GateDistribution::weak},     {"near_one", GateDistribution::near_one},
    {"strong", GateDistribution::strong}, {"mid", GateDistribution::mid},
    {"reset", GateDistribution::reset},   {"tiny", GateDistribution::tiny},
    {"masked", GateDistribution::masked}, {"decay_uniform", GateDistribution::decay_uniform},
    {"edges", GateDistribution::edges},   {"step", GateDistribution::step},
    {"far", GateDistribution::far},       {"mixture", GateDistribution::mixture}};
const NameTable<BetaDistribution> kBetas = {
    {"sigmoid", BetaDistribution::sigmoid}, {"zero", BetaDistribution::zero},
    {"one", BetaDistribution::one},         {"two", BetaDistribution::two},
    {"wide", BetaDistribution::wide},       {"mixture", BetaDistribution::mixture}};
const NameTable<KeyDistribution> kKeys = {{"unit", KeyDistribution::unit},
                                          {"correlated", KeyDistribution::correlated},
                                          {"equal", KeyDistribution::equal},
                                          {"alternating", KeyDistribution::alternating},
                                          {"zero", KeyDistribution::zero},
                                          {"unnormalised", KeyDistribution::unnormalised},
                                          {"near_equal", KeyDistribution::near_equal},
                                          {"lengths", KeyDistribution::lengths}};
const NameTable<InitialState> kInitialStates = {{"absent", InitialState::absent},
                                                {"normal", InitialState::normal},
                                                {"large", InitialState::large},
                                                {"huge", InitialState::huge}};
const NameTable<SlotMap> kSlotMaps = {{"identity", SlotMap::identity},
                                      {"permuted", SlotMap::permuted},
                                      {"padding", SlotMap::padding}};
const NameTable<Activation> kActivations = {{"none", Activation::none}, {"silu", Activation::silu}};
const NameTable<ConvLayout> kConvLayouts = {{"channels", ConvLayout::channels},
                                            {"time", ConvLayout::time}};
const NameTable<bool> kSwitch = {{"0", false}, {"1", true}};

std::string shortest_double(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

// A field whose values come from a table of names.
template <typename Enum>
ProblemField named_field(std::string key, std::string help, const NameTable<Enum>& table,
                         Enum Problem::*member) {
  return {key, help + ": " + all_names(table), false,
          [key, &table, member](Problem& p, std::string_view text) {
            p.*member = parse_name(table, text, key);
          },
          [&table, member](const Problem& p) { return name_of(table, p.*member); }};
}

double parse_number(std::string_view text, std::string_view whole, const std::string& expected) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || std::isnan(value)) {
    throw_bad_input("'" + std::string(whole) + "'; expected " + expected);
  }
  return value;
}

// A distribution by name, or LOW..HIGH (one number: a constant), which stands for `uniform`.
template <typename Enum>
ProblemField distribution_field(std::string key, std::string help, const NameTable<Enum>& table,
                                Enum uniform, Enum Problem::*member, ValueRange Problem::*range) {
  const std::string expected = all_names(table) + "|LOW..HIGH|NUMBER";
  return {key, help + ": " + expected, false,
          [=, &table](Problem& p, std::string_view text) {
            const bool number = !text.empty() && std::string_view("-.0123456789").find(text[0]) !=
                                                     std::string_view::npos;
            if (!number) {
              p.*member = parse_name(table, text, key);
              return;
            }
            const auto dots = text.find("..");
            const bool constant = dots == std::string_view::npos;
            const std::string wanted = key + "=" + expected;
            const double low = parse_number(text.substr(0, dots), text, wanted);
            p.*member = uniform;
            p.*range = {low, constant ? low : parse_number(text.substr(dots + 2), text, wanted)};
          },
          [=, &table](const Problem& p) {
            if (p.*member != uniform) return name_of(table, p.*member);
            const ValueRange& r = p.*range;
            const std::string low = shortest_double(r.low);
            return r.low == r.high ? low : low + ".." + shortest_double(r.high);
          }};
}

ProblemField integer_field(std::string key, std::string help, std::int64_t lowest,
                           std::int64_t Problem::*member) {
  return {key, std::move(help), false,
          [key, lowest, member](Problem& p, std::string_view text) {
            p.*member = parse_integer(text, key, lowest);
          },
          [member](const Problem& p) { return std::to_string(p.*member); }};
}

ProblemField dtype_field(std::string key, std::string help, bool always, DType Problem::*member) {
  return {key, std::move(help), always,
          [key, member](Problem& p, std::string_view text) { p.*member = parse_dtype(text, key); },
          [member](const Problem& p) { return short_name(p.*member); }};
}

std::vector<ProblemField> make_fields() {
  std::vector<ProblemField> fields;
  fields.push_back(
      {"heads", "key/value heads Hk/Hv, as 16/32 (one number: equal)", true,
       [](Problem& p, std::string_view text) {
         if (text.find('/') == std::string_view::npos) {
           p.num_key_heads = p.num_value_heads = parse_integer(text, "heads", 1);
           return;
         }
         std::tie(p.num_key_heads, p.num_value_heads) = parse_pair(text, '/', "heads", "16/32");
       },
       [](const Problem& p) {
         return std::to_string(p.num_key_heads) + "/" + std::to_string(p.num_value_heads);
       }});
  fields.push_back(
      {"dim", "key x value head dim DkxDv, as 96x192 (one number: equal)", true,
       [](Problem& p, std::string_view text) {
         if (text.find('x') == std::string_view::npos) {
           p.key_head_dim = p.value_head_dim = parse_integer(text, "dim", 1);
           return;
         }
         std::tie(p.key_head_dim, p.value_head_dim) = parse_pair(text, 'x', "dim", "96x192");
       },
       [](const Problem& p) {
         return std::to_string(p.key_head_dim) + "x" + std::to_string(p.value_head_dim);
       }});
  fields.push_back(
      {"seq", "sequence lengths, as 4x8192 or 1x63+2x64+1x0", true,
       [](Problem& p, std::string_view text) { p.sequences = SequenceLengths::parse(text); },
       [](const Problem& p) { return p.sequences.to_string(); }});
  fields.push_back(dtype_field("dtype", "token dtype: f32|bf16|f16", true, &Problem::token_dtype));
  fields.push_back({"out", "output dtype: token|f32", false,
                    [](Problem& p, std::string_view text) {
                      if (text == "token") {
                        p.output_dtype.reset();
                      } else if (parse_dtype(text, "out") == DType::float32) {
                        p.output_dtype = DType::float32;
                      } else {
                        throw_bad_input("out: '" + std::string(text) + "'; expected token or f32");
                      }
                    },
                    [](const Problem& p) { return p.output_dtype ? "f32" : "token"; }});
  fields.push_back(
      dtype_field("state", "state pool dtype: f32|bf16|f16", false, &Problem::state_dtype));
  fields.push_back(named_field("layout", "state layout", kStateLayouts, &Problem::state_layout));
  fields.push_back(named_field("h0", "initial state", kInitialStates, &Problem::initial_state));
  fields.push_back(named_field("ht", "final state wanted", kSwitch, &Problem::final_state));
  fields.push_back(
      named_field("slots", "map of sequences to pool rows", kSlotMaps, &Problem::slots));
  fields.push_back(integer_field("pool_pad", "unused elements after each pool row", 0,
                                 &Problem::pool_row_padding));
  fields.push_back(
      named_field("norm", "l2-normalise q and k in the kernel", kSwitch, &Problem::normalize_qk));
  fields.push_back(
      {"scale", "output scale: auto (1/sqrt(Dk)) or a number", false,
       [](Problem& p, std::string_view text) {
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
       },
       [](const Problem& p) { return p.scale ? shortest_double(*p.scale) : "auto"; }});
  fields.push_back(
      named_field("update", "update rule; additive: gated linear attention, Mamba2 (no delta term)",
                  kUpdateRules, &Problem::update));
  fields.push_back(integer_field("steps",
                                 "Householder steps per token, 1..16; more than 1: DeltaProduct", 1,
                                 &Problem::steps));
  fields.push_back(named_field("decay", "one decay per value head, or per key channel too (KDA)",
                               kDecays, &Problem::decay));
  fields.push_back(named_field("gate", "gate encoding", kGateEncodings, &Problem::gate_encoding));
  fields.push_back(named_field("beta", "beta encoding", kBetaEncodings, &Problem::beta_encoding));
  fields.push_back({"chunk", "chunk size in tokens (with steps: in steps), or auto", false,
                    [](Problem& p, std::string_view text) {
                      p.chunk = text == "auto" ? 0 : parse_integer(text, "chunk", 1);
                    },
                    [](const Problem& p) {
                      return p.chunk == 0 ? std::string("auto") : std::to_string(p.chunk);
                    }});
  fields.push_back(integer_field("width", "convolution width, 2..15", 2, &Problem::conv_width));
  fields.push_back(named_field("bias", "convolution bias", kSwitch, &Problem::conv_bias));
  fields.push_back(
      named_field("act", "convolution activation", kActivations, &Problem::activation));
  fields.push_back(
      named_field("conv_layout", "convolution token layout", kConvLayouts, &Problem::conv_layout));
  fields.push_back(named_field("conv_in_place", "convolution window updated in place", kSwitch,
                               &Problem::conv_state_in_place));
  fields.push_back(distribution_field("gates", "distribution of log_decay (none: DeltaNet)", kGates,
                                      GateDistribution::uniform, &Problem::gates,
                                      &Problem::gate_range));
  fields.push_back(
      distribution_field("betas", "distribution of beta (two, wide: negative eigenvalues)", kBetas,
                         BetaDistribution::uniform, &Problem::betas, &Problem::beta_range));
  fields.push_back(named_field("keys", "distribution of keys", kKeys, &Problem::keys));
  fields.push_back({"seed", "seed of the generated inputs", false,
                    [](Problem& p, std::string_view text) {
                      p.seed = static_cast<std::uint64_t>(parse_integer(text, "seed", 0));
                    },
                    [](const Problem& p) { return std::to_string(p.seed); }});
  fields.push_back({"case", "inputs from a case file, as FILE.h5:/group", false,
                    [](Problem& p, std::string_view text) { p.case_file = std::string(text); },
                    [](const Problem& p) { return p.case_file; }});
  return fields;
}

}  // namespace

std::int64_t SequenceLengths::total_tokens() const {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::int64_t SequenceLengths::longest() const {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

std::vector<std::int64_t> SequenceLengths::offsets() const {
  std::vector<std::int64_t> result(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), result.begin() + 1);
  return result;
}

SequenceLengths SequenceLengths::from_offsets(const std::vector<std::int64_t>& offsets) {
  if (offsets.size() < 2 || offsets.front() != 0) {
    throw_bad_input("sequence_offsets: expected at least two values, the first 0");
  }
  SequenceLengths result;
  result.lengths.clear();
  for (std::size_t n = 0; n + 1 < offsets.size(); ++n) {
    if (offsets[n + 1] < offsets[n]) {
      throw_bad_input("sequence_offsets: not monotone at index " + std::to_string(n + 1) + " (" +
                      std::to_string(offsets[n]) + " then " + std::to_string(offsets[n + 1]) + ")");
    }
    result.lengths.push_back(offsets[n + 1] - offsets[n]);
  }
  return result;
}

std::string SequenceLengths::to_string() const {
  std::string text;
  for (std::size_t n = 0; n < lengths.size();) {
    std::size_t end = n;
    while (end < lengths.size() && lengths[end] == lengths[n]) ++end;
    text += (text.empty() ? "" : "+") + std::to_string(end - n) + "x" + std::to_string(lengths[n]);
    n = end;
  }
  return text;
}

SequenceLengths SequenceLengths::parse(std::string_view text) {
  constexpr std::int64_t kMostSequences = 1 << 24;
  SequenceLengths result;
  result.lengths.clear();
  std::string_view rest = text;
  while (true) {
    const auto plus = rest.find('+');
    const std::string_view term = rest.substr(0, plus);
    const auto cross = term.find('x');
    std::int64_t count = 1;
    std::string_view length = term;
    if (cross != std::string_view::npos) {
      count = parse_integer(term.substr(0, cross), "seq", 1);
      length = term.substr(cross + 1);
    }
    if (count > kMostSequences - result.num_sequences()) {
      throw_bad_input("seq: more than " + std::to_string(kMostSequences) + " sequences in '" +
                      std::string(text) + "'");
    }
    const std::int64_t tokens = parse_integer(length, "seq", 0);
    if (tokens > (std::int64_t{1} << 40) / count) {
      throw_bad_input("seq: '" + std::string(text) + "' holds more than 2^40 tokens");
    }
    result.lengths.insert(result.lengths.end(), static_cast<std::size_t>(count), tokens);
    if (plus == std::string_view::npos) break;
    rest = rest.substr(plus + 1);
  }
  return result;
}

double Problem::effective_scale() const {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(key_head_dim)));
}

std::int64_t Problem::conv_channels() const {
  return 2 * num_key_heads * key_head_dim + num_value_heads * value_head_dim;
}

std::int64_t Problem::state_row_stride() const {
  return num_value_heads * key_head_dim * value_head_dim + pool_row_padding;
}

std::int64_t Problem::num_pool_rows() const {
  return num_sequences() + (slots == SlotMap::identity ? 0 : 3);
}

const std::vector<ProblemField>& problem_fields() {
  static const std::vector<ProblemField> fields = make_fields();
  return fields;
}

std::string Problem::to_string() const {
  static const Problem defaults;
  std::string text = gdn::to_string(operation);
  char separator = ':';
  for (const ProblemField& field : problem_fields()) {
    const std::string value = field.get(*this);
    if (!field.always_printed && value == field.get(defaults)) continue;
    text += separator + field.key + "=" + value;
    separator = ',';
  }
  return text;
}

Problem Problem::parse(std::string_view text) {
  Problem problem;
  const auto colon = text.find(':');
  problem.operation = parse_operation(text.substr(0, colon));
  std::set<std::string> given;
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw_bad_input("problem: '" + std::string(item) + "' is not of the form field=value");
    }
    const std::string key(item.substr(0, equals));
    std::vector<std::string> keys;
    const ProblemField* match = nullptr;
    for (const ProblemField& field : problem_fields()) {
      keys.push_back(field.key);
      if (field.key == key) match = &field;
    }
    if (match == nullptr) {
      throw_bad_input("problem: unknown field '" + key + "' (did you mean '" +
                      nearest_name(key, keys) + "'?)");
    }
    if (!given.insert(key).second) throw_bad_input("problem: field '" + key + "' is given twice");
    match->set(problem, item.substr(equals + 1));
  }
  problem.validate();
  return problem;
}

void Problem::validate() const {
  const auto require = [](bool condition, const std::string& message) {
    if (!condition) throw_bad_input("problem: " + message);
  };
  require(num_key_heads >= 1 && num_value_heads >= 1, "heads: Hk and Hv must be at least 1");
  require(num_value_heads % num_key_heads == 0,
          "heads=" + std::to_string(num_key_heads) + "/" + std::to_string(num_value_heads) +
              ": the value heads must be a multiple of the key heads");
  require(key_head_dim >= 1 && value_head_dim >= 1, "dim: Dk and Dv must be at least 1");
  require(key_head_dim <= 4096 && value_head_dim <= 4096, "dim: Dk and Dv must be at most 4096");
  require(num_value_heads <= 65536, "heads: at most 65536 value heads");
  require(!sequences.lengths.empty(), "seq: at least one sequence is needed");
  require(steps >= 1 && steps <= 16, "steps=" + std::to_string(steps) + ": expected 1..16");
  require(steps == 1 || operation != Operation::gated_delta_layer,
          "steps=" + std::to_string(steps) +
              ": the qkv of gated_delta_layer holds one key and value per token");
  require(operation != Operation::causal_conv1d ||
              (update == UpdateRule::delta && steps == 1 && decay == DecayPer::head),
          "update, steps and decay: causal_conv1d has no recurrence");
  require(conv_width >= 2 && conv_width <= 15,
          "width=" + std::to_string(conv_width) + ": expected 2..15");
  require(pool_row_padding >= 0, "pool_pad: must not be negative");
  require(chunk >= 0, "chunk: must not be negative");
  require(!scale || std::isfinite(*scale), "scale: must be finite");
  require(gate_range.low <= gate_range.high && gate_range.high <= 0,
          "gates: LOW..HIGH must rise and not pass 0");
  require(0 <= beta_range.low && beta_range.low <= beta_range.high && beta_range.high <= 2,
          "betas: LOW..HIGH must rise, within 0..2");
  require(case_file.find(',') == std::string::npos, "case: a comma in the file name");
}

std::string to_string(Operation operation) { return name_of(kOperations, operation); }

Operation parse_operation(std::string_view text) {
  return parse_name(kOperations, text, "operation");
}

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[to.size()];
}

std::string nearest_name(std::string_view text, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t d = edit_distance(text, candidate);
    if (d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace gdn
