/* The kernels of this project from C, or from anything that calls C: libgdnbench.so.
 *
 * What it does: every operation of the project, on arrays the caller owns. The problem is a string
 * such as
 *     gated_delta:heads=16/32,dim=128x128,seq=4x8192,dtype=bf16,h0=normal
 * (interface/problem.h names every field). It fixes shapes, element types, encodings of gate and
 * beta, layouts and scale; h0 other than absent says that the state is read, ht=0 that it is not
 * written; pool_rows=R, how many rows the caller's pools have. Without it a plan uses the rows that
 * slot_index names, whichever they are, and the reference the rows up to the largest of them. Fields
 * that only say how inputs are generated (gates, betas, keys, seed) are ignored
 * here. Which arrays a problem has, and their shapes, gdnbench_operand_of() tells.
 *
 * Arrays may be held in other ways than the problem says: strided, with the tokens of a batch in several
 * dimensions, in narrower element types, with indices of 32 bits. What an implementation takes as it is,
 * it reads and writes where it lies: indices always, gates of 16 bits too. Anything else is converted on
 * the device around each run, through the plan's workspace; gdnbench_plan_info() names it,
 * GDNBENCH_REFUSE_CONVERSIONS forbids it, and what would lose bits is refused always. A caller with dense
 * arrays of the operands' types meets none of this.
 *
 * Ownership: arrays stay the caller's and must outlive every run of the plan.
 * Strings returned belong to the library: those of a plan until it is destroyed, the last error and
 * a reason until the thread's next call, names for ever, and of others as said there.
 *
 * Errors: functions return a gdnbench_status; other than GDNBENCH_OK, gdnbench_last_error() is one
 * line that says what was wrong and what was expected. No exception leaves the library.
 *
 * Threads: any, at the same time; one plan from one thread at a time, an emulator ("cuda-emulated",
 * "gfx906-emulator") from one thread at all.
 *
 * Streams: a run only enqueues, on the stream given with the plan, allocates nothing, waits for
 * nothing, and can be captured in a CUDA graph (not on the default stream: CUDA refuses that).
 * Making and destroying a plan or a group allocates and waits: not during a capture. A plan owns its
 * workspace, so its runs must be ordered: its stream does that. On devices other than CUDA's the
 * stream must be NULL, arrays are host arrays (but for "hip"), and a run has ended when it returns.
 * A call with a CUDA device makes that device the calling thread's current one. */
#ifndef GDNBENCH_H
#define GDNBENCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GDNBENCH_ABI_VERSION 4
#define GDNBENCH_MAX_RANK 8

typedef enum gdnbench_status {
  GDNBENCH_OK = 0,
  GDNBENCH_BAD_INPUT = 1,          /* a name, problem, pointer or size the caller can correct */
  GDNBENCH_UNSUPPORTED = 2,        /* a valid problem this implementation does not do */
  GDNBENCH_DEVICE_UNAVAILABLE = 3, /* not in this build or on this machine */
  GDNBENCH_OUT_OF_MEMORY = 4,
  GDNBENCH_DEVICE_FAILURE = 5 /* a call of the CUDA runtime or a kernel failed */
} gdnbench_status;

/* GDNBENCH_ABI_VERSION of the library loaded. */
int gdnbench_abi_version(void);

/* Of the thread's last call that failed; "" if none did. */
const char* gdnbench_last_error(void);

/* ---- what there is */

/* Name of operation `index`, "gated_delta"; NULL past the last. */
const char* gdnbench_operation_name(int index);

/* Name of phase `index` of a call of the operation, "commit"; NULL past the last, for an operation
 * without phases and for an unknown one. */
const char* gdnbench_phase_name(const char* operation, int index);

/* Name of implementation `index` of the operation, "cuda/fused_sm90"; NULL past the last and for an
 * unknown operation. */
const char* gdnbench_implementation_name(const char* operation, int index);

