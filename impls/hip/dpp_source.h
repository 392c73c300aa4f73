// Which lane a DPP control reads (Vega ISA, "DPP_CTRL enumeration"): for builds of the gfx906
// kernels on machines without DPP. Plain C++.
#pragma once

namespace gdn::hip {

/// The lane that `lane` reads, or -1 where it has no source; -2 for controls that are not covered.
constexpr int dpp_source(int control, int lane) {
  const int row = lane & ~15, position = lane & 15, amount = control & 15;
  if (control < 0x100) return (lane & ~3) | (control >> (2 * (lane & 3)) & 3);         // quad_perm
  if ((control & 0x1f0) == 0x100) return position + amount < 16 ? lane + amount : -1;  // row_shl
  if ((control & 0x1f0) == 0x110) return position >= amount ? lane - amount : -1;      // row_shr
  if ((control & 0x1f0) == 0x120) return row | ((position - amount) & 15);             // row_ror
  if (control == 0x140) return row | (15 - position);                                  // row_mirror
  if (control == 0x141) return (lane & ~7) | (7 - (lane & 7));  // row_half_mirror
  if (control == 0x142) return row > 0 ? row - 1 : -1;          // row_bcast:15
  if (control == 0x143) return lane >= 32 ? 31 : -1;            // row_bcast:31
  return -2;
}

/// Whether every lane of the rows in `row_mask` reads a lane of its own half of the wave.
constexpr bool dpp_within_halves(int control, int row_mask) {
  for (int lane = 0; lane < 64; ++lane) {
    const int source = dpp_source(control, lane);
    if ((row_mask >> (lane / 16) & 1) != 0 && source >= 0 && source / 32 != lane / 32) return false;
  }
  return true;
}

}  // namespace gdn::hip
