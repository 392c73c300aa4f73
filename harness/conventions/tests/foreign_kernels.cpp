#include "harness/conventions/tests/foreign_kernels.h"

#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "harness/files/hdf5_group.h"
#include "interface/dtype.h"

namespace gdn::testing {
namespace {

struct Stored {
  std::vector<float> values;
  Shape shape;
  std::int64_t operator[](std::size_t axis) const { return shape[axis]; }  // extents
  // Checked: a file with its axes in another order must not be read out of bounds.
  float at(std::int64_t i) const { return values.at(static_cast<std::size_t>(i)); }
  float& at(std::int64_t i) { return values.at(static_cast<std::size_t>(i)); }
};

Stored load(const GroupReader& file, const std::string& name, std::size_t rank) {
  const Shape any(rank, kAnyExtent);
  return {file.floats(name, any, "any"), file.shape(name, any, "any")};
}

std::vector<std::int64_t> integers(const GroupReader& file, const std::string& name) {
  return file.integers(name, {kAnyExtent}, "any");
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("their kernel: ") + what);
}
std::int64_t head_ratio(std::int64_t value_heads, std::int64_t key_heads) {
  require(key_heads > 0 && value_heads > 0 && value_heads % key_heads == 0, "head counts");
  return value_heads / key_heads;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log1p(std::exp(x)); }

// The token recurrence of one head over accessors; alpha is the decay itself.
struct Head {
  std::int64_t first = 0, tokens = 0, key_dim = 0, value_dim = 0;
  std::function<double(std::int64_t t, std::int64_t i)> query, key, value;
  std::function<double(std::int64_t t)> alpha, beta;
  std::function<float&(std::int64_t i, std::int64_t j)> state;  // (key, value) element
  std::function<float&(std::int64_t t, std::int64_t j)> output;
  DType token_dtype = DType::float32;
  DType state_dtype = DType::float32;
  bool normalise = false;
  double scale = 1;

  void run() const {
    std::vector<double> s(static_cast<std::size_t>(key_dim * value_dim));
    const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
      return s[static_cast<std::size_t>(i * value_dim + j)];
    };
    for (std::int64_t i = 0; i < key_dim; ++i) {
      for (std::int64_t j = 0; j < value_dim; ++j) at(i, j) = state(i, j);
    }
    for (std::int64_t t = first; t < first + tokens; ++t) {
      double q_squares = normalise ? 1e-6 : 0;
      double k_squares = q_squares;
      for (std::int64_t i = 0; normalise && i < key_dim; ++i) {
        q_squares += query(t, i) * query(t, i);
        k_squares += key(t, i) * key(t, i);
      }
      const double q_factor = scale * (normalise ? 1 / std::sqrt(q_squares) : 1);
      const double k_factor = normalise ? 1 / std::sqrt(k_squares) : 1;
      for (std::int64_t j = 0; j < value_dim; ++j) {
        double read = 0;
        for (std::int64_t i = 0; i < key_dim; ++i) {
          at(i, j) *= alpha(t);
          read += at(i, j) * key(t, i) * k_factor;
        }
        const double delta = beta(t) * (value(t, j) - read);
        double sum = 0;
        for (std::int64_t i = 0; i < key_dim; ++i) {
          at(i, j) += key(t, i) * k_factor * delta;
          sum += at(i, j) * query(t, i) * q_factor;
        }
        output(t, j) = round_to(token_dtype, static_cast<float>(sum));
      }
    }
    for (std::int64_t i = 0; i < key_dim; ++i) {
      for (std::int64_t j = 0; j < value_dim; ++j) {
        state(i, j) = round_to(state_dtype, static_cast<float>(at(i, j)));
      }
    }
  }
};

class File {
 public:
  File(const std::string& convention, const std::string& inputs, const std::string& outputs)
      : in(inputs, "/"), out(outputs, "/", GroupWriter::Mode::replace_file) {
    out.attribute("convention", convention);
    out.attribute("implementation", "their/" + convention);
    base.token_dtype = parse_dtype(in.string_attribute("token_dtype"), "token_dtype");
    base.state_dtype = parse_dtype(in.string_attribute("state_dtype"), "state_dtype");
  }
  double scale_argument(std::int64_t key_dim) const {
    return in.has_attribute("scale") ? in.number_attribute("scale")
                                     : 1 / std::sqrt(static_cast<double>(key_dim));
  }
  bool flag(const std::string& name) const { return in.integer_attribute(name, 0) == 1; }

