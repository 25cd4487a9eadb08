// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.conv, conv_plan, conv_writer and order.

#pragma once

#include <algorithm>

#include "fifo.h"
#include "latency.h"
#include "program.h"

namespace opendpu {

struct ConvEngine {
    static constexpr uint32_t kMoving = (1u << latency::kConvOperands) - 1;  // steps without operands yet

    // planner
    const ConvWork* held = nullptr;     // accepted, bias not read yet
    const ConvWork* planned = nullptr;  // its bias has been read
    uint32_t planning = 0;              // cycles until it is offered
    const ConvWork* offered = nullptr;
    // walk
    const ConvWork* work = nullptr;
    uint32_t steps = 0;    // of this column after the next one
    uint32_t columns = 0;  // after this one
    uint32_t gap = 0;
    uint32_t behind = 0;  // until a column without multipliers may end
    uint32_t stepped = 0;  // bit n: a step n + 1 cycles ago
    uint32_t ended = 0;    // bit n: that step ended a column
    uint8_t read_group = 0;
    // writer
    struct Column {  // between its sums and its write
        const ConvWork* work;
        bool last;
    };
    Fifo<const ConvWork*, latency::kConvQueue> slots;
    const ConvWork* head = nullptr;
    uint32_t head_columns = 0;
    Fifo<Column, 16> columns_due;
    uint32_t delayed = 0;          // bit n: in n cycles a column comes from the multipliers
    uint32_t delayed_columns = 0;  // the first ones of `columns_due` that are there
    uint32_t multiplying = 0;      // cycles until no column is under way in the multipliers
    const ConvWork* writing = nullptr;
    bool writing_last = false;
    bool late = false;  // a column is in its table
    bool active = false;
    uint32_t turn = 0;
    uint32_t pending[4] = {};  // CONVs in flight that write a group
    const ConvWork* written[4] = {};  // the last one of them
    uint64_t completing = 0, closing = 0;  // bit n: in n cycles
    Fifo<uint8_t, 16> closing_groups;
    uint32_t depth = 0;
    uint32_t summed = 0;  // place in `ended` of a column whose sums are complete
    uint32_t pixels = 0;
    uint32_t scaling = 0;  // how much later columns come from the multipliers
    // completion
    uint32_t waiting = 0;  // bit 0 is the oldest instruction; 1: it is no INIT
    uint32_t level = 0;
    uint32_t finished = 0;

    bool may_step() const { return work && !(steps == 0 && (gap || (behind && !work->scaled))); }
    bool last_step() const { return steps == 0 && columns == 0; }
    bool hazard(const ConvWork& reader) const {
        uint32_t writers = pending[reader.group_in];
        if (writers != 1) return writers > 1;
        const ConvWork& writer = *written[reader.group_in];
        for (uint32_t i = 0; i < 4; ++i) {
            if (!(reader.bases_used >> i & 1)) continue;
            uint32_t after = (reader.bases[i] - writer.base_out) & (depth - 1);
            uint32_t before = (writer.base_out - reader.bases[i]) & (depth - 1);
            if (after <= writer.write_span || before <= reader.read_span) return true;
        }
        return false;
    }
    bool take() const {
        return offered && (!work || (may_step() && last_step())) && slots.room() && !hazard(*offered);
    }
    bool bias_valid() const { return held && !planned && !offered; }
    bool ready() const { return (!held || bias_valid()) && level != 16; }
    bool reads() const { return stepped & 1; }
    uint32_t write_mask() const { return active ? writing->masks[turn] : 0; }
    // The last word of a CONV is written in latency::kConvDone cycles, or in kConvReadable.
    bool completed() const { return completing & 1; }
    bool readable() const { return closing & 1; }
    bool done() const { return level && (!(waiting & 1) || finished || completed()); }
    bool busy() const { return waiting; }
    bool under_way() const { return ended & ((2u << (summed + latency::kConvWrite - 1)) - 1) || late || multiplying; }
    bool idle() const { return !work && !(stepped & kMoving) && !under_way(); }
    bool quiet() const { return !level && !gap && !behind && !active && !closing && idle(); }

