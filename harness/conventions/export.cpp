// Our cases and outputs into files of a convention.
#include "harness/conventions/convert.h"
#include "harness/conventions/layout.h"
#include "harness/files/hdf5_group.h"
#include "interface/error.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::conventions {
namespace {

// Windows of `used` entries, `unused` zeros (older inputs, never read) before each.
std::vector<float> lengthened(const std::vector<float>& windows, std::int64_t used,
                              std::int64_t unused) {
  std::vector<float> result;
  for (auto window = windows.begin(); window != windows.end(); window += used) {
    result.insert(result.end(), static_cast<std::size_t>(unused), 0.0f);
    result.insert(result.end(), window, window + used);
  }
  return result;
}

class Exporter {
 public:
  /// `theirs` has been through to_foreign.
  Exporter(const Convention& convention, const Problem& theirs, const std::string& path,
           GroupWriter::Mode mode)
      : convention_(convention),
        p_(theirs),
        path_(CasePath::parse(path)),
        file_(path_.file, path_.group, mode),
        extents_(extents_of(theirs)) {
    file_.attribute("convention", convention.name);
    file_.attribute("op", to_string(p_.operation));
    file_.attribute("token_dtype", long_name(p_.token_dtype));
    file_.attribute("state_dtype", long_name(p_.state_dtype));
    offsets_ = with_offsets(batch(), p_);
  }

  void write(const Case& c) {
    if (offsets_) file_.dataset(batch().offsets, c.sequence_offsets);
    if (!c.slot_index.empty()) file_.dataset(slots().dataset, c.slot_index);
    if (p_.operation == causal_conv1d_operation()) {
      write_convolution(c);
    } else {
      write_options();
      write_tokens(c);
      write_gates(c);
      if (p_.initial_state != InitialState::absent) {
        write_states(convention_.initial_state, c["initial_state"]);
      }
    }
    file_.finish();
  }

  void write(const Outputs& outputs, const OutputsOrigin& origin) {
    write_origin(file_, origin);
    if (p_.operation == causal_conv1d_operation()) {
      write_array(conv().output, outputs["conv_output"], our_channels(p_.conv_layout, offsets_));
      write_windows(conv().new_window, outputs["conv_state"]);
    } else if (!convention_.packed_outputs.empty()) {
      write_packed(outputs);
    } else {
      write_array(convention_.output, outputs["output"],
                  our_tokens(offsets_, {Axis::value_heads, Axis::value_dim}));
      if (p_.final_state) write_states(convention_.final_state, outputs["final_state"]);
    }
    file_.finish();
  }

 private:
  const Convolution& conv() const { return *convention_.convolution; }
  bool is_convolution() const { return p_.operation == causal_conv1d_operation(); }
  const Batch& batch() const { return is_convolution() ? conv().batch : convention_.batch; }
  const Slots& slots() const { return is_convolution() ? conv().slots : convention_.slots; }

  std::vector<float> in_their_order(const Array& array, const std::vector<float>& values,
                                    const Axes& ours) const {
    return reordered(values, ours, in_batch(array.axes, offsets_), extents_);
  }
  void write_array(const Array& array, const std::vector<float>& values, const Axes& ours) {
    file_.dataset(array.name, extents_.shape(in_batch(array.axes, offsets_)),
                  in_their_order(array, values, ours));
  }
  void write_states(const Array& array, const std::vector<float>& pool) {
    const std::int64_t size = p_.state_row_stride() - p_.pool_row_padding;
    extents_.set(Axis::row, static_cast<std::int64_t>(pool.size()) / size);
    write_array(array, pool, our_states(p_.state_layout));
  }

  void write_options() {
    const Norm& norm = convention_.norm;
    if (norm.place == NormPlace::in_kernel_by_flag ||
        norm.place == NormPlace::before_flag_ignored) {
      file_.attribute(norm.attribute, std::int64_t{p_.normalize_qk});
    }
    if (p_.scale && convention_.scale != ScaleRule::by_caller) file_.attribute("scale", *p_.scale);
    if (!p_.final_state) file_.attribute("final_state", std::int64_t{0});
  }

  void write_tokens(const Case& c) {
    if (!convention_.qkv.exists()) {
      // q and k may have been repeated to Hv heads: p_ counts them as key heads.
      const Axes key_axes = our_tokens(offsets_, {Axis::key_heads, Axis::key_dim});
      const auto repeated = [&](const Array& array) {
        for (const Axis axis : array.axes) {
          if (axis == Axis::value_heads) return true;
        }
        return false;
      };
      const Axes value_axes = our_tokens(offsets_, {Axis::value_heads, Axis::key_dim});
      write_array(convention_.query, c["q"], repeated(convention_.query) ? value_axes : key_axes);
      write_array(convention_.key, c["k"], repeated(convention_.key) ? value_axes : key_axes);
      write_array(convention_.value, c["v"],
                  our_tokens(offsets_, {Axis::value_heads, Axis::value_dim}));
      return;
    }
    const std::int64_t keys = p_.num_key_heads * p_.key_head_dim;
    const std::int64_t values = p_.num_value_heads * p_.value_head_dim;
    std::vector<float> packed;
    for (std::int64_t t = 0; t < p_.total_tokens(); ++t) {
      const auto take = [&](const std::vector<float>& array, std::int64_t size) {
        packed.insert(packed.end(), array.begin() + t * size, array.begin() + (t + 1) * size);
      };
      take(c["q"], keys);
      take(c["k"], keys);
      take(c["v"], values);
    }
    write_array(convention_.qkv, packed, our_tokens(offsets_, {Axis::channels}));
  }

