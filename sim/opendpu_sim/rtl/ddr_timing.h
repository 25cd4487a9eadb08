// SPDX-License-Identifier: Apache-2.0
// When the memory behind the three AXI4 ports answers: shared by the RTL harness and the cycle model.
//
// Port 0 only reads, in beats of 4 bytes; ports 1 and 2 read and write, in beats of 16 bytes. A cycle is:
// `drive` decides what the memory offers, the caller looks at the handshakes and reports them, `advance`.

#pragma once

#include <cstdint>

namespace opendpu {

constexpr uint32_t kRing = 64;     // bursts a port can hold, a power of two
constexpr uint32_t kWindow = 256;  // cycles over which bandwidth is averaged
constexpr uint32_t kPorts = 3;

struct Settings {  // mirrored by ctypes in settings.py
    uint64_t latency;         // cycles from address (or last write beat) to the answer
    uint64_t beats_a_window;  // beats both data ports may move in kWindow cycles; 0: no limit
    uint64_t accept_limit;    // bursts a port takes before its ready goes low
    uint64_t rule_limit;      // bursts the DPU may have outstanding; more breaks a rule
    uint64_t random;          // 1: random stalls and latencies from `seed`
    uint64_t seed;
    uint64_t check_paths;     // 1: two evaluations a cycle, outputs must not follow inputs
};

struct Random {
    uint64_t state = 1;
    void seed(uint64_t value) {
        state = value * 0x9E3779B97F4A7C15ull + 0x1234567ull;
        if (state == 0) state = 1;
    }
    uint32_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<uint32_t>(state >> 32);
    }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>((uint64_t{next()} * n) >> 32); }
};

// Says in each cycle whether a channel stalls; every 16 to 271 cycles another rate.
struct Staller {
    uint32_t rate = 0;  // of 256
    uint32_t left = 0;
    bool stall(Random& random) {
        if (left == 0) {
            static constexpr uint32_t rates[] = {0, 0, 32, 128, 224, 250};
            rate = rates[random.below(6)];
            left = 16 + random.below(256);
        }
        --left;
        return rate && (random.next() & 255) < rate;
    }
};

// What the timing needs to know of a burst; users add the rest.
struct BurstTiming {
    uint64_t when;   // first cycle of the answer
    uint32_t beats;
    uint32_t done;   // beats moved
};

// Bursts in the order of their addresses.
template <class Burst>
struct BurstQueue {
    Burst ring[kRing];
    uint32_t head = 0;
    uint32_t tail = 0;
    uint32_t size() const { return tail - head; }
    Burst& front() { return ring[head & (kRing - 1)]; }
    Burst& at(uint32_t place) { return ring[(head + place) & (kRing - 1)]; }
    Burst& push() { return ring[tail++ & (kRing - 1)]; }
    void clear() { head = tail = 0; }
};

template <class Burst>
struct PortTiming {
    BurstQueue<Burst> reads;
    BurstQueue<Burst> writings;
    uint32_t filled = 0;      // bursts of `writings` that have all their data, counted from head
    bool ar_ready = false;
    bool aw_ready = false;
    bool reading = false;     // a beat is offered
    bool answering = false;   // a write response is offered
    bool granted = false;     // a write beat would be taken: its bandwidth is set aside
    Staller stall_ar, stall_r, stall_aw, stall_w, stall_b;
};

template <class Burst>
class DdrTiming {
  public:
    Settings settings{64, 768, 8, 8, 0, 1, 0};
    Random random;
    PortTiming<Burst> ports[kPorts];
    uint64_t throttled = 0;  // times the bandwidth limit held a beat back

    // Forgets everything: nothing is outstanding, the next cycle is cycle 0.
    void restart() {
        for (auto& p : ports) {
            p.reads.clear();
            p.writings.clear();
            p.filled = 0;
            p.ar_ready = p.aw_ready = p.reading = p.answering = p.granted = false;
            p.stall_ar = p.stall_r = p.stall_aw = p.stall_w = p.stall_b = Staller{};
        }
        for (auto& beats : window_) beats = 0;
        window_beats_ = 0;
        throttled = 0;
        now_ = 0;
        random.seed(settings.seed);
    }

