// SPDX-License-Identifier: Apache-2.0
// What LOAD and SAVE share: the stage that takes instructions, bursts, and completion in order.

#pragma once

#include "fifo.h"
#include "program.h"

namespace opendpu {

// opendpu_hw.engine.segment: three registers that move when the one after is empty.
template <class Work>
struct FrontStage {
    const Work *first = nullptr, *second = nullptr, *third = nullptr;
    bool busy() const { return first || second || third; }
    // Whether `step` does nothing while nothing comes and nothing goes.
    bool still() const { return (third || !second) && (second || !first); }
    bool ready() const { return !first || !second || !third; }
    void step(const Work* next, bool go) {
        bool move_3 = !third, move_2 = !second || move_3, move_1 = !first || move_2;
        if (move_3) third = second;
        if (go) third = nullptr;
        if (move_2) second = first;
        if (move_1) first = next;
    }
};

// opendpu_hw.engine.dma_order.
template <uint32_t Depth>
struct DmaOrder {
    uint32_t level = 0;
    uint32_t channels = 0;    // bit 0 is the oldest
    uint32_t immediates = 0;
    uint32_t waiting[2] = {};
    bool ready() const { return level != Depth; }
    bool done() const { return level && ((immediates & 1) || waiting[channels & 1]); }
    void step(bool push, uint32_t channel, bool immediate, bool finished_0, bool finished_1) {
        bool is_done = done();
        if (is_done && !(immediates & 1)) --waiting[channels & 1];
        waiting[0] += finished_0;
        waiting[1] += finished_1;
        uint32_t place = level - is_done;
        level = place + push;
        channels = (channels >> is_done) | ((push && channel) << place);
        immediates = (immediates >> is_done) | ((push && immediate) << place);
    }
};

// opendpu_hw.bus.burst: plans to bursts that keep to a page, and the address channel.
struct BurstMaker {
    static constexpr uint32_t kOutstanding = 8;

    bool running = false;
    uint64_t row = 0;
    uint64_t beat = 0;
    uint32_t rows = 0;
    uint32_t jump = 0;
    uint32_t size = 0;
    uint32_t left = 0;

    bool valid = false;   // an address is offered
    uint32_t beats = 0;   // of the burst offered
    uint32_t count = 0;   // bursts in flight, the one offered included

    // What `step` found out.
    bool taken = false;
    bool last = false;

    // Whether `step` does nothing while nothing comes and nothing is answered.
    bool still(bool plans) const { return !valid && (running ? count == kOutstanding : !plans); }

    // One cycle. `retire`: the oldest burst was answered. `plan` is the next one, if any; returns whether it
    // was taken.
    bool step(bool address_ready, bool retire, const Plan* plan) {
        bool room = count != kOutstanding && (!valid || address_ready);
        taken = running && room;
        last = false;
        uint32_t length = 0;
        bool free = !running;
        if (running) {
            uint32_t page = ~beat & 0xFF, limit = page >> 4 ? 15 : page & 15;
            bool row_end = left <= limit;
            length = row_end ? left : limit;
            last = row_end && rows == 0;
            free = room && last;
            if (taken) {
                if (!row_end) {
                    beat += length + 1;
                    left -= length + 1;
                } else {
                    running = rows != 0;
                    --rows;
                    row += jump + 1;
                    beat = row >> 4;
                    left = ((row & 15) + size) >> 4;
                }
            }
        }
        if (taken) {
            valid = true;
            beats = length + 1;
        } else if (address_ready) {
            valid = false;
        }
        count += taken - retire;
        if (!plan || !free) return false;
        running = true;
        row = plan->address;
        rows = plan->merged ? 0 : plan->rows;
        jump = plan->jump;
        size = plan->bytes;
        beat = row >> 4;
        left = static_cast<uint32_t>(((row & 15) + (plan->merged ? plan->reach : plan->bytes)) >> 4);
        return true;
    }
};

}  // namespace opendpu
