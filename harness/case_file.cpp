#include "harness/case_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "harness/execute.h"
#include "harness/hdf5_group.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr const char* kSchema = "gdn-case/1";
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename Enum>
using Names = std::vector<std::pair<const char*, Enum>>;
const Names<Operation> kOperations = {{"gated_delta", Operation::gated_delta},
                                      {"causal_conv1d", Operation::causal_conv1d},
                                      {"gated_delta_layer", Operation::gated_delta_layer}};
const Names<DType> kDTypes = {
    {"float32", DType::float32}, {"float16", DType::float16}, {"bfloat16", DType::bfloat16}};
const Names<UpdateRule> kUpdateRules = {{"delta", UpdateRule::delta},
                                        {"additive", UpdateRule::additive}};
const Names<DecayPer> kDecays = {{"head", DecayPer::head}, {"channel", DecayPer::channel}};
const Names<StateLayout> kLayouts = {{"kv", StateLayout::kv}, {"vk", StateLayout::vk}};
const Names<Activation> kActivations = {{"none", Activation::none}, {"silu", Activation::silu}};
const Names<ConvLayout> kConvLayouts = {{"channels", ConvLayout::channels},
                                        {"time", ConvLayout::time}};
const Names<GateEncoding> kGates = {{"log_decay", GateEncoding::log_decay},
                                    {"decay", GateEncoding::decay},
                                    {"neg_log_decay", GateEncoding::neg_log_decay},
                                    {"decay_logit", GateEncoding::logits}};
const Names<BetaEncoding> kBetas = {{"beta", BetaEncoding::beta},
                                    {"beta_logit", BetaEncoding::logit}};

template <typename Enum>
std::string name_of(const Names<Enum>& names, Enum value) {
  for (const auto& [name, candidate] : names) {
    if (candidate == value) return name;
  }
  throw_bad_input("case file: an enumeration holds a value without a name");
}

template <typename Enum>
Enum named_attribute(const GroupReader& file, const std::string& attribute,
                     const Names<Enum>& names) {
  const std::string text = file.string_attribute(attribute);
  std::string expected;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    expected += (expected.empty() ? "" : " | ") + std::string(name);
  }
  file.fail("attribute '" + attribute + "' is '" + text + "', expected " + expected);
}

template <typename Enum>
Enum named_attribute_or(const GroupReader& file, const std::string& attribute,
                        const Names<Enum>& names, Enum otherwise) {
  return file.has_attribute(attribute) ? named_attribute(file, attribute, names) : otherwise;
}

bool flag_attribute_or(const GroupReader& file, const std::string& attribute, bool otherwise) {
  const std::int64_t value = file.integer_attribute_or(attribute, 0, otherwise ? 1 : 0);
  if (value > 1) {
    file.fail("attribute '" + attribute + "' is " + std::to_string(value) + ", expected 0 or 1");
  }
  return value == 1;
}

// The one encoding of a gate or beta whose dataset the file holds.
template <typename Enum>
Enum encoding_present(const GroupReader& file, const Names<Enum>& names) {
  std::string found;
  std::string all;
  Enum encoding = names.front().second;
  int count = 0;
  for (const auto& [name, value] : names) {
    all += (all.empty() ? "" : " | ") + std::string(name);
    if (!file.has_dataset(name)) continue;
    found += (found.empty() ? "'" : " and '") + std::string(name) + "'";
    encoding = value;
    ++count;
  }
  if (count == 0) file.fail("a dataset is missing: exactly one of " + all + " is needed");
  if (count > 1) file.fail("datasets " + found + " are both there; expected exactly one of " + all);
  return encoding;
}

