# One line per implementation: the file that defines it, then further sources it is made of.
# cpu/gated_delta/naive.cpp defines cpu_gated_delta_naive().
gdn_implementation(cpu/gated_delta/naive.cpp)
gdn_implementation(cpu/gated_delta/recurrent.cpp)
gdn_implementation(cpu/gated_delta/chunkwise.cpp)
gdn_implementation(cpu/causal_conv1d/direct.cpp)
gdn_implementation(cpu/gated_delta_layer/naive.cpp)
gdn_implementation(cpu/gated_delta_layer/recurrent.cpp)
gdn_implementation(cpu/gated_delta_layer/chunkwise.cpp)
gdn_implementation(cuda/gated_delta/fused_sm90.cu)
gdn_implementation(cuda/gated_delta/naive.cu)
gdn_implementation(cuda/gated_delta/recurrent.cu)
gdn_implementation(cuda/gated_delta/recurrent_staged.cu)
gdn_implementation(cuda/causal_conv1d/direct.cu)