  void write_gates(const Case& c) {
    const Axes per_token = our_tokens(offsets_, {Axis::value_heads});
    write_array(convention_.gate, c[gate_name(c.problem)], per_token);
    if (entry_of(convention_.gate_encoding).has_rate_and_bias) {
      file_.dataset(convention_.A_log, {p_.num_value_heads}, c["A_log"]);
      file_.dataset(convention_.dt_bias, {p_.num_value_heads}, c["dt_bias"]);
    }
    write_array(convention_.beta, c[beta_name(c.problem)], per_token);
  }

  // ggml: rows of Hv * Dv, first the outputs, then the states.
  void write_packed(const Outputs& outputs) {
    extents_.set(Axis::row, p_.num_sequences());
    std::vector<float> packed =
        in_their_order(convention_.output, outputs["output"],
                       our_tokens(offsets_, {Axis::value_heads, Axis::value_dim}));
    const auto states = in_their_order(convention_.final_state, outputs["final_state"],
                                       our_states(p_.state_layout));
    packed.insert(packed.end(), states.begin(), states.end());
    const std::int64_t width = p_.num_value_heads * p_.value_head_dim;
    file_.dataset(convention_.packed_outputs,
                  {static_cast<std::int64_t>(packed.size()) / width, width}, packed);
  }

  void write_windows(const Array& array, const std::vector<float>& windows) {
    const std::int64_t used = p_.conv_width - 1;
    extents_.set(Axis::row,
                 static_cast<std::int64_t>(windows.size()) / (used * p_.conv_channels()));
    extents_.set(Axis::window, used + conv().unused_window);
    write_array(array, lengthened(windows, used, conv().unused_window), kOurWindows);
  }

  void write_convolution(const Case& c) {
    if (p_.channels == 0) {
      file_.attribute("num_key_heads", p_.num_key_heads);
      file_.attribute("num_value_heads", p_.num_value_heads);
      file_.attribute("key_head_dim", p_.key_head_dim);
      file_.attribute("value_head_dim", p_.value_head_dim);
    }
    if (conv().activation == ActivationRule::argument) {
      file_.attribute("activation", p_.activation == Activation::silu ? "silu" : "none");
    }
    const Axes ours = our_channels(p_.conv_layout, offsets_);
    if (conv().window.exists()) {
      write_array(conv().input, c["qkv"], ours);
      write_windows(conv().window, c["conv_state"]);
    } else {
      write_joined(
          reordered(c["qkv"], ours, {Axis::sequence, Axis::channels, Axis::time}, extents_),
          c["conv_state"]);
    }
    write_array(conv().weight, c["conv_weight"], {Axis::channels, Axis::tap});
    if (p_.conv_bias) file_.dataset(conv().bias, {p_.conv_channels()}, c["conv_bias"]);
  }

  // Each channel's window in front of its inputs, along time. `inputs`: [N, channels, time].
  void write_joined(const std::vector<float>& inputs, const std::vector<float>& windows) {
    const std::int64_t used = p_.conv_width - 1;
    const std::int64_t time = extents_.of(Axis::time);
    std::vector<float> joined;
    for (std::int64_t i = 0; i < p_.num_sequences() * p_.conv_channels(); ++i) {
      joined.insert(joined.end(), windows.begin() + i * used, windows.begin() + (i + 1) * used);
      joined.insert(joined.end(), inputs.begin() + i * time, inputs.begin() + (i + 1) * time);
    }
    Extents with_window = extents_;
    with_window.set(Axis::time, used + time);
    file_.dataset(conv().input.name, with_window.shape(conv().input.axes),
                  reordered(joined, {Axis::sequence, Axis::channels, Axis::time}, conv().input.axes,
                            with_window));
  }

  const Convention& convention_;
  const Problem& p_;
  CasePath path_;
  GroupWriter file_;
  Extents extents_;
  bool offsets_ = false;
};

}  // namespace

void export_case(const Convention& convention, const Case& ours, const std::string& path,
                 const ConvertOptions& options) {
  validate(ours);
  const Case theirs = to_foreign(convention, ours, options);
  Exporter(convention, theirs.problem, path, GroupWriter::Mode::add_group).write(theirs);
}

void export_outputs(const Convention& convention, const Case& ours, const Outputs& outputs,
                    const OutputsOrigin& origin, const std::string& path) {
  const Outputs theirs = to_foreign(convention, ours, outputs);
  Problem problem = ours.problem;
  problem.pool_row_padding = 0;
  Exporter(convention, problem, path, GroupWriter::Mode::replace_file).write(theirs, origin);
}

}  // namespace gdn::conventions
