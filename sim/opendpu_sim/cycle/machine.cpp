// SPDX-License-Identifier: Apache-2.0

#include "machine.h"

#include <algorithm>

namespace opendpu {

Machine::Machine(const Target& target, const Settings& settings, const Program& program, int64_t* start, int64_t* end)
    : target_(target), program_(program), start_(start), end_(end) {
    ddr_.settings = settings;
    decode_.coming = program.instructions.data();
    decode_.state = Decode::kGather;
    conv_.depth = target.bank_depth;
    conv_.summed = latency::kConvOperands - 1 + target.conv_sum;
    misc_.scaling = latency::kRecordRead + latency::kFixedPoint + target.alu_pixel_parallel - 1 - (latency::kMiscResult - latency::kMiscSum);
    misc_.walk.distance = std::max(target.alu_pixel_parallel, latency::kScaledDistance);
    conv_.pixels = target.pixel_parallel;
    conv_.scaling = target.conv_scaled;
    fetch_.running = true;
    for (const SaveWork& work : program.saves)
        if (!work.end) result.write_bytes += uint64_t{work.plan.rows + 1} * (work.plan.bytes + 1);
}

void Machine::run(uint64_t limit) {
    start();
    while (step())
        if (cycle_ >= limit) {
            result.fault = kTimeout;
            break;
        }
    result.cycles = cycle_;
}

// The memory sees the cycles in which software writes AP_CTRL; with random stalls that takes longer.
void Machine::start() {
    ddr_.restart();
    uint64_t before = 0;
    if (ddr_.settings.random) {
        uint64_t address = ddr_.random.below(4), data = ddr_.random.below(4);
        ddr_.random.below(8);  // when software takes the answer
        before = std::max(address, data);
    }
    Nobody nobody;
    for (uint64_t i = 0; i < before + 2 + kBegin; ++i) {
        ddr_.drive(nobody);
        ddr_.advance();
    }
}

BankGrants Machine::grant() const {
    const LoadChannel* load = load_.channels;
    if (!conv_.active && !misc_.reads() && !misc_.writes() && !save_.channels[0].ask.valid && !save_.channels[1].ask.valid) {
        BankGrants grants;
        grants.load[1] = !(load[0].write.valid && load[1].write.valid && load[0].write.bank == load[1].write.bank);
        return grants;
    }
    BankRequests r;
    uint32_t banks = target_.pixel_parallel, all = (1u << banks) - 1;
    if (conv_.reads()) r.conv_group = all << conv_.read_group * banks;
    if (conv_.active) r.conv_write = conv_.write_mask() << conv_.writing->group_out * banks;
    if (misc_.reads()) r.misc_read = misc_.walk.read.mask << misc_.walk.read.group * banks;
    if (misc_.writes()) r.misc_write = misc_.writer.mask << misc_.writer.write_group * banks;
    for (uint32_t i = 0; i < 2; ++i) {
        r.load_valid[i] = load_.channels[i].write.valid;
        r.load_bank[i] = load_.channels[i].write.bank;
        r.save_valid[i] = save_.channels[i].read_valid();
        if (r.save_valid[i]) r.save_bank[i] = save_.channels[i].ask.bank;
    }
    return arbitrate(r, target_.image_banks);
}

// One queue: an instruction leaves it, another one has finished.
void Machine::step_queue(uint32_t engine, bool ready, bool done) {
    Queue& q = dispatch_.queues[engine];
    const Instruction* first = program_.instructions.data();
    bool ended = q.flying.ready && (done || q.late);
    bool fired = ready && dispatch_.offers(engine);
    q.late += done - ended;
    ended_[engine] = ended ? q.flying.out : nullptr;
    fired_[engine] = fired ? q.waiting.out : nullptr;
    if (ended) {
        end_[ended_[engine] - first] = static_cast<int64_t>(cycle_);
        ++result.finished;
    }
    if (fired) {
        start_[fired_[engine] - first] = static_cast<int64_t>(cycle_);
        ++result.started[engine];
    }
}

void Machine::step_fetch(bool stop, bool read) {
    auto& port = ddr_.ports[0];
    bool received = port.reading, accepted = fetch_.offering && port.ar_ready;
    uint32_t beats = fetch_.beats;
    fetch_.step(stop, received, port.ar_ready, read);
    if (received) {
        ddr_.took_beat(0);
        ++result.read_beats[0];
    }
    if (accepted) ddr_.request(port.reads, beats);
}

bool Machine::step_load(uint32_t channel, const BankGrants& grants, const LoadWork* work) {
    LoadChannel& c = load_.channels[channel];
    auto& port = ddr_.ports[1 + channel];
    bool beat = port.reading && c.beat_ready, last = false;
    if (!work && (c.idle() || (!beat && c.still(target_.channel_parallel)))) return false;
    bool accepted = c.bursts.valid && port.ar_ready;
    uint32_t beats = c.bursts.beats;
    if (beat) {
        last = ddr_.took_beat(1 + channel);
        ++result.read_beats[1 + channel];
    }
    bool finished = c.step(target_.channel_parallel, grants.load[channel], port.ar_ready, beat, last, work);
    if (accepted) ddr_.request(port.reads, beats);
    return finished;
}

bool Machine::step_save(uint32_t channel, const BankGrants& grants, const SaveWork* work) {
    SaveChannel& c = save_.channels[channel];
    auto& port = ddr_.ports[1 + channel];
    if (!work && (c.idle() || (!port.answering && c.still()))) return false;
    bool granted = port.granted, answered = port.answering, valid = c.data_valid();
    bool accepted = c.bursts.valid && port.aw_ready;
    uint32_t beats = c.bursts.beats;
    bool finished = c.step(target_.channel_parallel, grants.save[channel], port.aw_ready, granted, answered, work);
    if (answered) ddr_.took_answer(1 + channel);
    if (!valid) {
        ddr_.gave_nothing(1 + channel);
    } else if (granted) {
        ddr_.gave_beat(1 + channel);
    }
    if (accepted) ddr_.request(port.writings, beats);
    return finished;
}

// What the sequencer decides; returns whether the program goes on.
bool Machine::judge() {
    if (ending_) {
        bool quiet = fetch_.idle() && load_.idle() && save_.idle() && conv_.idle() && !misc_.busy();
        conv_.abort();
        return !quiet;
    }
    if (dispatch_.flies()) {
        patience_ = 0;
        return true;
    }
    if (decode_.ended && dispatch_.empty()) {
        if (dispatch_.any_tokens()) {
            result.fault = kLeftoverToken;
            return false;
        }
        ending_ = true;
        return true;
    }
    const Instruction* held = decode_.held;
    bool blocked = held && decode_.judged() && !dispatch_.queues[held->engine].waiting.room();
    if ((decode_.ended || blocked) && dispatch_.stuck()) {
        if (patience_++ == kPatience) {
            result.fault = kDeadlock;
            return false;
        }
    } else {
        patience_ = 0;
    }
    return true;
}

// Which instructions leave their queue and which have finished; what they tell each other.
void Machine::step_dispatch() {
    bool events = queue_events();
    for (uint32_t e = 0; e < kEngines; ++e) {
        fired_[e] = ended_[e] = nullptr;
        if (!events || dispatch_.queues[e].idle()) continue;
        switch (e) {
            case kLoad: step_queue(e, load_.front.ready(), load_.order.done()); break;
            case kSave: step_queue(e, save_.front.ready(), save_.order.done()); break;
            case kConv: step_queue(e, conv_.ready(), conv_.done()); break;
            case kMisc: step_queue(e, misc_.ready(), misc_.done()); break;
        }
    }
    const Instruction* held = decode_.held;
    bool accept = held && decode_.judged() && dispatch_.queues[held->engine].waiting.room();
    bool stop = decode_.ended || ending_;
    bool read = decode_.takes_word(), word = read && fetch_.ready && !stop;
    if (events || accept) move_queues(accept ? held : nullptr);
    decode_.step(accept, word);
    step_fetch(stop, read);
    control_still_ = queues_still_ && !accept && !word && decode_.still() && fetch_.still(stop);
}

void Machine::move_queues(const Instruction* accepted) {
    queues_still_ = true;
    wanting_ = 0;
    for (uint32_t e = 0; e < kEngines; ++e) {
        Queue& q = dispatch_.queues[e];
        bool write = accepted && accepted->engine == e;
        if (write || fired_[e] || !q.waiting.still()) q.waiting.step(write, accepted, fired_[e]);
        if (fired_[e] || ended_[e] || !q.flying.still()) q.flying.step(fired_[e], fired_[e], ended_[e]);
        if (ended_[e]) dispatch_.tell(*ended_[e]);
        if (fired_[e] || ended_[e] || !q.waiting.still() || !q.flying.still() || q.late) queues_still_ = false;
    }
    for (const Instruction* fired : fired_)
        if (fired) dispatch_.take(*fired);
    if (!queues_still_) return;
    for (uint32_t e = 0; e < kEngines; ++e)
        if (dispatch_.queues[e].waiting.ready && dispatch_.offers(e)) wanting_ |= 1u << e;
}

void Machine::count(uint64_t cycles) {
    if (load_.busy()) result.busy[kLoad] += cycles;
    if (save_.busy()) result.busy[kSave] += cycles;
    if (conv_.busy()) result.busy[kConv] += cycles;
    if (conv_.may_step()) result.conv_steps += cycles;
}

// Whether an instruction may leave its queue or has finished.
bool Machine::queue_events() const {
    if (!queues_still_ || load_.order.done() || save_.order.done() || conv_.done() || misc_.done()) return true;
    if (!wanting_) return false;
    return (wanting_ >> kLoad & 1 && load_.front.ready()) || (wanting_ >> kSave & 1 && save_.front.ready())
           || (wanting_ >> kConv & 1 && conv_.ready()) || (wanting_ >> kMisc & 1 && misc_.ready());
}

// Cycles before the memory offers something, if nobody asks it for anything.
uint64_t Machine::memory_still() {
    if (ddr_.settings.random) return 0;
    uint64_t until = ~uint64_t{0};
    for (auto& p : ddr_.ports) {
        if (p.reading || p.answering || p.filled < p.writings.size()) return 0;
        if (p.reads.size()) until = std::min(until, p.reads.front().when);
        if (p.filled) until = std::min(until, p.writings.front().when);
    }
    return until > ddr_.now() ? until - ddr_.now() : 0;
}

// Cycles from this one on in which nothing happens but steps of CONV within a column.
uint64_t Machine::still() {
    if (!dispatch_.flies() || !misc_.quiet()) return 0;
    uint64_t cycles = conv_.steady();
    if (cycles < kLeastSkip || !load_.still(target_.channel_parallel) || !save_.still()) return 0;
    if (queue_events()) return 0;
    cycles = std::min({cycles, memory_still(), kMostSkip});
    return cycles < kLeastSkip ? 0 : cycles;
}

void Machine::skip(uint64_t cycles) {
    Nobody nobody;
    count(cycles);
    conv_.skip(static_cast<uint32_t>(cycles));
    for (uint64_t i = 0; i < cycles; ++i) {
        ddr_.drive(nobody);
        ddr_.advance();
    }
    cycle_ += cycles;
}

bool Machine::step() {
    if (control_still_)
        if (uint64_t cycles = still()) skip(cycles);
    Nobody nobody;
    ddr_.drive(nobody);
    bool goes_on = judge();
    BankGrants grants = grant();
    bool load_go = load_.go(), save_go = save_.go(), bias_ready = !conv_.bias_valid();
    if (!control_still_ || queue_events()) step_dispatch();
    step_transfers(grants, load_go, save_go);
    if (fired_[kMisc] || !misc_.quiet()) {
        result.busy[kMisc] += misc_.busy();
        result.misc_steps += misc_.step_valid;
        misc_.step(target_.taps, target_.pixel_parallel, grants.misc_read, grants.misc_write, bias_ready,
                   fired_[kMisc] ? &program_.miscs.works[fired_[kMisc]->number] : nullptr);
    }
    if (fired_[kConv] || !conv_.quiet()) {
        result.busy[kConv] += conv_.busy();
        result.conv_steps += conv_.may_step();
        conv_.step(fired_[kConv] ? &program_.convs[fired_[kConv]->number] : nullptr);
    }
    ddr_.advance();
    ++cycle_;
    return goes_on;
}

void Machine::step_transfers(const BankGrants& grants, bool load_go, bool save_go) {
    const LoadWork* load = fired_[kLoad] ? &program_.loads[fired_[kLoad]->number] : nullptr;
    const SaveWork* save = fired_[kSave] ? &program_.saves[fired_[kSave]->number] : nullptr;
    bool loads = load_.busy(), saves = save_.busy();
    result.busy[kLoad] += loads;
    result.busy[kSave] += saves;
    loads |= load != nullptr;
    saves |= save != nullptr;
    if (!loads && !saves) return;
    const LoadWork* load_next = load_go ? load_.front.third : nullptr;
    const SaveWork* save_next = save_go && !save_.front.third->end ? save_.front.third : nullptr;
    bool load_finished[2] = {}, save_finished[2] = {};
    for (uint32_t c = 0; c < 2; ++c) {
        if (loads) load_finished[c] = step_load(c, grants, load_next && load_next->channel == c ? load_next : nullptr);
        if (saves) save_finished[c] = step_save(c, grants, save_next && save_next->channel == c ? save_next : nullptr);
    }
    if (loads) {
        if (load_go || load_finished[0] || load_finished[1] || load_.order.done())
            load_.order.step(load_go, load_go && load_next->channel, false, load_finished[0], load_finished[1]);
        if (load || load_go || !load_.front.still()) load_.front.step(load, load_go);
    }
    if (saves) {
        if (save_go || save_finished[0] || save_finished[1] || save_.order.done()) {
            save_.track(save_go);
            save_.order.step(save_go, save_go && save_.front.third->channel, save_go && save_.front.third->end,
                             save_finished[0], save_finished[1]);
        }
        save_.step_front(save, save_go);
    }
}

}  // namespace opendpu