// Shapes that follow the variant: a token's steps are a dimension only where there are several.
struct NamedShape {
  Shape extents;
  const char* meaning;
};
NamedShape key_shape(const Problem& p) {
  if (p.steps == 1) return {{p.total_tokens(), p.num_key_heads, p.key_head_dim}, "[T, Hk, Dk]"};
  return {{p.total_tokens(), p.steps, p.num_key_heads, p.key_head_dim}, "[T, steps, Hk, Dk]"};
}
NamedShape value_shape(const Problem& p) {
  if (p.steps == 1) return {{p.total_tokens(), p.num_value_heads, p.value_head_dim}, "[T, Hv, Dv]"};
  return {{p.total_tokens(), p.steps, p.num_value_heads, p.value_head_dim}, "[T, steps, Hv, Dv]"};
}
NamedShape beta_shape(const Problem& p) {
  if (p.steps == 1) return {{p.total_tokens(), p.num_value_heads}, "[T, Hv]"};
  return {{p.total_tokens(), p.steps, p.num_value_heads}, "[T, steps, Hv]"};
}
NamedShape gate_shape(const Problem& p) {
  if (p.decay == DecayPer::head) return {{p.total_tokens(), p.num_value_heads}, "[T, Hv]"};
  return {{p.total_tokens(), p.num_value_heads, p.key_head_dim}, "[T, Hv, Dk]"};
}
NamedShape dt_bias_shape(const Problem& p) {
  if (p.decay == DecayPer::head) return {{p.num_value_heads}, "[Hv]"};
  return {{p.num_value_heads, p.key_head_dim}, "[Hv, Dk]"};
}

// Reading a case: first the problem, from attributes and extents; then the arrays.
class CaseReader {
 public:
  explicit CaseReader(const std::string& path)
      : path_(CasePath::parse(path)), file_(path_.file, path_.group) {
    const std::string schema = file_.string_attribute("schema");
    if (schema != kSchema) {
      file_.fail("attribute 'schema' is '" + schema + "', expected '" + kSchema + "'");
    }
    read_shapes();
    read_options();
    read_pool_rows();
    problem_.case_file = path;
    try {
      problem_.validate();
    } catch (const Error& error) {
      file_.fail(error.what());
    }
    require_room_for_pools();
  }

  const Problem& problem() const { return problem_; }
  void use_dtypes(DType token_dtype, DType state_dtype) {
    problem_.token_dtype = token_dtype;
    problem_.state_dtype = state_dtype;
  }

  Case read() {
    require_host_memory(problem_);
    Case c;
    c.problem = problem_;
    c.sequence_offsets = offsets_;
    c.slot_index = slots_;
    if (problem_.operation == Operation::gated_delta) read_tokens(c);
    if (problem_.operation != Operation::causal_conv1d) {
      read_gates(c);
      read_state(c);
    }
    if (problem_.operation != Operation::gated_delta) read_conv(c);
    try {
      validate(c);
    } catch (const Error& error) {
      file_.fail(error.what());
    }
    return c;
  }