  GroupReader in;
  GroupWriter out;
  Head base;
};

// [N, time, H, D] arrays (or [1, T, H, D] with offsets), log or other decay by `alpha`.
// Names: q, k, v, g, beta, state, output, final state.
struct BatchedNames {
  std::string q, k, v, g, beta, state, output, final_state;
};

struct Batched {
  Stored q, k, v, g, beta, state, output;
  std::vector<std::int64_t> offsets, slots;
  bool state_is_vk = false;
  bool tiled = false;
  std::function<double(double gate, std::int64_t h)> alpha = [](double gate, std::int64_t) {
    return std::exp(gate);
  };
  std::function<double(double b)> to_beta = [](double b) { return b; };

  void run(Head head) {
    const std::int64_t hk = q[2], hv = v[2], dk = q[3], dv = v[3];
    head.key_dim = dk;
    head.value_dim = dv;
    output = {std::vector<float>(v.values.size(), 0.0f), v.shape};
    for (std::size_t n = 0; n + 1 < offsets.size(); ++n) {
      head.first = offsets[n];
      head.tokens = offsets[n + 1] - offsets[n];
      const std::int64_t row = slots.at(n);
      if (row < 0 || head.tokens == 0) continue;
      for (std::int64_t h = 0; h < hv; ++h) {
        const std::int64_t kh = tiled ? h % hk : h / head_ratio(hv, hk);
        head.query = [&](auto t, auto i) { return q.at((t * hk + kh) * dk + i); };
        head.key = [&](auto t, auto i) { return k.at((t * hk + kh) * dk + i); };
        head.value = [&](auto t, auto j) { return v.at((t * hv + h) * dv + j); };
        head.alpha = [&](auto t) { return alpha(g.at(t * hv + h), h); };
        head.beta = [&](auto t) { return to_beta(beta.at(t * hv + h)); };
        head.state = [&](auto i, auto j) -> float& {
          const std::int64_t inner = state_is_vk ? j * dk + i : i * dv + j;
          return state.at((row * hv + h) * dk * dv + inner);
        };
        head.output = [&](auto t, auto j) -> float& { return output.at((t * hv + h) * dv + j); };
        head.run();
      }
    }
  }
};

std::vector<std::int64_t> equal_offsets(std::int64_t count, std::int64_t length) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t n = 0; n <= count; ++n) offsets.push_back(n * length);
  return offsets;
}
std::vector<std::int64_t> own_rows(std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t n = 0; n < count; ++n) rows.push_back(n);
  return rows;
}

Batched load_batched(const File& file, const BatchedNames& names, std::size_t gate_rank,
                     std::size_t rank = 4) {
  Batched b;
  b.q = load(file.in, names.q, rank);
  b.k = load(file.in, names.k, rank);
  b.v = load(file.in, names.v, rank);
  b.g = load(file.in, names.g, gate_rank);
  b.beta = load(file.in, names.beta, gate_rank);
  if (rank == 3) {  // [T, H, D]: as [1, T, H, D]
    for (Stored* array : {&b.q, &b.k, &b.v}) array->shape.insert(array->shape.begin(), 1);
  }
  b.offsets = file.in.has_dataset("cu_seqlens") ? integers(file.in, "cu_seqlens")
                                                : equal_offsets(b.v[0], b.v[1]);
  b.slots = own_rows(static_cast<std::int64_t>(b.offsets.size()) - 1);
  if (file.in.has_dataset(names.state)) {
    b.state = load(file.in, names.state, 4);
  } else {
    const Shape shape = {static_cast<std::int64_t>(b.slots.size()), b.v[2], b.q[3], b.v[3]};
    b.state = {std::vector<float>(
                   static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0.0f),
               shape};
  }
  return b;
}

void write_batched(File& file, const BatchedNames& names, const Batched& b, Shape output_shape) {
  file.out.dataset(names.output, output_shape, b.output.values);
  file.out.dataset(names.final_state, b.state.shape, b.state.values);
  file.out.finish();
}

