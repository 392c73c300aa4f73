// An operation that only tests know and that has everything an operation can have: what general code
// is tested with where no real operation goes yet. It is a backward pass of a kind. Over each sequence
// and value head h, with key head k = h / (Hv / Hk), from the last token to the first:
//
//     r_t = r_(t+1) / 2 + w_h x_t        r_L = d_last [slot, h] (a pool) + pull [n, h]
//     y_t = r_t, zeros from token count [n] of the sequence on
//     z_t [k] += r_t                     sums over the value heads of a key head
//     crossing_t = |r_t|^2 - |x_t|^2     differences of large terms
//
// and over the sequence, and over the batch:
//
//     d_first [slot, h] = r_0 + times [n] lift [h]      a pool that is only written, carried to d_last
//     tally [slot, h] += sum_t |x_t|^2   a pool that is updated in place
//     total [n, h] = sum_t |x_t|^2       a sequence's entry; two calls add up
//     d_weight [h] = sum x_t . r_t       over the batch; two calls add up
//     sketch [n, h] = times [n] r_0      in int8 with a scale, sketch_scales [n, h]
//
// in two phases: walk, and store, which writes d_first, tally and sketch from what walk kept. times, lift and
// tally as it was are known only once the walk is done: store alone reads them.
// Padding sequences (slot -1) write zeros for their tokens and are in no sum.
#pragma once

#include "harness/operations/operation_harness.h"
#include "interface/implementation.h"
#include "reference/operation.h"

namespace gdn::testing {

const OperationSchema& every_feature_operation();
const reference::ReferenceOperation& every_feature_reference();
const OperationHarness& every_feature_harness();

/// What an implementation of it gets wrong; none: it is right.
enum class EveryFeatureFault {
  none,
  key_head_of_value,      ///< z [h mod Hk] instead of z [h / (Hv / Hk)]
  last_key_head_zero,     ///< z of the last key head never added to
  total_of_first_head,    ///< total [n, h] of head 0
  total_stays,            ///< total of the first sequence is zero where there are several
  weight_of_padding,      ///< d_weight has padding sequences too
  weight_of_last,         ///< d_weight of the last sequence alone
  carries_forward,        ///< r runs from the first token to the last
  last_not_read,          ///< d_last is taken for zeros
  pull_not_read,          ///< pull is taken for zeros
  pull_of_next,           ///< pull [n + 1]
  count_ignored,          ///< y is written to the sequence's end
  count_of_plan,          ///< count as it was when the plan was made
  count_of_first,         ///< count [0] for every sequence
  first_in_all_rows,      ///< d_first of rows that no sequence owns is written
  first_row_of_sequence,  ///< d_first at row n
  y_in_tokens,            ///< y, which is float32, rounded to the token dtype
  crossing_in_float16,    ///< terms of crossing rounded to float16
  stride_ignored,         ///< tokens of x read as if nothing lay between them
  stores_in_walk,         ///< d_first is written by the first phase
  tallies_in_walk,        ///< tally is
  store_reads_x,          ///< the second phase reads x
  walk_reads_times,       ///< the first phase reads times, which is the second's
  walk_reads_lift,        ///< and lift
  walk_reads_tally,       ///< and tally as it was
  walk_bounds_times,      ///< the second phase takes no more times than the first one saw
  walk_floors_times,      ///< nor fewer
  store_of_first_run,     ///< the second phase writes what the plan's first run kept
  crossing_shifted,       ///< crossing is off by far less than its terms, y and total are right
  last_without_pull,  ///< d_last is taken for zeros where nothing pulls: in a call on the first tokens
  y_of_batch,         ///< y rounded otherwise for one sequence than for several
  total_of_batch,     ///< total as well
  sketch_scale_of_first_head,  ///< sketch_scales [n, 0] and its units for every head
  sketch_cut_off,              ///< elements of sketch rounded towards zero
  sketch_half_filled,          ///< a scale twice as large: no element of sketch is 127
  sketch_without_times,        ///< sketch is r_0 where times is 0: in a call on the last tokens
  sketches_in_walk,            ///< sketch is written by the first phase
};

const Implementation& every_feature(EveryFeatureFault fault);

/// Makes the operation known to this process, once.
void register_every_feature();

}  // namespace gdn::testing