 private:
  void read_shapes() {
    Problem& p = problem_;
    p.operation = named_attribute(file_, "op", kOperations);
    p.num_key_heads = file_.integer_attribute("num_key_heads", 1);
    p.num_value_heads = file_.integer_attribute("num_value_heads", 1);
    p.key_head_dim = file_.integer_attribute("key_head_dim", 1);
    p.value_head_dim = file_.integer_attribute("value_head_dim", 1);
    p.token_dtype = named_attribute(file_, "token_dtype", kDTypes);
    p.state_dtype = named_attribute_or(file_, "state_dtype", kDTypes, DType::float32);
    p.update = named_attribute_or(file_, "update", kUpdateRules, UpdateRule::delta);
    p.steps = file_.integer_attribute_or("steps", 1, 1);
    p.decay = named_attribute_or(file_, "decay", kDecays, DecayPer::head);
    p.conv_layout = named_attribute_or(file_, "conv_layout", kConvLayouts, ConvLayout::channels);
    if (p.num_value_heads % p.num_key_heads != 0) {
      file_.fail("attribute 'num_value_heads' is " + std::to_string(p.num_value_heads) +
                 ", expected a multiple of num_key_heads = " + std::to_string(p.num_key_heads));
    }

    std::int64_t tokens = 0;
    if (p.operation == Operation::gated_delta) {
      tokens = file_.shape("q", {kAnyExtent, p.num_key_heads, p.key_head_dim}, "[T, Hk, Dk]")[0];
    } else if (p.conv_layout == ConvLayout::channels) {
      tokens = file_.shape("qkv", {kAnyExtent, p.conv_channels()}, "[T, channels]")[0];
    } else {
      tokens = file_.shape("qkv", {p.conv_channels(), kAnyExtent}, "[channels, T]")[1];
    }
    offsets_ = {0, tokens};
    if (file_.has_dataset("sequence_offsets")) {
      offsets_ = file_.integers("sequence_offsets", {kAnyExtent}, "[N + 1]");
    }
    try {
      p.sequences = SequenceLengths::from_offsets(offsets_);
    } catch (const Error& error) {
      file_.fail(error.what());
    }
    if (offsets_.back() != tokens) {
      file_.fail("dataset 'sequence_offsets' ends at " + std::to_string(offsets_.back()) +
                 ", expected the number of tokens, " + std::to_string(tokens));
    }
    if (file_.has_dataset("slot_index")) {
      slots_ = file_.integers("slot_index", {p.num_sequences()}, "[N]");
      const bool padding = std::find(slots_.begin(), slots_.end(), -1) != slots_.end();
      p.slots = padding ? SlotMap::padding : SlotMap::permuted;
    }
  }

  void read_options() {
    Problem& p = problem_;
    if (file_.has_attribute("scale")) p.scale = file_.number_attribute("scale");
    p.normalize_qk = flag_attribute_or(file_, "normalize_qk", false);
    p.state_layout = named_attribute_or(file_, "state_layout", kLayouts, StateLayout::kv);
    p.final_state = flag_attribute_or(file_, "final_state", true);
    p.pool_row_padding = file_.integer_attribute_or("pool_row_padding", 0, 0);
    if (file_.has_attribute("output_dtype")) {
      p.output_dtype =
          named_attribute(file_, "output_dtype", Names<DType>{{"float32", DType::float32}});
    }
    if (p.operation != Operation::causal_conv1d) {
      p.gate_encoding = encoding_present(file_, kGates);
      p.beta_encoding = encoding_present(file_, kBetas);
      p.initial_state =
          file_.has_dataset("initial_state") ? InitialState::normal : InitialState::absent;
    }
    if (p.operation != Operation::gated_delta) {
      // A layer always applies SiLU unless it says otherwise; a convolution alone must say.
      p.activation = p.operation == Operation::gated_delta_layer
                         ? named_attribute_or(file_, "activation", kActivations, Activation::silu)
                         : named_attribute(file_, "activation", kActivations);
      p.conv_width =
          file_.shape("conv_weight", {p.conv_channels(), kAnyExtent}, "[channels, width]")[1];
      p.conv_bias = file_.has_dataset("conv_bias");
      p.conv_state_in_place = flag_attribute_or(file_, "conv_state_in_place", true);
    }
  }

  // Both pools have the same rows: as many as a stored pool has, or as the slots need.
  void read_pool_rows() {
    const Problem& p = problem_;
    pool_rows_ = p.num_sequences();
    for (const std::int64_t slot : slots_) pool_rows_ = std::max(pool_rows_, slot + 1);
    const std::int64_t least = p.slots == SlotMap::identity ? p.num_sequences() : 1;
    pool_rows_ = file_.integer_attribute_or("pool_rows", least, pool_rows_);
    bool fixed = file_.has_attribute("pool_rows");
    const auto take = [&](const char* name, const Shape& expected, const char* meaning) {
      if (!file_.has_dataset(name)) return;
      Shape wanted = expected;
      wanted[0] = fixed ? pool_rows_ : kAnyExtent;
      pool_rows_ = file_.shape(name, wanted, meaning)[0];
      fixed = true;
    };
    if (p.operation != Operation::causal_conv1d) take("initial_state", state_shape(p), meaning(p));
    if (p.operation != Operation::gated_delta) {
      take("conv_state", {0, p.conv_channels(), p.conv_width - 1}, "[slots, channels, width - 1]");
    }
  }

