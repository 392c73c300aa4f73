// Files of a convention into our cases and outputs.
#include <algorithm>
#include <limits>

#include "harness/conventions/convert.h"
#include "harness/conventions/layout.h"
#include "harness/files/hdf5_group.h"
#include "interface/error.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::conventions {
namespace {

// Windows without the `unused` entries before each `used`.
std::vector<float> shortened(const std::vector<float>& windows, std::int64_t used,
                             std::int64_t unused) {
  std::vector<float> result;
  for (auto window = windows.begin(); window != windows.end(); window += used + unused) {
    result.insert(result.end(), window + unused, window + unused + used);
  }
  return result;
}

std::vector<float> rounded(std::vector<float> values, DType dtype) {
  for (float& value : values) value = round_to(dtype, value);
  return values;
}

// What both inputs and outputs need: a file, axes and their extents.
class FileOfConvention {
 public:
  FileOfConvention(const Convention& convention, const std::string& path)
      : convention_(convention), path_(CasePath::parse(path)), file_(path_.file, path_.group) {
    const std::string name = file_.string_attribute("convention");
    if (name != convention.name) {
      file_.fail("attribute 'convention' is '" + name + "', expected '" + convention.name + "'");
    }
  }

 protected:
  const Convolution& conv() const { return *convention_.convolution; }
  Axes axes(const Array& array) const { return in_batch(array.axes, offsets_); }

  std::vector<float> read(const Array& array, const Axes& ours) const {
    const Axes theirs = axes(array);
    const auto values = file_.floats(array.name, extents_.shape(theirs), axes_text(theirs));
    return reordered(values, theirs, ours, extents_);
  }

  std::vector<float> read_windows(const Array& array, std::int64_t used) {
    extents_.set(Axis::window, used + conv().unused_window);
    return shortened(read(array, kOurWindows), used, conv().unused_window);
  }

  const Convention& convention_;
  CasePath path_;
  GroupReader file_;
  Extents extents_;
  bool offsets_ = false;
};

class CaseImporter : FileOfConvention {
 public:
  using FileOfConvention::FileOfConvention;

  Case import() {
    read_operation();
    read_batch();
    if (p_.operation == causal_conv1d_operation()) {
      read_convolution_shapes();
    } else {
      read_delta_shapes();
    }
    read_sequences();
    c_.problem = p_;
    if (p_.operation == causal_conv1d_operation()) {
      read_convolution();
    } else {
      read_tokens();
      read_gates();
      read_state();
    }
    c_.sequence_offsets = sequence_offsets_;
    if (file_.has_dataset(slots().dataset) || slots().required) {
      c_.slot_index = file_.integers(slots().dataset, {p_.num_sequences()}, "[N]");
    }
    try {
      const Case ours = from_foreign(convention_, c_, norm_epsilon_);
      validate(ours);
      require_expressible(convention_, ours.problem);
      return ours;
    } catch (const Error& error) {
      file_.fail(error.what());
    }
  }

 private:
  bool is_convolution() const { return p_.operation == causal_conv1d_operation(); }
  const Batch& batch() const { return is_convolution() ? conv().batch : convention_.batch; }
  const Slots& slots() const { return is_convolution() ? conv().slots : convention_.slots; }

  void read_operation() {
    try {
      p_.operation = parse_operation(file_.string_attribute_or("op", "gated_delta"));
      p_.token_dtype = parse_dtype(file_.string_attribute("token_dtype"), "token_dtype");
      p_.state_dtype =
          parse_dtype(file_.string_attribute_or("state_dtype", "float32"), "state_dtype");
    } catch (const Error& error) {
      file_.fail("attributes: " + std::string(error.what()));
    }
    if (p_.operation == gated_delta_operation()) return;
    if (p_.operation != causal_conv1d_operation() || !convention_.convolution) {
      file_.fail("attribute 'op' is '" + to_string(p_.operation) + "', expected gated_delta" +
                 (convention_.convolution ? " or causal_conv1d" : ""));
    }
  }

  void read_batch() {
    offsets_ = batch().kind == BatchKind::ragged ||
               (batch().kind == BatchKind::either && file_.has_dataset(batch().offsets));
    if (offsets_) {
      sequence_offsets_ = file_.integers(batch().offsets, {kAnyExtent}, "[N + 1]");
      try {
        p_.sequences = SequenceLengths::from_offsets(sequence_offsets_);
      } catch (const Error& error) {
        file_.fail("dataset '" + batch().offsets + "': " + error.what());
      }
      extents_.set(Axis::sequence, p_.num_sequences());
    }
    if (batch().kind == BatchKind::one_token) extents_.set(Axis::time, 1);
  }