    // Decides what is offered in this cycle; `user.beat(port)` and `user.answer(port)` are called when another
    // read beat or write response appears.
    template <class User>
    void drive(User& user) {
        if (settings.beats_a_window) {
            uint8_t& oldest = window_[now_ & (kWindow - 1)];
            window_beats_ -= oldest;
            oldest = 0;
        }
        drive_read(0, user);
        uint32_t first = 1 + (now_ & 1), second = 2 - (now_ & 1);
        drive_read(first, user);
        drive_write(second, user);
        drive_read(second, user);
        drive_write(first, user);
    }

    void advance() { ++now_; }
    uint64_t now() const { return now_; }

    // The DPU took the read beat offered by a port; returns whether it was its burst's last.
    bool took_beat(uint32_t port) {
        auto& p = ports[port];
        p.reading = false;
        Burst& burst = p.reads.front();
        if (++burst.done < burst.beats) return false;
        ++p.reads.head;
        return true;
    }

    void took_answer(uint32_t port) {
        auto& p = ports[port];
        p.answering = false;
        ++p.writings.head;
        --p.filled;
    }

    // The burst that the next write beat belongs to; only while `granted`.
    Burst& filling(uint32_t port) { return ports[port].writings.at(ports[port].filled); }

    // The DPU gave the granted write beat; returns whether it was its burst's last.
    bool gave_beat(uint32_t port) {
        Burst& burst = filling(port);
        if (++burst.done < burst.beats) return false;
        burst.when = now_ + latency();
        ++ports[port].filled;
        return true;
    }

    // The DPU gave no write beat in this cycle.
    void gave_nothing(uint32_t port) {
        if (!ports[port].granted || !settings.beats_a_window) return;
        --window_beats_;
        --window_[now_ & (kWindow - 1)];
    }

    // An address was taken.
    Burst& request(BurstQueue<Burst>& queue, uint32_t beats) {
        Burst& burst = queue.push();
        burst.beats = beats;
        burst.done = 0;
        burst.when = now_ + latency();
        return burst;
    }

  private:
    uint64_t now_ = 0;
    uint8_t window_[kWindow] = {};
    uint32_t window_beats_ = 0;

    uint64_t latency() {
        if (!settings.random) return settings.latency;
        switch (random.below(4)) {
            case 0: return 1;
            case 1: return 1 + random.below(8);
            case 2: return 1 + random.below(64);
            default: return 1 + random.below(200);
        }
    }

    // Takes one beat of the bandwidth that both data ports share.
    bool take_beat(uint32_t port) {
        if (!settings.beats_a_window || port == 0) return true;
        if (window_beats_ >= settings.beats_a_window) {
            ++throttled;
            return false;
        }
        ++window_beats_;
        ++window_[now_ & (kWindow - 1)];
        return true;
    }

    template <class User>
    void drive_read(uint32_t port, User& user) {
        auto& p = ports[port];
        p.ar_ready = p.reads.size() < settings.accept_limit;
        if (settings.random && p.stall_ar.stall(random)) p.ar_ready = false;
        if (p.reading) return;
        bool valid = p.reads.size() && p.reads.front().when <= now_;
        if (valid && settings.random && p.stall_r.stall(random)) valid = false;
        if (!valid || !take_beat(port)) return;
        p.reading = true;
        user.beat(port);
    }

    template <class User>
    void drive_write(uint32_t port, User& user) {
        auto& p = ports[port];
        p.aw_ready = p.writings.size() < settings.accept_limit;
        if (settings.random && p.stall_aw.stall(random)) p.aw_ready = false;
        p.granted = false;
        if (p.filled < p.writings.size())
            p.granted = !(settings.random && p.stall_w.stall(random)) && take_beat(port);
        if (p.answering) return;
        bool valid = p.filled && p.writings.front().when <= now_;
        if (valid && settings.random && p.stall_b.stall(random)) valid = false;
        if (!valid) return;
        p.answering = true;
        user.answer(port);
    }
};

}  // namespace opendpu
