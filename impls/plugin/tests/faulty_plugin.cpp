// Plug-ins that are wrong, each in one way, for the tests of what becomes of them. FAULT chooses: below
// kFirstAtLoad a table of one implementation that misbehaves when it is called, from there on a library that
// cannot be used at all.
#include <plugin/gdnbench_plugin.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#define NONE 0
#define LATE_DECAY 1
#define OUT_OF_BOUNDS 2
#define CRASHES 3
#define HANGS 4
#define THROWS 5
#define FAILS 6
#define EXITS 7
#define SUPPORTS_CRASHES 8
#define SPOILED 9
#define OTHER_VERSION 20
#define LIES_ABOUT_VERSION 21
#define LIES_ABOUT_SIZE 22
#define NO_ENTRY 23
#define NO_TABLE 24
#define CRASHES_AT_LOAD 25
#define UNKNOWN_FIELD 26
#define TAKEN_NAME 27
#define OF_A_CARD 28

namespace {

[[maybe_unused]] void crash() {
  std::abort();  // also where a sanitizer would take a bad access for itself
}

gdnbench_status supports(const gdnbench_plugin_problem* problem, gdnbench_plugin_message* message) {
#if FAULT == SUPPORTS_CRASHES
  crash();
#endif
  if (gdnbench_plugin_field_is(problem, "dtype", "f32")) return GDNBENCH_OK;
  std::snprintf(message->text, sizeof message->text, "expected float32 tokens");
  return GDNBENCH_UNSUPPORTED;
}

std::int64_t workspace_bytes(const gdnbench_plugin_problem* problem) {
  return 4 * (problem->key_head_dim + 1) * problem->value_head_dim;
}

const float* row(const gdnbench_array* array, std::int64_t token, std::int64_t head) {
  return static_cast<const float*>(array->read) + token * array->strides[0] +
         head * array->strides[1];
}

gdnbench_status enqueue(const gdnbench_plugin_problem* problem, const gdnbench_array* arrays,
                        std::int64_t num_arrays, void* workspace, void*,
                        [[maybe_unused]] gdnbench_plugin_message* message) {
  std::puts("printed by a plug-in");
#if FAULT == CRASHES
  crash();
#elif FAULT == HANGS
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
#elif FAULT == THROWS
  throw std::runtime_error("thrown by a plug-in");
#elif FAULT == FAILS
  std::snprintf(message->text, sizeof message->text, "no tile fits\nthis card");
  return GDNBENCH_DEVICE_FAILURE;
#elif FAULT == EXITS
  std::_Exit(7);
#elif FAULT == SPOILED
  // Whatever this process is asked after such a problem goes wrong in the same way.
  static std::int64_t spoilt_by = 0;
  if (problem->key_head_dim == 5 || problem->key_head_dim == 6) spoilt_by = problem->key_head_dim;
  if (spoilt_by == 5) {
    std::snprintf(message->text, sizeof message->text, "the device is lost");
    return GDNBENCH_DEVICE_FAILURE;
  }
#endif
  const auto array = [&](const char* name) {
    return gdnbench_plugin_array(arrays, num_arrays, name);
  };
  const auto* const offsets = static_cast<const std::int64_t*>(array("sequence_offsets")->read);
  const gdnbench_array* const output = array("output");
  const gdnbench_array* const pool = array("initial_state");
  const std::int64_t Dk = problem->key_head_dim, Dv = problem->value_head_dim;
  const std::int64_t group = problem->num_value_heads / problem->num_key_heads;
  for (std::int64_t n = 0; n < problem->num_sequences; ++n) {
    for (std::int64_t h = 0; h < problem->num_value_heads; ++h) {
      auto* const r = static_cast<float*>(workspace);
      float* S = r + Dv;
      if (pool->written != nullptr) {
        S = static_cast<float*>(pool->written) + n * pool->strides[0] + h * pool->strides[1];
      }
      for (std::int64_t i = 0; i < Dk * Dv && offsets[n] < offsets[n + 1]; ++i) S[i] = 0;
      for (std::int64_t t = offsets[n]; t < offsets[n + 1]; ++t) {
        const float *k = row(array("k"), t, h / group), *v = row(array("v"), t, h);
        const float* q = row(array("q"), t, h / group);
        const float alpha = std::exp(*row(array("log_decay"), t, h));
        float before = alpha, after = 1;
#if FAULT == LATE_DECAY
        before = 1, after = alpha;
#elif FAULT == SPOILED
        if (spoilt_by == 6) before = 1, after = alpha;
#endif
        float* const o =
            static_cast<float*>(output->written) + t * output->strides[0] + h * output->strides[1];
        for (std::int64_t j = 0; j < Dv; ++j) r[j] = v[j];
        for (std::int64_t i = 0; i < Dk; ++i) {
          for (std::int64_t j = 0; j < Dv; ++j) r[j] -= (S[i * Dv + j] *= before) * k[i];
        }
        for (std::int64_t j = 0; j < Dv; ++j) o[j] = 0;
        for (std::int64_t i = 0; i < Dk; ++i) {
          for (std::int64_t j = 0; j < Dv; ++j) {
            S[i * Dv + j] = after * (S[i * Dv + j] + *row(array("beta"), t, h) * k[i] * r[j]);
            o[j] += static_cast<float>(problem->scale) * S[i * Dv + j] * q[i];
          }
        }
      }
    }
  }
#if FAULT == OUT_OF_BOUNDS
  static_cast<float*>(output->written)[problem->num_tokens * output->strides[0]] = 1;
#endif
  return GDNBENCH_OK;
}

#if FAULT == TAKEN_NAME
#define NAME "cpu/naive"
#elif FAULT == OF_A_CARD
#define NAME "cuda/of_the_tests"
#else
#define NAME "cpu/of_the_tests"
#endif
#if FAULT == OF_A_CARD
#define BACKEND "cuda"
#else
#define BACKEND "cpu"
#endif
#if FAULT == UNKNOWN_FIELD
#define HONOURS "nrom"
#else
#define HONOURS "ht"
#endif

const gdnbench_plugin_implementation kImplementation = {
    NAME,     "gated_delta",   BACKEND, "a plug-in of the tests", HONOURS, 1, 1,
    supports, workspace_bytes, enqueue};

[[maybe_unused]] const gdnbench_plugin kTable = {
    FAULT == LIES_ABOUT_VERSION ? 2 : GDNBENCH_PLUGIN_VERSION,
    static_cast<std::int32_t>(sizeof kImplementation) - (FAULT == LIES_ABOUT_SIZE ? 8 : 0), 1,
    &kImplementation};

#if FAULT == CRASHES_AT_LOAD
const bool kCrashed = (crash(), true);
#endif

}  // namespace

#if FAULT == OTHER_VERSION
extern "C" GDNBENCH_PLUGIN_EXPORT const void* gdnbench_plugin_v2() { return &kTable; }
#elif FAULT != NO_ENTRY
const gdnbench_plugin* gdnbench_plugin_v1() { return FAULT == NO_TABLE ? nullptr : &kTable; }
#endif
