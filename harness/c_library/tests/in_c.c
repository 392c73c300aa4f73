/* The library from C: one token by hand, and the errors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/c_library/gdnbench.h"

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("FAILED: %s (last error: %s)\n", what, gdnbench_last_error());
}

/* The same token with offsets of 32 bits, which kernels read, and values of 16, which this one does not. */
static void narrow_arrays_are_read_or_converted(const gdnbench_array* arrays, const char* problem,
                                                float* state, float* output) {
  gdnbench_array narrow[8];
  gdnbench_plan* plan = NULL;
  gdnbench_plan_details details;
  int32_t offsets[2] = {0, 1};
  uint16_t value[16];
  int i;
  memcpy(narrow, arrays, sizeof narrow);
  narrow[5].read = offsets;
  narrow[5].dtype = "int32";
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, narrow, 8,
                              GDNBENCH_REFUSE_CONVERSIONS, &plan) == GDNBENCH_OK &&
             gdnbench_plan_info(plan, &details) == GDNBENCH_OK &&
             strcmp(details.conversions, "") == 0 && details.conversion_bytes == 0,
         "offsets of 32 bits are read where they lie");
  gdnbench_plan_destroy(plan);
  for (i = 0; i < 16; ++i) value[i] = 0x4000; /* 2, as bfloat16 */
  narrow[2].read = value;
  narrow[2].dtype = "bf16";
  for (i = 0; i < 256; ++i) state[i] = 3;
  output[5] = 0;
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, narrow, 8,
                              GDNBENCH_REFUSE_CONVERSIONS, &plan) == GDNBENCH_UNSUPPORTED &&
             strstr(gdnbench_last_error(), "v: bf16") != NULL,
         "a conversion that is refused is named");
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, narrow, 8, 0, &plan) ==
                 GDNBENCH_OK &&
             gdnbench_plan_info(plan, &details) == GDNBENCH_OK &&
             strcmp(details.conversions, "v: bf16") == 0 && details.conversion_bytes == 64,
         "a conversion that is made is named too");
  expect(gdnbench_plan_run(plan) == GDNBENCH_OK && fabsf(output[5] - 1.625f) < 1e-6f &&
             fabsf(state[5] - 1.625f) < 1e-6f,
         "values and offsets are understood");
  gdnbench_plan_destroy(plan);
}

/* S = 0.5 S0 (1 + beta k k^T corrected), one head of 16 x 16 with k = q = e0, v = all 2: row 0 of
 * the state becomes 0.5 s + beta (2 - 0.5 s), and the output is that row (scale 1). */
static void one_token_by_hand(void) {
  float query[16] = {1}, key[16] = {1}, value[16], output[16];
  float state[16 * 16];
  float log_decay = logf(0.5f), beta = 0.25f;
  int64_t offsets[2] = {0, 1};
  gdnbench_array arrays[7] = {{.operand = "q"},
                              {.operand = "k"},
                              {.operand = "v"},
                              {.operand = "log_decay"},
                              {.operand = "beta"},
                              {.operand = "sequence_offsets"},
                              {.operand = "initial_state"}};
  gdnbench_array with_output[8];
  gdnbench_plan* plan = NULL;
  gdnbench_plan_details details;
  double exact[16];
  double final_state[16 * 16];
  int i;
  const char* problem = "gated_delta:heads=1/1,dim=16x16,seq=1x1,dtype=f32,h0=normal,scale=1";
  for (i = 0; i < 16; ++i) value[i] = 2;
  for (i = 0; i < 256; ++i) state[i] = 3;
  arrays[0].read = query;
  arrays[1].read = key;
  arrays[2].read = value;
  arrays[3].read = &log_decay;
  arrays[4].read = &beta;
  arrays[5].read = offsets;
  arrays[6].read = state;
  memcpy(with_output, arrays, sizeof arrays);
  memset(&with_output[7], 0, sizeof with_output[7]);
  with_output[7].operand = "output";
  with_output[6].written = final_state;
  with_output[7].written = exact;
  expect(gdnbench_reference_float64(problem, NULL, 0, "cpu", NULL, with_output, 8) == GDNBENCH_OK,
         "the reference runs");
  expect(fabs(exact[5] - 1.625) < 1e-7 && fabs(final_state[5] - 1.625) < 1e-7 &&
             fabs(final_state[16 * 7] - 1.5) < 1e-7,
         "the reference's output and state are those computed by hand");
  expect(state[0] == 3, "the reference leaves the state pool");
  expect(gdnbench_reference_float64(problem, NULL, 0, "cpu", NULL, arrays, 7) == GDNBENCH_BAD_INPUT,
         "a reference that nobody takes is bad input");
  with_output[6].written = state;
  expect(gdnbench_reference_float64(problem, NULL, 0, "cpu", NULL, with_output, 8) ==
             GDNBENCH_BAD_INPUT,
         "doubles are not written over floats");
  with_output[7].written = output;
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, with_output, 8, 0,
                              &plan) == GDNBENCH_OK,
         "a plan is made");
  expect(gdnbench_plan_info(plan, &details) == GDNBENCH_OK && details.choice != NULL &&
             strcmp(details.implementation, "cpu/naive") == 0 && details.reason[0] == 0,
         "a plan says what it chose");
  expect(gdnbench_plan_run(plan) == GDNBENCH_OK, "a plan runs");
  expect(fabsf(output[5] - 1.625f) < 1e-6f && fabsf(state[5] - 1.625f) < 1e-6f &&
             fabsf(state[16 * 7] - 1.5f) < 1e-6f,
         "output and state are those computed by hand");
  gdnbench_plan_destroy(plan);
  gdnbench_plan_destroy(NULL);

  expect(gdnbench_plan_create(NULL, problem, NULL, 0, "cpu", NULL, with_output, 8, 0, &plan) ==
                 GDNBENCH_OK &&
             gdnbench_plan_info(plan, &details) == GDNBENCH_OK && details.implementation[0] != 0 &&
             details.reason[0] != 0,
         "without a name the library chooses and says why");
  gdnbench_plan_destroy(plan);

  narrow_arrays_are_read_or_converted(with_output, problem, state, output);
  with_output[2].dtype = "f64";
  expect(gdnbench_plan_create(NULL, problem, NULL, 0, "cpu", NULL, with_output, 8, 0, &plan) ==
                 GDNBENCH_BAD_INPUT &&
             strstr(gdnbench_last_error(), "v: 'f64' is no element type") != NULL,
         "a type that there is not is bad input");
  with_output[2].dtype = NULL;
  expect(gdnbench_plan_create(NULL, problem, NULL, 0, "cpu", NULL, with_output, 8, 2, &plan) ==
             GDNBENCH_BAD_INPUT,
         "a flag that there is not is bad input");
  with_output[2].read = NULL;
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, with_output, 8, 0,
                              &plan) == GDNBENCH_BAD_INPUT,
         "a missing array is bad input");
  expect(plan == NULL, "no plan is handed out after an error");
  with_output[2].read = value;
  with_output[1].operand = "q";
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, with_output, 8, 0,
                              &plan) == GDNBENCH_BAD_INPUT,
         "an array given twice is bad input");
  with_output[1].operand = NULL;
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", NULL, with_output, 8, 0,
                              &plan) == GDNBENCH_BAD_INPUT,
         "an array without a name is bad input");
  with_output[1].operand = "k";
  expect(gdnbench_plan_create("cpu/naive", problem, NULL, 0, "cpu", state, with_output, 8, 0,
                              &plan) == GDNBENCH_BAD_INPUT,
         "a stream on the CPU is bad input");
}

