// The conventions themselves. Each entry's `source` names the function it describes; where the
// description comes from differs:
//   read from a copy of the source: huggingface, flashinfer-prefill, flashinfer-decode, mlx-native
//   from the project's research notes, the source not read again for this table:
//     max, fla, ggml, vllm
// No version is claimed for either; a system may have changed since.
#include "harness/conventions/convention.h"
#include "interface/error.h"

namespace gdn::conventions {
namespace {

using enum Axis;

const std::vector<DType> kFloat32 = {DType::float32};
const std::vector<DType> k16Bit = {DType::bfloat16, DType::float16};
const std::vector<DType> kAnyType = {DType::float32, DType::bfloat16, DType::float16};

Convention max() {
  Convention c;
  c.name = "max";
  c.source = "MAX/Mojo gated_delta.mojo, gated_delta_recurrence_fwd_gpu";
  c.remark = "decay is alpha itself; q and k are always normalised in the kernel";
  c.batch = {BatchKind::ragged, "input_row_offsets"};
  c.slots = {"slot_idx", true, 0, {}};
  c.token_dtypes = kFloat32;
  c.state_dtypes = kAnyType;
  c.qkv = {"qkv_conv_output", {token, channels}};
  c.norm = {NormPlace::in_kernel, NormRule::epsilon_added, 1e-6, ""};
  c.scale = ScaleRule::fixed;
  c.gate_encoding = GateEncoding::decay;
  c.gate = {"decay_per_token", {token, value_heads}};
  c.beta = {"beta_per_token", {token, value_heads}};
  c.initial_state = {"recurrent_state", {row, value_heads, key_dim, value_dim}};
  c.initial_state_required = true;
  c.output = {"recurrence_output", {token, value_heads, value_dim}};
  c.final_state = c.initial_state;
  Convolution conv;
  conv.source = "MAX/Mojo gated_delta_conv1d.mojo, gated_delta_conv1d_fwd_gpu";
  conv.batch = c.batch;
  conv.slots = c.slots;
  conv.token_dtypes = kFloat32;
  conv.state_dtypes = kAnyType;
  conv.input = {"qkv_input_ragged", {token, channels}};
  conv.weight = {"conv_weight", {channels, tap}};
  conv.activation = ActivationRule::none;
  conv.window = {"conv_state", {row, channels, window}};
  conv.output = {"conv_output_ragged", {token, channels}};
  conv.new_window = conv.window;
  c.convolution = conv;
  return c;
}

Convention huggingface() {
  Convention c;
  c.name = "huggingface";
  c.source = "transformers modeling_qwen3_next.py, torch_chunk_gated_delta_rule";
  c.remark = "q and k arrive with Hv heads, each key head repeated for its value heads";
  c.batch = {BatchKind::equal_lengths, ""};
  c.token_dtypes = kAnyType;
  c.state_dtypes = kFloat32;
  c.query = {"query", {sequence, time, value_heads, key_dim}};
  c.key = {"key", {sequence, time, value_heads, key_dim}};
  c.value = {"value", {sequence, time, value_heads, value_dim}};
  c.norm = {NormPlace::in_kernel_by_flag, NormRule::epsilon_added, 1e-6, "use_qk_l2norm_in_kernel"};
  c.scale = ScaleRule::fixed;
  c.gate = {"g", {sequence, time, value_heads}};
  c.beta = {"beta", {sequence, time, value_heads}};
  c.initial_state = {"initial_state", {row, value_heads, key_dim, value_dim}};
  c.final_state_optional = true;
  c.output = {"core_attn_out", {sequence, time, value_heads, value_dim}};
  c.final_state = {"last_recurrent_state", {row, value_heads, key_dim, value_dim}};
  Convolution conv;
  conv.source = "transformers modeling_qwen3_next.py, torch_causal_conv1d_update";
  conv.batch = c.batch;
  conv.token_dtypes = kAnyType;
  conv.state_dtypes = kAnyType;
  conv.input = {"hidden_states", {sequence, channels, time}};
  conv.weight = {"weight", {channels, tap}};
  conv.bias = "bias";
  conv.window = {"conv_state", {row, channels, window}};
  conv.output = {"out", {sequence, channels, time}};
  conv.new_window = conv.window;
  conv.unused_window = 1;
  c.convolution = conv;
  return c;
}

Convention fla() {
  Convention c;
  c.name = "fla";
  c.source = "flash-linear-attention fla.ops.gated_delta_rule.chunk_gated_delta_rule";
  c.batch = {BatchKind::either, "cu_seqlens"};
  c.token_dtypes = kAnyType;
  c.state_dtypes = kFloat32;
  c.query = {"q", {sequence, time, key_heads, key_dim}};
  c.key = {"k", {sequence, time, key_heads, key_dim}};
  c.value = {"v", {sequence, time, value_heads, value_dim}};
  c.norm = {NormPlace::in_kernel_by_flag, NormRule::epsilon_added, 1e-6, "use_qk_l2norm_in_kernel"};
  c.scale = ScaleRule::argument;
  c.gate = {"g", {sequence, time, value_heads}};
  c.beta = {"beta", {sequence, time, value_heads}};
  c.initial_state = {"initial_state", {row, value_heads, key_dim, value_dim}};
  c.final_state_optional = true;
  c.output = {"o", {sequence, time, value_heads, value_dim}};
  c.final_state = {"final_state", {row, value_heads, key_dim, value_dim}};
  Convolution conv;
  conv.source = "flash-linear-attention fla.modules.convolution.causal_conv1d";
  conv.batch = c.batch;
  conv.token_dtypes = kAnyType;
  conv.state_dtypes = kAnyType;
  conv.input = {"x", {sequence, time, channels}};
  conv.weight = {"weight", {channels, tap}};
  conv.bias = "bias";
  conv.window = {"initial_state", {row, channels, window}};
  conv.output = {"y", {sequence, time, channels}};
  conv.new_window = {"final_state", {row, channels, window}};
  conv.unused_window = 1;
  c.convolution = conv;
  return c;
}

Convention flashinfer_prefill() {
  Convention c;
  c.name = "flashinfer-prefill";
  c.source = "flashinfer gdn_prefill.py, chunk_gated_delta_rule";
  c.remark = "g is alpha itself; scale 0 means the default; use_qk_l2norm_in_kernel does nothing";
  c.batch = {BatchKind::ragged, "cu_seqlens"};
  c.slots = {"state_indices", false, 0, {}};
  c.token_dtypes = k16Bit;
  c.state_dtypes = kAnyType;
  c.query = {"q", {token, key_heads, key_dim}};
  c.key = {"k", {token, key_heads, key_dim}};
  c.value = {"v", {token, value_heads, value_dim}};
  c.norm = {NormPlace::before_flag_ignored, NormRule::epsilon_added, 1e-6,
            "use_qk_l2norm_in_kernel"};
  c.scale = ScaleRule::argument_zero_is_default;
  c.gate_encoding = GateEncoding::decay;
  c.gate = {"g", {token, value_heads}};
  c.beta = {"beta", {token, value_heads}};
  c.initial_state = {"initial_state", {row, value_heads, value_dim, key_dim}};
  c.final_state_optional = true;
  c.output = {"output", {token, value_heads, value_dim}};
  c.final_state = {"output_state", {row, value_heads, value_dim, key_dim}};
  return c;
}

Convention flashinfer_decode() {
  Convention c;
  c.name = "flashinfer-decode";
  c.source = "flashinfer gdn_decode.py, gated_delta_rule_decode_pretranspose, one token";
  c.remark = "a and b are raw logits in the token dtype";
  c.batch = {BatchKind::one_token, ""};
  // With a bfloat16 state, index -1 reads and overwrites row 0 and leaves its output undefined.
  c.slots = {"initial_state_indices", false, 0, kFloat32};
  c.token_dtypes = k16Bit;
  c.state_dtypes = {DType::float32, DType::bfloat16};
  c.gates_in_token_dtype = true;
  c.query = {"q", {sequence, time, key_heads, key_dim}};
  c.key = {"k", {sequence, time, key_heads, key_dim}};
  c.value = {"v", {sequence, time, value_heads, value_dim}};
  c.norm = {NormPlace::in_kernel_by_flag, NormRule::epsilon_added, 1e-6, "use_qk_l2norm", true};
  c.scale = ScaleRule::argument;
  c.gate_encoding = GateEncoding::logits;
  c.gate = {"a", {sequence, time, value_heads}};
  c.A_log = "A_log";
  c.dt_bias = "dt_bias";
  c.beta_encoding = BetaEncoding::logit;
  c.beta = {"b", {sequence, time, value_heads}};
  c.initial_state = {"initial_state", {row, value_heads, value_dim, key_dim}};
  c.initial_state_required = true;
  c.output = {"output", {sequence, time, value_heads, value_dim}};
  c.final_state = c.initial_state;
  return c;
}

Convention ggml() {
  Convention c;
  c.name = "ggml";
  c.source = "ggml.h, ggml_gated_delta_net, one state snapshot (K = 1)";
  c.remark = "value head h reads key head h % Hk; attention scores and state lie in one tensor";
  c.batch = {BatchKind::equal_lengths, ""};
  c.token_dtypes = kFloat32;
  c.state_dtypes = kFloat32;
  c.query = {"q", {sequence, time, key_heads, key_dim}};
  c.key = {"k", {sequence, time, key_heads, key_dim}};
  c.value = {"v", {sequence, time, value_heads, value_dim}};
  c.heads = HeadMap::tiled;
  c.norm = {NormPlace::before, NormRule::epsilon_as_floor, 1e-6, "l2_norm_eps"};
  c.scale = ScaleRule::fixed;
  c.gate = {"g", {sequence, time, value_heads, one}};
  c.beta = {"beta", {sequence, time, value_heads, one}};
  c.initial_state = {"state", {row, value_heads, value_dim, key_dim}};
  c.initial_state_required = true;
  c.square_state = true;
  c.output = {"dst", {sequence, time, value_heads, value_dim}};
  c.final_state = {"dst", {row, value_heads, value_dim, key_dim}};
  c.packed_outputs = "dst";
  Convolution conv;
  conv.source = "ggml.h, ggml_ssm_conv";
  conv.batch = c.batch;
  conv.token_dtypes = kFloat32;
  conv.state_dtypes = kFloat32;
  conv.input = {"sx", {sequence, channels, time}};
  conv.weight = {"c", {channels, tap}};
  conv.activation = ActivationRule::none;
  conv.output = {"dst", {sequence, time, channels}};
  conv.new_window = {"conv_states", {row, channels, window}};
  c.convolution = conv;
  return c;
}

Convention mlx_native() {
  Convention c;
  c.name = "mlx-native";
  c.source = "mlx-native src/ops/gated_delta_net.rs, dispatch_gated_delta_net";
  c.remark = "g is -ln alpha; q arrives scaled; the shader's head map is tiled (its text: grouped)";
  c.batch = {BatchKind::equal_lengths, ""};
  c.token_dtypes = kFloat32;
  c.state_dtypes = kFloat32;
  c.query = {"q", {sequence, time, key_heads, key_dim}};
  c.key = {"k", {sequence, time, key_heads, key_dim}};
  c.value = {"v", {sequence, time, value_heads, value_dim}};
  c.heads = HeadMap::tiled;
  c.norm = {NormPlace::before, NormRule::epsilon_added, 1e-6, "l2_norm_eps"};
  c.scale = ScaleRule::by_caller;
  c.gate_encoding = GateEncoding::neg_log_decay;
  c.gate = {"g", {sequence, time, value_heads}};
  c.beta = {"beta", {sequence, time, value_heads}};
  c.initial_state = {"state_in", {row, value_heads, value_dim, key_dim}};
  c.initial_state_required = true;
  c.output = {"output", {sequence, time, value_heads, value_dim}};
  c.final_state = {"state_out", {row, value_heads, value_dim, key_dim}};
  Convolution conv;
  conv.source = "mlx-native src/ops/ssm_conv.rs, dispatch_ssm_conv";
  conv.batch = c.batch;
  conv.token_dtypes = {DType::float32, DType::bfloat16};
  conv.state_dtypes = {DType::float32, DType::bfloat16};
  conv.input = {"x", {sequence, time, channels}};
  conv.weight = {"kernel_w", {channels, tap}};
  conv.activation = ActivationRule::silu;
  conv.window = {"state", {row, channels, window}};
  conv.output = {"y", {sequence, time, channels}};
  conv.new_window = {"new_state", {row, channels, window}};
  c.convolution = conv;
  return c;
}

Convention vllm() {
  Convention c;
  c.name = "vllm";
  c.source = "vLLM layers/fla/ops/fused_recurrent.py, fused_recurrent_gated_delta_rule";
  c.remark = "row 0 of every pool is the null block: indices to it are padding sequences";
  c.batch = {BatchKind::either, "cu_seqlens"};
  c.slots = {"ssm_state_indices", true, 1, kAnyType};
  c.token_dtypes = kAnyType;
  c.state_dtypes = kAnyType;
  c.query = {"q", {sequence, time, key_heads, key_dim}};
  c.key = {"k", {sequence, time, key_heads, key_dim}};
  c.value = {"v", {sequence, time, value_heads, value_dim}};
  c.norm = {NormPlace::in_kernel_by_flag, NormRule::epsilon_added, 1e-6, "use_qk_l2norm_in_kernel"};
  c.scale = ScaleRule::argument;
  c.gate = {"g", {sequence, time, value_heads}};
  c.beta = {"beta", {sequence, time, value_heads}};
  c.initial_state = {"initial_state", {row, value_heads, value_dim, key_dim}};
  c.initial_state_required = true;
  c.output = {"o", {sequence, time, value_heads, value_dim}};
  c.final_state = {"final_state", {row, value_heads, value_dim, key_dim}};
  Convolution conv;
  conv.source = "vLLM mamba/ops/causal_conv1d.py, causal_conv1d_fn, has_initial_state all true";
  conv.batch = {BatchKind::ragged, "query_start_loc"};
  conv.slots = {"cache_indices", true, 1, kAnyType};
  conv.token_dtypes = kAnyType;
  conv.state_dtypes = kAnyType;
  conv.input = {"x", {channels, token}};
  conv.weight = {"weight", {channels, tap}};
  conv.bias = "bias";
  conv.window = {"conv_states", {row, channels, window}};
  conv.output = {"out", {channels, token}};
  conv.new_window = conv.window;
  c.convolution = conv;
  return c;
}

}  // namespace

const std::vector<Convention>& all_conventions() {
  static const std::vector<Convention> conventions = {
      max(),  huggingface(), fla(),  flashinfer_prefill(), flashinfer_decode(),
      ggml(), mlx_native(),  vllm(),
  };
  return conventions;
}

const Convention& find_convention(const std::string& name) {
  std::vector<std::string> names;
  for (const Convention& convention : all_conventions()) {
    if (convention.name == name) return convention;
    names.push_back(convention.name);
  }
  throw_bad_input("convention '" + name + "' is not known (did you mean '" +
                  nearest_name(name, names) + "'?)");
}

}  // namespace gdn::conventions
