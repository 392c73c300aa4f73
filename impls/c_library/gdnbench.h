/* The kernels of this project from C, or from anything that calls C: libgdnbench.so.
 *
 * What it does: gated_delta on arrays the caller owns. The problem is a string such as
 *     gated_delta:heads=16/32,dim=128x128,seq=4x8192,dtype=bf16,h0=normal
 * (interface/problem.h names every field). It fixes shapes, element types, encodings of gate and
 * beta, state layout and scale; h0 other than absent says that state_pool is read, ht=0 that it is
 * not written. Fields that only say how inputs are generated (gates, betas, keys, seed) are
 * ignored here. Shapes, row-major: T tokens, Hk key heads, Hv value heads, N sequences.
 *
 * Ownership: arrays stay the caller's, are never copied, and must outlive every run of the plan.
 * Strings returned belong to the library: those of a plan until it is destroyed, the last error
 * until the thread's next call, names for ever.
 *
 * Errors: functions return a gdnbench_status; other than GDNBENCH_OK, gdnbench_last_error() is one
 * line that says what was wrong and what was expected. No exception leaves the library.
 *
 * Threads: any, at the same time; one plan from one thread at a time, an emulator ("cuda-emulated",
 * "gfx906-emulator") from one thread at all.
 *
 * Streams: a run only enqueues, on the stream given with the plan, allocates nothing, waits for
 * nothing, and can be captured in a CUDA graph (not on the default stream: CUDA refuses that).
 * Making and destroying a plan allocates and waits: not during a capture. A plan owns its
 * workspace, so its runs must be ordered: its stream does that. On devices other than CUDA's the
 * stream must be NULL, arrays are host arrays (but for "hip"), and a run has ended when it returns.
 * A call with a CUDA device makes that device the calling thread's current one. */
#ifndef GDNBENCH_H
#define GDNBENCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GDNBENCH_ABI_VERSION 1

typedef enum gdnbench_status {
  GDNBENCH_OK = 0,
  GDNBENCH_BAD_INPUT = 1,          /* a name, problem, pointer or size the caller can correct */
  GDNBENCH_UNSUPPORTED = 2,        /* a valid problem this implementation does not do */
  GDNBENCH_DEVICE_UNAVAILABLE = 3, /* not in this build or on this machine */
  GDNBENCH_OUT_OF_MEMORY = 4,
  GDNBENCH_DEVICE_FAILURE = 5 /* a call of the CUDA runtime or a kernel failed */
} gdnbench_status;

/* Pointers on the plan's device. Names in brackets are fields of the problem. */
typedef struct gdnbench_arguments {
  const void* query; /* [T, Hk, Dk], token dtype [dtype] */
  const void* key;   /* [T, Hk, Dk]; with n steps per token [steps] [T, n, Hk, Dk] */
  const void* value; /* [T, Hv, Dv]; with n steps per token [T, n, Hv, Dv] */
  /* Elements from one token to the next (steps and heads of a token are contiguous); 0: dense. */
  int64_t query_token_stride;
  int64_t key_token_stride;
  int64_t value_token_stride;
  const float* gate;               /* [T, Hv]; with decay=channel [T, Hv, Dk]; encoded as [gate] */
  const float* A_log;              /* [Hv]; gate=logits only, else NULL */
  const float* dt_bias;            /* [Hv] or [Hv, Dk]; gate=logits only, else NULL */
  const float* beta;               /* [T, Hv]; with n steps [T, n, Hv]; encoded as [beta] */
  const int64_t* sequence_offsets; /* [N + 1], prefix sums from 0; read at every run */
  const int64_t* slot_index;       /* [N] rows of the pool, -1: none; NULL: row n for sequence n */
  void* state_pool;                /* rows of [Hv, Dk, Dv] or [Hv, Dv, Dk] [layout], state dtype */
  void* output;                    /* [T, Hv, Dv], output dtype; may not overlap an input */
} gdnbench_arguments;

/* What the planner decided. */
typedef struct gdnbench_plan_details {
  int64_t chunk;           /* tokens per chunk; 0: not chunked */
  int64_t workspace_bytes; /* device memory the plan holds */
  int64_t launches;        /* kernels per run */
  const char* choice;      /* form, tile, split, in words; never NULL */
} gdnbench_plan_details;

typedef struct gdnbench_plan gdnbench_plan;

/* GDNBENCH_ABI_VERSION of the library loaded. */
int gdnbench_abi_version(void);

/* Of the thread's last call that failed; "" if none did. */
const char* gdnbench_last_error(void);

/* Name of implementation `index` of gated_delta, "cuda/fused_sm90"; NULL past the last. */
const char* gdnbench_implementation_name(int index);

/* GDNBENCH_OK, or GDNBENCH_UNSUPPORTED with the reason; whatever devices are here. */
gdnbench_status gdnbench_supports(const char* implementation, const char* problem);

/* `sequence_offsets` (host, [num_sequences + 1]): lengths to plan for, in the place of the
 * problem's [seq]; NULL: the problem's. Later runs may find other offsets on the device, of as many
 * sequences and no more tokens. `device`: "cpu", "cuda:0", "cuda-emulated", ...: as
 * `gdnbench info` lists them. `stream`: a cudaStream_t; NULL: the default stream. */
gdnbench_status gdnbench_plan_create(const char* implementation, const char* problem,
                                     const int64_t* sequence_offsets, int64_t num_sequences,
                                     const char* device, void* stream,
                                     const gdnbench_arguments* arguments, gdnbench_plan** plan);

gdnbench_status gdnbench_plan_info(const gdnbench_plan* plan, gdnbench_plan_details* details);

gdnbench_status gdnbench_plan_run(gdnbench_plan* plan);

/* Waits for what the plan enqueued on its stream first. NULL is allowed. */
void gdnbench_plan_destroy(gdnbench_plan* plan);

/* The same problem in float64, by the token recurrence: what to judge outputs by. Device "cpu" (the
 * Eigen reference), "cuda-emulated" (the same) or a CUDA device. `output` [T, Hv, Dv] and
 * `final_state` [N, Hv, Dk, Dv] (whatever the problem's layout; may be NULL) lie where the
 * arguments do. arguments->output is ignored, state_pool only read. Waits for the stream before and
 * after, and allocates. On a CUDA device gates must be gate=log_decay, beta=beta and the state
 * float32; slots and variants of the recurrence are not done on any. */
gdnbench_status gdnbench_reference_float64(const char* problem, const int64_t* sequence_offsets,
                                           int64_t num_sequences, const char* device, void* stream,
                                           const gdnbench_arguments* arguments, double* output,
                                           double* final_state);

#ifdef __cplusplus
}
#endif

#endif /* GDNBENCH_H */
