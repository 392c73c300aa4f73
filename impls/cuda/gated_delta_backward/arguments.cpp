#include "cuda/gated_delta_backward/arguments.cuh"

#include "cuda/gated_delta/arguments.cuh"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::GDN_CUDA_TARGET {

BackwardParams make_backward_params(const Problem& problem, const Arguments& arguments) {
  const GatedDeltaBackwardArguments given = gated_delta_backward_arguments(problem, arguments);
  GatedDeltaArguments forward = given.forward;
  forward.output = given.d_value;
  BackwardParams b;
  b.forward = make_params(problem, forward);
  b.token_dtype = problem.token_dtype;
  b.d_output = given.d_output;
  b.d_output_token_stride = given.d_output_token_stride;
  b.d_final = b.d_initial = b.forward.pool;
  b.d_final.data = const_cast<void*>(given.d_final_state);
  b.d_final.read = problem.final_state;
  b.d_initial.data = given.d_initial_state;
  b.d_initial.write = true;  // with ht=0 too
  b.d_query = given.d_query;
  b.d_key = given.d_key;
  b.d_gate = given.d_gate;
  b.d_beta = given.d_beta;
  b.d_A_log = given.d_A_log;
  b.d_dt_bias = given.d_dt_bias;
  return b;
}

}  // namespace gdn::GDN_CUDA_TARGET