/* GDNBENCH_OK, or GDNBENCH_UNSUPPORTED with the reason; whatever devices are here. */
gdnbench_status gdnbench_supports(const char* implementation, const char* problem);

/* The best implementation of the problem on the device, and why it is that one. Either pointer may
 * be NULL. GDNBENCH_UNSUPPORTED, with every implementation's reason, where none does it. */
gdnbench_status gdnbench_select(const char* problem, const char* device,
                                const char** implementation, const char** reason);

/* One array of a problem. */
typedef struct gdnbench_operand {
  const char* name;       /* what an array is named by: "initial_state" */
  const char* name_after; /* of an array in place, what it holds after a run: "final_state" */
  const char* role;       /* "input", "output" or "in place" */
  const char* dtype;      /* "f32", "bf16", "f16", "i8" or "int64" */
  int32_t rank;
  int64_t extents[GDNBENCH_MAX_RANK];        /* row-major, outermost first */
  const char* dimensions[GDNBENCH_MAX_RANK]; /* "T", "Hk", "Dk" */
  int32_t is_read;
  int32_t is_written;
  int32_t is_optional;        /* may be left out */
  int32_t takes_token_stride; /* every implementation takes its tokens farther apart, as they lie */
} gdnbench_operand;

/* Operand `index` of the problem; `operand->name` is NULL past the last. Offsets as for a plan. */
gdnbench_status gdnbench_operand_of(const char* problem, const int64_t* sequence_offsets,
                                    int64_t num_sequences, int index, gdnbench_operand* operand);

/* ---- running */

/* An array of the caller's, on the plan's device. */
typedef struct gdnbench_array {
  const char* operand;
  /* Where values come from; NULL for an output. */
  const void* read;
  /* Where they go; NULL for an input, in place the same as `read`. */
  void* written;
  /* "f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "int64", "int32" or "i8"; NULL: the operand's. */
  const char* dtype;
  /* Of extents and strides; 0: shape and order of the operand, without gaps. */
  int32_t rank;
  /* NULL: the operand's. Neighbours may multiply to one of the operand's, as [B, L] to T; the first of a
   * pool is its rows, as many as there are. */
  const int64_t* extents;
  /* Elements, none negative; NULL: without gaps. */
  const int64_t* strides;
} gdnbench_array;

/* What the planner decided. */
typedef struct gdnbench_plan_details {
  int64_t chunk;              /* tokens per chunk; 0: not chunked */
  int64_t workspace_bytes;    /* device memory the plan holds */
  int64_t launches;           /* kernels per run */
  const char* choice;         /* form, tile, split, in words; never NULL */
  const char* implementation; /* the one named, or selected */
  const char* reason;         /* why it was selected; "" where it was named */
  const char*
      conversions; /* arrays converted around each run, and why: "v: strides [1, 640, 5]"; "" */
  int64_t conversion_bytes; /* that takes, among workspace_bytes */
} gdnbench_plan_details;

typedef struct gdnbench_plan gdnbench_plan;

/* `flags` of gdnbench_plan_create(): GDNBENCH_UNSUPPORTED, naming the array, where one would have to be
 * converted. */
#define GDNBENCH_REFUSE_CONVERSIONS 1

/* `implementation`: NULL for the one gdnbench_select() gives. `sequence_offsets` (host,
 * [num_sequences + 1]): lengths to plan for, in the place of the problem's [seq]; NULL: the
 * problem's. Later runs may find other offsets on the device, of as many sequences and no more
 * tokens. `device`: "cpu", "cuda:0", "cuda-emulated", ...: as `gdnbench info` lists them. `stream`:
 * a cudaStream_t; NULL: the default stream. `arrays`: every operand of the problem that is not
 * optional, by name, in any order. `flags`: 0, or what stands above. */
gdnbench_status gdnbench_plan_create(const char* implementation, const char* problem,
                                     const int64_t* sequence_offsets, int64_t num_sequences,
                                     const char* device, void* stream, const gdnbench_array* arrays,
                                     int64_t num_arrays, int32_t flags, gdnbench_plan** plan);