  // Extents that are not known yet, from the shape of this dataset.
  void learn(const Array& array) {
    const Axes theirs = axes(array);
    const Shape found = file_.shape(array.name, extents_.shape(theirs), axes_text(theirs));
    for (std::size_t i = 0; i < theirs.size(); ++i) extents_.set(theirs[i], found[i]);
  }

  void read_delta_shapes() {
    if (convention_.initial_state_required) {
      learn(convention_.initial_state);
    }
    if (convention_.qkv.exists()) {
      learn(convention_.qkv);
      const std::int64_t keys = extents_.of(Axis::channels) -
                                extents_.of(Axis::value_heads) * extents_.of(Axis::value_dim);
      if (keys <= 0 || keys % (2 * extents_.of(Axis::key_dim)) != 0) {
        file_.fail("dataset '" + convention_.qkv.name + "' has " +
                   std::to_string(extents_.of(Axis::channels)) +
                   " channels, expected 2 Hk Dk + Hv Dv with Hv, Dk, Dv of '" +
                   convention_.initial_state.name + "'");
      }
      extents_.set(Axis::key_heads, keys / (2 * extents_.of(Axis::key_dim)));
    } else {
      learn(convention_.value);
      learn(convention_.query);
      learn(convention_.key);
      if (extents_.of(Axis::key_heads) == kAnyExtent) {
        extents_.set(Axis::key_heads, extents_.of(Axis::value_heads));
      }
    }
    p_.num_key_heads = extents_.of(Axis::key_heads);
    p_.num_value_heads = extents_.of(Axis::value_heads);
    p_.key_head_dim = extents_.of(Axis::key_dim);
    p_.value_head_dim = extents_.of(Axis::value_dim);
    if (p_.num_key_heads < 1 || p_.num_value_heads % p_.num_key_heads != 0) {
      file_.fail("has " + std::to_string(p_.num_key_heads) + " key heads and " +
                 std::to_string(p_.num_value_heads) + " value heads, expected a multiple of them");
    }
    const Axes& state = convention_.initial_state.axes;
    p_.state_layout = state == our_states(StateLayout::vk) ? StateLayout::vk : StateLayout::kv;
    const bool has_state = file_.has_dataset(convention_.initial_state.name);
    if (slots().dataset.empty() || !has_state) extents_.set(Axis::row, kAnyExtent);
  }

  // [N] and [T] from what the shapes said.
  void read_sequences() {
    if (!offsets_) {
      const std::int64_t count = extents_.of(Axis::sequence);
      const std::int64_t length = extents_.of(Axis::time);
      if (count < 1) file_.fail("holds no sequence");
      p_.sequences.lengths.assign(static_cast<std::size_t>(count), length);
      sequence_offsets_ = p_.sequences.offsets();
      extents_.set(Axis::token, count * length);
    } else if (sequence_offsets_.back() != extents_.of(Axis::token)) {
      file_.fail("dataset '" + batch().offsets + "' ends at " +
                 std::to_string(sequence_offsets_.back()) + ", expected the number of tokens, " +
                 std::to_string(extents_.of(Axis::token)));
    }
    if (extents_.of(Axis::row) == kAnyExtent) extents_.set(Axis::row, p_.num_sequences());
  }

  // ---- gated_delta

  void read_tokens() {
    Problem& p = c_.problem;
    const Axes values = our_tokens(offsets_, {Axis::value_heads, Axis::value_dim});
    if (!convention_.qkv.exists()) {
      const auto keys = [&](const Array& array) {
        const bool repeated =
            std::count(array.axes.begin(), array.axes.end(), Axis::value_heads) > 0;
        return rounded(
            read(array, our_tokens(offsets_, {repeated ? Axis::value_heads : Axis::key_heads,
                                              Axis::key_dim})),
            p.token_dtype);
      };
      c_["q"] = keys(convention_.query);
      c_["k"] = keys(convention_.key);
      c_["v"] = rounded(read(convention_.value, values), p.token_dtype);
    } else {
      const auto packed =
          rounded(read(convention_.qkv, our_tokens(offsets_, {Axis::channels})), p.token_dtype);
      const std::int64_t key_size = p.num_key_heads * p.key_head_dim;
      for (auto token = packed.begin(); token != packed.end(); token += p.conv_channels()) {
        c_["q"].insert(c_["q"].end(), token, token + key_size);
        c_["k"].insert(c_["k"].end(), token + key_size, token + 2 * key_size);
        c_["v"].insert(c_["v"].end(), token + 2 * key_size, token + p.conv_channels());
      }
    }
    const Norm& norm = convention_.norm;
    if (norm.place == NormPlace::before) {
      if (file_.has_attribute(norm.attribute)) {
        norm_epsilon_ = file_.number_attribute(norm.attribute);
        if (!(norm_epsilon_ > 0)) {
          file_.fail("attribute '" + norm.attribute + "' is " + std::to_string(norm_epsilon_) +
                     ", expected an epsilon above 0");
        }
      }
    } else if (norm.place != NormPlace::in_kernel) {
      p.normalize_qk = read_flag(norm.attribute, norm.on_by_default);
    }
    if (convention_.scale != ScaleRule::by_caller && file_.has_attribute("scale")) {
      p.scale = file_.number_attribute("scale");
    }
    p.final_state = read_flag("final_state", true);
  }

