// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.misc: planner, parameters, walk, results and writer.

#pragma once

#include "fifo.h"
#include "misc_program.h"

namespace opendpu {

struct MiscPlanner {
    static constexpr uint32_t kProducts = 8;
    enum State : uint8_t { kAccept, kPrepare, kMultiply, kKeep, kSelect, kRows, kOffer };
    enum : uint8_t { kWalk = 1, kFetch = 2, kWrite = 4 };

    State state = kAccept;
    const MiscWork* work = nullptr;
    uint32_t index = 0;
    uint32_t pass = 0;
    uint32_t row = 0;
    uint8_t offered = 0;

    const MiscPass* current() const { return work->passes + pass; }
    // Which parts of a job are offered.
    uint8_t offers() const {
        if (state == kOffer) return ~offered & 7;
        return state == kRows ? ~offered & (kWalk | kFetch) : 0;
    }
    void step(const MiscWork* next, uint8_t takes) {
        offered |= takes;
        switch (state) {
            case kAccept:
                if (!next) break;
                index = pass = row = offered = 0;
                work = next;
                if (!next->init) state = kSelect;
                if (next->init && next->multiplies) state = kPrepare;
                break;
            case kPrepare: state = kMultiply; break;
            case kSelect: state = work->multiplies ? kMultiply : kRows; break;
            case kMultiply:
                if (index++ == kProducts) state = work->init ? kKeep : kRows;
                break;
            case kKeep: state = kAccept; break;
            case kRows:
                if (row++ == current()->rows_1) state = kOffer;
                break;
            case kOffer:
                if (offered != 7) break;
                offered = 0;
                row = 0;
                state = ++pass == work->count ? kAccept : kRows;
                break;
        }
    }
};

struct MiscParameters {
    static constexpr uint32_t kEntries = 128, kBiases = 4;

    const MiscPass* pass = nullptr;
    bool weights_left = false, bias_left = false;
    uint32_t group = 0, column = 0, kernel_w = 0, phase = 0, kernel_h = 0, tap = 0, bias_group = 0;
    uint8_t writing = 0, loaded = 0;
    bool got = false;       // a word arrives that completes an entry
    bool bias_got = false;  // a bias arrives
    uint32_t biases = 0;

    bool quiet() const { return !weights_left && !bias_left && !got && !bias_got; }
    bool bias_valid() const { return bias_left && biases + bias_got < kBiases; }
    bool weights_valid(uint8_t freed) const { return weights_left && static_cast<uint8_t>(writing - freed) < kEntries; }
    bool last_word() const {
        return kernel_h + pass->fetch_stride_h > pass->kernel_h_1 && phase == pass->fetch_phases_1
               && kernel_w == pass->kernel_w_1 && (pass->cached || column == pass->length_1) && group == pass->groups_1;
    }
    bool ready(uint8_t freed, bool bias_ready) const {
        return (!weights_left || (weights_valid(freed) && last_word()))
               && (!bias_left || (bias_valid() && bias_ready && bias_group == pass->groups_1));
    }
    void step(uint32_t taps, uint8_t freed, bool bias_ready, bool bias_taken, const MiscPass* next) {
        bool weight = weights_valid(freed), bias = bias_valid() && bias_ready;
        loaded += got;
        got = false;
        if (weight) {
            const MiscPass& p = *pass;
            bool last_row = kernel_h + p.fetch_stride_h > p.kernel_h_1, done = last_row || tap == taps - 1;
            got = done;
            writing += done;
            tap = done ? 0 : tap + 1;
            if (!last_row) {
                kernel_h += p.fetch_stride_h;
            } else if (phase != p.fetch_phases_1) {
                kernel_h = ++phase;
            } else {
                phase = kernel_h = 0;
                if (kernel_w != p.kernel_w_1) {
                    ++kernel_w;
                } else {
                    kernel_w = 0;
                    if (!p.cached && column != p.length_1) {
                        ++column;
                    } else {
                        column = 0;
                        if (group++ == p.groups_1) weights_left = false;
                    }
                }
            }
        }
        biases += bias_got - bias_taken;
        bias_got = bias;
        if (bias && bias_group++ == pass->groups_1) bias_left = false;
        if (!next) return;
        pass = next;
        weights_left = next->fetch_weights;
        bias_left = next->bias;
        group = column = kernel_w = phase = kernel_h = tap = bias_group = 0;
    }
};

struct MiscWalk {
    const MiscPass* pass = nullptr;
    uint32_t group = 0, column = 0, kernel_w = 0, phase = 0, kernel_h = 0, low = 0, phase_low = 0, in_bank = 0;
    uint8_t index = 0, base = 0, freed = 0;
    uint32_t room = 16, biases = 0, pending[4] = {};
    // stage 1: the read that is offered
    bool valid = false, compute = false, last = false, last_group = false, last_job = false, bias = false;
    uint8_t read_group = 0, read_base = 0;
    uint32_t read_mask = 0;

    bool last_tap(uint32_t taps) const {
        const MiscPass& p = *pass;
        if (p.eltwise) return kernel_w == p.inputs_1;
        return kernel_w == p.kernel_w_1 && phase == p.phases_1 && kernel_h + p.stride_h * taps > p.kernel_h_1;
    }
    bool may_step(uint32_t taps, bool read_ready, uint8_t loaded) const {
        if (!pass || (valid && !read_ready)) return false;
        if (pass->uses_ring && static_cast<uint8_t>(loaded - base) <= index) return false;
        if (pass->bias && !biases && kernel_h == 0 && kernel_w == 0 && column == 0) return false;
        return room || !last_tap(taps);
    }
    bool last_step(uint32_t taps) const {
        return column == pass->length_1 && group == pass->groups_1 && last_tap(taps);
    }
    bool hazard(const MiscPass& next) const {
        for (uint32_t g = 0; g < 4; ++g)
            if (next.checked && next.reads >> g & 1 && pending[g]) return true;
        return false;
    }

