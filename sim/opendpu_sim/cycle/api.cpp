// SPDX-License-Identifier: Apache-2.0
// What library.py calls.

#include "machine.h"

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
