// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.memory.banks: who gets the ports. Masks have a bit an image bank; channels have no bank in common.

#pragma once

#include <cstdint>

namespace opendpu {

struct BankRequests {
    uint32_t conv_group = 0;  // every bank of the group that CONV reads
    uint32_t conv_write = 0;
    uint32_t misc_read = 0;
    uint32_t misc_write = 0;
    bool load_valid[2] = {};
    uint8_t load_bank[2] = {};
    bool save_valid[2] = {};
    uint8_t save_bank[2] = {};
};

struct BankGrants {
    bool misc_read = true, misc_write = true, load[2] = {true, true}, save[2] = {true, true};
};

inline BankGrants arbitrate(const BankRequests& r, uint32_t image_banks) {
    auto bit = [image_banks](bool valid, uint8_t bank) {
        return valid && bank < image_banks ? 1u << bank : 0u;
    };
    uint32_t load_0 = bit(r.load_valid[0], r.load_bank[0]), load_1 = bit(r.load_valid[1], r.load_bank[1]);
    uint32_t save_0 = bit(r.save_valid[0], r.save_bank[0]), save_1 = bit(r.save_valid[1], r.save_bank[1]);
    uint32_t computed = r.conv_write | r.misc_write, write = computed | load_0 | load_1;
    uint32_t misc_on_b = r.misc_read & r.conv_group;
    uint32_t taken = (r.conv_group & (write | misc_on_b)) | (~r.conv_group & r.misc_read & write);
    BankGrants g;
    g.misc_write = !(r.conv_write & r.misc_write);
    g.misc_read = !(misc_on_b & write);
    g.load[0] = !(load_0 & computed);
    g.load[1] = !(load_1 & computed);
    g.save[0] = !(save_0 & taken);
    g.save[1] = !(save_1 & taken);
    return g;
}

}  // namespace opendpu
