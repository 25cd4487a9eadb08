// SPDX-License-Identifier: Apache-2.0
// A program as the engines of the cycle model take it: everything that decides about time, worked out once.

#pragma once

#include <cstdint>
#include <vector>

#include "isa_fields.h"
#include "misc_program.h"

namespace opendpu {

enum Engine : uint8_t { kLoad, kSave, kConv, kMisc, kEngines };

struct Target {  // mirrored by ctypes in library.py
    uint32_t pixel_parallel;
    uint32_t channel_parallel;
    uint32_t alu_pixel_parallel;
    uint32_t bank_depth;
    uint32_t image_banks;
    uint32_t taps;    // of the misc engine, a step
    uint32_t window;  // whether it has sliding steps
    uint32_t conv_sum;  // opendpu_arch.latency of the same name
    uint32_t conv_scaled;  // the same
};

// Rows in memory, as `plan_fields` of opendpu_hw.bus.burst; lengths are raw (less one).
struct Plan {
    uint64_t address;
    uint32_t bytes;
    uint32_t rows;
    uint32_t jump;
    uint32_t reach;
    bool merged;
};

struct LoadWork {
    Plan plan;
    uint8_t channel;
    uint8_t bank;
    bool constant;
    bool overlap;
};

struct SaveWork {
    Plan plan;       // of memory
    uint32_t bytes;  // of a pixel in the banks, raw
    uint64_t last;   // address of the last byte
    uint8_t channel;
    uint8_t bank;
    bool end;
    bool own;        // waits for the SAVEs before it
    bool constant;
    bool argmax;
};

struct ConvWork {
    bool init;
    uint32_t steps;    // of a column
    uint32_t columns;
    uint8_t stride_out;  // raw
    uint8_t tabled;      // its columns are written a cycle later
    uint8_t scaled;      // they take turns at multipliers
    uint8_t group_in;
    uint8_t group_out;
    uint8_t bases_used;
    uint16_t bases[4];   // words that are read: each base used, and `read_span` after it
    uint16_t read_span;
    uint16_t base_out;   // words that are written
    uint16_t write_span;
    uint8_t masks[16];  // banks of the group that are written, by turn
};

struct Instruction {
    uint8_t engine;
    uint8_t opcode;
    uint8_t words;
    uint8_t wants;
    uint8_t gives;
    uint32_t number;  // among those of its engine
    const uint32_t* raw;
};

// The instructions up to END, and the work of each engine in its order.
struct Program {
    std::vector<Instruction> instructions;
    std::vector<LoadWork> loads;
    std::vector<SaveWork> saves;
    std::vector<ConvWork> convs;
    MiscProgram miscs;
    bool complete = false;  // END was found
    bool orphan = false;    // the last instruction comes before its INIT

    Program(const Target& target, const uint32_t* words, uint64_t count);

