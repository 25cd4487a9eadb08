// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.save, save_channel, save_reader, bus.packer and datapath.argmax.

#pragma once

#include "dma.h"

namespace opendpu {

struct SaveChannel {
    struct Word {
        uint8_t count;
        bool pixel_first, pixel_last, range_first, range_last, argmax;
        uint8_t offset;
    };

    Fifo<const SaveWork*, 4> plans, jobs;
    BurstMaker bursts;
    Fifo<bool, 8> lasts;        // of the bursts in flight: ends its SAVE
    Fifo<uint8_t, 8> lengths;   // of the bursts whose data are to be sent
    // save_reader
    const SaveWork* job = nullptr;
    bool running = false, fresh = false, pixel_first = false, arriving = false;
    uint32_t rows = 0, rest = 0, offset = 0;
    Word arriving_word{};
    Fifo<Word, 4> words;
    // argmax
    bool best_stage = false, best_last = false, best_valid = false;
    Word best_info{}, best{};
    // packer
    bool flush = false, packed = false;
    uint32_t place = 0;
    uint32_t sent = 0;

    bool room() const { return plans.room() && jobs.room(); }
    bool idle() const {
        return !running && !arriving && !words.any() && !packed && !flush && !best_stage && !best_valid
               && !plans.any() && !jobs.any() && bursts.idle() && !bursts.count;
    }
    bool may_step() const { return running && words.level + arriving < 4; }
    bool read_valid() const { return may_step() && !job->constant; }
    bool data_valid() const { return lengths.any() && packed; }

    // One cycle. `read_ready`: the banks serve the read offered; `granted`: the bus takes a beat; `answered`: a
    // response came. Returns whether it was the last one of a SAVE.
    bool step(uint32_t lanes, bool read_ready, bool address_ready, bool granted, bool answered, const SaveWork* next) {
        bool finished = answered && lasts.front();
        if (answered) lasts.pop();

        // packer's input: copied words, or the places of the largest
        bool sending = lengths.any() && granted;
        bool advance = !packed || sending;
        bool run_ready = advance && !flush;
        bool word_valid = words.any();
        bool searching = best_stage || best_valid || (word_valid && words.front().argmax);
        bool run_valid = searching ? best_valid : word_valid;
        bool take = run_valid && run_ready;
        bool best_advance = !best_valid || (searching && run_ready);
        bool word_taken = searching ? word_valid && words.front().argmax && best_advance : take;
        if (packed && sending) {
            bool last = sent == lengths.front();
            sent = last ? 0 : sent + 1;
            if (last) lengths.pop();
        }
        if (take) {
            const Word& word = searching ? best : words.front();
            bool first = word.range_first && (searching || word.pixel_first);
            bool last = word.range_last && (searching || word.pixel_last);
            uint32_t end = (first ? word.offset : place) + (searching ? 1 : word.count);
            packed = end >= 16 || last;
            place = end & 15;
            flush = last && end > 16;
        } else if (advance) {
            packed = flush;
            flush = false;
        }
        if (best_advance) {
            best_valid = best_stage && best_last;
            if (best_stage) best = best_info;
            best_stage = word_valid && words.front().argmax && searching;
            if (best_stage) {
                best_info = words.front();
                best_last = best_info.pixel_last;
            }
        }
        bool may = may_step();
        if (word_taken) words.pop();
        if (arriving) words.push(arriving_word);

        // save_reader
        bool step = may && (job->constant || read_ready);
        arriving = step;
        bool free = !running;
        if (step) {
            bool pixel_end = rest < lanes;
            free = pixel_end && rows == 0;
            arriving_word.count = pixel_end ? (rest & 15) + 1 : lanes;
            arriving_word.pixel_first = pixel_first;
            arriving_word.pixel_last = pixel_end;
            arriving_word.range_first = fresh || !job->plan.merged;
            arriving_word.range_last = rows == 0 || !job->plan.merged;
            arriving_word.offset = offset;
            arriving_word.argmax = job->argmax;
            if (!pixel_end) {
                rest -= lanes;
                pixel_first = false;
            } else {
                rest = job->bytes;
                running = rows != 0;
                --rows;
                pixel_first = true;
                fresh = false;
                offset = (offset + job->plan.jump + 1) & 15;
            }
        }
        if (free && jobs.any()) {
            job = jobs.front();
            jobs.pop();
            running = fresh = pixel_first = true;
            rows = job->plan.rows;
            rest = job->bytes;
            offset = job->plan.address & 15;
        }

        const Plan* plan = plans.any() ? &plans.front()->plan : nullptr;
        if (bursts.step(address_ready, answered, plan)) plans.pop();
        if (bursts.taken) {
            lasts.push(bursts.last);
            lengths.push(static_cast<uint8_t>(bursts.beats - 1));
        }
        if (next) {
            plans.push(next);
            jobs.push(next);
        }
        return finished;
    }
};

struct SaveEngine {
    struct Range {
        bool used = false;
        uint8_t channel = 0;
        uint64_t first = 0, last = 0;
    };
    FrontStage<SaveWork> front;
    DmaOrder<8> order;
    SaveChannel channels[2];
    Range ranges[8];
    uint32_t put = 0, get = 0;

    bool go() const {
        const SaveWork* work = front.third;
        if (!work || !order.ready()) return false;
        return work->end || (!blocked(*work) && channels[work->channel].room());
    }
    bool blocked(const SaveWork& work) const {
        if (!work.own || work.end) return false;
        for (const Range& r : ranges)
            if (r.used && r.channel != work.channel && r.first <= work.last && work.plan.address <= r.last) return true;
        return false;
    }
    // Keeps the stretches of memory in flight; before `order.step`.
    void track(bool go) {
        if (order.done()) ranges[get++ & 7].used = false;
        if (!go) return;
        const SaveWork& work = *front.third;
        ranges[put++ & 7] = {!work.end, work.channel, work.plan.address, work.last};
    }
    bool busy() const { return order.level || front.busy(); }
    bool idle() const { return !busy() && channels[0].idle() && channels[1].idle(); }
};

}  // namespace opendpu
