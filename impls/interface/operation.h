// Operation: what is computed, described as data. Its operands (the arrays that go in and come out),
// each with its shape and element type as functions of the Problem, the way it is cut along the
// batch, and the unit it is judged by. Everything general walks this description: case files, the
// arrays on a device, guard bands, NaN filling, a sequence alone and in a batch, continuation,
// errors, rows, baselines, the C library and the Python modules. docs/architecture.md, "The flow", says
// which few operands they name all the same.
//
// A new operation is its own files and one line in impls/operations.cmake (CONTRIBUTING.md, "Add an
// operation"). What it means is in docs/contract.md; what is its own beside the operands (how inputs
// are drawn, what counts as work, checks of its own) in harness/operations/, its reference in reference/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interface/dtype.h"

namespace gdn {

struct Case;
struct Problem;
struct OperationSchema;

/// Which operation: a handle that compares by identity and costs nothing to copy.
class Operation {
 public:
  Operation();                                                    ///< the first of operations()
  Operation(const OperationSchema& schema) : schema_(&schema) {}  // NOLINT: a schema names itself
  Operation(const OperationSchema&&) = delete;  // nothing outlives a copy of a schema
  const OperationSchema& operator*() const { return *schema_; }
  const OperationSchema* operator->() const { return schema_; }
  friend bool operator==(const Operation&, const Operation&) = default;
  friend auto operator<=>(const Operation&, const Operation&) = default;

