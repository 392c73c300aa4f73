# One line per implementation: the file that defines it, then further sources it is made of. SM90A: its
# CUDA sources hold instructions that only Hopper has. SM90A_TOO: they hold some, and do without on other cards.
# cpu/gated_delta/naive.cpp defines gdn::cpu::gated_delta_naive().
gdn_implementation(cpu/gated_delta/naive.cpp)
gdn_implementation(cpu/gated_delta/recurrent.cpp)
gdn_implementation(cpu/gated_delta/chunkwise.cpp)
gdn_implementation(cpu/gated_delta_backward/naive.cpp)
gdn_implementation(cpu/gated_delta_backward/chunkwise.cpp)
gdn_implementation(cpu/gated_delta_training/naive.cpp)
gdn_implementation(cpu/gated_delta_training/chunkwise.cpp)
gdn_implementation(cpu/causal_conv1d/direct.cpp)
gdn_implementation(cpu/causal_conv1d_backward/direct.cpp)
gdn_implementation(cpu/gated_rms_norm/naive.cpp)
gdn_implementation(cpu/gated_rms_norm_backward/naive.cpp)
gdn_implementation(cpu/gated_delta_verify/records.cpp)
gdn_implementation(cpu/gated_delta_verify/states.cpp)
gdn_implementation(cpu/gated_delta_ring/naive.cpp)
gdn_implementation(cpu/gated_delta_layer/naive.cpp)
gdn_implementation(cpu/gated_delta_layer/recurrent.cpp)
gdn_implementation(cpu/gated_delta_layer/chunkwise.cpp)
gdn_implementation(cpu/gated_delta_layer_backward/naive.cpp)
gdn_implementation(cpu/gated_delta_layer_backward/chunkwise.cpp)
gdn_implementation(cuda/gated_delta/fused_sm90/planned.cpp SM90A
  cuda/gated_delta/fused_sm90/implementation.cpp cuda/gated_delta/fused_sm90/planner.cpp
  cuda/gated_delta/fused_sm90/tensor_maps.cpp cuda/gated_delta/fused_sm90/prepare.cu
  cuda/gated_delta/fused_sm90/pieces.cu cuda/gated_delta/fused_sm90/chain.cu)
gdn_implementation(cuda/gated_delta/fused_sm90/invariant.cpp SM90A)
gdn_implementation(cuda/gated_delta/fused_sm90/one_launch.cu SM90A)
gdn_implementation(cuda/gated_delta/channel_sm90/planned.cpp SM90A
  cuda/gated_delta/channel_sm90/implementation.cpp cuda/gated_delta/channel_sm90/planner.cpp
  cuda/gated_delta/channel_sm90/kernel.cu cuda/gated_delta/channel_sm90/transitions.cu
  cuda/gated_delta/channel_sm90/chain.cu cuda/gated_delta/channel_sm90/pieces.cu
  cuda/gated_delta/channel_sm90/checkpoints.cu)
gdn_implementation(cuda/gated_delta/channel_sm90/invariant.cpp SM90A)
gdn_implementation(cuda/gated_delta/naive.cu)
gdn_implementation(cuda/gated_delta/recurrent.cu cuda/gated_delta/recurrent_variants.cu)
gdn_implementation(cuda/gated_delta/recurrent_staged.cu)
gdn_implementation(cuda/gated_delta/decode.cu SM90A_TOO cuda/gated_delta/decode_checkpoints.cu)
gdn_implementation(cuda/gated_delta/chunkwise.cpp
  cuda/gated_delta/chunk/chunk_map.cu cuda/gated_delta/chunk/step_rows.cu
  cuda/gated_delta/chunk/chunkwise_f32.cu cuda/gated_delta/chunk/chunkwise_bf16.cu
  cuda/gated_delta/chunk/chunkwise_f16.cu cuda/gated_delta/chunk/chunkwise_checkpoints.cu
  cuda/gated_delta/chunk/checkpoint_segments.cu)
gdn_implementation(cuda/gated_delta/fused.cpp
  cuda/gated_delta/chunk/fused_f32.cu cuda/gated_delta/chunk/fused_bf16.cu
  cuda/gated_delta/chunk/fused_f16.cu cuda/gated_delta/chunk/fused_checkpoints.cu)
gdn_implementation(cuda/gated_delta_backward/chunkwise_sm90.cpp SM90A
  cuda/gated_delta_backward/chunkwise_sm90/plan.cpp
  cuda/gated_delta_backward/chunkwise_sm90/planner.cpp
  cuda/gated_delta_backward/chunkwise_sm90/prepare.cu
  cuda/gated_delta_backward/chunkwise_sm90/chains.cu
  cuda/gated_delta_backward/chunkwise_sm90/gradients.cu
  cuda/gated_delta_backward/chunkwise_sm90/small_betas.cu)
