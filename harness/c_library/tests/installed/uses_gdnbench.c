/* The installed library: its version, and one token on the CPU. With k = q = e0, a decay of a half, beta = 1/4, a state
 * of 3 and a value of 2, the output is 3/2 + (2 - 3/2) / 4. */
#include <gdnbench.h>
#include <stdio.h>

int main(void) {
  float query[16] = {1}, key[16] = {1}, value[16], output[16] = {0}, state[16 * 16];
  float log_decay = -0.69314718f, beta = 0.25f;
  int64_t offsets[2] = {0, 1};
  gdnbench_array arrays[8] = {
      {.operand = "q", .read = query},
      {.operand = "k", .read = key},
      {.operand = "v", .read = value},
      {.operand = "log_decay", .read = &log_decay},
      {.operand = "beta", .read = &beta},
      {.operand = "sequence_offsets", .read = offsets},
      {.operand = "initial_state", .read = state, .written = state},
      {.operand = "output", .written = output},
  };
  gdnbench_plan* plan = NULL;
  int i;
  for (i = 0; i < 16; ++i) value[i] = 2;
  for (i = 0; i < 16 * 16; ++i) state[i] = 3;
  if (gdnbench_plan_create("cpu/naive",
                           "gated_delta:heads=1/1,dim=16x16,seq=1x1,dtype=f32,h0=normal,scale=1",
                           NULL, 0, "cpu", NULL, arrays, 8, 0, &plan) != GDNBENCH_OK ||
      gdnbench_plan_run(plan) != GDNBENCH_OK) {
    printf("%s\n", gdnbench_last_error());
    return 1;
  }
  gdnbench_plan_destroy(plan);
  printf("interface %d of %d, output %.4f\n", gdnbench_abi_version(), GDNBENCH_ABI_VERSION,
         output[5]);
  return 0;
}
