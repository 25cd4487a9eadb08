// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.load and load_channel.

#pragma once

#include "dma.h"

namespace opendpu {

struct LoadChannel {
    uint32_t unfinished = 0;  // LOADs given to it
    Fifo<const Plan*, 8> plans;
    Fifo<const LoadWork*, 8> jobs;
    BurstMaker bursts;
    uint32_t put = 0;  // number of the next beat, modulo 64
    bool beat_ready = true;  // there was room for one a cycle ago
    const LoadWork* job = nullptr;
    bool running = false;
    bool overlap = false;
    uint32_t rows = 0;
    uint32_t rest = 0;
    uint32_t here = 0;   // byte, modulo 1024
    uint32_t pixel = 0;
    struct Write {
        bool valid = false, ending = false;
        uint8_t bank = 0;
    };
    Write write, waits;  // the word that is offered, and one that waits behind it

    // Whether `step` does nothing until a beat comes.
    bool still(uint32_t lanes) const {
        if (write.valid || !bursts.still(plans.any()) || beat_ready != has_room(0)) return false;
        if (!running) return !jobs.any();
        uint32_t last_byte = rest < lanes ? rest & 15 : lanes - 1, two = ((here & 15) + last_byte) >> 4;
        uint32_t available = (put - (here >> 4)) & 63;
        return !job->constant && (available & 32 || available <= two);
    }
    bool room() const { return plans.room() && jobs.room(); }
    bool idle() const { return !unfinished; }
    // Whether there is room beside so many beats more.
    bool has_room(uint32_t more) const {
        uint32_t used = (put - ((overlap ? pixel : here) >> 4)) & 63;
        return used & 32 || used + more < 16;
    }

    // One cycle. `write_ready`: the banks take the word offered. `beat`, `last`: a beat is taken from the bus.
    // Returns whether the last word of a LOAD was written.
    bool step(uint32_t lanes, bool write_ready, bool address_ready, bool beat, bool last, const LoadWork* next) {
        bool finished = write.valid && write_ready && write.ending;
        unfinished += (next != nullptr) - finished;
        if (last || !bursts.still(plans.any()))
            if (bursts.step(address_ready, last, plans.any() ? plans.front() : nullptr)) plans.pop();
        beat_ready = has_room(beat);
        uint32_t at = here >> 4, old_put = put;
        if (beat) put = (put + 1) & 63;

        bool step = false, job_end = false;
        uint32_t after = at;
        if (running) {
            bool pixel_end = rest < lanes;
            job_end = pixel_end && rows == 0;
            uint32_t last_byte = pixel_end ? rest & 15 : lanes - 1;
            uint32_t two = ((here & 15) + last_byte) >> 4;
            uint32_t available = (old_put - at) & 63;
            bool ready = job->constant || (!(available & 32) && available > two);
            step = ready && !waits.valid;
            if (!job->constant) after = (at + 1 + two) & 63;
            if (step) {
                if (!pixel_end) {
                    if (!job->constant) here = (here + lanes) & 1023;
                    rest -= lanes;
                } else if (!job_end) {
                    if (job->constant) {
                        pixel = here;
                    } else if (job->plan.merged) {
                        here = pixel = (pixel + job->plan.jump + 1) & 1023;
                    } else {
                        here = pixel = after << 4 | ((pixel + job->plan.jump + 1) & 15);
                    }
                    rest = job->plan.bytes;
                    --rows;
                }
            }
        }
        Write made;
        if (step) made = {true, job_end, job->bank};
        if (!write.valid || write_ready) {
            write = waits.valid ? waits : made;
            waits.valid = false;
        } else if (step) {
            waits = made;
        }
        if (!running || (step && job_end)) {
            if (running) {
                here = after << 4 | (here & 15);
                overlap = false;
                running = false;
            }
            if (jobs.any()) {
                job = jobs.front();
                jobs.pop();
                running = true;
                here = pixel = (here & ~15u) | (job->plan.address & 15);
                overlap = job->overlap;
                rest = job->plan.bytes;
                rows = job->plan.rows;
            }
        }
        if (next) {
            jobs.push(next);
            if (!next->constant) plans.push(&next->plan);
        }
        return finished;
    }
};

struct LoadEngine {
    FrontStage<LoadWork> front;
    DmaOrder<16> order;
    LoadChannel channels[2];

    bool go() const { return front.third && order.ready() && channels[front.third->channel].room(); }
    bool busy() const { return order.level || front.busy(); }
    bool still(uint32_t lanes) const {
        return !busy() || (front.still() && !go() && channels[0].still(lanes) && channels[1].still(lanes));
    }
    bool idle() const { return !busy() && channels[0].idle() && channels[1].idle(); }
};

}  // namespace opendpu