    // The walk by one step, and the read it asks for.
    void advance(uint32_t taps, uint32_t banks) {
        const MiscPass& p = *pass;
        bool is_last_tap = last_tap(taps), last_column = column == p.length_1, is_last_group = group == p.groups_1;
        bool again = column != 0 && kernel_w == 1 && phase == 0;
        compute = !p.paired || phase == 1 || again;
        last = is_last_tap;
        last_group = is_last_tap && last_column;
        last_job = last_group && is_last_group;
        bias = p.bias;
        if (p.bias && kernel_h == 0 && kernel_w == 0 && column == 0) --biases;
        if (p.eltwise) {
            read_group = p.input_groups[kernel_w];
            read_mask = p.input_masks[kernel_w];
        } else {
            read_group = p.group_in;
            uint32_t count = 1;
            while (count < taps && kernel_h + count * p.stride_h <= p.kernel_h_1) ++count;
            uint32_t used = (1u << (p.rows_1 + count)) - 1;
            read_mask = (used << low | used >> (banks - low)) & ((1u << banks) - 1);
        }
        if (p.uses_ring && compute) {
            if (!p.cached || last_group) {
                base += index + 1;
                index = 0;
            } else if (is_last_tap) {
                if (!p.sliding) index = 0;
            } else {
                ++index;
            }
        }
        read_base = base;

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
    }
    void start(const MiscPass& next) {
        pass = &next;
        group = column = kernel_w = phase = kernel_h = 0;
        in_bank = next.in_bank;
        low = phase_low = next.low;
        ++pending[next.group_out];
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
    uint8_t job_written = 0;
    bool done = false;

    bool quiet() const { return !valid && !results && !jobs.any() && !job_written && !done; }
    // One cycle; returns whether a result was taken.
    bool step(bool write_ready, bool result, const MiscPass* next) {
        bool free = !valid || write_ready, go = jobs.any() && results && free, taken = false;
        bool wrote = valid && write_ready;
        job_written = wrote && last ? 1u << write_group : 0;
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

struct MiscEngine {
    struct Ends {
        bool last, last_group, last_job, bias;
    };
    MiscPlanner planner;
    MiscParameters parameters;
    MiscWalk walk;
    MiscWriter writer;
    Fifo<bool, 8> order;  // instructions in flight: is it an INIT
    uint32_t written = 0;
    uint32_t finishes = 0;   // jobs between walk and rounding
    bool step_valid = false;
    Ends stages[8] = {};     // by age, a ring
    uint32_t age = 0;
    uint32_t busy_stages = 0;

    bool ready() const { return planner.state == MiscPlanner::kAccept && order.room(); }
    bool done() const { return order.any() && (order.front() || written); }
    bool reads() const { return walk.valid; }
    bool writes() const { return writer.valid; }
    bool bias_valid() const { return parameters.bias_valid(); }
    bool busy() const { return order.any(); }
    bool quiet() const {
        return !order.any() && planner.state == MiscPlanner::kAccept && !walk.valid && !step_valid && !busy_stages
               && writer.quiet() && parameters.quiet() && !finishes;
    }

    void step(uint32_t taps, uint32_t banks, bool read_ready, bool write_ready, bool bias_ready, const MiscWork* next) {
        // what is decided from the registers
        bool is_done = done();
        bool fetched = walk.valid && read_ready;
        bool is_step = walk.may_step(taps, read_ready, parameters.loaded);
        uint8_t offers = planner.offers(), takes = 0;
        const MiscPass* current = offers ? planner.current() : nullptr;
        if (offers & MiscPlanner::kWalk && finishes != 8 && (!walk.pass || (is_step && walk.last_step(taps)))
            && !walk.hazard(*current))
            takes |= MiscPlanner::kWalk;
        if (offers & MiscPlanner::kFetch && parameters.ready(walk.freed, bias_ready)) takes |= MiscPlanner::kFetch;
        if (offers & MiscPlanner::kWrite && writer.jobs.room()) takes |= MiscPlanner::kWrite;

        // instructions
        if (is_done) {
            if (!order.front()) --written;
            order.pop();
        }
        written += writer.done;
        if (next) order.push(next->init);

        // results: six stages from the banks' answer to the queue
        Ends now = stages[(age - 3) & 7];
        bool result = stages[(age - 6) & 7].last;
        ++age;
        stages[age & 7] = fetched && walk.compute
            ? Ends{walk.last, walk.last_group, walk.last_job, walk.bias} : Ends{};
        busy_stages = busy_stages << 1 & 0xFF;
        if (fetched) busy_stages |= 1;
        uint8_t job_written = writer.job_written;
        finishes -= now.last_job;

        uint8_t freed = walk.freed, loaded_group = parameters.bias_got;
        parameters.step(taps, freed, bias_ready, now.last_group && now.bias,
                        takes & MiscPlanner::kFetch ? current : nullptr);
        walk.biases += loaded_group;
        walk.room += writer.step(write_ready, result, takes & MiscPlanner::kWrite ? current : nullptr);
        for (uint32_t g = 0; g < 4; ++g) walk.pending[g] -= job_written >> g & 1;

        // walk
        if (fetched) walk.freed = walk.read_base;
        step_valid = fetched;
        if (!walk.valid || read_ready) walk.valid = is_step;
        if (is_step) {
            walk.advance(taps, banks);
            walk.room -= walk.last;
        }
        if (takes & MiscPlanner::kWalk) {
            walk.start(*current);
            ++finishes;
        }
        planner.step(next, takes);
    }
};

}  // namespace opendpu
