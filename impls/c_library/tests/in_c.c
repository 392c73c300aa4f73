/* The library from C: one token by hand, and the errors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "c_library/gdnbench.h"

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("FAILED: %s (last error: %s)\n", what, gdnbench_last_error());
}

/* S = 0.5 S0 (1 + beta k k^T corrected), one head of 16 x 16 with k = q = e0, v = all 2: row 0 of
 * the state becomes 0.5 s + beta (2 - 0.5 s), and the output is that row (scale 1). */
static void one_token_by_hand(void) {
  float query[16] = {1}, key[16] = {1}, value[16], output[16];
  float state[16 * 16];
  float log_decay = logf(0.5f), beta = 0.25f;
  int64_t offsets[2] = {0, 1};
  gdnbench_arguments a;
  gdnbench_plan* plan = NULL;
  gdnbench_plan_details details;
  double exact[16];
  double final_state[16 * 16];
  int i;
  const char* problem = "gated_delta:heads=1/1,dim=16x16,seq=1x1,dtype=f32,h0=normal,scale=1";
  for (i = 0; i < 16; ++i) value[i] = 2;
  for (i = 0; i < 256; ++i) state[i] = 3;
  memset(&a, 0, sizeof a);
  a.query = query;
  a.key = key;
  a.value = value;
  a.gate = &log_decay;
  a.beta = &beta;
  a.sequence_offsets = offsets;
  a.state_pool = state;
  a.output = output;
  expect(gdnbench_reference_float64(problem, NULL, 0, "cpu", NULL, &a, exact, final_state) ==
             GDNBENCH_OK,
         "the reference runs");
  expect(fabs(exact[5] - 1.625) < 1e-7 && fabs(final_state[5] - 1.625) < 1e-7 &&
             fabs(final_state[16 * 7] - 1.5) < 1e-7,
         "the reference's output and state are those computed by hand");
  expect(state[0] == 3, "the reference leaves the state pool");
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, &a, &plan) == GDNBENCH_OK,
         "a plan is made");
  expect(gdnbench_plan_info(plan, &details) == GDNBENCH_OK && details.choice != NULL,
         "a plan says what it chose");
  expect(gdnbench_plan_run(plan) == GDNBENCH_OK, "a plan runs");
  expect(fabsf(output[5] - 1.625f) < 1e-6f && fabsf(state[5] - 1.625f) < 1e-6f &&
             fabsf(state[16 * 7] - 1.5f) < 1e-6f,
         "output and state are those computed by hand");
  gdnbench_plan_destroy(plan);
  gdnbench_plan_destroy(NULL);

  a.value = NULL;
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, &a, &plan) ==
             GDNBENCH_BAD_INPUT,
         "a missing array is bad input");
  expect(plan == NULL, "no plan is handed out after an error");
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", &a, &a, &plan) ==
             GDNBENCH_BAD_INPUT,
         "a stream on the CPU is bad input");
}

int main(void) {
  gdnbench_plan_details details;
  expect(gdnbench_abi_version() == GDNBENCH_ABI_VERSION, "header and library are of one version");
  expect(gdnbench_implementation_name(0) != NULL, "there are implementations");
  expect(gdnbench_implementation_name(-1) == NULL && gdnbench_implementation_name(1000) == NULL,
         "no names outside of the list");
  expect(gdnbench_supports(NULL, "gated_delta:") == GDNBENCH_BAD_INPUT, "a null name is bad input");
  expect(gdnbench_supports("cpu/naive", NULL) == GDNBENCH_BAD_INPUT, "a null problem is bad input");
  expect(gdnbench_plan_run(NULL) == GDNBENCH_BAD_INPUT, "a null plan is bad input");
  expect(gdnbench_plan_info(NULL, &details) == GDNBENCH_BAD_INPUT, "a null plan has no info");
  expect(strstr(gdnbench_last_error(), "plan") != NULL, "the error names the argument");
  one_token_by_hand();
  if (failures == 0) printf("ok\n");
  return failures == 0 ? 0 : 1;
}