 private:
  const OperationSchema* schema_;
};

enum class Role {
  input,
  output,
  in_place,  ///< read and written; "initial_state" before the call is "final_state" after it
};

/// How an array is cut along the batch: which of its dimensions follows the sequences.
enum class Cut {
  whole,      ///< none: weights, which every sequence shares
  tokens,     ///< T: sequence n has tokens sequence_offsets[n] .. sequence_offsets[n + 1] - 1
  sequences,  ///< N or N + 1: one entry per sequence
  pool_rows,  ///< rows of a pool: sequence n has row slot_index[n] (n itself without slot_index)
};

/// The part of an output that gets an error of its own; the worst part is what is reported.
enum class JudgedPer {
  tensor,    ///< all of it together
  sequence,  ///< what belongs to one sequence
  head,      ///< what belongs to one sequence and value head
  key_head,  ///< what belongs to one sequence and key head
};

/// Which heads a dimension counts. Value head h reads key head h / (Hv / Hk).
enum class Heads { none, key, value };

/// What an output that is neither cut by tokens nor a pool holds when a call was made in two, on the
/// first tokens of every sequence and on the rest.
enum class OverCalls {
  later,  ///< what the later call wrote
  sum,    ///< the sum of what both wrote: gradients of weights
};

struct Dimension {
  const char* name;  ///< as the papers have it: "T", "Hk", "width - 1"
  std::int64_t (*size)(const Problem&);
  Cut cut = Cut::whole;
  Heads heads = Heads::none;
  /// Sets the problem's field from the extent found in a case file; null where other fields say it.
  void (*infer)(Problem&, std::int64_t) = nullptr;
};

/// What values an array may hold, and how an error line says so.
struct ValueRule {
  bool (*holds)(float) = nullptr;
  const char* expected = "";  ///< "a log decay of at most 0 (-inf allowed)"
};

/// What an array of indices may hold at a place, given the case, and how an error line says so.
struct IndexRule {
  bool (*holds)(const Case&, std::int64_t place, std::int64_t value) = nullptr;
  const char* expected = "";  ///< "0 .. the tokens of the sequence"
};

/// Of a sequence of a batch, tokens that stand as a sequence of their own in another one.
struct PartOfSequence {
  std::int64_t sequence = 0;
  std::int64_t first_token = 0;  ///< counted over the batch
  std::int64_t count = 0;
};

/// What the array holds where a case file leaves an optional operand out.
enum class WhenAbsent {
  not_allowed,
  zeros,
  unread,  ///< NaN: nobody may read it
};

/// What an operand that is updated in place is before the call and after it; nulls: always. Of an input
/// `read` alone counts: it says whether the call reads it at all (a state that may be absent), and where
/// it does not, the array may be missing.
struct InPlace {
  /// Its name once the call is over, where that is another.
  std::string name_after = {};
  bool (*read)(const Problem&) = nullptr;     ///< whether the call reads it
  bool (*written)(const Problem&) = nullptr;  ///< and writes it
  /// Of what a next call goes on from: makes the problem one that writes it; null where every problem
  /// does.
  void (*make_written)(Problem&) = nullptr;
  /// Makes the problem one that reads it; null: InFile::infer_presence does.
  void (*make_read)(Problem&) = nullptr;
};

/// What is a pool's own (Cut::pool_rows).
struct Pool {
  /// Unused elements after each row; null: none.
  std::int64_t (*row_padding)(const Problem&) = nullptr;
  /// In place: whether the new values go to an array of their own; null: never.
  bool (*out_of_place)(const Problem&) = nullptr;
  /// Whether a sequence without tokens that are carried writes its row too (with what it held).
  bool written_by_empty_sequences = false;
  /// Of a sequence with tokens, how many elements of its row a call reads, and how many it writes: none, and
  /// the row is not written. Nulls: all that are used; written where tokens are carried.
  std::int64_t (*elements_read)(const Case&, std::int64_t sequence) = nullptr;
  std::int64_t (*elements_written)(const Case&, std::int64_t sequence) = nullptr;
};

/// How an output is judged.
struct Judging {
  JudgedPer per = JudgedPer::tensor;
  /// Errors are relative to the size of the terms it is the sum of, not to itself, which may cancel:
  /// the reference has that size as an array NAME_terms beside it.
  bool by_terms = false;
  /// Made of values that are copied, never computed: its error limit is its rounding.
  bool is_copy = false;
  /// Of one that is neither cut by tokens nor a pool.
  OverCalls over_calls = OverCalls::later;
};

/// Of an output of integers: each stands for its product with a scale, which another output holds. Elements of
/// one scale are a channel. Its scale is the largest magnitude of the channel's values, divided by the largest
/// integer (interface/channel_quantization.h), and errors are those of the products.
struct Scaled {
  /// The output of the scales: its dimensions are this one's, in their order, but for one. Empty: none.
  std::string by = {};
  /// Makes the problem the same one with the values themselves, in float32 and without scales.
  void (*make_float32)(Problem&) = nullptr;
};

/// How an output reaches who wants it.
struct HandedOver {
  /// Nobody must ask for it: judged where it is given.
  bool on_request = false;
  /// Handed from one step of a chain to the next: never in a case or a file, and in a call only where
  /// a step asks for it.
  bool between_steps = false;
  /// It need not be asked for where this other one is.
  std::string replaced_by = {};
};

/// What its presence or absence in a case file says.
struct InFile {
  WhenAbsent when_absent = WhenAbsent::not_allowed;
  /// Of several operands with one `alternatives` name exactly one is there ("gate").
  std::string alternatives = {};
  /// Makes what the problem says of it (`present`, InPlace::read) what the file has; null: nothing.
  void (*infer_presence)(Problem&, bool present) = nullptr;
};

struct Operand {
  /// In case files, in error lines, and what callers name it by.
  std::string name;
  Role role = Role::input;
  std::vector<Dimension> (*shape)(const Problem&) = nullptr;
  /// Element type; null for indices, which are int64 where nobody says otherwise.
  DType (*dtype)(const Problem&) = nullptr;
  /// Whether the problem has this operand at all; null: always.
  bool (*present)(const Problem&) = nullptr;
  /// tokens: a call may hand it over with tokens further apart than they are long (a slice of another
  /// tensor). Every implementation honours that; of any other operand a token stride is refused.
  bool takes_token_stride = false;
  /// Values that implementations may take in float32 and in 16-bit types, whichever is the operand's own,
  /// and with any strides, as they take indices (Description::gates_in_any_form; HeldForm in
  /// interface/arguments.h).
  bool may_have_form = false;
  /// [channels, T] that implementations may take with its tokens in rows (Description::tokens_in_rows;
  /// TokenRows).
  bool may_have_rows = false;
  /// An output, or what is in place, that another operand of the next call takes ("d_final_state" of
  /// the call on the tokens before). In place and empty: the operand itself.
  std::string carried_to = {};
  InPlace in_place = {};
  Pool pool = {};
  Judging judging = {};
  Scaled scaled = {};
  HandedOver hand_over = {};
  InFile in_file = {};
  ValueRule rule = {};        ///< null: finite values
  IndexRule index_rule = {};  ///< of indices beside sequence_offsets and slot_index; null: any

