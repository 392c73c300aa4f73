/* A compiled kernel of one's own in gdnbench: a shared library that exports gdnbench_plugin_v1().
 *
 *     cc -shared -fPIC mine.c -o libmine.so $(pkg-config --cflags gdnbench)
 *     gdnbench verify --plugin libmine.so
 *
 * It needs this header and gdnbench.h, and links nothing of this project. What an operation computes, and
 * what every implementation owes its callers, is in docs/contract.md; docs/plugins.md walks through one.
 *
 * The entry returns a table of implementations. Each names the operation it computes, the fields of a
 * problem it honours beside their defaults, and three functions: whether it does a problem, how much
 * workspace that takes, and the call that enqueues it. A field that is not named is refused off its
 * default before any of them is asked, so that a field added to the project later is never ignored.
 *
 * Arrays, problems and statuses are those of the C library, in gdnbench.h. Everything that is handed over
 * belongs to the caller and is the plug-in's until its function returns, but for what arrays and workspace
 * point to, which may be used by what was enqueued. Functions are called from one thread at a time. */
#ifndef GDNBENCH_PLUGIN_H
#define GDNBENCH_PLUGIN_H

#include <gdnbench.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this interface; the name of the entry has it too. It grows where a plug-in that was compiled before
 * would not run as before. */
#define GDNBENCH_PLUGIN_VERSION 1

/* One line for whoever reads the result: why a problem is refused, what failed. Empty at first. */
typedef struct gdnbench_plugin_message {
  char text[512];
} gdnbench_plugin_message;

typedef struct gdnbench_plugin_problem {
  const char* text; /* "gated_delta:heads=16/32,dim=128x128,seq=4x8192,dtype=bf16" */
  int64_t num_key_heads;
  int64_t num_value_heads;
  int64_t key_head_dim;
  int64_t value_head_dim;
  int64_t num_sequences; /* N */
  int64_t num_tokens; /* T: at most as many, whatever sequence_offsets says at the time of a run */
  int64_t chunk;      /* tokens per chunk that were asked for; 0: the plug-in's choice */
  double scale;       /* of the output: what the problem says, or 1 / sqrt(Dk) */
  /* Every field that the operation looks at, whether the text says it or not. */
  const gdnbench_field* fields;
  int64_t num_fields;
  /* Every array of the problem, with its extents and element type. */
  const gdnbench_operand* operands;
  int64_t num_operands;
} gdnbench_plugin_problem;

typedef struct gdnbench_plugin_implementation {
  const char* name;      /* "cpu/mine": the backend, then a name that no other implementation has */
  const char* operation; /* "gated_delta" */
  const char* backend;   /* "cpu", "cuda" or "hip": where its arrays lie and what its stream is */
  const char* summary;   /* one line, for gdnbench list */
  /* Fields of a problem that it honours, beside heads, lengths, dtype and chunk, as "h0,norm,scale": a key,
   * or a key with the values honoured beside the default, "decay=channel". NULL: none. */
  const char* honours;
  int32_t is_repeatable;      /* not 0: two runs of the same inputs give the same bits */
  int32_t is_batch_invariant; /* not 0: a sequence alone gives the bits that it gives in a batch */

  /* GDNBENCH_OK, or GDNBENCH_UNSUPPORTED with the reason in the message. NULL: every problem. */
  gdnbench_status (*supports)(const gdnbench_plugin_problem* problem,
                              gdnbench_plugin_message* message);
  /* Bytes that every call of the problem needs beside its arrays. NULL: none. */
  int64_t (*workspace_bytes)(const gdnbench_plugin_problem* problem);
  /* Enqueues the operation on the stream (a cudaStream_t or hipStream_t), without waiting, copying to the
   * host or allocating; on a CPU the stream is NULL, and it computes before it returns. Arrays have all of
   * `read`, `written`, `dtype`, `rank`, `extents` and `strides` set, but for `read` of an output and
   * `written` of an input; the strides of an array's tokens may be larger than the tokens. Other
   * than GDNBENCH_OK the message says why. */
  gdnbench_status (*enqueue)(const gdnbench_plugin_problem* problem, const gdnbench_array* arrays,
                             int64_t num_arrays, void* workspace, void* stream,
                             gdnbench_plugin_message* message);
} gdnbench_plugin_implementation;

typedef struct gdnbench_plugin {
  int32_t version;              /* GDNBENCH_PLUGIN_VERSION */
  int32_t implementation_bytes; /* sizeof(gdnbench_plugin_implementation) */
  int64_t num_implementations;
  const gdnbench_plugin_implementation* implementations;
} gdnbench_plugin;

#if defined(__GNUC__)
#define GDNBENCH_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define GDNBENCH_PLUGIN_EXPORT
#endif

/* What a plug-in defines. The table is there as long as the library is loaded. */
GDNBENCH_PLUGIN_EXPORT const gdnbench_plugin* gdnbench_plugin_v1(void);

/* ---- looking things up */

/* The field's value as text, "0" or "bf16"; NULL where the operation has no such field. */
static inline const char* gdnbench_plugin_field(const gdnbench_plugin_problem* problem,
                                                const char* key) {
  int64_t i;
  for (i = 0; i < problem->num_fields; ++i) {
    if (strcmp(problem->fields[i].key, key) == 0) return problem->fields[i].value;
  }
  return NULL;
}

/* Whether the field has this value. */
static inline int gdnbench_plugin_field_is(const gdnbench_plugin_problem* problem, const char* key,
                                           const char* value) {
  const char* const held = gdnbench_plugin_field(problem, key);
  return held != NULL && strcmp(held, value) == 0;
}

/* The operand; NULL where the problem has none of that name. */
static inline const gdnbench_operand* gdnbench_plugin_operand(
    const gdnbench_plugin_problem* problem, const char* name) {
  int64_t i;
  for (i = 0; i < problem->num_operands; ++i) {
    if (strcmp(problem->operands[i].name, name) == 0) return &problem->operands[i];
  }
  return NULL;
}

/* The array of an operand; NULL where the call has none. */
static inline const gdnbench_array* gdnbench_plugin_array(const gdnbench_array* arrays,
                                                          int64_t num_arrays, const char* operand) {
  int64_t i;
  for (i = 0; i < num_arrays; ++i) {
    if (strcmp(arrays[i].operand, operand) == 0) return &arrays[i];
  }
  return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
