# One line per operation, in the order they are listed. An operation NAME is
#   interface/operations/NAME.cpp     its operands:                  NAME_operation()
#   reference/operations/NAME.cpp     the oracle and its limits:     reference::NAME_reference()
#   harness/operations/NAME.cpp       inputs, work, suites, checks:  NAME_harness()
# and its implementations under impls/BACKEND/NAME (implementations.cmake).
gdn_operation(gated_delta)
gdn_operation(causal_conv1d)
gdn_operation(gated_delta_layer)
gdn_operation(gated_rms_norm)
gdn_operation(gated_delta_verify)
gdn_operation(gated_delta_ring)
gdn_operation(gated_delta_backward)
gdn_operation(causal_conv1d_backward)
gdn_operation(gated_rms_norm_backward)