  // Rows and padding are numbers in the file, and no array need be there that has their size.
  void require_room_for_pools() const {
    const Problem& p = problem_;
    long double of_row = 0;
    if (p.operation != Operation::causal_conv1d) {
      of_row += static_cast<long double>(p.num_value_heads) *
                    static_cast<long double>(p.key_head_dim * p.value_head_dim) +
                static_cast<long double>(p.pool_row_padding);
    }
    if (p.operation != Operation::gated_delta) {
      of_row +=
          static_cast<long double>(p.conv_channels()) * static_cast<long double>(p.conv_width - 1);
    }
    const std::string why =
        exceeds_host(sizeof(float) * of_row * static_cast<long double>(pool_rows_));
    if (why.empty()) return;
    file_.fail("a pool of " + std::to_string(pool_rows_) +
               " rows (attribute 'pool_rows', dataset 'slot_index') with attribute "
               "'pool_row_padding' = " +
               std::to_string(p.pool_row_padding) + " takes " + why);
  }

 public:
  /// Extents of stored state pools; the first is free.
  static Shape state_shape(const Problem& p) {
    Shape shape = {kAnyExtent, p.num_value_heads, p.key_head_dim, p.value_head_dim};
    if (p.state_layout == StateLayout::vk) std::swap(shape[2], shape[3]);
    return shape;
  }
  static const char* meaning(const Problem& p) {
    return p.state_layout == StateLayout::vk ? "[slots, Hv, Dv, Dk]" : "[slots, Hv, Dk, Dv]";
  }

 private:
  std::vector<float> rounded(std::vector<float> values, DType dtype) const {
    for (float& value : values) value = round_to(dtype, value);
    return values;
  }

  std::vector<float> floats(const std::string& name, const NamedShape& shape) const {
    return file_.floats(name, shape.extents, shape.meaning);
  }

  void read_tokens(Case& c) const {
    const Problem& p = problem_;
    const Shape queries = {p.total_tokens(), p.num_key_heads, p.key_head_dim};
    c.query = rounded(file_.floats("q", queries, "[T, Hk, Dk]"), p.token_dtype);
    c.key = rounded(floats("k", key_shape(p)), p.token_dtype);
    c.value = rounded(floats("v", value_shape(p)), p.token_dtype);
  }

  void read_gates(Case& c) const {
    const Problem& p = problem_;
    c.gate.encoding = p.gate_encoding;
    c.gate.values = floats(name_of(kGates, p.gate_encoding), gate_shape(p));
    if (p.gate_encoding == GateEncoding::logits) {
      c.gate.A_log = file_.floats("A_log", {p.num_value_heads}, "[Hv]");
      c.gate.dt_bias = floats("dt_bias", dt_bias_shape(p));
    }
    c.beta.encoding = p.beta_encoding;
    c.beta.values = floats(name_of(kBetas, p.beta_encoding), beta_shape(p));
  }

  void read_state(Case& c) const {
    const Problem& p = problem_;
    const std::int64_t stride = p.state_row_stride();
    const std::int64_t used = stride - p.pool_row_padding;
    c.state_pool.assign(static_cast<std::size_t>(pool_rows_ * stride), kNan);
    if (p.initial_state == InitialState::absent) return;
    Shape shape = state_shape(p);
    shape[0] = pool_rows_;
    const auto stored = rounded(file_.floats("initial_state", shape, meaning(p)), p.state_dtype);
    for (std::int64_t row = 0; row < pool_rows_; ++row) {
      std::copy_n(stored.begin() + row * used, used, c.state_pool.begin() + row * stride);
    }
  }

