// How instructions are described: one line each, a mnemonic and a function of the lanes' values.
//
//     table.vector("v_add_f32", [](float a, float b) { return a + b; });
//
// The function's parameter and result types say how registers are read (float, Half, double, 32-
// and 64-bit integers); operand fetch with its modifiers (negation, DPP, SDWA), the write under
// exec, the output modifiers and the tracking of undefined lanes are the same for all and stand
// here.
#pragma once

#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "hip/emulator/decoder.h"
#include "hip/emulator/lanes.h"

namespace gdn::gfx906 {

namespace detail {

template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename F, typename R, typename... A>
struct Signature<R (F::*)(A...) const> {
  using Result = R;
  using Arguments = std::tuple<std::remove_cvref_t<A>...>;
  static constexpr int arity = sizeof...(A);
};

template <typename F, int... Index, std::size_t... K>
void lanewise(Context& context, Wave& wave, const Instruction& instruction,
              std::integer_sequence<int, Index...>, std::index_sequence<K...>) {
  using Result = typename Signature<F>::Result;
  using Arguments = typename Signature<F>::Arguments;
  LaneBuffer buffers[sizeof...(K)];
  std::uint64_t write = wave.exec();
  const std::tuple<Source<std::tuple_element_t<K, Arguments>>...> sources{
      read_lanes<std::tuple_element_t<K, Arguments>>(context, wave, instruction, Index, buffers[K],
                                                     K == 0 ? &write : nullptr)...};
  LaneBuffer result;
  for (int lane = 0; lane < kLanes; ++lane) {
    result.store<Result>(lane, F{}(std::get<K>(sources)[lane]...));
  }
  const std::uint64_t defined = (std::get<K>(sources).defined & ...);
  write_lanes<Result>(context, wave, instruction, result, write, defined);
}

/// F over the operands Index..., the destination being operand 0.
template <typename F, int... Index>
void execute_lanewise(Context& context, Wave& wave, const Instruction& instruction) {
  lanewise<F>(context, wave, instruction, std::integer_sequence<int, Index...>{},
              std::make_index_sequence<sizeof...(Index)>{});
}

template <typename F, std::size_t... K>
Execute lanewise_entry(std::index_sequence<K...>) {
  return &execute_lanewise<F, static_cast<int>(K) + 1 ...>;
}

/// A unary function of a float whose last bit the hardware does not promise: the result is
/// correctly rounded here, or off by up to LaunchOptions::transcendental_ulp.
template <typename F>
void execute_transcendental(Context& context, Wave& wave, const Instruction& instruction) {
  LaneBuffer buffer, result;
  std::uint64_t write = wave.exec();
  const auto source = read_lanes<float>(context, wave, instruction, 1, buffer, &write);
  const int ulp = context.options.transcendental_ulp;
  for (int lane = 0; lane < kLanes; ++lane) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(F{}(source[lane]));
    const std::uint32_t exponent = bits >> 23 & 255;
    if (ulp > 0 && exponent != 0 && exponent < 254) {
      bits += static_cast<std::uint32_t>(wave.noise()) % static_cast<std::uint32_t>(2 * ulp + 1) -
              static_cast<std::uint32_t>(ulp);
    }
    result.low[lane] = bits;
  }
  write_lanes<float>(context, wave, instruction, result, write, source.defined);
}

}  // namespace detail

class OpcodeTable {
 public:
  std::unordered_map<std::string, OpcodeEntry> entries;

  void add(const std::string& name, Unit unit, Execute execute, MemoryForm memory = {}) {
    entries[name] = {unit, execute, memory};
  }
  /// Destination operand 0, sources 1, 2, ...
  template <typename F>
  void vector(const std::string& name, F, Unit unit = Unit::vector) {
    add(name, unit,
        detail::lanewise_entry<F>(std::make_index_sequence<detail::Signature<F>::arity>{}));
  }
  /// The third source is the destination: fmac, mac.
  template <typename F>
  void accumulate(const std::string& name, F) {
    add(name, Unit::vector, &detail::execute_lanewise<F, 1, 2, 0>);
  }
  template <typename F>
  void transcendental(const std::string& name, F) {
    add(name, Unit::vector_quarter, &detail::execute_transcendental<F>);
  }
};

// One function per class of instructions, in the file of that name.
void add_scalar(OpcodeTable& table);
void add_vector_float(OpcodeTable& table);
void add_vector_integer(OpcodeTable& table);
void add_vector_half(OpcodeTable& table);
void add_lane_exchange(OpcodeTable& table);
void add_memory(OpcodeTable& table);

}  // namespace gdn::gfx906