  bool read_flag(const std::string& name, bool otherwise) const {
    const std::int64_t value = file_.integer_attribute_or(name, 0, otherwise ? 1 : 0);
    if (value > 1) {
      file_.fail("attribute '" + name + "' is " + std::to_string(value) + ", expected 0 or 1");
    }
    return value == 1;
  }

  void read_gates() {
    Problem& p = c_.problem;
    const Axes per_token = our_tokens(offsets_, {Axis::value_heads});
    const DType dtype = convention_.gates_in_token_dtype ? p.token_dtype : DType::float32;
    p.gate_encoding = convention_.gate_encoding;
    p.beta_encoding = convention_.beta_encoding;
    c_[gate_name(c_.problem)] = rounded(read(convention_.gate, per_token), dtype);
    if (entry_of(p.gate_encoding).has_rate_and_bias) {
      c_["A_log"] = file_.floats(convention_.A_log, {p.num_value_heads}, "[Hv]");
      c_["dt_bias"] = file_.floats(convention_.dt_bias, {p.num_value_heads}, "[Hv]");
    }
    c_[beta_name(c_.problem)] = rounded(read(convention_.beta, per_token), dtype);
  }

  void read_state() {
    Problem& p = c_.problem;
    const bool there =
        convention_.initial_state_required || file_.has_dataset(convention_.initial_state.name);
    p.initial_state = there ? InitialState::normal : InitialState::absent;
    if (there) {
      if (!slots().dataset.empty()) {
        extents_.set(Axis::row, kAnyExtent);
        learn(convention_.initial_state);
      }
      c_["initial_state"] =
          rounded(read(convention_.initial_state, our_states(p.state_layout)), p.state_dtype);
    } else {
      c_["initial_state"].assign(
          static_cast<std::size_t>(extents_.of(Axis::row) * p.state_row_stride()),
          std::numeric_limits<float>::quiet_NaN());
    }
  }

  // ---- causal_conv1d

  void read_convolution_shapes() {
    learn(conv().weight);
    learn(conv().input);
    p_.conv_width = extents_.of(Axis::tap);
    if (!conv().window.exists()) {
      extents_.set(Axis::time, extents_.of(Axis::time) - (p_.conv_width - 1));
      if (extents_.of(Axis::time) < 0) {
        file_.fail("dataset '" + conv().input.name + "' is shorter along time than the window of " +
                   std::to_string(p_.conv_width - 1) + " inputs in front of it");
      }
    }
    const std::int64_t channels = extents_.of(Axis::channels);
    if (file_.has_attribute("num_key_heads")) {
      p_.num_key_heads = file_.integer_attribute("num_key_heads", 1);
      p_.num_value_heads = file_.integer_attribute("num_value_heads", 1);
      p_.key_head_dim = file_.integer_attribute("key_head_dim", 1);
      p_.value_head_dim = file_.integer_attribute("value_head_dim", 1);
    } else {
      p_.channels = channels;
    }
    if (p_.conv_channels() != channels) {
      file_.fail("dataset '" + conv().weight.name + "' has " + std::to_string(channels) +
                 " channels, expected 2 Hk Dk + Hv Dv = " + std::to_string(p_.conv_channels()));
    }
    const bool by_time = conv().input.axes.front() == Axis::channels;
    p_.conv_layout = by_time ? ConvLayout::time : ConvLayout::channels;
    p_.conv_bias = !conv().bias.empty() && file_.has_dataset(conv().bias);
    switch (conv().activation) {
      case ActivationRule::none:
        p_.activation = Activation::none;
        break;
      case ActivationRule::silu:
        p_.activation = Activation::silu;
        break;
      case ActivationRule::argument: {
        const std::string text = file_.string_attribute("activation");
        if (text != "silu" && text != "none") {
          file_.fail("attribute 'activation' is '" + text + "', expected none | silu");
        }
        p_.activation = text == "silu" ? Activation::silu : Activation::none;
      }
    }
  }