gdnbench_status gdnbench_plan_info(const gdnbench_plan* plan, gdnbench_plan_details* details);

gdnbench_status gdnbench_plan_run(gdnbench_plan* plan);

/* One phase of an operation that has several (gdnbench_phase_name), by its number. They come in order;
 * what the stream does between them is the caller's. What a later phase needs of an earlier one is kept
 * by the plan. GDNBENCH_UNSUPPORTED where the operation has no phases. */
gdnbench_status gdnbench_plan_run_phase(gdnbench_plan* plan, int phase);

/* Waits for what the plan enqueued on its stream first. NULL is allowed. */
void gdnbench_plan_destroy(gdnbench_plan* plan);

/* One phase of several plans, enqueued together: of the layers of a model, say. */
typedef struct gdnbench_group gdnbench_group;

typedef struct gdnbench_group_details {
  int64_t launches;        /* kernels that serve all plans; 0: each enqueues its own, in turn */
  int64_t workspace_bytes; /* device memory the group holds, beside its plans' */
} gdnbench_group_details;

/* The plans are of one implementation, device and stream, and of problems that are the same but for
 * lengths (as many sequences and tokens), inputs, and the rows of pools and what lies between them:
 * else GDNBENCH_UNSUPPORTED, naming the first plan, counted from 0, and what it has.
 * GDNBENCH_BAD_INPUT for no plans, NULL, a plan given twice, or a number that is no phase. No plan
 * writes what another one reads or writes. They outlive the group, may be run by themselves beside
 * it, and it counts as one of them for threads and order. */
gdnbench_status gdnbench_group_create(gdnbench_plan* const* plans, int64_t num_plans, int phase,
                                      gdnbench_group** group);

gdnbench_status gdnbench_group_info(const gdnbench_group* group, gdnbench_group_details* details);

/* Enqueues the phase of every plan, in any order among them. */
gdnbench_status gdnbench_group_run(gdnbench_group* group);

/* Before its plans. Waits for what was enqueued on their stream first. NULL is allowed. */
void gdnbench_group_destroy(gdnbench_group* group);

/* The same problem in float64, straight from the equations: what to judge outputs by. `arrays` as
 * for a plan, but that what is `written` holds doubles (of the operand's shape), never lies where it
 * is `read`, and may be left out. Waits for the stream before and after, and allocates. On the host's
 * devices every operation (the Eigen reference); on a CUDA device gated_delta with gate=log_decay,
 * beta=beta, a float32 state, without slots and variants of the recurrence. */
gdnbench_status gdnbench_reference_float64(const char* problem, const int64_t* sequence_offsets,
                                           int64_t num_sequences, const char* device, void* stream,
                                           const gdnbench_array* arrays, int64_t num_arrays);

/* ---- judging: cases, and what outputs made anywhere are held to
 *
 * A case is a problem with its inputs, drawn from its seed, on the host. Whoever has a kernel computes
 * it from them, and hands over what came out: errors are those of docs/contract.md, section 4, against
 * the float64 reference, which the first question about a case evaluates. Nothing is run here. */

/* Name of suite `index`, "quick"; NULL past the last. */
const char* gdnbench_suite_name(int index);

typedef struct gdnbench_suite_problem {
  const char* problem;
  const char* origin;   /* "FLA test_gdn chunk"; "-": of this project */
  const char* protects; /* what it would show; "-" where nothing is said */
} gdnbench_suite_problem;

/* Problem `index` of the suite; `problem->problem` is NULL past the last. Strings until the thread's
 * next call of another suite. */
gdnbench_status gdnbench_suite_problem_of(const char* suite, int index,
                                          gdnbench_suite_problem* problem);

typedef struct gdnbench_field {
  const char* key;   /* "norm" */
  const char* value; /* "0", whether the string says it or not */
  int32_t of_inputs; /* says how inputs are drawn, and nothing of what is computed from them */
} gdnbench_field;

