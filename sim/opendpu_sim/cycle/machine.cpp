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
    BankRequests r;
    uint32_t banks = target_.pixel_parallel, all = (1u << banks) - 1;
    if (conv_.reads()) r.conv_group = all << conv_.read_group * banks;
    if (conv_.active) r.conv_write = conv_.write_mask() << conv_.writing->group_out * banks;
    if (misc_.reads()) r.misc_read = misc_.walk.read_mask << misc_.walk.read_group * banks;
    if (misc_.writes()) r.misc_write = misc_.writer.mask << misc_.writer.write_group * banks;
    for (uint32_t i = 0; i < 2; ++i) {
        r.load_valid[i] = load_.channels[i].write_valid;
        r.load_bank[i] = load_.channels[i].write_bank;
        r.save_valid[i] = save_.channels[i].read_valid();
        if (r.save_valid[i]) r.save_bank[i] = save_.channels[i].job->bank;
    }
    return arbitrate(r, target_.image_banks);
}

// One queue: an instruction leaves it, another one has finished. Returns the one that left.
const Instruction* Machine::issue(uint32_t engine, bool ready, bool done) {
    Queue& q = dispatch_.queues[engine];
    bool ended = q.flying.ready && (done || q.late);
    const Instruction* fired = ready && dispatch_.offers(engine) ? q.waiting.out : nullptr;
    q.late += done - ended;
    if (ended) {
        const Instruction* which = q.flying.out;
        end_[which - program_.instructions.data()] = static_cast<int64_t>(cycle_);
        ++result.finished;
    }
    if (fired) {
        start_[fired - program_.instructions.data()] = static_cast<int64_t>(cycle_);
        ++result.started[engine];
    }
    return fired;
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
    if (!work && c.idle()) return false;
    bool beat = port.reading && c.beat_ready(), last = false;
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
    if (!work && c.idle()) return false;
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
        return !(fetch_.idle() && load_.idle() && save_.idle() && conv_.idle() && !misc_.busy());
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
    bool blocked = held && decode_.judged && !dispatch_.queues[held->engine].waiting.room();
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

bool Machine::step() {
    Nobody nobody;
    ddr_.drive(nobody);
    bool stop = decode_.ended || ending_;

    // what is decided from the registers
    BankGrants grants = grant();
    bool load_go = load_.go(), save_go = save_.go();
    const bool ready[] = {load_.front.ready(load_go), save_.front.ready(save_go), conv_.ready(), misc_.ready()};
    const bool done[] = {load_.order.done(), save_.order.done(), conv_.done(), misc_.done()};
    result.busy[kLoad] += load_.busy();
    result.busy[kSave] += save_.busy();
    result.busy[kConv] += conv_.busy();
    result.busy[kMisc] += misc_.busy();
    result.conv_steps += conv_.may_step();
    result.misc_steps += misc_.step_valid;
    bool goes_on = judge();

    // decode and fetch
    const Instruction* held = decode_.held;
    bool accept = held && decode_.judged && dispatch_.queues[held->engine].waiting.room();
    bool read = decode_.takes_word(accept), word = read && fetch_.ready && !stop;

    // dispatch
    const Instruction* fired[kEngines];
    const Instruction* ended[kEngines];
    for (uint32_t e = 0; e < kEngines; ++e) {
        Queue& q = dispatch_.queues[e];
        ended[e] = q.flying.ready && (done[e] || q.late) ? q.flying.out : nullptr;
        fired[e] = issue(e, ready[e], done[e]);
    }
    for (uint32_t e = 0; e < kEngines; ++e) {
        Queue& q = dispatch_.queues[e];
        for (uint32_t other = 0; other < kEngines; ++other) {
            if (other == e) continue;
            bool give = ended[e] && ended[e]->gives >> other & 1 && dispatch_.tokens[e][other] != 4095;
            bool take = fired[other] && fired[other]->wants >> e & 1;
            dispatch_.tokens[e][other] += give - take;
        }
        q.waiting.step(accept && held->engine == e, held, fired[e]);
        q.flying.step(fired[e], fired[e], ended[e]);
    }
    decode_.step(accept, word);
    step_fetch(stop, read);

    // engines
    const LoadWork* load_next = load_go ? load_.front.third : nullptr;
    const SaveWork* save_next = save_go && !save_.front.third->end ? save_.front.third : nullptr;
    bool load_finished[2], save_finished[2];
    for (uint32_t c = 0; c < 2; ++c) {
        load_finished[c] = step_load(c, grants, load_next && load_next->channel == c ? load_next : nullptr);
        save_finished[c] = step_save(c, grants, save_next && save_next->channel == c ? save_next : nullptr);
    }
    load_.order.step(load_go, load_go && load_.front.third->channel, false, load_finished[0], load_finished[1]);
    load_.front.step(fired[kLoad] ? &program_.loads[fired[kLoad]->number] : nullptr, load_go);
    save_.track(save_go);
    save_.order.step(save_go, save_go && save_.front.third->channel, save_go && save_.front.third->end,
                     save_finished[0], save_finished[1]);
    save_.front.step(fired[kSave] ? &program_.saves[fired[kSave]->number] : nullptr, save_go);
    bool bias_ready = !conv_.bias_valid();
    if (fired[kMisc] || !misc_.quiet())
        misc_.step(target_.taps, target_.pixel_parallel, grants.misc_read, grants.misc_write, bias_ready,
                   fired[kMisc] ? &program_.miscs.works[fired[kMisc]->number] : nullptr);
    if (fired[kConv] || !conv_.quiet()) conv_.step(fired[kConv] ? &program_.convs[fired[kConv]->number] : nullptr);

    ddr_.advance();
    ++cycle_;
    return goes_on;
}

}  // namespace opendpu

#define API extern "C" __attribute__((visibility("default")))

using namespace opendpu;

API Program* odpu_cycle_load(const Target* target, const uint32_t* words, uint64_t count) {
    return new Program(*target, words, count);
}
API void odpu_cycle_free(Program* program) { delete program; }
API uint32_t odpu_cycle_complete(const Program* program) { return program->complete; }
API uint32_t odpu_cycle_orphan(const Program* program) { return program->orphan; }
API uint64_t odpu_cycle_instructions(const Program* program) { return program->instructions.size(); }

// The first LOAD or SAVE that leaves its segment, by its place in the program; -1 if there is none.
API int64_t odpu_cycle_outside(const Program* program, const uint64_t sizes[8]) {
    for (const Instruction& i : program->instructions) {
        const Plan* plan = nullptr;
        if (i.opcode == isa::Load::kOpcode && !program->loads[i.number].constant) plan = &program->loads[i.number].plan;
        if (i.opcode == isa::Save::kOpcode) plan = &program->saves[i.number].plan;
        if (!plan) continue;
        uint64_t reg_id = (plan->address >> 36) - 1;
        if (plan->address - base_of(reg_id) + plan->reach >= sizes[reg_id]) return &i - program->instructions.data();
    }
    return -1;
}

API void odpu_cycle_run(const Program* program, const Target* target, const Settings* settings, uint64_t limit,
                        int64_t* start, int64_t* end, Result* result) {
    Machine machine(*target, *settings, *program, start, end);
    machine.run(limit);
    *result = machine.result;
}