  void read_convolution() {
    const Problem& p = c_.problem;
    const std::int64_t used = p.conv_width - 1;
    const Axes ours = our_channels(p.conv_layout, offsets_);
    if (conv().window.exists()) {
      c_["qkv"] = rounded(read(conv().input, ours), p.token_dtype);
      read_stored_windows(used);
    } else {
      split_joined(ours, used);
    }
    c_["conv_weight"] = rounded(read(conv().weight, {Axis::channels, Axis::tap}), p.token_dtype);
    if (p.conv_bias) {
      c_["conv_bias"] =
          rounded(file_.floats(conv().bias, {p.conv_channels()}, "[channels]"), p.token_dtype);
    }
  }

  void read_stored_windows(std::int64_t used) {
    const Problem& p = c_.problem;
    const bool pool = !slots().dataset.empty();
    if (!pool && !file_.has_dataset(conv().window.name)) {
      c_["conv_state"].assign(
          static_cast<std::size_t>(p.num_sequences() * p.conv_channels() * used), 0.0f);
      return;
    }
    if (pool) {
      extents_.set(Axis::row, kAnyExtent);
      extents_.set(Axis::window, used + conv().unused_window);
      learn(conv().window);
    }
    c_["conv_state"] = rounded(read_windows(conv().window, used), p.state_dtype);
  }

  // Each channel's window stands in front of its inputs, along time.
  void split_joined(const Axes& ours, std::int64_t used) {
    const Problem& p = c_.problem;
    const Axes by_channel = {Axis::sequence, Axis::channels, Axis::time};
    const std::int64_t time = extents_.of(Axis::time);
    Extents with_window = extents_;
    with_window.set(Axis::time, used + time);
    const auto joined = reordered(
        file_.floats(conv().input.name, with_window.shape(conv().input.axes), "[N, channels, ..]"),
        conv().input.axes, by_channel, with_window);
    std::vector<float> inputs;
    for (auto row = joined.begin(); row != joined.end(); row += used + time) {
      c_["conv_state"].insert(c_["conv_state"].end(), row, row + used);
      inputs.insert(inputs.end(), row + used, row + used + time);
    }
    c_["conv_state"] = rounded(std::move(c_["conv_state"]), p.state_dtype);
    c_["qkv"] = rounded(reordered(inputs, by_channel, ours, extents_), p.token_dtype);
  }

  Problem p_;
  Case c_;
  std::vector<std::int64_t> sequence_offsets_;
  double norm_epsilon_ = 0;
};

class OutputsImporter : FileOfConvention {
 public:
  OutputsImporter(const Convention& convention, const Case& ours, const std::string& path)
      : FileOfConvention(convention, path), ours_(ours), p_(ours.problem) {
    extents_ = extents_of(p_);
    const bool is_convolution = p_.operation == causal_conv1d_operation();
    const Slots& slots = is_convolution ? conv().slots : convention.slots;
    offsets_ = with_offsets(is_convolution ? conv().batch : convention.batch, p_);
    extents_.set(Axis::row, slots.first_row + p_.num_pool_rows());
  }

  ImportedOutputs import() {
    Outputs theirs;
    if (p_.operation == causal_conv1d_operation()) {
      theirs["conv_output"] = read(conv().output, our_channels(p_.conv_layout, offsets_));
      theirs["conv_state"] = read_windows(conv().new_window, p_.conv_width - 1);
    } else if (!convention_.packed_outputs.empty()) {
      read_packed(theirs);
    } else {
      theirs["output"] =
          read(convention_.output, our_tokens(offsets_, {Axis::value_heads, Axis::value_dim}));
      if (p_.final_state) {
        theirs["final_state"] = read(convention_.final_state, our_states(p_.state_layout));
      }
    }
    return {from_foreign(convention_, ours_, theirs), read_origin(file_)};
  }

 private:
  void read_packed(Outputs& theirs) const {
    const std::int64_t width = p_.num_value_heads * p_.value_head_dim;
    const std::int64_t state_rows = p_.num_sequences() * p_.key_head_dim;
    const auto packed =
        file_.floats(convention_.packed_outputs, {p_.total_tokens() + state_rows, width},
                     "[T + N Dk, Hv Dv], outputs and then states");
    const auto states = packed.begin() + p_.total_tokens() * width;
    theirs["output"] =
        reordered({packed.begin(), states}, axes(convention_.output),
                  our_tokens(offsets_, {Axis::value_heads, Axis::value_dim}), extents_);
    theirs["final_state"] = reordered({states, packed.end()}, axes(convention_.final_state),
                                      our_states(p_.state_layout), extents_);
  }

  const Case& ours_;
  const Problem& p_;
};

}  // namespace

Case import_case(const Convention& convention, const std::string& path) {
  return CaseImporter(convention, path).import();
}

ImportedOutputs import_outputs(const Convention& convention, const Case& ours,
                               const std::string& path) {
  require_expressible(convention, ours.problem);
  return OutputsImporter(convention, ours, path).import();
}

}  // namespace gdn::conventions
