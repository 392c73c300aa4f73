#include "interface/enum_names.h"

#include "interface/gate_encoding_table.h"
#include "interface/problem.h"

namespace gdn {

template <>
const EnumNames<UpdateRule>& names_of() {
  static const EnumNames<UpdateRule> names = {{"delta", UpdateRule::delta},
                                              {"additive", UpdateRule::additive}};
  return names;
}

template <>
const EnumNames<DecayPer>& names_of() {
  static const EnumNames<DecayPer> names = {{"head", DecayPer::head},
                                            {"channel", DecayPer::channel}};
  return names;
}

template <>
const EnumNames<StateLayout>& names_of() {
  static const EnumNames<StateLayout> names = {{"kv", StateLayout::kv}, {"vk", StateLayout::vk}};
  return names;
}

namespace {

template <typename Enum, typename Table>
EnumNames<Enum> names_in(const Table& table) {
  EnumNames<Enum> names;
  for (const auto& entry : table) names.emplace_back(entry.name, entry.encoding);
  return names;
}

}  // namespace

template <>
const EnumNames<GateEncoding>& names_of() {
  static const auto names = names_in<GateEncoding>(kGateEncodings);
  return names;
}

template <>
const EnumNames<BetaEncoding>& names_of() {
  static const auto names = names_in<BetaEncoding>(kBetaEncodings);
  return names;
}

template <>
const EnumNames<GateDistribution>& names_of() {
  static const EnumNames<GateDistribution> names = {
      {"real", GateDistribution::real},       {"none", GateDistribution::none},
      {"weak", GateDistribution::weak},       {"near_one", GateDistribution::near_one},
      {"strong", GateDistribution::strong},   {"mid", GateDistribution::mid},
      {"reset", GateDistribution::reset},     {"tiny", GateDistribution::tiny},
      {"masked", GateDistribution::masked},   {"decay_uniform", GateDistribution::decay_uniform},
      {"edges", GateDistribution::edges},     {"step", GateDistribution::step},
      {"bounded", GateDistribution::bounded}, {"far", GateDistribution::far},
      {"mixture", GateDistribution::mixture}};
  return names;
}

template <>
const EnumNames<BetaDistribution>& names_of() {
  static const EnumNames<BetaDistribution> names = {
      {"sigmoid", BetaDistribution::sigmoid}, {"zero", BetaDistribution::zero},
      {"one", BetaDistribution::one},         {"two", BetaDistribution::two},
      {"wide", BetaDistribution::wide},       {"mixture", BetaDistribution::mixture}};
  return names;
}

template <>
const EnumNames<KeyDistribution>& names_of() {
  static const EnumNames<KeyDistribution> names = {{"unit", KeyDistribution::unit},
                                                   {"correlated", KeyDistribution::correlated},
                                                   {"equal", KeyDistribution::equal},
                                                   {"alternating", KeyDistribution::alternating},
                                                   {"zero", KeyDistribution::zero},
                                                   {"unnormalised", KeyDistribution::unnormalised},
                                                   {"near_equal", KeyDistribution::near_equal},
                                                   {"lengths", KeyDistribution::lengths}};
  return names;
}

template <>
const EnumNames<Magnitudes>& names_of() {
  static const EnumNames<Magnitudes> names = {{"ordinary", Magnitudes::ordinary},
                                              {"edges", Magnitudes::edges}};
  return names;
}

template <>
const EnumNames<Acceptance>& names_of() {
  static const EnumNames<Acceptance> names = {{"mixture", Acceptance::mixture},
                                              {"all", Acceptance::all},
                                              {"none", Acceptance::none},
                                              {"geometric", Acceptance::geometric},
                                              {"alternating", Acceptance::alternating}};
  return names;
}

template <>
const EnumNames<RingFill>& names_of() {
  static const EnumNames<RingFill> names = {{"mixture", RingFill::mixture},
                                            {"none", RingFill::none},
                                            {"all", RingFill::all},
                                            {"cycle", RingFill::cycle}};
  return names;
}

template <>
const EnumNames<InitialState>& names_of() {
  static const EnumNames<InitialState> names = {{"absent", InitialState::absent},
                                                {"normal", InitialState::normal},
                                                {"large", InitialState::large},
                                                {"huge", InitialState::huge}};
  return names;
}

template <>
const EnumNames<SlotMap>& names_of() {
  static const EnumNames<SlotMap> names = {{"identity", SlotMap::identity},
                                           {"permuted", SlotMap::permuted},
                                           {"padding", SlotMap::padding}};
  return names;
}
template <>
const EnumNames<OutputSlots>& names_of() {
  static const EnumNames<OutputSlots> names = {{"same", OutputSlots::same},
                                               {"other", OutputSlots::other}};
  return names;
}

template <>
const EnumNames<StateRounding>& names_of() {
  static const EnumNames<StateRounding> names = {{"nearest", StateRounding::nearest},
                                                 {"stochastic", StateRounding::stochastic}};
  return names;
}

template <>
const EnumNames<Activation>& names_of() {
  static const EnumNames<Activation> names = {{"none", Activation::none},
                                              {"silu", Activation::silu}};
  return names;
}

template <>
const EnumNames<NormGate>& names_of() {
  static const EnumNames<NormGate> names = {
      {"silu", NormGate::silu}, {"sigmoid", NormGate::sigmoid}, {"sigmoid2", NormGate::sigmoid2}};
  return names;
}

template <>
const EnumNames<ConvLayout>& names_of() {
  static const EnumNames<ConvLayout> names = {{"channels", ConvLayout::channels},
                                              {"time", ConvLayout::time}};
  return names;
}

template <>
const EnumNames<WindowLayout>& names_of() {
  static const EnumNames<WindowLayout> names = {{"time", WindowLayout::time},
                                                {"channels", WindowLayout::channels}};
  return names;
}

template <>
const EnumNames<LogitType>& names_of() {
  static const EnumNames<LogitType> names = {{"f32", LogitType::float32},
                                             {"token", LogitType::token}};
  return names;
}
template <>
const EnumNames<WindowOrder>& names_of() {
  static const EnumNames<WindowOrder> names = {{"oldest_first", WindowOrder::oldest_first},
                                               {"ring", WindowOrder::ring}};
  return names;
}

template <>
const EnumNames<ConvResidual>& names_of() {
  static const EnumNames<ConvResidual> names = {
      {"0", ConvResidual::none}, {"1", ConvResidual::input}, {"tensor", ConvResidual::tensor}};
  return names;
}

template <>
const EnumNames<ConvWindow>& names_of() {
  static const EnumNames<ConvWindow> names = {{"carried", ConvWindow::carried},
                                              {"read", ConvWindow::read},
                                              {"written", ConvWindow::written},
                                              {"none", ConvWindow::none}};
  return names;
}

template <>
const EnumNames<bool>& names_of() {
  static const EnumNames<bool> names = {{"0", false}, {"1", true}};
  return names;
}

}  // namespace gdn