  void read_conv(Case& c) const {
    const Problem& p = problem_;
    const std::int64_t channels = p.conv_channels();
    const bool by_time = p.conv_layout == ConvLayout::time;
    const Shape tokens =
        by_time ? Shape{channels, p.total_tokens()} : Shape{p.total_tokens(), channels};
    c.qkv = rounded(file_.floats("qkv", tokens, by_time ? "[channels, T]" : "[T, channels]"),
                    p.token_dtype);
    c.conv_weight = rounded(
        file_.floats("conv_weight", {channels, p.conv_width}, "[channels, width]"), p.token_dtype);
    if (p.conv_bias) {
      c.conv_bias = rounded(file_.floats("conv_bias", {channels}, "[channels]"), p.token_dtype);
    }
    const Shape windows = {pool_rows_, channels, p.conv_width - 1};
    if (file_.has_dataset("conv_state")) {
      c.conv_state = rounded(file_.floats("conv_state", windows, "[slots, channels, width - 1]"),
                             p.state_dtype);
    } else {
      c.conv_state.assign(static_cast<std::size_t>(pool_rows_ * channels * (p.conv_width - 1)), 0);
    }
  }

  CasePath path_;
  GroupReader file_;
  Problem problem_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> slots_;
  std::int64_t pool_rows_ = 0;
};

// ---- writing

std::int64_t pool_rows(const Case& c) {
  const Problem& p = c.problem;
  return p.operation == Operation::causal_conv1d
             ? static_cast<std::int64_t>(c.conv_state.size()) /
                   (p.conv_channels() * (p.conv_width - 1))
             : static_cast<std::int64_t>(c.state_pool.size()) / p.state_row_stride();
}

// Rows without the padding after each.
std::vector<float> packed_rows(const std::vector<float>& pool, std::int64_t stride,
                               std::int64_t used) {
  if (stride == used) return pool;
  std::vector<float> packed;
  packed.reserve(pool.size());
  for (std::size_t row = 0; row < pool.size(); row += static_cast<std::size_t>(stride)) {
    packed.insert(packed.end(), pool.begin() + static_cast<std::ptrdiff_t>(row),
                  pool.begin() + static_cast<std::ptrdiff_t>(row) + used);
  }
  return packed;
}

void write_problem(GroupWriter& file, const Case& c) {
  const Problem& p = c.problem;
  const Problem defaults;
  file.attribute("schema", kSchema);
  file.attribute("op", name_of(kOperations, p.operation));
  file.attribute("num_key_heads", p.num_key_heads);
  file.attribute("num_value_heads", p.num_value_heads);
  file.attribute("key_head_dim", p.key_head_dim);
  file.attribute("value_head_dim", p.value_head_dim);
  file.attribute("token_dtype", long_name(p.token_dtype));
  file.attribute("state_dtype", long_name(p.state_dtype));
  if (p.update != defaults.update) file.attribute("update", name_of(kUpdateRules, p.update));
  if (p.steps != defaults.steps) file.attribute("steps", p.steps);
  if (p.decay != defaults.decay) file.attribute("decay", name_of(kDecays, p.decay));
  if (p.output_dtype) file.attribute("output_dtype", long_name(*p.output_dtype));
  if (p.scale) file.attribute("scale", *p.scale);
  file.attribute("normalize_qk", std::int64_t{p.normalize_qk});
  file.attribute("state_layout", name_of(kLayouts, p.state_layout));
  if (!p.final_state) file.attribute("final_state", std::int64_t{0});
  if (p.pool_row_padding != 0) file.attribute("pool_row_padding", p.pool_row_padding);
  file.attribute("pool_rows", pool_rows(c));
  if (p.operation != Operation::gated_delta) {
    file.attribute("activation", name_of(kActivations, p.activation));
    if (p.conv_layout != defaults.conv_layout) {
      file.attribute("conv_layout", name_of(kConvLayouts, p.conv_layout));
    }
    if (!p.conv_state_in_place) file.attribute("conv_state_in_place", std::int64_t{0});
  }
  file.attribute("problem", p.to_string());
}