  bool is_index() const { return dtype == nullptr; }
  bool is_output() const { return role != Role::input; }
  const std::string& output_name() const {
    return in_place.name_after.empty() ? name : in_place.name_after;
  }
};

/// A part of a call that can be enqueued by itself (Plan::run_phase), by the names of the operands it
/// reads and writes: a token draft is verified, and what of it was accepted is committed.
struct Phase {
  std::string name;
  std::vector<std::string> reads;
  std::vector<std::string> writes;
};

struct OperationSchema {
  std::string name;
  std::string summary;  ///< one line
  std::vector<Operand> operands;
  /// Keys of the problem fields it looks at, beside those every operation has (heads, dim, seq,
  /// dtype, seed, chunk, case). Any other must stay at its default.
  std::vector<std::string> fields;
  /// Of these a case file must hold the attribute though it has a default.
  std::vector<std::string> stated_fields;
  /// What else a problem of it must fulfil; throws Error(bad_input). Null: nothing.
  void (*validate)(const Problem&) = nullptr;
  /// The phases of a call, in order; empty: it has but one.
  std::vector<Phase> phases = {};
  /// Whether what is carried goes from a sequence's end to its beginning, as gradients do: of two
  /// calls, the one on the last tokens is the first.
  bool carries_backward = false;
  /// Makes of `part`, the case of these parts of `whole` with every operand cut as it says, what only
  /// the operation knows: indices that count tokens, a state at the part's beginning. Null: nothing.
  void (*fit_part)(const Case& whole, const std::vector<PartOfSequence>& parts,
                   Case& part) = nullptr;
  /// After how many of the sequence's tokens a call leaves what is carried: of a draft, those that were
  /// accepted. After none the sequence writes no row, as one without tokens; and since tokens behind
  /// them leave nothing, a sequence is cut in two no later. Null: after all.
  std::int64_t (*carried_tokens)(const Case&, std::int64_t sequence) = nullptr;

  /// The operand, or null.
  const Operand* find(std::string_view operand) const;
  const Operand* find_output(std::string_view output_name) const;
  /// The operand; throws Error(bad_input) with the nearest name.
  const Operand& at(std::string_view operand) const;
  bool has_field(std::string_view key) const;
};

/// Whether every operation has the problem field: heads, dim, seq, dtype, seed, chunk, case.
bool is_common_field(std::string_view key);

/// Every operation, in the order of impls/operations.cmake.
const std::vector<Operation>& operations();
/// One more, that only a test knows: the schema must outlive the process's use of it.
void add_operation(Operation operation);
const std::string& to_string(Operation operation);
/// Throws Error(bad_input) with the nearest name.
Operation parse_operation(std::string_view text);

// ---- an operand of a problem

bool is_present(const Operand& operand, const Problem& problem);
bool is_read(const Operand& operand, const Problem& problem);
bool is_written(const Operand& operand, const Problem& problem);
Cut cut_of(const Operand& operand, const Problem& problem);
/// "[T, Hk, Dk]".
std::string shape_names(const Operand& operand, const Problem& problem);
/// Extents, outermost first; the rows of a pool as Problem::num_pool_rows() has them, or as given.
std::vector<std::int64_t> extents(const Operand& operand, const Problem& problem);
std::vector<std::int64_t> extents(const Operand& operand, const Problem& problem,
                                  std::int64_t pool_rows);
/// Elements, padding after pool rows included, in a type that no valid problem overflows.
long double element_count(const Operand& operand, const Problem& problem);
/// pool_rows: elements of a row that are used, and from one row to the next.
std::int64_t row_elements(const Operand& operand, const Problem& problem);
std::int64_t row_stride(const Operand& operand, const Problem& problem);
/// tokens: elements per token.
std::int64_t elements_per_token(const Operand& operand, const Problem& problem);
/// tokens: whether tokens are the fastest dimension ([channels, T]).
bool tokens_are_fastest(const Operand& operand, const Problem& problem);
/// Whether a call may hand it over with a token stride: never where tokens are fastest.
bool takes_token_stride(const Operand& operand, const Problem& problem);

}  // namespace gdn
