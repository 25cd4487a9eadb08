// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.misc_walk and misc_writer.

#pragma once

#include "fifo.h"
#include "misc_program.h"

namespace opendpu {

struct MiscWalk {
    const MiscPass* pass = nullptr;
    uint32_t group = 0, column = 0, kernel_w = 0, phase = 0, kernel_h = 0, low = 0, phase_low = 0, in_bank = 0;
    uint8_t index = 0, base = 0, freed = 0;
    uint32_t room = 16, biases = 0;
    Fifo<uint32_t, 8> unwritten;  // banks that jobs taken write
    uint32_t busy = 0;            // all of them
    bool tabled = false;          // the last job taken has a table
    bool scaled = false;          // it has multipliers
    uint32_t gap = 0;             // until they take another column
    bool behind_product = false;  // of terms, which is computed late
    uint32_t distance = 0;        // of columns with multipliers
    uint8_t loaded = 0;           // as it was a cycle ago
    // stage 1: the read that is offered, and one that waits behind it
    struct Read {
        bool valid = false, compute = false, last = false, last_group = false, last_job = false, bias = false, tabled = false, scaled = false, product = false;
        uint8_t group = 0, base = 0;
        uint32_t mask = 0;
    };
    Read read, waits;

    bool last_tap(uint32_t taps) const {
        const MiscPass& p = *pass;
        if (p.eltwise) return kernel_w == p.inputs_1;
        if (p.single) taps = 1;
        return kernel_w == p.kernel_w_1 && phase == p.phases_1 && kernel_h + p.stride_h * taps > p.kernel_h_1;
    }
    bool may_step(uint32_t taps) const {
        if (!pass || waits.valid) return false;
        if (pass->uses_ring && static_cast<uint8_t>(loaded - base) <= index) return false;
        if (pass->bias && !biases && kernel_h == 0 && kernel_w == 0 && column == 0) return false;
        return room || !last_tap(taps);
    }
    bool last_step(uint32_t taps) const {
        return column == pass->length_1 && group == pass->groups_1 && last_tap(taps);
    }
    // Whether the next job may begin, as far as this one goes; results without a table take a cycle less,
    // and those without multipliers some.
    bool over(const MiscPass& next, uint32_t taps, bool is_step) const {
        if (scaled && !next.scaled) return !pass && room == 16;
        if (tabled && !next.tabled) return !pass && !read.valid;
        return !pass || (is_step && last_step(taps));
    }
    bool hazard(const MiscPass& next) const {
        return next.checked && next.reads & busy;
    }

    // Whether the read that is offered comes too early for the multipliers.
    bool held() const { return read.scaled && ((read.last && gap) || (behind_product && !read.product)); }
    void turn(bool fetched) {
        if (fetched && read.last) {
            gap = read.scaled ? distance - 1 + read.tabled : 0;
            behind_product = read.product;
        } else if (gap) {
            --gap;
        } else {
            behind_product = false;
        }
    }
    void written() {
        unwritten.pop();
        busy = 0;
        for (uint32_t n = 0; n < unwritten.level; ++n) busy |= unwritten.ring[(unwritten.head + n) & 7];
    }
    // The walk by one step, and the read it asks for.
    Read advance(uint32_t taps, uint32_t banks) {
        Read made;
        made.valid = true;
        const MiscPass& p = *pass;
        if (p.single) taps = 1;
        bool is_last_tap = last_tap(taps), last_column = column == p.length_1, is_last_group = group == p.groups_1;
        bool again = column != 0 && kernel_w == 1 && phase == 0;
        made.compute = !p.paired || phase == 1 || again;
        made.last = is_last_tap;
        made.last_group = is_last_tap && last_column;
        made.last_job = made.last_group && is_last_group;
        made.bias = p.bias;
        made.tabled = p.tabled;
        made.scaled = p.scaled;
        made.product = p.product;
        if (p.bias && kernel_h == 0 && kernel_w == 0 && column == 0) --biases;
        if (p.eltwise) {
            made.group = p.input_groups[kernel_w];
            made.mask = p.input_masks[kernel_w];
        } else {
            made.group = p.group_in;
            uint32_t count = 1;
            while (count < taps && kernel_h + count * p.stride_h <= p.kernel_h_1) ++count;
            uint32_t used = (1u << (p.rows_1 + count)) - 1;
            made.mask = (used << low | used >> (banks - low)) & ((1u << banks) - 1);
        }
        if (p.uses_ring && made.compute) {
            if (!p.cached || made.last_group) {
                base += index + 1;
                index = 0;
            } else if (is_last_tap) {
                if (!p.sliding) index = 0;
            } else {
                ++index;
            }
        }
        made.base = base;

        if (!p.eltwise && kernel_h + p.stride_h * taps <= p.kernel_h_1) {
            kernel_h += p.stride_h * taps;
            low = (low + taps) & (banks - 1);
        } else if (!p.eltwise && phase != p.phases_1) {
            kernel_h = ++phase;
            if (in_bank + 1 == p.stride_h) {
                in_bank = 0;
                phase_low = (phase_low + 1) & (banks - 1);
            } else {
                ++in_bank;
            }
            low = phase_low;
        } else {
            phase = kernel_h = 0;
            in_bank = p.in_bank;
            low = phase_low = p.low;
            if (!is_last_tap) {
                ++kernel_w;
            } else if (!last_column) {
                if (!p.sliding) kernel_w = p.paired ? 1 : 0;
                ++column;
            } else {
                kernel_w = column = 0;
                ++group;
                if (is_last_group) pass = nullptr;
            }
        }
        return made;
    }
    void start(const MiscPass& next) {
        pass = &next;
        tabled = next.tabled;
        scaled = next.scaled;
        group = column = kernel_w = phase = kernel_h = 0;
        in_bank = next.in_bank;
        low = phase_low = next.low;
        unwritten.push(next.writes);
        busy |= next.writes;
    }
};

struct MiscWriter {
    Fifo<const MiscPass*, 4> jobs;
    uint32_t results = 0;
    uint32_t column = 0, group = 0, turn = 0;
    bool valid = false, last = false, final = false;
    uint8_t write_group = 0;
    uint32_t mask = 0;
    // what has just been written
    bool job_written = false;
    bool done = false;

    bool quiet() const { return !valid && !results && !jobs.any() && !job_written && !done; }
    // One cycle; returns whether a result was taken.
    bool step(bool write_ready, bool result, const MiscPass* next) {
        bool free = !valid || write_ready, go = jobs.any() && results && free, taken = false;
        bool wrote = valid && write_ready;
        job_written = wrote && last;
        done = wrote && final;
        if (free) valid = go;
        if (go) {
            const MiscPass& p = *jobs.front();
            taken = turn == p.turns_1;
            mask = p.masks[turn];
            write_group = p.group_out;
            last = taken && column == p.length_1 && group == p.groups_1;
            final = last && p.final;
            turn = taken ? 0 : turn + 1;
            if (taken && column++ == p.length_1) {
                column = 0;
                group = last ? 0 : group + 1;
            }
            if (last) jobs.pop();
        }
        results += result - taken;
        if (next) jobs.push(next);
        return taken;
    }
};

}  // namespace opendpu