/* Field `index` of those that the problem's operation looks at; `field->key` is NULL past the last.
 * Strings until the thread's next call. */
gdnbench_status gdnbench_field_of(const char* problem, int index, gdnbench_field* field);

/* Whether somebody who honours these fields does the problem, `honoured` being a list such as
 * "norm,scale,decay=channel": a key, or a key with the values that are honoured beside the default. Heads,
 * lengths, dtype and fields that only say how inputs are drawn need no mention. GDNBENCH_UNSUPPORTED
 * names the first field that is off its default and not among them. */
gdnbench_status gdnbench_honours(const char* problem, const char* honoured);

/* The entry of a table of known limits, in the form of data/known_limits.tsv, that covers the problem for
 * the implementation; `limit->cause` is NULL where none does. `table`: its text; NULL: the library's own.
 * Strings until the thread's next call. */
typedef struct gdnbench_known_limit {
  const char* cause;
  int32_t
      is_witness; /* the problem that fails because of the limit: where it passes, the limit is gone */
} gdnbench_known_limit;
gdnbench_status gdnbench_known_limit_of(const char* table, const char* implementation,
                                        const char* problem, gdnbench_known_limit* limit);

typedef struct gdnbench_case gdnbench_case;

gdnbench_status gdnbench_case_create(const char* problem, gdnbench_case** made);

/* What the call reads of the operand: float32, already rounded to its element type, or int64 of indices;
 * of the extents that gdnbench_operand_of() tells, pools without the padding behind their rows. `values`
 * until the case is destroyed. */
gdnbench_status gdnbench_case_input(gdnbench_case* of, const char* operand, const void** values,
                                    int64_t* count);

/* The reference of an output, by its name after the call ("final_state"); NaN where the problem is so large
 * that only a sample is evaluated. */
gdnbench_status gdnbench_case_reference(gdnbench_case* of, const char* output,
                                        const double** values, int64_t* count);

typedef struct gdnbench_verdict {
  int32_t passed;
  int32_t num_errors;   /* outputs that gdnbench_case_error() tells of */
  const char* reason;   /* one line; "" where passed */
  const char* coverage; /* "all 8 pairs", or how large a sample was evaluated */
} gdnbench_verdict;

/* `outputs`: every operand that the problem writes and that is not optional, by its name or that after the
 * call, read from dense host arrays of "f32", "bf16" or "f16", and of "i8" where the operand is; what is in
 * place starts from the case's own values. Of a pool that the call does not read, rows that no sequence writes
 * are not looked at: the caller never had what lies there. Strings of the verdict until the case is judged again. */
gdnbench_status gdnbench_case_judge(gdnbench_case* of, const gdnbench_array* outputs,
                                    int64_t num_outputs, gdnbench_verdict* verdict);

/* The unit of an output that is furthest above its limit, or nearest to it. */
typedef struct gdnbench_output_error {
  const char* output;
  double relative_l2;
  double floor;
  double floor_ratio; /* NaN where errors are not measured in floors */
  double scaled_max;
  double limit;
  double limit_ratio; /* above 1: wrong */
  int64_t non_finite;
  int64_t sequence;
  int64_t head; /* -1: not judged by head */
} gdnbench_output_error;

/* Of the outputs judged last, number `index`. */
gdnbench_status gdnbench_case_error(const gdnbench_case* of, int index,
                                    gdnbench_output_error* error);

/* Where the error of these outputs sits, and what it looks like, in lines; `chunk`: tokens per chunk of what
 * made them, 0: not known. `text` until the case is explained again. */
gdnbench_status gdnbench_case_explain(gdnbench_case* of, const gdnbench_array* outputs,
                                      int64_t num_outputs, int64_t chunk, const char** text);

/* NULL is allowed. */
void gdnbench_case_destroy(gdnbench_case* of);

#ifdef __cplusplus
}
#endif

#endif /* GDNBENCH_H */
