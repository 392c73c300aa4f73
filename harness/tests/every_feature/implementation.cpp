// every_feature on the CPU, in float32, token by token; and what it may get wrong.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "harness/tests/every_feature/operation.h"
#include "interface/channel_quantization.h"

namespace gdn::testing {
namespace {

using Fault = EveryFeatureFault;

class EveryFeaturePlan final : public Plan {
 public:
  EveryFeaturePlan(const Problem& problem, const Arguments& arguments, Fault fault)
      : p_(problem), a_(arguments), fault_(fault) {
    info_.launches = 1;
    const IndexArray counts = a_.indices("count");
    if (fault == Fault::count_of_plan) {
      for (std::int64_t n = 0; n < problem.num_sequences(); ++n) counts_.push_back(counts[n]);
    }
  }
  const PlanInfo& info() const override { return info_; }
  void run() override {
    walk();
    store();
  }
  void run_phase(int phase) override {
    phase == 0 ? walk() : store();
    if (phase == 0 && fault_ == Fault::stores_in_walk) store();
    if (phase == 0 && fault_ == Fault::sketches_in_walk) write_sketch(0, 0, {}, 0);
    if (phase == 0 && fault_ == Fault::tallies_in_walk) write("tally", 0, 1, DType::float32);
  }

 private:
  void walk() {
    float* const weight = static_cast<float*>(a_.output("d_weight"));
    std::fill_n(weight, p_.num_value_heads, 0.0f);
    if (fault_ != Fault::store_of_first_run || kept_.empty()) kept_.clear();
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      for (std::int64_t h = 0; h < p_.num_value_heads; ++h) run_head(n, h);
    }
  }

  void store() {
    for (const auto& [place, kept] : kept_) {
      const auto& [n, h] = place;
      const auto& [r, total, early] = kept;
      if (slot(n) < 0 || first_token(n + 1) == first_token(n)) {
        write_sketch(n, h, {}, 0);
        continue;
      }
      const bool own = fault_ != Fault::first_row_of_sequence;
      const std::int64_t row = own ? slot(n) : n;
      const StoreInputs late = store_inputs(n, h);
      std::int64_t times = late.times;
      if (fault_ == Fault::walk_reads_times) times = early.times;
      if (fault_ == Fault::walk_bounds_times) times = std::min(early.times, late.times);
      if (fault_ == Fault::walk_floors_times) times = std::max(early.times, late.times);
      const float lift = fault_ == Fault::walk_reads_lift ? early.lift : late.lift;
      const float tally = fault_ == Fault::walk_reads_tally ? early.tally : late.tally;
      static_cast<float*>(a_.output("tally"))[slot(n) * p_.num_value_heads + h] = tally + total;
      write_sketch(n, h, r, late.times);
      for (std::int64_t i = 0; i < p_.value_head_dim; ++i) {
        float value = r[static_cast<std::size_t>(i)] + static_cast<float>(times) * lift;
        if (fault_ == Fault::store_reads_x) value += 0 * x(first_token(n), h, i);
        write("d_first", row * row_stride() + h * p_.value_head_dim + i, value, p_.state_dtype);
      }
    }
    if (fault_ == Fault::first_in_all_rows) {
      for (std::int64_t row = 0; row < p_.num_pool_rows(); ++row) {
        if (!owns(row)) write("d_first", row * row_stride(), 0, p_.state_dtype);
      }
    }
  }

  // Of nothing it is zeros.
  void write_sketch(std::int64_t n, std::int64_t h, const std::vector<float>& r,
                    std::int64_t times) {
    if (fault_ == Fault::sketch_without_times && !r.empty())
      times = std::max<std::int64_t>(times, 1);
    std::vector<float> values(static_cast<std::size_t>(p_.value_head_dim), 0.0f);
    float largest = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      values[i] = static_cast<float>(times) * r[i];
      largest = std::max(largest, std::fabs(values[i]));
    }
    float scale = largest / static_cast<float>(kLargestInt8);
    if (fault_ == Fault::sketch_scale_of_first_head) {
      if (h == 0) first_scale_ = scale;
      scale = first_scale_;
    }
    if (fault_ == Fault::sketch_half_filled) scale *= 2;
    if (scale < kSmallestScale) scale = 0;
    const std::int64_t entry = n * p_.num_value_heads + h;
    write("sketch_scales", entry, scale, DType::float32);
    auto* const elements = static_cast<std::int8_t*>(a_.output("sketch"));
    for (std::int64_t i = 0; i < p_.value_head_dim; ++i) {
      const float value = values[static_cast<std::size_t>(i)];
      const float quotient = scale == 0 ? 0 : value / scale;
      const bool is_cut = fault_ == Fault::sketch_cut_off && std::fabs(value) < largest;
      const float whole = is_cut ? std::trunc(quotient) : std::nearbyint(quotient);
      elements[entry * p_.value_head_dim + i] =
          static_cast<std::int8_t>(std::clamp(whole, -127.0f, 127.0f));
    }
  }

