// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.engine.save, save_channel, save_reader, bus.packer and datapath.argmax.

#pragma once

#include "dma.h"
#include "latency.h"

namespace opendpu {

struct SaveChannel {
    struct alignas(8) Word {
        uint8_t count;
        bool pixel_first, pixel_last, range_first, range_last, argmax;
        uint8_t offset;
        uint8_t unused;
    };

    uint32_t unfinished = 0;  // SAVEs given to it
    Fifo<const SaveWork*, 4> plans, jobs;
    BurstMaker bursts;
    Fifo<bool, 8> lasts;        // of the bursts in flight: ends its SAVE
    Fifo<uint8_t, 8> lengths;   // of the bursts whose data are to be sent
    // save_reader
    static constexpr uint32_t kWords = 8;
    struct Read {
        bool valid = false, constant = false;
        uint8_t bank = 0;
        Word word{};
    };
    const SaveWork* job = nullptr;
    bool running = false, fresh = false, pixel_first = false;
    uint32_t rows = 0, rest = 0, offset = 0;
    Read ask, waits;                    // the read that is offered, and one that waits behind it
    Read answers[latency::kBankRead];   // by age
    uint32_t promised = 0;              // words read and not yet taken
    Fifo<Word, kWords> words;
    // argmax
    bool best_stage = false, best_last = false, best_valid = false;
    Word best_info{}, best{};
    // packer
    bool run_valid = false;
    Word run{};
    bool flush = false, packed = false;
    uint32_t place = 0;
    uint32_t sent = 0;

    bool room() const { return plans.room() && jobs.room(); }
    bool idle() const { return !unfinished; }
    // Whether `step` does nothing until a response comes.
    bool still() const {
        return !running && !promised && !run_valid && !packed && !flush && !best_stage && !best_valid && !jobs.any()
               && bursts.still(plans.any());
    }
    bool may_step() const { return running && promised != kWords && !waits.valid; }
    bool read_valid() const { return ask.valid && !ask.constant; }
    bool data_valid() const { return lengths.any() && packed; }

    // The packer takes `count` bytes.
    void pack(uint32_t count, bool first, bool last, uint32_t offset) {
        uint32_t end = (first ? offset : place) + count;
        packed = end >= 16 || last;
        place = end & 15;
        flush = last && end > 16;
    }
    // The place of the largest goes to the packer; words go to the search for them.
    void search(bool run_ready) {
        if (best_valid && !run_ready) return;
        best_valid = best_stage && best_last;
        if (best_stage) best = best_info;
        best_stage = words.any() && words.front().argmax;
        if (!best_stage) return;
        best_info = words.front();
        best_last = best_info.pixel_last;
        words.pop();
        --promised;
    }
    // What is packed next: a word, or where the largest of a pixel is.
    void choose(bool run_ready) {
        if (best_stage || best_valid || (words.any() && words.front().argmax)) {
            if (run_ready && (run_valid = best_valid)) {
                run = best;
                run.count = 1;
                run.pixel_first = run.pixel_last = true;
            }
            search(run_ready);
        } else if (run_ready && (run_valid = words.any())) {
            run = words.front();
            words.pop();
            --promised;
        }
    }

    // One cycle. `read_ready`: the banks serve the read offered; `granted`: the bus takes a beat; `answered`: a
    // response came. Returns whether it was the last one of a SAVE.
    bool step(uint32_t lanes, bool read_ready, bool address_ready, bool granted, bool answered, const SaveWork* next) {
        bool finished = answered && lasts.front();
        unfinished += (next != nullptr) - finished;
        if (answered) lasts.pop();

        bool may = may_step(), sending = packed && lengths.any() && granted;
        if (sending) {
            bool last = sent == lengths.front();
            sent = last ? 0 : sent + 1;
            if (last) lengths.pop();
        }
        bool advance = !packed || sending, pack_now = run_valid && advance && !flush, run_ready = !run_valid || pack_now;
        if (pack_now) {
            pack(run.count, run.range_first && run.pixel_first, run.range_last && run.pixel_last, run.offset);
        } else if (advance) {
            packed = flush;
            flush = false;
        }
        choose(run_ready);

        // save_reader
        constexpr uint32_t kLast = latency::kBankRead - 1;
        if (answers[kLast].valid) words.push(answers[kLast].word);
        for (uint32_t n = kLast; n; --n) answers[n] = answers[n - 1];
        bool asked = ask.valid && (ask.constant || read_ready);
        answers[0] = ask;
        answers[0].valid = asked;
        Read made;
        bool free = !running;
        if (may) {
            bool pixel_end = rest < lanes;
            free = pixel_end && rows == 0;
            made.valid = true;
            made.constant = job->constant;
            made.bank = job->bank;
            made.word.count = pixel_end ? (rest & 15) + 1 : lanes;
            made.word.pixel_first = pixel_first;
            made.word.pixel_last = pixel_end;
            made.word.range_first = fresh || !job->plan.merged;
            made.word.range_last = rows == 0 || !job->plan.merged;
            made.word.offset = offset;
            made.word.argmax = job->argmax;
            ++promised;
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
        if (!ask.valid || asked) {
            ask = waits.valid ? waits : made;
            waits.valid = false;
        } else if (may) {
            waits = made;
        }
        if (free && jobs.any()) {
            job = jobs.front();
            jobs.pop();
            running = fresh = pixel_first = true;
            rows = job->plan.rows;
            rest = job->bytes;
            offset = job->plan.address & 15;
        }

        if (answered || !bursts.still(plans.any())) {
            if (bursts.step(address_ready, answered, plans.any() ? &plans.front()->plan : nullptr)) plans.pop();
            if (bursts.taken) {
                lasts.push(bursts.last);
                lengths.push(static_cast<uint8_t>(bursts.beats - 1));
            }
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
    bool compared = false;  // `front.third` was there a cycle ago

    bool go() const {
        const SaveWork* work = front.third;
        if (!work || !order.ready()) return false;
        return work->end || (!blocked(*work) && channels[work->channel].room());
    }
    bool blocked(const SaveWork& work) const {
        if (!work.own || work.end) return false;
        for (const Range& r : ranges)
            if (r.used && r.channel != work.channel
                && (!compared || (r.first <= work.last && work.plan.address <= r.last)))
                return true;
        return false;
    }
    // Compares and takes the instruction in front.
    void step_front(const SaveWork* next, bool go) {
        compared = front.third && !go;
        if (next || go || !front.still()) front.step(next, go);
    }
    // Keeps the stretches of memory in flight; before `order.step`.
    void track(bool go) {
        if (order.done()) ranges[get++ & 7].used = false;
        if (!go) return;
        const SaveWork& work = *front.third;
        ranges[put++ & 7] = {!work.end, work.channel, work.plan.address, work.last};
    }
    bool busy() const { return order.level || front.busy(); }
    bool still() const {
        return !busy() || (front.still() && (compared || !front.third) && !go() && channels[0].still() && channels[1].still());
    }
    bool idle() const { return !busy() && channels[0].idle() && channels[1].idle(); }
};

}  // namespace opendpu
