// SPDX-License-Identifier: Apache-2.0

#include "misc_program.h"

#include <algorithm>

#include "program.h"

namespace opendpu {

namespace {

constexpr uint32_t kCachedTaps = 64;

uint8_t group_of(const Target& target, uint32_t bank) { return bank / target.pixel_parallel & 3; }

}  // namespace

bool MiscProgram::add(const Target& target, uint8_t opcode, const uint32_t* w) {
    MiscWork work;
    MiscPass pass;
    Rows rows{};
    switch (opcode) {
        case isa::AluInit::kOpcode:
            alu_init_ = w;
            work.init = work.multiplies = true;
            break;
        case isa::PoolInit::kOpcode:
            pool_init_ = w;
            work.init = true;
            break;
        case isa::DwInit::kOpcode:
            dw_init_ = w;
            work.init = true;
            break;
        case isa::ElewInit::kOpcode:
            entries_[isa::ElewInit::id(w)] = w;
            work.init = true;
            break;
        case isa::Alu::kOpcode:
            if (!alu_init_) return false;
            pass = alu(target, w, rows);
            pass.tabled = isa::Alu::table(w);
            pass.scaled = isa::Alu::scaled(w);
            break;
        case isa::Pool::kOpcode:
            if (!pool_init_) return false;
            pass = pool(target, w, rows);
            pass.tabled = isa::Pool::table(w);
            work.multiplies = true;
            break;
        case isa::DptWise::kOpcode:
            if (!dw_init_) return false;
            pass = dptwise(target, w, rows);
            pass.tabled = isa::DptWise::table(w);
            work.multiplies = true;
            break;
        default:
            for (uint32_t n = 0; n <= isa::Elew::num(w); ++n)
                if (!entries_[n]) return false;
            pass = elew(target, w, rows);
            pass.tabled = isa::Elew::table(w);
            pass.scaled = isa::Elew::scaled(w);
            pass.product = pass.scaled && static_cast<isa::ElewType>(isa::Elew::elew_type(w)) == isa::ElewType::MULT;
    }
    if (!work.init) {
        pass.bias |= pass.scaled;  // a record
        passes_.push_back(split(target, pass, rows));
        work.passes = passes_.back().data();
        work.count = static_cast<uint32_t>(passes_.back().size());
    }
    works.push_back(work);
    return true;
}

void MiscProgram::kernel(const Target& target, MiscPass& p, uint32_t h_1, uint32_t w_1, uint32_t stride_h_1,
                         uint32_t stride_w_1) {
    p.kernel_h_1 = h_1;
    p.kernel_w_1 = w_1;
    p.stride_h = stride_h_1 + 1;
    p.phases_1 = std::min(stride_h_1, h_1);
    p.paired = h_1 == 2 && w_1 == 2 && stride_h_1 == 1 && stride_w_1 == 1 && target.taps >= 3;
    p.sliding = target.window && h_1 <= 2 && w_1 == 2 && stride_h_1 == 0 && stride_w_1 == 0;
    p.fetch_stride_h = p.paired ? 1 : p.stride_h;
    p.fetch_phases_1 = p.paired ? 0 : p.phases_1;
    p.cached = (h_1 + 1) * (w_1 + 1) <= kCachedTaps;
}

MiscPass MiscProgram::alu(const Target& target, const uint32_t* w, Rows& rows) const {
    using isa::Alu;
    using isa::AluInit;
    using isa::AluMode;
    const uint32_t* i = alu_init_;
    MiscPass p;
    kernel(target, p, AluInit::kernel_h(i), AluInit::kernel_w(i), AluInit::stride_h(i), AluInit::stride_w(i));
    p.length_1 = AluInit::length(i);
    p.groups_1 = AluInit::channel_group(i);
    p.in_bank = AluInit::stride_offset_in(i);
    rows = {Alu::valid_pixel_parallel(w), AluInit::stride_out(i) + 1, AluInit::stride_offset_out(i),
            Alu::bank_id_out(w), Alu::bank_id_in(w)};
    p.uses_ring = p.fetch_weights = p.bias = true;
    switch (static_cast<AluMode>(AluInit::exec_mode(i))) {
        case AluMode::LEAKYRELU:
        case AluMode::AVEPOOL:
        case AluMode::MAXPOOL:
        case AluMode::MAXREDUCE:
        case AluMode::HSIGMOID: p.uses_ring = p.fetch_weights = p.bias = false; break;
        case AluMode::DWCVW16B0:
            p.single = true;
            p.paired = p.sliding = p.bias = false;
            p.fetch_stride_h = p.stride_h;
            p.fetch_phases_1 = p.phases_1;
            break;
        case AluMode::PRELU:
        case AluMode::DWCVB0: p.bias = false; break;
        default: break;
    }
    return p;
}

MiscPass MiscProgram::pool(const Target& target, const uint32_t* w, Rows& rows) const {
    using isa::Pool;
    using isa::PoolInit;
    const uint32_t* i = pool_init_;
    MiscPass p;
    if (static_cast<isa::PoolType>(PoolInit::pool_type(i)) == isa::PoolType::MAX_REDUCE) {
        uint32_t h = Pool::downsample_kernel_h(w), v = Pool::downsample_kernel_w(w);
        kernel(target, p, h, v, h, v);
    } else {
        kernel(target, p, PoolInit::kernel_h(i), PoolInit::kernel_w(i), PoolInit::stride_h(i), PoolInit::stride_w(i));
    }
    p.length_1 = Pool::length(w);
    p.groups_1 = Pool::channel_group(w);
    p.in_bank = PoolInit::stride_offset_in(i);
    rows = {PoolInit::valid_pixel_parallel(i), PoolInit::stride_out(i) + 1, PoolInit::stride_offset_out(i),
            Pool::bank_id_out(w), Pool::bank_id_in(w)};
    return p;
}

MiscPass MiscProgram::dptwise(const Target& target, const uint32_t* w, Rows& rows) const {
    using isa::DptWise;
    using isa::DwInit;
    const uint32_t* i = dw_init_;
    MiscPass p;
    kernel(target, p, DwInit::kernel_h(i), DwInit::kernel_w(i), DwInit::stride_h(i), DwInit::stride_w(i));
    p.length_1 = DptWise::length(w);
    p.groups_1 = DptWise::channel_group(w);
    p.in_bank = DwInit::stride_offset_in(i);
    p.uses_ring = p.fetch_weights = p.bias = true;
    rows = {DwInit::valid_pixel_parallel(i), DwInit::stride_out(i) + 1, DwInit::stride_offset_out(i),
            DptWise::bank_id_out(w), DptWise::bank_id_in(w)};
    return p;
}

MiscPass MiscProgram::elew(const Target& target, const uint32_t* w, Rows& rows) const {
    using isa::Elew;
    using isa::ElewInit;
    MiscPass p;
    uint32_t banks = target.pixel_parallel, rows_1 = Elew::valid_pixel_parallel(w);
    p.eltwise = true;
    p.inputs_1 = Elew::num(w);
    p.length_1 = Elew::length(w);
    p.groups_1 = Elew::channel_group(w);
    for (uint32_t n = 0; n <= p.inputs_1; ++n) {
        const uint32_t* entry = entries_[n];
        uint32_t low = ElewInit::bank_id_in(entry), step = ElewInit::share_pp(entry) ? 0 : ElewInit::jump_bank(entry) + 1;
        p.input_groups[n] = group_of(target, low);
        for (uint32_t q = 0; q <= rows_1; ++q) p.input_masks[n] |= 1u << ((low + q * step) & (banks - 1));
        p.reads |= p.input_masks[n] << p.input_groups[n] * banks;
    }
    rows = {rows_1, 1, 0, Elew::bank_id_out(w), 0};
    return p;
}

// Cuts the rows into passes: the planner's states Rows and Offer.
std::vector<MiscPass> MiscProgram::split(const Target& target, MiscPass pass, Rows rows) {
    uint32_t banks = target.pixel_parallel, most = target.alu_pixel_parallel;
    std::vector<MiscPass> result;
    pass.group_out = group_of(target, rows.bank_out);
    if (pass.eltwise) {
        for (uint32_t q = 0; q <= rows.rows_1; ++q)
            pass.writes |= 1u << (pass.group_out * banks + ((rows.bank_out + q) & (banks - 1)));
    } else {
        uint32_t all = (1u << banks) - 1;
        pass.group_in = group_of(target, rows.bank_in);
        pass.reads = all << pass.group_in * banks;
        pass.writes = all << pass.group_out * banks;
    }
    uint32_t low = rows.bank_in & (banks - 1), bank = rows.bank_out & (banks - 1), phase = rows.out_phase;
    for (uint32_t left = rows.rows_1 + 1; left;) {
        uint32_t now = std::min(left, most), turn = 0;
        pass.rows_1 = now - 1;
        pass.low = low;
        pass.turns_1 = 0;
        for (uint32_t& mask : pass.masks) mask = 0;
        for (uint32_t row = 0; row < now; ++row) {
            pass.masks[turn] |= 1u << bank;
            pass.turns_1 = std::max<uint32_t>(pass.turns_1, turn);
            turn = turn + 1 == rows.stride_out ? 0 : (turn + 1) & 7;
            if (phase + 1 == rows.stride_out) {
                phase = 0;
                bank = (bank + 1) & (banks - 1);
            } else {
                ++phase;
            }
        }
        left -= now;
        pass.final = left == 0;
        result.push_back(pass);
        low = (low + most) & (banks - 1);
        pass.checked = false;
    }
    return result;
}

}  // namespace opendpu