gdn_implementation(cuda/gated_delta_backward/chunkwise_sm90_invariant.cpp SM90A)
gdn_implementation(cuda/gated_delta_backward/recurrent.cu)
gdn_implementation(cuda/gated_delta_backward/chunkwise.cpp
  cuda/gated_delta_backward/chunk/chunkwise_16.cu cuda/gated_delta_backward/chunk/chunkwise_32.cu
  cuda/gated_delta_backward/chunk/chunkwise_64.cu)
gdn_implementation(cuda/gated_delta_backward/chunkwise_two_level.cpp)
gdn_implementation(cuda/gated_delta_training/chunkwise_sm90.cpp)
gdn_implementation(cuda/gated_delta_training/chunkwise_sm90_invariant.cpp)
gdn_implementation(cuda/gated_delta_training/chunkwise_sm90_recomputed.cpp)
gdn_implementation(cuda/gated_delta_training/recurrent.cpp)
gdn_implementation(cuda/gated_delta_training/chunkwise.cpp)
gdn_implementation(cuda/gated_delta_verify/records.cu)
gdn_implementation(cuda/gated_delta_verify/chunkwise.cu
  cuda/gated_delta_verify/chunkwise_f32.cu cuda/gated_delta_verify/chunkwise_bf16.cu
  cuda/gated_delta_verify/chunkwise_f16.cu)
gdn_implementation(cuda/gated_delta_verify/states.cu)
gdn_implementation(cuda/gated_delta_ring/recurrent.cu)
gdn_implementation(cuda/gated_delta_ring/chunkwise.cu
  cuda/gated_delta_ring/chunkwise_f32.cu cuda/gated_delta_ring/chunkwise_bf16.cu)
gdn_implementation(cuda/causal_conv1d/direct.cpp)
gdn_implementation(cuda/causal_conv1d_backward/direct.cu)
gdn_implementation(cuda/gated_rms_norm/rows.cu SM90A_TOO)
gdn_implementation(cuda/gated_rms_norm_backward/rows.cu)
gdn_implementation(cuda/gated_delta_layer/naive.cpp)
gdn_implementation(cuda/gated_delta_layer/recurrent.cpp)
gdn_implementation(cuda/gated_delta_layer/recurrent_staged.cpp)
gdn_implementation(cuda/gated_delta_layer/decode.cpp)
gdn_implementation(cuda/gated_delta_layer/decode_one_launch.cu)
gdn_implementation(cuda/gated_delta_layer/fused.cpp)
gdn_implementation(cuda/gated_delta_layer/fused_sm90.cpp)
gdn_implementation(cuda/gated_delta_layer_backward/recurrent.cpp)
gdn_implementation(cuda/gated_delta_layer_backward/chunkwise.cpp)
gdn_implementation(cuda/gated_delta_layer_backward/chunkwise_sm90.cpp)
gdn_implementation(hip/gated_delta/naive.cpp)
gdn_implementation(hip/gated_delta/recurrent.cpp)
gdn_implementation(hip/gated_delta/recurrent_dpp.cpp)
gdn_implementation(hip/gated_delta/recurrent_shuffle.cpp)
gdn_implementation(hip/gated_delta/chunkwise.cpp)
gdn_implementation(hip/gated_delta/fused.cpp)
gdn_implementation(hip/gated_delta_backward/recurrent.cpp)
gdn_implementation(hip/gated_delta_backward/chunkwise.cpp)
gdn_implementation(hip/gated_delta_training/recurrent.cpp)
gdn_implementation(hip/gated_delta_training/chunkwise.cpp)
gdn_implementation(hip/gated_delta_verify/records.cpp)
gdn_implementation(hip/gated_delta_ring/recurrent.cpp)
gdn_implementation(hip/causal_conv1d/direct.cpp)
gdn_implementation(hip/causal_conv1d_backward/direct.cpp)
gdn_implementation(hip/gated_rms_norm/rows.cpp)
gdn_implementation(hip/gated_rms_norm_backward/rows.cpp)
gdn_implementation(hip/gated_delta_layer/naive.cpp)
gdn_implementation(hip/gated_delta_layer/recurrent.cpp)
gdn_implementation(hip/gated_delta_layer/chunkwise.cpp)
gdn_implementation(hip/gated_delta_layer/fused.cpp)
gdn_implementation(hip/gated_delta_layer_backward/recurrent.cpp)
gdn_implementation(hip/gated_delta_layer_backward/chunkwise.cpp)