Shape pool_shape(const Case& c) {
  Shape shape = CaseReader::state_shape(c.problem);
  shape[0] = pool_rows(c);
  return shape;
}

Shape token_shape(const Problem& p) {
  return p.conv_layout == ConvLayout::time ? Shape{p.conv_channels(), p.total_tokens()}
                                           : Shape{p.total_tokens(), p.conv_channels()};
}

Shape window_shape(const Case& c) {
  return {pool_rows(c), c.problem.conv_channels(), c.problem.conv_width - 1};
}

void require_other_file(const Case& inputs, const std::string& file) {
  std::error_code ignored;
  if (inputs.problem.case_file.empty()) return;
  if (std::filesystem::equivalent(CasePath::parse(inputs.problem.case_file).file, file, ignored)) {
    throw_bad_input(file + ": holds the inputs and is not overwritten; name another output file");
  }
}

}  // namespace

// ---- paths and whole files

CasePath CasePath::parse(const std::string& text) {
  CasePath path;
  const auto colon = text.rfind(":/");
  path.file = text.substr(0, colon);
  if (colon != std::string::npos) path.group = text.substr(colon + 1);
  if (path.file.empty()) throw_bad_input("case '" + text + "': expected FILE.h5 or FILE.h5:/group");
  return path;
}

std::string CasePath::to_string() const { return group == "/" ? file : file + ":" + group; }

Case read_case(const std::string& path) { return CaseReader(path).read(); }

Case read_case_as(const std::string& path, DType token_dtype, DType state_dtype) {
  CaseReader reader(path);
  reader.use_dtypes(token_dtype, state_dtype);
  return reader.read();
}

Problem read_case_problem(const std::string& path) { return CaseReader(path).problem(); }

void write_case(const Case& c, const std::string& path) {
  validate(c);
  const Problem& p = c.problem;
  const CasePath target = CasePath::parse(path);
  require_other_file(c, target.file);
  GroupWriter file(target.file, target.group, GroupWriter::Mode::add_group);
  write_problem(file, c);
  const std::int64_t tokens = p.total_tokens();
  file.dataset("sequence_offsets", c.sequence_offsets);
  if (!c.slot_index.empty()) file.dataset("slot_index", c.slot_index);
  if (p.operation == Operation::gated_delta) {
    file.dataset("q", {tokens, p.num_key_heads, p.key_head_dim}, c.query);
    file.dataset("k", key_shape(p).extents, c.key);
    file.dataset("v", value_shape(p).extents, c.value);
  }
  if (p.operation != Operation::causal_conv1d) {
    file.dataset(name_of(kGates, p.gate_encoding), gate_shape(p).extents, c.gate.values);
    if (p.gate_encoding == GateEncoding::logits) {
      file.dataset("A_log", {p.num_value_heads}, c.gate.A_log);
      file.dataset("dt_bias", dt_bias_shape(p).extents, c.gate.dt_bias);
    }
    file.dataset(name_of(kBetas, p.beta_encoding), beta_shape(p).extents, c.beta.values);
    if (p.initial_state != InitialState::absent) {
      const std::int64_t stride = p.state_row_stride();
      file.dataset("initial_state", pool_shape(c),
                   packed_rows(c.state_pool, stride, stride - p.pool_row_padding));
    }
  }
  if (p.operation != Operation::gated_delta) {
    file.dataset("qkv", token_shape(p), c.qkv);
    file.dataset("conv_weight", {p.conv_channels(), p.conv_width}, c.conv_weight);
    if (p.conv_bias) file.dataset("conv_bias", {p.conv_channels()}, c.conv_bias);
    file.dataset("conv_state", window_shape(c), c.conv_state);
  }
  file.finish();
}

