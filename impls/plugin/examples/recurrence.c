/* The gated delta rule as a plug-in in C: the equations of docs/contract.md, section 1.1, token by token, on a
 * CPU and in float32.
 *
 *     cc -O2 -shared -fPIC recurrence.c -o librecurrence.so -lm $(pkg-config --cflags gdnbench)
 *     gdnbench verify --plugin librecurrence.so
 *
 * It shows what every plug-in has to do: look its arrays up by name, walk them by the strides it is given,
 * refuse in words what it does not do, and keep what it needs beside them in the workspace. */
#include <gdnbench_plugin.h>
#include <math.h>
#include <stdio.h>

/* One number of an array: all its dimensions have a stride. */
static const float* at(const gdnbench_array* array, int64_t first, int64_t second) {
  return (const float*)array->read + first * array->strides[0] + second * array->strides[1];
}

static gdnbench_status supports(const gdnbench_plugin_problem* problem,
                                gdnbench_plugin_message* message) {
  if (gdnbench_plugin_field_is(problem, "dtype", "f32")) return GDNBENCH_OK;
  snprintf(message->text, sizeof message->text, "dtype=%s, expected f32",
           gdnbench_plugin_field(problem, "dtype"));
  return GDNBENCH_UNSUPPORTED;
}

/* A state where the problem has none to write, and r of one head. */
static int64_t workspace_bytes(const gdnbench_plugin_problem* problem) {
  return (int64_t)sizeof(float) * (problem->key_head_dim + 1) * problem->value_head_dim;
}

static gdnbench_status enqueue(const gdnbench_plugin_problem* problem, const gdnbench_array* arrays,
                               int64_t num_arrays, void* workspace, void* stream,
                               gdnbench_plugin_message* message) {
  const gdnbench_array* const query = gdnbench_plugin_array(arrays, num_arrays, "q");
  const gdnbench_array* const key = gdnbench_plugin_array(arrays, num_arrays, "k");
  const gdnbench_array* const value = gdnbench_plugin_array(arrays, num_arrays, "v");
  const gdnbench_array* const log_decay = gdnbench_plugin_array(arrays, num_arrays, "log_decay");
  const gdnbench_array* const beta = gdnbench_plugin_array(arrays, num_arrays, "beta");
  const gdnbench_array* const pool = gdnbench_plugin_array(arrays, num_arrays, "initial_state");
  const gdnbench_array* const output = gdnbench_plugin_array(arrays, num_arrays, "output");
  const gdnbench_array* const starts =
      gdnbench_plugin_array(arrays, num_arrays, "sequence_offsets");
  const int64_t Dk = problem->key_head_dim, Dv = problem->value_head_dim;
  const int64_t group = problem->num_value_heads / problem->num_key_heads;
  const int64_t* offsets;
  int64_t n, h, t, i, j;
  (void)stream;
  if (!query || !key || !value || !log_decay || !beta || !output || !starts) {
    snprintf(message->text, sizeof message->text, "an array is missing");
    return GDNBENCH_BAD_INPUT;
  }
  offsets = (const int64_t*)starts->read;
  for (n = 0; n < problem->num_sequences; ++n) {
    if (offsets[n] == offsets[n + 1]) continue; /* its state stays as it is */
    for (h = 0; h < problem->num_value_heads; ++h) {
      float* const r = (float*)workspace;
      float* S = r + Dv;
      /* `read` is set where the problem has an initial state, `written` where it asks for the final one. */
      if (pool && pool->written) {
        S = (float*)pool->written + n * pool->strides[0] + h * pool->strides[1];
      }
      if (!pool || !pool->read) {
        for (i = 0; i < Dk * Dv; ++i) S[i] = 0;
      } else if (!pool->written) {
        const float* const start = at(pool, n, h);
        for (i = 0; i < Dk * Dv; ++i) S[i] = start[i];
      }
      for (t = offsets[n]; t < offsets[n + 1]; ++t) {
        const float* const q = at(query, t, h / group);
        const float* const k = at(key, t, h / group);
        const float* const v = at(value, t, h);
        const float alpha = expf(*at(log_decay, t, h)); /* 0 of -inf: a full reset */
        const float b = *at(beta, t, h);
        float* const o = (float*)output->written + t * output->strides[0] + h * output->strides[1];
        for (i = 0; i < Dk * Dv; ++i) S[i] *= alpha;
        for (j = 0; j < Dv; ++j) r[j] = v[j];
        for (i = 0; i < Dk; ++i) {
          for (j = 0; j < Dv; ++j) r[j] -= S[i * Dv + j] * k[i];
        }
        for (i = 0; i < Dk; ++i) {
          for (j = 0; j < Dv; ++j) S[i * Dv + j] += b * k[i] * r[j];
        }
        for (j = 0; j < Dv; ++j) o[j] = 0;
        for (i = 0; i < Dk; ++i) {
          for (j = 0; j < Dv; ++j) o[j] += S[i * Dv + j] * q[i];
        }
        for (j = 0; j < Dv; ++j) o[j] *= (float)problem->scale;
      }
    }
  }
  return GDNBENCH_OK;
}

static const gdnbench_plugin_implementation kImplementations[] = {{
    "cpu/recurrence_in_c",
    "gated_delta",
    "cpu",
    "the equations as plain loops in C, an example of a plug-in",
    "h0,ht,scale",
    1, /* is_repeatable */
    1, /* is_batch_invariant */
    supports,
    workspace_bytes,
    enqueue,
}};

const gdnbench_plugin* gdnbench_plugin_v1(void) {
  static const gdnbench_plugin table = {
      GDNBENCH_PLUGIN_VERSION, sizeof(gdnbench_plugin_implementation), 1, kImplementations};
  return &table;
}