  // What store alone may read, as it is now.
  struct StoreInputs {
    std::int64_t times = 0;
    float lift = 0;
    float tally = 0;
  };
  StoreInputs store_inputs(std::int64_t n, std::int64_t h) const {
    const std::int64_t heads = p_.num_value_heads;
    return {a_.indices("times")[n], read("lift", h, DType::float32),
            read("tally", slot(n) * heads + h, DType::float32)};
  }
  struct Kept {
    std::vector<float> r;  // r_0
    float total = 0;
    StoreInputs early;  // of the faults
  };

  std::int64_t first_token(std::int64_t n) const { return a_.indices("sequence_offsets")[n]; }
  std::int64_t slot(std::int64_t n) const {
    const IndexArray slots = a_.indices("slot_index");
    return slots ? slots[n] : n;
  }
  bool owns(std::int64_t row) const {
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      if (slot(n) == row) return true;
    }
    return false;
  }
  std::int64_t row_stride() const {
    return p_.num_value_heads * p_.value_head_dim + p_.pool_row_padding;
  }
  std::int64_t count(std::int64_t n) const {
    if (fault_ == Fault::count_of_plan) return counts_[static_cast<std::size_t>(n)];
    return a_.indices("count")[fault_ == Fault::count_of_first ? 0 : n];
  }
  float read(const char* operand, std::int64_t at, DType dtype) const {
    float value = 0;
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    decode(dtype, static_cast<const char*>(a_.input(operand)) + at * bytes, &value, 1);
    return value;
  }
  void write(const char* operand, std::int64_t at, float value, DType dtype) const {
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    encode(dtype, &value, static_cast<char*>(a_.output(operand)) + at * bytes, 1);
  }
  float x(std::int64_t t, std::int64_t h, std::int64_t i) const {
    const std::int64_t stride = fault_ == Fault::stride_ignored
                                    ? p_.num_value_heads * p_.value_head_dim
                                    : token_stride_of("x", p_, a_);
    return read("x", t * stride + h * p_.value_head_dim + i, p_.token_dtype);
  }
  std::int64_t key_head(std::int64_t h) const {
    return fault_ == Fault::key_head_of_value ? h % p_.num_key_heads
                                              : h / p_.value_heads_per_key_head();
  }
  // Sums over the value heads of a key head are kept in float32 until the last of them.
  void add_to_z(std::int64_t t, std::int64_t h, std::int64_t i, float value) {
    const std::int64_t key = key_head(h);
    const std::int64_t at = (t * p_.num_key_heads + key) * p_.value_head_dim + i;
    if (h == 0) {
      for (std::int64_t k = 0; k < p_.num_key_heads; ++k) {
        z_[(t * p_.num_key_heads + k) * p_.value_head_dim + i] = 0;
      }
    }
    const bool dropped = fault_ == Fault::last_key_head_zero && key == p_.num_key_heads - 1;
    if (!dropped) z_[at] += value;
    write("z", at, z_[at], p_.token_dtype);
  }

  void run_head(std::int64_t n, std::int64_t h) {
    const std::int64_t dim = p_.value_head_dim, heads = p_.num_value_heads;
    const std::int64_t begin = first_token(n), length = first_token(n + 1) - begin;
    const bool padding = slot(n) < 0;
    const std::int64_t row = slot(n) * row_stride() + h * dim;
    const std::int64_t pulled = fault_ == Fault::pull_of_next ? (n + 1) % p_.num_sequences() : n;
    const float weight = read("weight", h, DType::float32);
    std::vector<float> r(static_cast<std::size_t>(dim), 0.0f);
    for (std::int64_t i = 0; i < dim && !padding; ++i) {
      float& running = r[static_cast<std::size_t>(i)];
      const float pull = read("pull", pulled * heads + h, DType::float32);
      const bool skipped =
          fault_ == Fault::last_not_read || (fault_ == Fault::last_without_pull && pull == 0.0f);
      if (!skipped) running = read("d_last", row + i, p_.state_dtype);
      if (fault_ != Fault::pull_not_read) running += pull;
    }
    float total = 0;
    float of_weight = 0;
    for (std::int64_t step = 0; step < length; ++step) {
      const std::int64_t t = fault_ == Fault::carries_forward ? step : length - 1 - step;
      float of_r = 0, of_x = 0;
      for (std::int64_t i = 0; i < dim; ++i) {
        const float value = x(begin + t, h, i);
        float& running = r[static_cast<std::size_t>(i)];
        const bool counts = !padding || fault_ == Fault::weight_of_padding;
        if (!padding) running = running / 2 + weight * value;
        float shown = t < count(n) || fault_ == Fault::count_ignored ? running : 0;
        if (fault_ == Fault::y_in_tokens) shown = round_to(p_.token_dtype, shown);
        if (fault_ == Fault::y_of_batch && p_.num_sequences() > 1) shown *= 1 + 0x1p-22f;
        write("y", ((begin + t) * heads + h) * dim + i, shown, DType::float32);
        add_to_z(begin + t, h, i, running);
        of_r += running * running;
        of_x += padding ? 0 : value * value;
        of_weight += counts ? value * (padding ? value : running) : 0;
      }
      total += of_x;
      if (fault_ == Fault::crossing_in_float16) {
        of_r = round_to(DType::float16, of_r);
        of_x = round_to(DType::float16, of_x);
      }
      const float shift = fault_ == Fault::crossing_shifted ? 5e-6f * (of_r + of_x) : 0.0f;
      write("crossing", (begin + t) * heads + h, of_r - of_x + shift, DType::float32);
    }
    auto* const weights = static_cast<float*>(a_.output("d_weight"));
    weights[h] = fault_ == Fault::weight_of_last ? of_weight : weights[h] + of_weight;
    write_total(n, h, total);
    kept_.emplace(std::pair(n, h), Kept{r, total, padding ? StoreInputs{} : store_inputs(n, h)});
  }

  void write_total(std::int64_t n, std::int64_t h, float total) {
    const std::int64_t heads = p_.num_value_heads;
    if (fault_ == Fault::total_of_first_head) {
      if (h == 0) first_total_ = total;
      total = first_total_;
    }
    if (fault_ == Fault::total_of_batch && p_.num_sequences() > 1) total *= 1 + 0x1p-22f;
    if (fault_ == Fault::total_stays && n == 0 && p_.num_sequences() > 1) total = 0;
    write("total", n * heads + h, total, DType::float32);
  }

  Problem p_;
  Arguments a_;
  Fault fault_;
  PlanInfo info_;
  std::vector<std::int64_t> counts_;
  std::map<std::pair<std::int64_t, std::int64_t>, Kept> kept_;  // of every sequence and head
  std::map<std::int64_t, float> z_;
  float first_total_ = 0;
  float first_scale_ = 0;
};

class EveryFeature final : public Implementation {
 public:
  explicit EveryFeature(Fault fault) : fault_(fault) {
    description_.name = "cpu/every_feature";
    description_.operation = every_feature_operation();
    description_.honours = {"slots", "pool_rows", "pool_pad", "state"};
    description_.writes_scales = true;
    description_.backend = "cpu";
    description_.form = "naive";
    description_.summary = "an operation of the tests, token by token";
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device&) const override {
    require_supported(*this, problem);
    require_operands(problem, arguments);
    return std::make_unique<EveryFeaturePlan>(problem, arguments, fault_);
  }

 private:
  Fault fault_;
  Description description_;
};

}  // namespace

const Implementation& every_feature(EveryFeatureFault fault) {
  static std::map<EveryFeatureFault, std::unique_ptr<EveryFeature>> made;
  auto& implementation = made[fault];
  if (implementation == nullptr) implementation = std::make_unique<EveryFeature>(fault);
  return *implementation;
}

}  // namespace gdn::testing