// ---- outputs

void write_origin(GroupWriter& file, const OutputsOrigin& origin) {
  file.attribute("implementation", origin.implementation);
  file.attribute("device", origin.device);
  file.attribute("chunk_size", origin.chunk);
  file.attribute("library_version", origin.library_version);
  file.attribute("command", origin.command);
}

OutputsOrigin read_origin(const GroupReader& file) {
  OutputsOrigin origin;
  origin.implementation = file.string_attribute_or("implementation", "");
  origin.device = file.string_attribute_or("device", "");
  origin.chunk = file.integer_attribute_or("chunk_size", 0, 0);
  origin.library_version = file.string_attribute_or("library_version", "");
  origin.command = file.string_attribute_or("command", "");
  return origin;
}

void write_outputs(const Case& inputs, const Outputs& outputs, const OutputsOrigin& origin,
                   const std::string& path) {
  const Problem& p = inputs.problem;
  const CasePath target = CasePath::parse(path);
  require_other_file(inputs, target.file);
  GroupWriter file(target.file, target.group, GroupWriter::Mode::replace_file);
  write_problem(file, inputs);
  write_origin(file, origin);
  if (p.operation != Operation::causal_conv1d) {
    file.dataset("output", {p.total_tokens(), p.num_value_heads, p.value_head_dim}, outputs.output);
    if (p.final_state) {
      const std::int64_t stride = p.state_row_stride();
      file.dataset("final_state", pool_shape(inputs),
                   packed_rows(outputs.state_pool, stride, stride - p.pool_row_padding));
    }
  }
  if (p.operation != Operation::gated_delta) {
    if (!outputs.conv_output.empty()) {
      file.dataset("conv_output", token_shape(p), outputs.conv_output);
    }
    file.dataset("conv_state", window_shape(inputs), outputs.conv_state);
  }
  file.finish();
}

StoredOutputs read_outputs(const Case& inputs, const std::string& path) {
  const Problem& p = inputs.problem;
  const CasePath source = CasePath::parse(path);
  const GroupReader file(source.file, source.group);
  StoredOutputs stored;
  if (p.operation != Operation::causal_conv1d) {
    stored.output = file.doubles("output", {p.total_tokens(), p.num_value_heads, p.value_head_dim},
                                 "[T, Hv, Dv]");
    stored.state_pool.assign(inputs.state_pool.begin(), inputs.state_pool.end());
    if (p.final_state) {
      const auto packed = file.doubles("final_state", pool_shape(inputs), CaseReader::meaning(p));
      const std::int64_t stride = p.state_row_stride();
      const std::int64_t used = stride - p.pool_row_padding;
      for (std::int64_t row = 0; row < pool_rows(inputs); ++row) {
        std::copy_n(packed.begin() + row * used, used, stored.state_pool.begin() + row * stride);
      }
    }
  }
  if (p.operation != Operation::gated_delta) {
    if (p.operation == Operation::causal_conv1d || file.has_dataset("conv_output")) {
      stored.conv_output = file.doubles("conv_output", token_shape(p), "the shape of qkv");
    }
    stored.conv_state =
        file.doubles("conv_state", window_shape(inputs), "[slots, channels, width - 1]");
  }
  stored.origin = read_origin(file);
  return stored;
}

Outputs StoredOutputs::narrowed() const {
  const auto narrow = [](const std::vector<double>& values) {
    std::vector<float> result(values.size());
    std::transform(values.begin(), values.end(), result.begin(),
                   [](double value) { return static_cast<float>(value); });
    return result;
  };
  return {narrow(output), narrow(state_pool), narrow(conv_output), narrow(conv_state)};
}

}  // namespace gdn