    // Cycles in which nothing happens but steps within a column, if nothing comes; 0 if something else does.
    uint64_t steady() const {
        if (quiet()) return ~uint64_t{0};
        bool waits = active || completing || closing || under_way() || planned || (held && !offered) || (slots.any() && !head) || done();
        return work && !waits ? steps : 0;
    }
    void skip(uint32_t cycles) {
        if (!work) return;
        steps -= cycles;
        gap = gap > cycles ? gap - cycles : 0;
        behind = behind > cycles ? behind - cycles : 0;
        stepped = ~0u;
        ended = 0;
        read_group = work->group_in;
    }
    // END aborts what multipliers still do; what came without them goes on.
    void abort() { multiplying = 0; }
    void step(const ConvWork* next) {
        bool is_take = take(), fire = bias_valid(), is_step = may_step(), capture = ended >> summed & 1;
        bool is_completed = completed(), is_done = done(), is_readable = readable();

        // completion
        finished += is_completed - (is_done && (waiting & 1));
        waiting >>= is_done;
        level -= is_done;
        if (next) waiting |= uint32_t{!next->init} << level++;

        // writer
        if (is_readable) --pending[closing_groups.front()], closing_groups.pop();
        completing >>= 1;
        closing >>= 1;
        if (active) {
            if (turn == writing->stride_out) active = false;
            ++turn;
        }
        bool due = ended >> (summed + latency::kConvWrite - 1) & 1, begin = late || delayed & 1;
        uint32_t before = delayed_columns + late;
        if (multiplying) --multiplying;
        if (capture && head->scaled) multiplying = scaling + latency::kConvWrite;
        delayed_columns -= delayed & 1;
        delayed >>= 1;
        late = false;
        if (due) {
            const ConvWork& column = *columns_due.at(before).work;
            if (column.scaled) {
                delayed |= 1u << (scaling + column.tabled - 1);
                ++delayed_columns;
            } else if (column.tabled) {
                late = true;
            } else {
                begin = true;
            }
        }
        if (begin) {
            writing = columns_due.front().work;
            writing_last = columns_due.front().last;
            columns_due.pop();
            active = true;
            turn = 0;
        }
        bool last_column = head_columns == 0;
        if (capture) columns_due.push({head, last_column});
        if (capture && last_column) {
            uint32_t until = latency::kConvWrite - 1 + head->stride_out + head->tabled + (head->scaled ? scaling : 0);
            completing |= uint64_t{1} << (until - latency::kConvDone);
            closing |= uint64_t{1} << (until - latency::kConvReadable);
            closing_groups.push(head->group_out);
        }
        if (slots.any() && (!head || (capture && last_column))) {
            head = slots.front();
            slots.pop();
            head_columns = head->columns - 1;
        } else if (capture) {
            if (last_column) head = nullptr;
            --head_columns;
        }
        if (is_take) {
            slots.push(offered);
            ++pending[offered->group_out];
            written[offered->group_out] = offered;
        }

        // walk
        bool column_end = is_step && steps == 0;
        stepped = stepped << 1 | is_step;
        ended = ended << 1 | column_end;
        if (column_end) {
            uint32_t turns = work->stride_out + work->tabled;
            gap = std::max<uint32_t>(turns, work->scaled ? pixels - 1 + work->tabled : latency::kRequantizerPixels - 1);
            behind = work->scaled ? turns + scaling : 0;
        } else {
            if (gap) --gap;
            if (behind) --behind;
        }
        if (is_step) {
            read_group = work->group_in;
            if (steps) {
                --steps;
            } else if (columns) {
                --columns;
                steps = work->steps - 1;
            } else {
                work = nullptr;
            }
        }
        if (is_take) {
            work = offered;
            steps = work->steps - 1;
            columns = work->columns - 1;
        }

        // planner
        if (is_take) offered = nullptr;
        if (planned && --planning == 0) {
            offered = planned;
            planned = nullptr;
        }
        if (fire) {
            planned = held;
            planning = latency::kConvPlan - 1;
            held = nullptr;
        }
        if (next && !next->init) held = next;
    }
};

}  // namespace opendpu
