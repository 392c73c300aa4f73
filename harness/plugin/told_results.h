// Results of verification and rows of sweeps in messages between processes.
#pragma once

#include <vector>

#include "harness/plugin/message.h"
#include "harness/rows/row.h"
#include "harness/sweep/sweep.h"
#include "harness/verify/verify.h"

namespace gdn {

/// Without outputs.
void put_result(Message& message, const VerifyResult& result);
/// `operation` is the problem's. Throws as Message.
VerifyResult get_result(Message& message, Operation operation);

/// A row, all its columns and errors, with its samples.
void put_row(Message& message, const Row& row, const std::vector<TimeSample>& samples);
Row get_row(Message& message, std::vector<TimeSample>& samples);

void put_options(Message& message, const SweepOptions& options);
SweepOptions get_options(Message& message);

}  // namespace gdn