void run_max(File& file) {
  const Stored qkv = load(file.in, "qkv_conv_output", 2);
  const Stored decay = load(file.in, "decay_per_token", 2);
  const Stored beta = load(file.in, "beta_per_token", 2);
  Stored pool = load(file.in, "recurrent_state", 4);
  const auto slots = integers(file.in, "slot_idx");
  const auto offsets = integers(file.in, "input_row_offsets");
  const std::int64_t hv = pool[1], kd = pool[2], vd = pool[3], width = qkv[1];
  const std::int64_t key_dim = (width - hv * vd) / 2;
  require(kd > 0, "key dims");
  const std::int64_t expansion = head_ratio(hv, key_dim / kd);
  Stored output{std::vector<float>(static_cast<std::size_t>(qkv[0] * hv * vd), 0.0f),
                {qkv[0], hv, vd}};
  Head head = file.base;
  head.key_dim = kd;
  head.value_dim = vd;
  head.normalise = true;
  head.scale = 1 / std::sqrt(static_cast<double>(kd));
  for (std::size_t b = 0; b < slots.size(); ++b) {
    head.first = offsets.at(b);
    head.tokens = offsets.at(b + 1) - offsets[b];
    for (std::int64_t h = 0; h < hv && head.tokens > 0; ++h) {
      const std::int64_t kh = h / expansion;
      head.query = [&](auto t, auto i) { return qkv.at(t * width + kh * kd + i); };
      head.key = [&](auto t, auto i) { return qkv.at(t * width + key_dim + kh * kd + i); };
      head.value = [&](auto t, auto j) { return qkv.at(t * width + 2 * key_dim + h * vd + j); };
      head.alpha = [&](auto t) { return decay.at(t * hv + h); };
      head.beta = [&](auto t) { return beta.at(t * hv + h); };
      head.state = [&](auto i, auto j) -> float& {
        return pool.at(((slots[b] * hv + h) * kd + i) * vd + j);
      };
      head.output = [&](auto t, auto j) -> float& { return output.at((t * hv + h) * vd + j); };
      head.run();
    }
  }
  file.out.dataset("recurrence_output", output.shape, output.values);
  file.out.dataset("recurrent_state", pool.shape, pool.values);
  file.out.finish();
}

void run_huggingface(File& file) {
  const BatchedNames names = {"query", "key",           "value",         "g",
                              "beta",  "initial_state", "core_attn_out", "last_recurrent_state"};
  Batched b = load_batched(file, names, 3);
  if (b.q[2] != b.v[2]) throw std::runtime_error("huggingface: query and value heads differ");
  file.base.normalise = file.flag("use_qk_l2norm_in_kernel");
  file.base.scale = 1 / std::sqrt(static_cast<double>(b.q[3]));
  b.run(file.base);
  write_batched(file, names, b, b.v.shape);
}

void run_fla(File& file) {
  const BatchedNames names = {"q", "k", "v", "g", "beta", "initial_state", "o", "final_state"};
  Batched b = load_batched(file, names, 3);
  file.base.normalise = file.flag("use_qk_l2norm_in_kernel");
  file.base.scale = file.scale_argument(b.q[3]);
  b.run(file.base);
  write_batched(file, names, b, b.v.shape);
}

void run_flashinfer_prefill(File& file) {
  const BatchedNames names = {"q",      "k",           "v", "g", "beta", "initial_state",
                              "output", "output_state"};
  Batched b = load_batched(file, names, 2, 3);
  b.state_is_vk = true;
  b.alpha = [](double g, std::int64_t) { return g; };
  if (file.in.has_dataset("state_indices")) b.slots = integers(file.in, "state_indices");
  const double given = file.scale_argument(b.q[3]);
  file.base.scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(b.q[3]));
  b.run(file.base);
  write_batched(file, names, b, {b.v[1], b.v[2], b.v[3]});
}

void run_flashinfer_decode(File& file) {
  const BatchedNames names = {"q", "k", "v", "a", "b", "initial_state", "output", "initial_state"};
  Batched b = load_batched(file, names, 3);
  const Stored A_log = load(file.in, "A_log", 1);
  const Stored dt_bias = load(file.in, "dt_bias", 1);
  b.state_is_vk = true;
  b.alpha = [&](double a, std::int64_t h) {
    return std::exp(-std::exp(static_cast<double>(A_log.at(h))) * softplus(a + dt_bias.at(h)));
  };
  b.to_beta = sigmoid;
  if (file.in.has_dataset("initial_state_indices")) {
    b.slots = integers(file.in, "initial_state_indices");
  }
  file.base.normalise = file.flag("use_qk_l2norm");
  file.base.scale = file.scale_argument(b.q[3]);
  b.run(file.base);
  write_batched(file, names, b, b.v.shape);
}