  private:
    void load(const uint32_t* w);
    void save(const uint32_t* w, bool end, uint8_t wants);
    void conv(const Target& target, const uint32_t* init, const uint32_t* w);
    static void spans(const Target& target, const uint32_t* init, const uint32_t* w, ConvWork& work);
};

// Segments start far apart, at pages.
inline uint64_t base_of(uint32_t reg_id) { return (uint64_t{reg_id} + 1) << 36; }

inline Program::Program(const Target& target, const uint32_t* words, uint64_t count) {
    const uint32_t* init = nullptr;
    uint32_t numbers[kEngines] = {};
    for (uint64_t at = 0; at < count && !complete;) {
        const uint32_t* w = words + at;
        uint8_t opcode = w[0] >> 28, size = isa::kWords[opcode];
        if (size == 0 || at + size > count) return;
        uint8_t engine = isa::kEngine[opcode];
        uint8_t wants = w[0] >> 24 & 15, gives = w[0] >> 20 & 15;
        instructions.push_back({engine, opcode, size, wants, gives, numbers[engine]++, w});
        switch (opcode) {
            case isa::Load::kOpcode: load(w); break;
            case isa::Save::kOpcode: save(w, false, wants); break;
            case isa::End::kOpcode:
                save(w, true, wants);
                complete = true;
                break;
            case isa::ConvInit::kOpcode:
                init = w;
                convs.push_back({});
                convs.back().init = true;
                break;
            case isa::Conv::kOpcode:
                if (!init) {
                    orphan = true;
                    return;
                }
                conv(target, init, w);
                break;
            default:
                if (!miscs.add(target, opcode, w)) {
                    orphan = true;
                    return;
                }
        }
        at += size;
    }
}

inline void Program::load(const uint32_t* w) {
    using isa::Load;
    LoadWork work{};
    uint32_t bytes = Load::channel(w), jump = Load::jump_read(w), rows = Load::length(w);
    bool overlapping = jump < bytes;
    bool touching = overlapping ? bytes < 128 : jump - bytes < 16;
    uint32_t reach = (rows * (jump + 1) + bytes) & 0x7FFFFFF;
    work.plan = {base_of(Load::reg_id(w)) + Load::ddr_addr(w), bytes, rows, jump, reach, touching};
    work.bank = Load::bank_id(w);
    work.channel = work.bank & 1;
    work.constant = Load::broadcast(w) == 7;
    work.overlap = touching && overlapping;
    loads.push_back(work);
}

inline void Program::save(const uint32_t* w, bool end, uint8_t wants) {
    using isa::Save;
    SaveWork work{};
    work.end = end;
    work.own = wants >> kSave & 1;
    if (!end) {
        work.constant = Save::const_en(w);
        work.argmax = (Save::argmax(w) & 2) && !work.constant;
        work.bytes = Save::channel(w);
        uint32_t size = work.argmax ? 0 : work.bytes, jump = Save::jump_write(w), rows = Save::length(w);
        uint32_t reach = (rows * (jump + 1) + size) & 0x7FFFFFF;
        uint64_t address = base_of(Save::reg_id(w)) + Save::ddr_addr(w);
        work.plan = {address, size, rows, jump, reach, jump == size || rows == 0};
        work.last = address + reach;
        work.bank = Save::bank_id(w);
        work.channel = (work.constant ? Save::hp_id(w) : Save::bank_id(w)) & 1;
    }
    saves.push_back(work);
}

inline void Program::conv(const Target& target, const uint32_t* init, const uint32_t* w) {
    using isa::Conv;
    using isa::ConvInit;
    ConvWork work{};
    uint32_t banks = target.pixel_parallel;
    work.steps = (ConvInit::kernel_h(init) + 1) * (ConvInit::kernel_w(init) + 1) * (Conv::channel_group(w) + 1);
    work.columns = Conv::length(w) + 1;
    work.stride_out = ConvInit::stride_out(init);
    work.tabled = Conv::table(w) != 0;
    work.scaled = Conv::scaled(w);
    work.group_in = Conv::bank_id_in(w) / banks & 3;
    work.group_out = Conv::bank_id_out(w) / banks & 3;
    uint32_t stride = work.stride_out + 1u, offset = ConvInit::stride_offset_out(init);
    uint32_t first = offset / stride & 7, low = Conv::bank_id_out(w) % banks;
    int last_row = static_cast<int>(ConvInit::valid_pixel_parallel(init));
    for (uint32_t bank = 0; bank < banks; ++bank) {
        uint32_t q = (first + ((bank - low - first) & (banks - 1))) & 15;
        uint32_t row = q * stride - offset;
        for (uint32_t turn = 0; turn < stride; ++turn) {
            int place = static_cast<int>(((row + turn) & 1023) ^ 512) - 512;
            if (place >= 0 && place <= last_row) work.masks[turn] |= 1u << bank;
        }
    }
    spans(target, init, w, work);
    convs.push_back(work);
}

// As the planner bounds them, see conv_plan.py.
inline void Program::spans(const Target& target, const uint32_t* init, const uint32_t* w, ConvWork& work) {
    using isa::Conv;
    using isa::ConvInit;
    uint32_t banks = target.pixel_parallel, depth = target.bank_depth;
    auto divided = [](uint32_t dividend, uint32_t raw) {
        uint32_t divisor = raw + 1;
        return dividend >> (divisor >= 8 ? 3 : divisor >= 4 ? 2 : divisor >= 2 ? 1 : 0);
    };
    auto limited = [depth](uint32_t span) { return static_cast<uint16_t>(span >= depth ? depth - 1 : span); };
    uint32_t rows = ConvInit::valid_pixel_parallel(init), stride_out = ConvInit::stride_out(init);
    uint32_t last_in = Conv::bank_id_in(w) % banks + rows
                       + divided(ConvInit::stride_offset_in(init) + ConvInit::kernel_h(init), ConvInit::stride_h(init));
    uint32_t last_out = Conv::bank_id_out(w) % banks
                        + divided(ConvInit::stride_offset_out(init) + rows, stride_out);
    const uint32_t bases[] = {Conv::bank_addr_in(w), Conv::bank_addr_in_1(w), Conv::bank_addr_in_2(w),
                              Conv::bank_addr_in_3(w)};
    for (uint32_t i = 0; i < 4; ++i) {
        work.bases[i] = bases[i] & (depth - 1);
        if (last_in / banks >= i) work.bases_used |= 1u << i;
    }
    uint32_t length = Conv::length(w), jump = ConvInit::jump_read(init) + 1;
    uint32_t jump_endl = ConvInit::jump_write_endl(init) + 1;
    work.read_span = limited(length * jump * (ConvInit::stride_w(init) + 1) + jump * ConvInit::kernel_w(init)
                             + (ConvInit::jump_read_endl(init) + 1) * ConvInit::stride_h(init)
                             + Conv::channel_group(w));
    work.base_out = Conv::bank_addr_out(w) & (depth - 1);
    work.write_span = limited(length * (ConvInit::jump_write(init) + 1)
                              + (last_out / banks & 7) * jump_endl * (stride_out + 1) + jump_endl * stride_out);
}

}  // namespace opendpu
