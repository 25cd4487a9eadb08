// SPDX-License-Identifier: Apache-2.0
// The DPU and its memory, cycle by cycle; only what decides about time.

#pragma once

#include "../rtl/ddr_timing.h"
#include "banks.h"
#include "control.h"
#include "conv.h"
#include "load.h"
#include "misc.h"
#include "save.h"

namespace opendpu {

enum Fault : uint32_t { kNone, kDeadlock, kLeftoverToken, kTimeout };

struct Result {  // mirrored by ctypes in library.py
    uint64_t cycles;
    uint64_t busy[4];       // an accepted instruction is unfinished
    uint64_t conv_steps;
    uint64_t misc_steps;
    uint64_t read_beats[3];
    uint64_t write_bytes;
    uint64_t started[4];
    uint64_t finished;      // instructions
    uint64_t fault;
};

class Machine {
  public:
    Machine(const Target& target, const Settings& settings, const Program& program, int64_t* start, int64_t* end);
    // Runs to END, at most `limit` cycles.
    void run(uint64_t limit);
    Result result{};

  private:
    // Cycles before the first word is asked for: the program has been started, the sequencer looks and begins.
    static constexpr uint64_t kBegin = 2;
    static constexpr uint32_t kPatience = 64;
    static constexpr uint64_t kLeastSkip = 3, kMostSkip = 1 << 20;

    const Target target_;
    const Program& program_;
    int64_t *start_, *end_;
    uint64_t cycle_ = kBegin;
    uint32_t patience_ = 0;
    DdrTiming<BurstTiming> ddr_;
    Fetch fetch_;
    Decode decode_;
    Dispatch dispatch_;
    LoadEngine load_;
    SaveEngine save_;
    ConvEngine conv_;
    MiscEngine misc_;
    const Instruction* fired_[kEngines] = {};  // in this cycle
    const Instruction* ended_[kEngines] = {};
    uint32_t wanting_ = 0;  // a bit an engine: its queue's first instruction only waits for it
    bool queues_still_ = false;   // dispatch did nothing in the cycle before but take an instruction
    bool control_still_ = false;  // fetch, decode and dispatch did nothing in the cycle before
    bool ending_ = false;  // END is done: what still comes over the buses is awaited

    struct Nobody {
        void beat(uint32_t) {}
        void answer(uint32_t) {}
    };
    void start();
    bool step();
    bool judge();
    BankGrants grant() const;
    void step_queue(uint32_t engine, bool ready, bool done);
    void step_dispatch();
    void step_transfers(const BankGrants& grants, bool load_go, bool save_go);
    void count(uint64_t cycles);
    bool queue_events() const;
    void move_queues(const Instruction* accepted);
    uint64_t memory_still();
    uint64_t still();
    void skip(uint64_t cycles);
    void step_fetch(bool stop, bool read);
    bool step_load(uint32_t channel, const BankGrants& grants, const LoadWork* work);
    bool step_save(uint32_t channel, const BankGrants& grants, const SaveWork* work);
};

}  // namespace opendpu
