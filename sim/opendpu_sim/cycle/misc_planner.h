// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.misc_planner and misc_parameters.

#pragma once

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
                if (offered != 7 || takes & kWalk) break;  // the walk's take is known a cycle later
                offered = 0;
                row = 0;
                state = ++pass == work->count ? kAccept : kRows;
                break;
        }
    }
};

struct MiscParameters {
    static constexpr uint32_t kEntries = 128, kBiases = 4;

    const MiscPass *pass = nullptr, *waits = nullptr;  // the next one
    bool weights_left = false, bias_left = false;
    uint32_t group = 0, column = 0, kernel_w = 0, phase = 0, kernel_h = 0, tap = 0, bias_group = 0;
    uint8_t writing = 0, loaded = 0;
    bool room = true;       // for an entry, a cycle ago
    bool got = false;       // a word arrives that completes an entry
    bool bias_got = false;  // a bias arrives
    uint32_t biases = 0;

    bool quiet() const { return !waits && !weights_left && !bias_left && !got && !bias_got; }
    bool bias_valid() const { return bias_left && biases + bias_got < kBiases; }
    bool weights_valid() const { return weights_left && room; }
    bool last_word() const {
        return kernel_h + pass->fetch_stride_h > pass->kernel_h_1 && phase == pass->fetch_phases_1
               && kernel_w == pass->kernel_w_1 && (pass->cached || column == pass->length_1) && group == pass->groups_1;
    }
    bool ready() const { return !waits; }
    // Whether the next job begins, if there is one.
    bool free() const { return (!weights_left || (weights_valid() && last_word())) && !bias_left; }
    void step(uint32_t taps, uint8_t freed, bool bias_ready, bool bias_taken, const MiscPass* next) {
        bool is_free = free();
        bool weight = weights_valid(), bias = bias_valid() && bias_ready;
        uint8_t used = static_cast<uint8_t>(writing - freed);
        loaded += got;
        got = false;
        if (weight) {
            const MiscPass& p = *pass;
            bool last_row = kernel_h + p.fetch_stride_h > p.kernel_h_1, done = last_row || tap == taps - 1 || p.single;
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
        room = used + got < kEntries;
        biases += bias_got - bias_taken;
        bias_got = bias;
        if (bias && bias_group++ == pass->groups_1) bias_left = false;
        if (!waits) waits = next;
        if (!is_free || !waits) return;
        pass = waits;
        waits = nullptr;
        weights_left = pass->fetch_weights;
        bias_left = pass->bias;
        group = column = kernel_w = phase = kernel_h = tap = bias_group = 0;
    }
};

}  // namespace opendpu