void run_ggml(File& file) {
  const BatchedNames names = {"q", "k", "v", "g", "beta", "state", "dst", ""};
  Batched b = load_batched(file, names, 4);
  b.tiled = true;
  b.state_is_vk = true;
  file.base.scale = 1 / std::sqrt(static_cast<double>(b.v[3]));
  b.run(file.base);
  std::vector<float> dst = b.output.values;
  dst.insert(dst.end(), b.state.values.begin(), b.state.values.end());
  const std::int64_t row = b.v[2] * b.v[3];
  file.out.dataset("dst", {static_cast<std::int64_t>(dst.size()) / row, row}, dst);
  file.out.finish();
}

void run_mlx_native(File& file) {
  const BatchedNames names = {"q", "k", "v", "g", "beta", "state_in", "output", "state_out"};
  Batched b = load_batched(file, names, 3);
  b.tiled = true;
  b.state_is_vk = true;
  b.alpha = [](double g, std::int64_t) { return std::exp(-g); };
  b.run(file.base);
  write_batched(file, names, b, b.v.shape);
}

void run_vllm(File& file) {
  const BatchedNames names = {"q", "k", "v", "g", "beta", "initial_state", "o", "final_state"};
  Batched b = load_batched(file, names, 3);
  b.state_is_vk = true;
  b.slots = integers(file.in, "ssm_state_indices");
  for (std::int64_t& slot : b.slots) {
    if (slot <= 0) slot = -1;  // the null block
  }
  file.base.normalise = file.flag("use_qk_l2norm_in_kernel");
  file.base.scale = file.scale_argument(b.q[3]);
  b.run(file.base);
  write_batched(file, names, b, b.v.shape);
}

// ---- convolutions

// One channel of one sequence: y[t] = act(bias + sum_j weight[j] ext[t + j]), ext = window, input.
struct Channel {
  std::int64_t tokens = 0;
  std::vector<float> window;  // width - 1, oldest first
  std::function<float(std::int64_t t)> input;
  std::function<float(std::int64_t j)> weight;
  std::function<float&(std::int64_t t)> output;
  double bias = 0;
  bool silu = false;
  DType dtype = DType::float32;

  void run() {
    const auto before = static_cast<std::int64_t>(window.size());
    std::vector<float> ext = window;
    for (std::int64_t t = 0; t < tokens; ++t) ext.push_back(input(t));
    for (std::int64_t t = 0; t < tokens; ++t) {
      double sum = bias;
      for (std::int64_t j = 0; j <= before; ++j) {
        sum += static_cast<double>(weight(j)) * ext[static_cast<std::size_t>(t + j)];
      }
      output(t) = round_to(dtype, static_cast<float>(silu ? sum * sigmoid(sum) : sum));
    }
    window.assign(ext.end() - before, ext.end());
  }
};

}  // namespace

void run_foreign_gated_delta(const std::string& convention, const std::string& inputs,
                             const std::string& outputs) {
  File file(convention, inputs, outputs);
  if (convention == "max") return run_max(file);
  if (convention == "huggingface") return run_huggingface(file);
  if (convention == "fla") return run_fla(file);
  if (convention == "flashinfer-prefill") return run_flashinfer_prefill(file);
  if (convention == "flashinfer-decode") return run_flashinfer_decode(file);
  if (convention == "ggml") return run_ggml(file);
  if (convention == "mlx-native") return run_mlx_native(file);
  if (convention == "vllm") return run_vllm(file);
  throw std::runtime_error("no kernel of " + convention);
}

