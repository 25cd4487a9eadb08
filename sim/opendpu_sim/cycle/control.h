// SPDX-License-Identifier: Apache-2.0
// opendpu_hw.control: fetch, decode, dispatch and sequencer.

#pragma once

#include "fifo.h"
#include "latency.h"
#include "program.h"

namespace opendpu {

struct Fetch {
    static constexpr uint32_t kDepth = 512, kBurst = 64, kOnTheWay = 192;

    bool running = false;
    bool offering = false;     // an address
    uint32_t beats = 0;        // of the burst offered
    uint32_t next = 0;         // word after it, counted from the program's begin; that is the begin of a page
    uint32_t promised = 0, outstanding = 0;
    uint32_t inner = 0;        // words in the queue, without its output register
    bool ready = false;        // there is a word in that

    bool idle() const { return !outstanding && !offering && !ready; }
    // Whether `step` does nothing while no word is read.
    bool still(bool stop) const {
        return !offering && !outstanding && (stop ? !running && !ready : !may_issue()) && (ready || !inner);
    }
    void step(bool stop, bool received, bool address_ready, bool read) {
        uint32_t to_page = 1024 - (next & 1023), length = to_page < kBurst ? to_page : kBurst;
        bool issue = !stop && may_issue();
        bool en = read || stop, taken = ready && en, write = received && !stop && inner != kDepth - 1;
        outstanding += (issue ? length : 0) - received;
        promised += (issue ? length : 0) - taken;
        if (inner && (!ready || en)) {
            --inner;
            ready = true;
        } else if (en) {
            ready = false;
        }
        inner += write;
        if (issue) {
            offering = true;
            beats = length;
            next += length;
        } else if (address_ready) {
            offering = false;
        }
        if (stop) running = false;
    }

  private:
    bool may_issue() const {
        return running && !offering && promised <= kDepth - kBurst && outstanding <= kOnTheWay - kBurst;
    }
};

struct Decode {
    enum State : uint8_t { kStopped, kGather, kFull, kSingle };
    const Instruction* coming = nullptr;  // whose words come next
    const Instruction* held = nullptr;    // judged and handed on
    State state = kStopped;
    uint8_t words = 0;  // of `coming` that have come
    uint8_t judging = 0;  // cycles
    bool ended = false;

    bool judged() const { return judging == latency::kJudgement; }

    // Whether a word is taken.
    bool takes_word() const { return state == kGather; }
    // Whether `step` does nothing while nothing is accepted and no word comes.
    bool still() const { return held ? judged() : state != kSingle; }
    void step(bool accept, bool word) {
        bool room = !held || accept;
        judging = held && !accept ? judging + !judged() : 0;
        if (accept) {
            if (held->opcode == isa::End::kOpcode) ended = true;
            held = nullptr;
        }
        if (word) {
            ++words;
            if (coming->words == 1) {
                state = kSingle;
            } else if (words == coming->words && room) {
                hold();
            } else if (words == coming->words) {
                state = kFull;
            }
        } else if ((state == kSingle || state == kFull) && room) {
            state = state == kFull ? kGather : kStopped;
            hold();
        }
    }

  private:
    void hold() {
        held = coming++;
        judging = 0;
        words = 0;
    }
};

struct Queue {
    RegisteredFifo<const Instruction*, 64> waiting;
    BufferedFifo<const Instruction*, 64> flying;
    uint32_t late = 0;
    bool idle() const { return !waiting.level() && !flying.level(); }
};

struct Dispatch {
    static constexpr uint16_t kMostTokens = 4095;

    Queue queues[kEngines];
    uint16_t tokens[kEngines][kEngines] = {};  // given by, for

    bool have(uint32_t e) const {
        uint8_t wants = queues[e].waiting.out->wants;
        for (uint32_t p = 0; p < kEngines; ++p)
            if (p != e && wants >> p & 1 && !tokens[p][e]) return false;
        return true;
    }
    bool offers(uint32_t e) const { return queues[e].waiting.ready && queues[e].flying.room() && have(e); }
    // Only while nothing is in flight.
    bool empty() const {
        for (const Queue& q : queues)
            if (q.waiting.level()) return false;
        return true;
    }
    bool flies() const {
        return queues[kLoad].flying.level() || queues[kSave].flying.level() || queues[kConv].flying.level()
               || queues[kMisc].flying.level();
    }
    void tell(const Instruction& ended) {
        for (uint32_t e = 0; e < kEngines; ++e)
            if (ended.gives >> e & 1 && e != ended.engine && tokens[ended.engine][e] != kMostTokens)
                ++tokens[ended.engine][e];
    }
    void take(const Instruction& fired) {
        for (uint32_t p = 0; p < kEngines; ++p)
            if (fired.wants >> p & 1 && p != fired.engine) --tokens[p][fired.engine];
    }
    bool stuck() const {
        bool waits = false;
        for (uint32_t e = 0; e < kEngines; ++e) {
            const Queue& q = queues[e];
            if (q.flying.level()) return false;
            if (!q.waiting.level()) continue;
            if (!q.waiting.ready || have(e)) return false;
            waits = true;
        }
        return waits;
    }
    bool any_tokens() const {
        for (uint32_t p = 0; p < kEngines; ++p)
            for (uint32_t e = 0; e < kEngines; ++e)
                if (tokens[p][e]) return true;
        return false;
    }
};

}  // namespace opendpu
