// SPDX-License-Identifier: Apache-2.0
// Streams that ask a DdrTiming for a beat in every cycle, each from a cycle of its own on; prints the beats of each.
//
// Arguments: beats a window, cycles before counting, cycles counted, then pairs of stream (0 and 1 read port 1 and 2,
// 2 and 3 write them, 4 and 5 do too but never have data) and first cycle. Output: the beats of streams 0 to 3, and the
// most in any window of all cycles.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "ddr_timing.h"

using opendpu::BurstTiming;

struct Nobody {
    void beat(uint32_t) {}
    void answer(uint32_t) {}
};

int main(int argc, char** argv) {
    constexpr uint32_t kBeats = 16, kBursts = 4;
    opendpu::DdrTiming<BurstTiming> ddr;
    ddr.settings = {1, std::strtoull(argv[1], nullptr, 10), 8, 8, 0, 1, 0};
    ddr.restart();
    uint64_t quiet = std::strtoull(argv[2], nullptr, 10), end = quiet + std::strtoull(argv[3], nullptr, 10);
    uint64_t moved[4] = {}, most = 0, sum = 0;
    bool without_data[2] = {};
    std::deque<uint64_t> window;
    Nobody nobody;
    for (uint64_t cycle = 0; cycle < end; ++cycle) {
        for (int i = 4; i + 1 < argc; i += 2)
            if (cycle == std::strtoull(argv[i + 1], nullptr, 10)) {
                int stream = std::atoi(argv[i]);
                auto& port = ddr.ports[1 + stream % 2];
                if (stream >= 4) without_data[stream % 2] = true;
                for (uint32_t n = 0; n < kBursts; ++n) ddr.request(stream < 2 ? port.reads : port.writings, kBeats);
            }
        ddr.drive(nobody);
        uint64_t now = 0;
        for (uint32_t p = 0; p < 2; ++p) {
            auto& port = ddr.ports[1 + p];
            bool read = port.reading, written = port.granted && !without_data[p], answered = port.answering;
            if (read && ddr.took_beat(1 + p)) ddr.request(port.reads, kBeats);
            if (answered) ddr.took_answer(1 + p);
            if (!written) ddr.gave_nothing(1 + p);
            if (written && ddr.gave_beat(1 + p)) ddr.request(port.writings, kBeats);
            now += read + written;
            if (cycle >= quiet) {
                moved[p] += read;
                moved[2 + p] += written;
            }
        }
        window.push_back(now);
        sum += now;
        if (window.size() > opendpu::kWindow) {
            sum -= window.front();
            window.pop_front();
        }
        most = std::max(most, sum);
        ddr.advance();
    }
    for (uint64_t beats : moved) std::printf("%llu ", static_cast<unsigned long long>(beats));
    std::printf("%llu\n", static_cast<unsigned long long>(most));
}