/* Every operation describes its arrays; the first has those of the gated delta rule. */
static void operands_are_described(void) {
  gdnbench_operand operand;
  const char* problem = "gated_delta:heads=2/4,dim=16x32,seq=3+5,dtype=bf16,layout=vk";
  const char* implementation = NULL;
  const char* reason = NULL;
  int i;
  expect(gdnbench_operand_of(problem, NULL, 0, 0, &operand) == GDNBENCH_OK &&
             strcmp(operand.name, "q") == 0 && strcmp(operand.dtype, "bf16") == 0 &&
             strcmp(operand.role, "input") == 0 && operand.rank == 3 && operand.extents[0] == 8 &&
             operand.extents[1] == 2 && operand.extents[2] == 16 &&
             strcmp(operand.dimensions[1], "Hk") == 0,
         "the first operand is the query");
  for (i = 0; i < 100; ++i) {
    if (gdnbench_operand_of(problem, NULL, 0, i, &operand) != GDNBENCH_OK) break;
    if (operand.name == NULL || strcmp(operand.name, "initial_state") == 0) break;
  }
  expect(operand.name != NULL && strcmp(operand.name_after, "final_state") == 0 &&
             operand.extents[0] == 2 && operand.extents[2] == 32 && operand.extents[3] == 16 &&
             operand.is_written && !operand.is_read,
         "the state is in the layout of the problem, and not read without h0");
  expect(
      gdnbench_operand_of(problem, NULL, 0, 100, &operand) == GDNBENCH_OK && operand.name == NULL,
      "past the last operand there is none");
  for (i = 0; gdnbench_operation_name(i) != NULL; ++i) {
    expect(gdnbench_implementation_name(gdnbench_operation_name(i), 0) != NULL,
           "every operation has an implementation");
  }
  expect(i >= 3 && gdnbench_operation_name(-1) == NULL, "the operations are listed");
  expect(gdnbench_select("gated_delta:heads=1/1,dim=16,seq=8,dtype=f32", "cpu", &implementation,
                         &reason) == GDNBENCH_OK &&
             strncmp(implementation, "cpu/", 4) == 0 && strlen(reason) > 0,
         "the library chooses");
}

int main(void) {
  gdnbench_plan_details details;
  expect(gdnbench_abi_version() == GDNBENCH_ABI_VERSION, "header and library are of one version");
  expect(gdnbench_implementation_name("gated_delta", -1) == NULL &&
             gdnbench_implementation_name("gated_delta", 1000) == NULL &&
             gdnbench_implementation_name("gated_delt", 0) == NULL,
         "no names outside of the list");
  expect(gdnbench_supports(NULL, "gated_delta:") == GDNBENCH_BAD_INPUT, "a null name is bad input");
  expect(gdnbench_supports("cpu/naive", NULL) == GDNBENCH_BAD_INPUT, "a null problem is bad input");
  expect(gdnbench_plan_run(NULL) == GDNBENCH_BAD_INPUT, "a null plan is bad input");
  expect(gdnbench_plan_info(NULL, &details) == GDNBENCH_BAD_INPUT, "a null plan has no info");
  expect(strstr(gdnbench_last_error(), "plan") != NULL, "the error names the argument");
  one_token_by_hand();
  operands_are_described();
  if (failures == 0) printf("ok\n");
  return failures == 0 ? 0 : 1;
}
