// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.misc: the parts together, and results on their way.

#pragma once

#include "latency.h"
#include "misc_planner.h"
#include "misc_walk.h"

namespace opendpu {

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
    Ends stages[16] = {};    // by age, a ring
    static constexpr uint32_t kAnswer = latency::kBankRead - 1;  // after the cycle that follows the read
    static_assert(kAnswer + latency::kMiscResult < 16);
    uint32_t age = 0;
    uint32_t busy_stages = 0;

    bool ready() const { return planner.state == MiscPlanner::kAccept && order.room(); }
    bool done() const { return order.any() && (order.front() || written || writer.done); }
    bool reads() const { return walk.read.valid; }
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
        bool fetched = walk.read.valid && read_ready;
        bool is_step = walk.may_step(taps);
        walk.loaded = parameters.loaded;
        uint8_t offers = planner.offers(), takes = 0;
        const MiscPass* current = offers ? planner.current() : nullptr;
        if (offers & MiscPlanner::kWalk && finishes != 8 && (!walk.pass || (is_step && walk.last_step(taps)))
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
        Ends now = stages[(age - kAnswer - latency::kMiscSum) & 15];
        bool result = stages[(age - kAnswer - latency::kMiscResult) & 15].last;
        ++age;
        stages[age & 15] = fetched && walk.read.compute
            ? Ends{walk.read.last, walk.read.last_group, walk.read.last_job, walk.read.bias} : Ends{};
        busy_stages = busy_stages << 1 & ((2u << (kAnswer + latency::kMiscResult)) - 1);
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
        if (!walk.read.valid || read_ready) {
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