void run_foreign_convolution(const std::string& convention, const std::string& inputs,
                             const std::string& outputs) {
  // Where everything lies: names, and strides of (row or sequence, channel, token).
  struct Names {
    std::string input, weight, bias, window, output, new_window, offsets, slots;
    bool time_fastest, ragged;
    std::int64_t first_row, unused;
    enum { none, silu, argument } activation;
  };
  const Names n =
      convention == "max"           ? Names{"qkv_input_ragged",
                                  "conv_weight",
                                  "",
                                  "conv_state",
                                  "conv_output_ragged",
                                  "conv_state",
                                  "input_row_offsets",
                                  "slot_idx",
                                  false,
                                  true,
                                  0,
                                  0,
                                  Names::none}
      : convention == "huggingface" ? Names{"hidden_states",
                                            "weight",
                                            "bias",
                                            "conv_state",
                                            "out",
                                            "conv_state",
                                            "",
                                            "",
                                            true,
                                            false,
                                            0,
                                            1,
                                            Names::argument}
      : convention == "fla"         ? Names{"x",
                                    "weight",
                                    "bias",
                                    "initial_state",
                                    "y",
                                    "final_state",
                                    "cu_seqlens",
                                    "",
                                    false,
                                    false,
                                    0,
                                    1,
                                    Names::argument}
      : convention == "ggml"
          ? Names{"sx", "c", "", "", "dst", "conv_states", "", "", true, false, 0, 0, Names::none}
      : convention == "mlx-native" ? Names{"x", "kernel_w", "",    "state", "y", "new_state", "",
                                           "",  false,      false, 0,       0,   Names::silu}
                                   : Names{"x",
                                           "weight",
                                           "bias",
                                           "conv_states",
                                           "out",
                                           "conv_states",
                                           "query_start_loc",
                                           "cache_indices",
                                           true,
                                           true,
                                           1,
                                           0,
                                           Names::argument};
  File file(convention, inputs, outputs);
  const Stored weight = load(file.in, n.weight, 2);
  const std::int64_t channels = weight[0], width = weight[1], used = width - 1;
  const Stored x = load(file.in, n.input, n.ragged ? 2 : 3);
  const bool joined = n.window.empty();
  const std::int64_t extent = n.ragged ? 0 : n.time_fastest ? x[2] : x[1];  // along time
  const std::int64_t length = extent - (joined ? used : 0);
  const bool has_offsets = !n.offsets.empty() && file.in.has_dataset(n.offsets);
  const auto offsets = has_offsets ? integers(file.in, n.offsets) : equal_offsets(x[0], length);
  const auto sequences = static_cast<std::int64_t>(offsets.size()) - 1;
  const auto slots = n.slots.empty() ? own_rows(sequences) : integers(file.in, n.slots);
  Stored windows =
      joined ? Stored{std::vector<float>(static_cast<std::size_t>(sequences * channels * used)),
                      {sequences, channels, used}}
             : load(file.in, n.window, 3);
  const std::int64_t entries = windows[2];
  const Stored bias = !n.bias.empty() && file.in.has_dataset(n.bias)
                          ? load(file.in, n.bias, 1)
                          : Stored{std::vector<float>(static_cast<std::size_t>(channels)), {}};
  const std::int64_t tokens = offsets.back();
  require(used >= 0 && length >= 0 && tokens >= 0 && sequences > 0, "shapes");
  Stored y{std::vector<float>(static_cast<std::size_t>(tokens * channels), 0.0f), x.shape};
  if (joined) y.shape = {sequences, length, channels};

  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t row = slots.at(static_cast<std::size_t>(s));
    if (row < n.first_row) continue;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t first = offsets[static_cast<std::size_t>(s)];
      const auto place = [&](std::int64_t t) {
        if (!n.time_fastest) return (first + t) * channels + c;
        return n.ragged ? c * tokens + first + t : (s * channels + c) * extent + t;
      };
      Channel channel;
      channel.tokens = offsets[static_cast<std::size_t>(s) + 1] - first;
      channel.dtype = file.base.token_dtype;
      channel.bias = bias.at(c);
      channel.silu =
          n.activation == Names::silu ||
          (n.activation == Names::argument && file.in.string_attribute("activation") == "silu");
      const std::int64_t window = (row * channels + c) * entries + n.unused;
      for (std::int64_t i = 0; i < used; ++i) {
        channel.window.push_back(joined ? x.at(place(i)) : windows.at(window + i));
      }
      channel.input = [&](std::int64_t t) { return x.at(place(joined ? t + used : t)); };
      channel.weight = [&](std::int64_t j) { return weight.at(c * width + j); };
      channel.output = [&](std::int64_t t) -> float& {
        return y.at(joined ? (s * length + t) * channels + c : place(t));
      };
      channel.run();
      for (std::int64_t i = 0; i < used; ++i) {
        windows.at(window + i) =
            round_to(file.base.state_dtype, channel.window[static_cast<std::size_t>(i)]);
      }
    }
  }
  file.out.dataset(n.output, y.shape, y.values);
  file.out.dataset(n.new_window, windows.shape, windows.values);
  file.out.finish();
}

}  // namespace gdn::testing
