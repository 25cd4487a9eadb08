// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.misc: the parts together, and results on their way.

#pragma once

#include "latency.h"
#include "misc_planner.h"
#include "misc_walk.h"

namespace opendpu {

struct MiscEngine {
    struct Ends {
        bool last, last_group, last_job, bias, tabled, scaled, product;
    };
    MiscPlanner planner;
    MiscParameters parameters;
    MiscWalk walk;
    MiscWriter writer;
    Fifo<bool, 8> order;  // instructions in flight: is it an INIT
    uint32_t written = 0;
    uint32_t finishes = 0;   // jobs between walk and rounding
    bool step_valid = false;
    static constexpr uint32_t kRing = 64;
    static constexpr Ends kNothing{};
    Ends stages[kRing] = {};  // by age, a ring
    static constexpr uint32_t kAnswer = latency::kBankRead - 1;  // after the cycle that follows the read
    uint32_t age = 0;
    uint64_t busy_stages = 0;
    uint32_t scaling = 0;  // how much later results come from the multipliers

    const Ends& ended(uint32_t ago) const { return stages[(age - ago) & (kRing - 1)]; }
    // What ends in a stage that others than products of terms reach so many cycles after the banks' answer.
    const Ends& at(uint32_t stage) const {
        const Ends &other = ended(stage), &product = ended(stage + latency::kTermProduct);
        return product.product ? product : other.product ? kNothing : other;
    }
    bool ready() const { return planner.state == MiscPlanner::kAccept && order.room(); }
    bool done() const { return order.any() && (order.front() || written || writer.done); }
    bool reads() const { return walk.read.valid && !walk.held(); }
    bool writes() const { return writer.valid; }
    bool bias_valid() const { return parameters.bias_valid(); }
    bool busy() const { return order.any(); }
    bool quiet() const {
        return !order.any() && planner.state == MiscPlanner::kAccept && !walk.read.valid && !step_valid && !busy_stages
               && writer.quiet() && parameters.quiet() && !finishes;
    }

    void step(uint32_t taps, uint32_t banks, bool read_ready, bool write_ready, bool bias_ready, const MiscWork* next) {
        // what is decided from the registers
        bool is_done = done();
        bool fetched = reads() && read_ready, free = !walk.read.valid || fetched;
        bool is_step = walk.may_step(taps);
        walk.loaded = parameters.loaded;
        uint8_t offers = planner.offers(), takes = 0;
        const MiscPass* current = offers ? planner.current() : nullptr;
        if (offers & MiscPlanner::kWalk && finishes != 8 && walk.over(*current, taps, is_step)
            && !walk.hazard(*current))
            takes |= MiscPlanner::kWalk;
        if (offers & MiscPlanner::kFetch && parameters.ready()) takes |= MiscPlanner::kFetch;
        if (offers & MiscPlanner::kWrite && writer.jobs.room()) takes |= MiscPlanner::kWrite;

        // instructions
        if (is_done) {
            if (!order.front()) --written;
            order.pop();
        }
        written += writer.done;
        if (next) order.push(next->init);

        // results: from the banks' answer to the queue
        constexpr uint32_t kSum = kAnswer + latency::kMiscSum, kResult = kAnswer + latency::kMiscResult;
        Ends now = at(kSum);
        bool result = false;
        for (uint32_t turns : {uint32_t{0}, scaling}) {
            const Ends &due = at(kResult + turns), &late = at(kResult + turns + 1);
            bool wanted = turns != 0;
            result |= (due.last && !due.tabled && due.scaled == wanted)
                      || (late.last && late.tabled && late.scaled == wanted);
        }
        walk.turn(fetched);
        ++age;
        const MiscWalk::Read& read = walk.read;
        stages[age & (kRing - 1)] = fetched && read.compute
            ? Ends{read.last, read.last_group, read.last_job, read.bias, read.tabled, read.scaled, read.product} : Ends{};
        busy_stages = busy_stages << 1 & ((uint64_t{4} << (kResult + latency::kTermProduct + scaling)) - 1);
        if (fetched) busy_stages |= 1;
        bool job_written = writer.job_written;
        finishes -= now.last_job;

        uint8_t freed = walk.freed, loaded_group = parameters.bias_got;
        parameters.step(taps, freed, bias_ready, now.last_group && now.bias,
                        takes & MiscPlanner::kFetch ? current : nullptr);
        walk.biases += loaded_group;
        walk.room += writer.step(write_ready, result, takes & MiscPlanner::kWrite ? current : nullptr);
        if (job_written) walk.written();

        // walk
        if (fetched) walk.freed = walk.read.base;
        step_valid = fetched;
        MiscWalk::Read made;
        if (is_step) {
            made = walk.advance(taps, banks);
            walk.room -= made.last;
        }
        if (free) {
            walk.read = walk.waits.valid ? walk.waits : made;
            walk.waits.valid = false;
        } else if (is_step) {
            walk.waits = made;
        }
        if (takes & MiscPlanner::kWalk) {
            walk.start(*current);
            ++finishes;
        }
        planner.step(next, takes);
    }
};

}  // namespace opendpu
