// SPDX-License-Identifier: Apache-2.0
// MISC instructions worked out: opendpu_hw.engine.misc_decode, as far as it decides about time.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "isa_fields.h"

namespace opendpu {

struct Target;

// What walk, fetch and writer do for up to PP_alu rows of an instruction; `_1` means less one.
struct MiscPass {
    // walk
    bool eltwise = false, paired = false, sliding = false, uses_ring = false, bias = false, cached = false;
    bool single = false;  // a step has one tap
    bool checked = true;  // waits for what it reads
    bool tabled = false;  // its results come a cycle later
    bool scaled = false;  // they take turns at multipliers
    bool product = false;  // of terms
    uint32_t reads = 0, writes = 0;  // image banks, for the order of jobs
    uint8_t rows_1 = 0, inputs_1 = 0, group_in = 0, low = 0, in_bank = 0;
    uint16_t length_1 = 0, groups_1 = 0, kernel_h_1 = 0, kernel_w_1 = 0, phases_1 = 0, stride_h = 1;
    uint32_t input_masks[4] = {};  // ELEW: banks of the group that a step reads
    uint8_t input_groups[4] = {};
    // fetch
    uint16_t fetch_stride_h = 1, fetch_phases_1 = 0;
    bool fetch_weights = false;
    // writer
    uint8_t group_out = 0, turns_1 = 0;
    uint32_t masks[8] = {};  // banks of the group that are written, by turn
    bool final = false;      // of its instruction
};

struct MiscWork {
    bool init = false;
    bool multiplies = false;     // the planner's products take their time
    const MiscPass* passes = nullptr;
    uint32_t count = 0;
};

class MiscProgram {
  public:
    std::vector<MiscWork> works;

    // Appends an instruction; false if its INIT is missing.
    bool add(const Target& target, uint8_t opcode, const uint32_t* w);

  private:
    std::deque<std::vector<MiscPass>> passes_;
    const uint32_t *alu_init_ = nullptr, *pool_init_ = nullptr, *dw_init_ = nullptr, *entries_[4] = {};

    struct Rows {
        uint32_t rows_1, stride_out, out_phase, bank_out, bank_in;
    };
    static void kernel(const Target& target, MiscPass& p, uint32_t h_1, uint32_t w_1, uint32_t stride_h_1,
                       uint32_t stride_w_1);
    MiscPass alu(const Target& target, const uint32_t* w, Rows& rows) const;
    MiscPass pool(const Target& target, const uint32_t* w, Rows& rows) const;
    MiscPass dptwise(const Target& target, const uint32_t* w, Rows& rows) const;
    MiscPass elew(const Target& target, const uint32_t* w, Rows& rows) const;
    static std::vector<MiscPass> split(const Target& target, MiscPass pass, Rows rows);
};

}  // namespace opendpu
