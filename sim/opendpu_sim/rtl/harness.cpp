// SPDX-License-Identifier: Apache-2.0
// The world around the DPU: clock, reset, register accesses, and a DDR behind three AXI4 ports.
//
// One call runs a job; nothing here allocates after `odpu_create`. A cycle is: set inputs (`drive`), look at
// the handshakes (`sample`), rising edge (`edge`). The DPU keeps AXI's rule that no output follows an input
// within a cycle, so one evaluation a cycle is enough; in the stall model every cycle checks that rule.

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "Vopendpu_top.h"
#include "Vopendpu_top___024root.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace {

constexpr uint32_t kRing = 64;         // bursts a port can hold, a power of two
constexpr uint32_t kWindow = 256;      // cycles over which bandwidth is averaged
constexpr uint32_t kSegments = 16;
constexpr uint32_t kFaults = 16;
constexpr uint32_t kLiteLimit = 4096;  // cycles a register access may take
enum : uint8_t { kOkay = 0, kSlaveError = 2, kDecodeError = 3 };

// Memory behind an address range; bytes up to the next multiple of 16 read as zero.
struct Segment {
    uint64_t base;
    uint64_t size;
    uint8_t* data;
    bool writable;
};

// An answer to be spoilt: accesses of one port and direction to [low, high) get `response`.
struct Fault {
    uint32_t port;
    uint32_t write;
    uint64_t low;
    uint64_t high;
    uint32_t response;
};

struct Settings {  // mirrored by ctypes in verilated.py
    uint64_t latency;         // cycles from address (or last write beat) to the answer
    uint64_t beats_a_window;  // beats both data ports may move in kWindow cycles; 0: no limit
    uint64_t accept_limit;    // bursts a port takes before its ready goes low
    uint64_t rule_limit;      // bursts the DPU may have outstanding; more breaks a rule
    uint64_t random;          // 1: random stalls and latencies from `seed`
    uint64_t seed;
    uint64_t check_paths;     // 1: two evaluations a cycle, outputs must not follow inputs
};

struct Counters {  // mirrored by ctypes in verilated.py
    uint64_t cycles;
    uint64_t read_beats[3];
    uint64_t write_bytes[3];
    uint64_t read_bursts[3];
    uint64_t write_bursts[3];
    uint64_t throttled;  // cycles in which the bandwidth limit held a beat back
    uint64_t decode_errors;
    uint64_t decode_error_address;
    uint64_t decode_error_port;
    uint64_t decode_error_write;
};

struct Random {
    uint64_t state = 1;
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

struct Burst {
    uint64_t address;
    uint64_t when;   // first cycle of the answer
    uint32_t beats;
    uint32_t done;   // beats moved
    uint8_t response;
    uint8_t data[16][16];
    uint16_t strobe[16];
};

// Bursts in the order of their addresses.
struct Queue {
    Burst ring[kRing];
    uint32_t head = 0;
    uint32_t tail = 0;
    uint32_t size() const { return tail - head; }
    Burst& front() { return ring[head & (kRing - 1)]; }
    Burst& push() { return ring[tail++ & (kRing - 1)]; }
    void clear() { head = tail = 0; }
};

struct AddressPins {
    QData* address;
    CData *length, *size, *burst, *valid, *ready;
};

// A request that waits for ready must stay as it is.
struct Held {
    bool waiting = false;
    uint64_t address = 0;
    uint8_t length = 0;
};

struct Port {
    const char* name;
    uint32_t width;       // bytes of a beat
    uint32_t max_beats;
    bool writes;
    AddressPins ar, aw;
    uint32_t* rdata;
    CData *rresp, *rlast, *rvalid, *rready;
    uint32_t* wdata;
    SData* wstrb;
    CData *wlast, *wvalid, *wready, *bresp, *bvalid, *bready;

    Queue reads;
    Queue writings;
    uint32_t filled = 0;  // bursts of `writings` that have all their data, counted from head
    bool reading = false;   // a beat is on the pins
    bool answering = false;  // a write response is on the pins
    bool granted = false;   // a beat of bandwidth was set aside for this cycle's write
    Held held_ar, held_aw;
    bool held_w = false;
    uint32_t held_data[4] = {};
    uint16_t held_strobe = 0;
    Staller stall_ar, stall_r, stall_aw, stall_w, stall_b;
};

struct Lite {
    bool write = false, read = false;
    bool sent_aw = false, sent_w = false, sent_ar = false, finished = false;
    uint32_t delay_aw = 0, delay_w = 0, delay_answer = 0;
    uint32_t offset = 0, value = 0;
    uint8_t response = 0;
};

class Harness {
  public:
    Harness();
    ~Harness();
    int reset();
    int run(uint64_t limit, uint64_t* ran);
    int access(uint32_t offset, uint32_t* value, bool write);
    int trace(const char* path);
    void configure(const Settings& settings);
    int map(uint64_t base, uint64_t size, uint8_t* data, bool writable);
    int inject(const Fault& fault);
    void unmap() { segments_count_ = 0; }
    void forget_faults() { faults_count_ = 0; }
    void clear_counters() { counters = Counters{}; }
    Counters counters{};
    char message[512] = "";

  private:
    VerilatedContext context_;
    Vopendpu_top* top_;
#if VM_TRACE
    VerilatedFstC* trace_ = nullptr;
#endif
    uint64_t now_ = 0;
    Settings settings_{64, 768, 8, 8, 0, 1, 0};
    Random random_;
    Port ports_[3];
    Lite lite_;
    Segment segments_[kSegments];
    uint32_t segments_count_ = 0;
    Fault faults_[kFaults];
    uint32_t faults_count_ = 0;
    uint8_t window_[kWindow] = {};
    uint32_t window_beats_ = 0;
    bool failed_ = false;

    void bind();
    void step();
    void rise();
    void drive();
    void sample();
    void drive_read(Port& p);
    void drive_write(Port& p);
    void sample_read(Port& p);
    void sample_write(Port& p);
    void drive_lite();
    void sample_lite();
    void request(Port& p, AddressPins& pins, Held& held, Queue& queue, const char* channel);
    void quiet();
    bool take_beat(Port& p);
    uint8_t fetch(Port& p, uint64_t address, uint8_t* to);
    uint8_t spoilt(const Port& p, uint64_t address, bool write, uint8_t response) const;
    void commit(Port& p, Burst& burst);
    uint32_t index(const Port& p) const { return static_cast<uint32_t>(&p - ports_); }
    void decode_error(const Port& p, uint64_t address, bool write);
    uint64_t latency();
    uint64_t outputs(uint32_t which) const;
    void fail(const char* format, ...) __attribute__((format(printf, 2, 3)));
};

Harness::Harness() {
    context_.randReset(0);
    top_ = new Vopendpu_top{&context_, "opendpu_top"};
    bind();
    quiet();
}

Harness::~Harness() {
#if VM_TRACE
    delete trace_;
#endif
    top_->final();
    delete top_;
}

void Harness::bind() {
    Vopendpu_top& t = *top_;
    Port& i = ports_[0];
    i.name = "m_axi_instr";
    i.width = 4;
    i.max_beats = 64;
    i.writes = false;
    i.ar = {&t.m_axi_instr_araddr, &t.m_axi_instr_arlen, &t.m_axi_instr_arsize,
            &t.m_axi_instr_arburst, &t.m_axi_instr_arvalid, &t.m_axi_instr_arready};
    i.rdata = &t.m_axi_instr_rdata;
    i.rresp = &t.m_axi_instr_rresp;
    i.rlast = &t.m_axi_instr_rlast;
    i.rvalid = &t.m_axi_instr_rvalid;
    i.rready = &t.m_axi_instr_rready;
#define DATA_PORT(P, PREFIX)                                                                      \
    P.name = #PREFIX;                                                                             \
    P.width = 16;                                                                                 \
    P.max_beats = 16;                                                                             \
    P.writes = true;                                                                              \
    P.ar = {&t.PREFIX##_araddr, &t.PREFIX##_arlen, &t.PREFIX##_arsize,                            \
            &t.PREFIX##_arburst, &t.PREFIX##_arvalid, &t.PREFIX##_arready};                       \
    P.aw = {&t.PREFIX##_awaddr, &t.PREFIX##_awlen, &t.PREFIX##_awsize,                            \
            &t.PREFIX##_awburst, &t.PREFIX##_awvalid, &t.PREFIX##_awready};                       \
    P.rdata = t.PREFIX##_rdata.data();                                                            \
    P.rresp = &t.PREFIX##_rresp;                                                                  \
    P.rlast = &t.PREFIX##_rlast;                                                                  \
    P.rvalid = &t.PREFIX##_rvalid;                                                                \
    P.rready = &t.PREFIX##_rready;                                                                \
    P.wdata = t.PREFIX##_wdata.data();                                                            \
    P.wstrb = &t.PREFIX##_wstrb;                                                                  \
    P.wlast = &t.PREFIX##_wlast;                                                                  \
    P.wvalid = &t.PREFIX##_wvalid;                                                                \
    P.wready = &t.PREFIX##_wready;                                                                \
    P.bresp = &t.PREFIX##_bresp;                                                                  \
    P.bvalid = &t.PREFIX##_bvalid;                                                                \
    P.bready = &t.PREFIX##_bready;
    DATA_PORT(ports_[1], m_axi_data0)
    DATA_PORT(ports_[2], m_axi_data1)
#undef DATA_PORT
}

void Harness::fail(const char* format, ...) {
    if (failed_) return;
    failed_ = true;
    int at = std::snprintf(message, sizeof message, "cycle %llu: ", (unsigned long long)now_);
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message + at, sizeof message - at, format, arguments);
    va_end(arguments);
}

// Puts the world to rest: nothing outstanding, every input idle.
void Harness::quiet() {
    for (Port& p : ports_) {
        p.reads.clear();
        p.writings.clear();
        p.filled = 0;
        p.reading = p.answering = p.granted = p.held_w = false;
        p.held_ar = p.held_aw = Held{};
        *p.ar.ready = *p.rvalid = *p.rlast = *p.rresp = 0;
        if (p.writes) *p.aw.ready = *p.wready = *p.bvalid = *p.bresp = 0;
    }
    lite_ = Lite{};
    top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = top_->s_axi_control_bready = 0;
    top_->s_axi_control_arvalid = top_->s_axi_control_rready = 0;
    top_->s_axi_control_wstrb = 15;
    std::memset(window_, 0, sizeof window_);
    window_beats_ = 0;
}

void Harness::configure(const Settings& settings) {
    settings_ = settings;
    random_.state = settings.seed * 0x9E3779B97F4A7C15ull + 0x1234567ull;
    if (random_.state == 0) random_.state = 1;
}

int Harness::map(uint64_t base, uint64_t size, uint8_t* data, bool writable) {
    if (segments_count_ == kSegments) return -1;
    segments_[segments_count_++] = {base, size, data, writable};
    return 0;
}

int Harness::inject(const Fault& fault) {
    if (faults_count_ == kFaults) return -1;
    faults_[faults_count_++] = fault;
    return 0;
}

uint64_t Harness::latency() {
    if (!settings_.random) return settings_.latency;
    switch (random_.below(4)) {
        case 0: return 1;
        case 1: return 1 + random_.below(8);
        case 2: return 1 + random_.below(64);
        default: return 1 + random_.below(200);
    }
}

void Harness::decode_error(const Port& p, uint64_t address, bool write) {
    if (counters.decode_errors++ == 0) {
        counters.decode_error_address = address;
        counters.decode_error_port = index(p);
        counters.decode_error_write = write;
    }
}

uint8_t Harness::spoilt(const Port& p, uint64_t address, bool write, uint8_t response) const {
    for (uint32_t i = 0; i < faults_count_; ++i) {
        const Fault& f = faults_[i];
        if (f.port == index(p) && bool(f.write) == write && address + p.width > f.low && address < f.high)
            return static_cast<uint8_t>(f.response);
    }
    return response;
}

// Reads one beat; `address` is a multiple of the width.
uint8_t Harness::fetch(Port& p, uint64_t address, uint8_t* to) {
    for (uint32_t i = 0; i < segments_count_; ++i) {
        const Segment& s = segments_[i];
        uint64_t at = address - s.base;
        if (at >= s.size) continue;
        uint64_t there = s.size - at;
        if (there >= p.width) {
            std::memcpy(to, s.data + at, p.width);
        } else {
            std::memset(to, 0, p.width);
            std::memcpy(to, s.data + at, there);
        }
        return faults_count_ ? spoilt(p, address, false, kOkay) : uint8_t{kOkay};
    }
    std::memset(to, 0xEE, p.width);
    decode_error(p, address, false);
    return kDecodeError;
}

// Writes a burst to memory, at the time its response is given: only then is it visible.
void Harness::commit(Port& p, Burst& burst) {
    for (uint32_t beat = 0; beat < burst.beats; ++beat) {
        uint64_t address = (burst.address & ~uint64_t{15}) + 16 * beat;
        uint16_t strobe = burst.strobe[beat];
        if (!strobe) continue;
        uint8_t response = kDecodeError;
        for (uint32_t i = 0; i < segments_count_; ++i) {
            const Segment& s = segments_[i];
            uint64_t at = address - s.base;
            if (at >= s.size) continue;
            uint64_t there = s.size - at;
            if (there < 16 && strobe >> there) break;
            if (!s.writable) {
                response = kSlaveError;
                break;
            }
            response = faults_count_ ? spoilt(p, address, true, kOkay) : uint8_t{kOkay};
            if (response != kOkay) break;
            if (strobe == 0xFFFF) {
                std::memcpy(s.data + at, burst.data[beat], 16);
            } else {
                for (uint32_t lane = 0; lane < 16; ++lane)
                    if (strobe >> lane & 1) s.data[at + lane] = burst.data[beat][lane];
            }
            break;
        }
        if (response == kDecodeError) decode_error(p, address, true);
        if (response != kOkay) burst.response = response;
    }
}

// Takes one beat of the bandwidth that both data ports share.
bool Harness::take_beat(Port& p) {
    if (!settings_.beats_a_window || p.width != 16) return true;
    if (window_beats_ >= settings_.beats_a_window) {
        ++counters.throttled;
        return false;
    }
    ++window_beats_;
    ++window_[now_ & (kWindow - 1)];
    return true;
}

void Harness::drive_read(Port& p) {
    bool ready = p.reads.size() < settings_.accept_limit;
    if (settings_.random && p.stall_ar.stall(random_)) ready = false;
    *p.ar.ready = ready;
    if (p.reading) return;
    bool valid = p.reads.size() && p.reads.front().when <= now_;
    if (valid && settings_.random && p.stall_r.stall(random_)) valid = false;
    if (valid && !take_beat(p)) valid = false;
    if (valid) {
        Burst& burst = p.reads.front();
        uint64_t address = (burst.address & ~uint64_t(p.width - 1)) + uint64_t{p.width} * burst.done;
        uint8_t response = fetch(p, address, reinterpret_cast<uint8_t*>(p.rdata));
        *p.rresp = response;
        *p.rlast = burst.done + 1 == burst.beats;
    }
    *p.rvalid = p.reading = valid;
}

void Harness::drive_write(Port& p) {
    bool ready = p.writings.size() < settings_.accept_limit;
    if (settings_.random && p.stall_aw.stall(random_)) ready = false;
    *p.aw.ready = ready;
    p.granted = false;
    if (p.filled < p.writings.size()) {
        p.granted = !(settings_.random && p.stall_w.stall(random_)) && take_beat(p);
    }
    *p.wready = p.granted;
    if (p.answering) return;
    bool valid = p.filled && p.writings.front().when <= now_;
    if (valid && settings_.random && p.stall_b.stall(random_)) valid = false;
    if (valid) {
        commit(p, p.writings.front());
        *p.bresp = p.writings.front().response;
    }
    *p.bvalid = p.answering = valid;
}

// Looks at an address channel: the rules of a request, and the burst it starts.
void Harness::request(Port& p, AddressPins& pins, Held& held, Queue& queue, const char* channel) {
    if (!*pins.valid) {
        if (held.waiting) fail("%s: %svalid was dropped before %sready", p.name, channel, channel);
        return;
    }
    if (held.waiting && (held.address != *pins.address || held.length != *pins.length))
        fail("%s: %saddr or %slen changed before %sready", p.name, channel, channel, channel);
    held.waiting = !*pins.ready;
    if (held.waiting) {
        held.address = *pins.address;
        held.length = *pins.length;
        return;
    }
    uint64_t address = *pins.address;
    uint32_t beats = *pins.length + 1u;
    uint64_t last = (address & ~uint64_t(p.width - 1)) + uint64_t{p.width} * beats - 1;
    if (beats > p.max_beats)
        return fail("%s: %slen asks for %u beats, at most %u are allowed", p.name, channel, beats, p.max_beats);
    if (*pins.burst != 1)
        return fail("%s: %sburst is %u, must be 1 (INCR)", p.name, channel, *pins.burst);
    if (1u << *pins.size != p.width)
        return fail("%s: %ssize says %u bytes a beat, must be %u", p.name, channel, 1u << *pins.size, p.width);
    if (address >> 12 != last >> 12)
        return fail("%s: %s burst %#llx..%#llx crosses a 4 KiB border", p.name, channel,
                    (unsigned long long)address, (unsigned long long)last);
    if (queue.size() >= settings_.rule_limit)
        return fail("%s: %s burst number %u outstanding, at most %llu are allowed", p.name, channel,
                    queue.size() + 1, (unsigned long long)settings_.rule_limit);
    Burst& burst = queue.push();
    burst.address = address;
    burst.beats = beats;
    burst.done = 0;
    burst.response = kOkay;
    burst.when = now_ + latency();
}

void Harness::sample_read(Port& p) {
    uint32_t i = index(p);
    if (p.reading && *p.rready) {
        p.reading = false;
        ++counters.read_beats[i];
        Burst& burst = p.reads.front();
        if (++burst.done == burst.beats) {
            ++p.reads.head;
            ++counters.read_bursts[i];
        }
    }
    if (*p.ar.valid || p.held_ar.waiting) request(p, p.ar, p.held_ar, p.reads, "ar");
}

void Harness::sample_write(Port& p) {
    uint32_t i = index(p);
    if (p.answering && *p.bready) {
        p.answering = false;
        ++p.writings.head;
        --p.filled;
        ++counters.write_bursts[i];
    }
    if (*p.wvalid) {
        if (p.held_w && (std::memcmp(p.held_data, p.wdata, 16) != 0 || p.held_strobe != *p.wstrb))
            fail("%s: wdata or wstrb changed before wready", p.name);
        p.held_w = !p.granted;
        if (p.granted) {
            Burst& burst = p.writings.ring[(p.writings.head + p.filled) & (kRing - 1)];
            std::memcpy(burst.data[burst.done], p.wdata, 16);
            burst.strobe[burst.done] = *p.wstrb;
            counters.write_bytes[i] += static_cast<uint64_t>(__builtin_popcount(*p.wstrb));
            bool last = ++burst.done == burst.beats;
            if (last != bool(*p.wlast))
                fail("%s: wlast is %u in beat %u of %u", p.name, *p.wlast, burst.done, burst.beats);
            if (last) {
                burst.when = now_ + latency();
                ++p.filled;
            }
        } else {
            std::memcpy(p.held_data, p.wdata, 16);
            p.held_strobe = *p.wstrb;
        }
    } else {
        if (p.held_w) fail("%s: wvalid was dropped before wready", p.name);
        if (p.granted && settings_.beats_a_window) {  // give the bandwidth back
            --window_beats_;
            --window_[now_ & (kWindow - 1)];
        }
    }
    if (*p.aw.valid || p.held_aw.waiting) request(p, p.aw, p.held_aw, p.writings, "aw");
}

void Harness::drive_lite() {
    Vopendpu_top& t = *top_;
    if (lite_.write) {
        t.s_axi_control_awaddr = t.s_axi_control_araddr = static_cast<SData>(lite_.offset);
        t.s_axi_control_wdata = lite_.value;
        t.s_axi_control_awvalid = !lite_.sent_aw && lite_.delay_aw == 0;
        t.s_axi_control_wvalid = !lite_.sent_w && lite_.delay_w == 0;
        t.s_axi_control_bready = lite_.delay_answer == 0;
    } else {
        t.s_axi_control_araddr = static_cast<SData>(lite_.offset);
        t.s_axi_control_arvalid = !lite_.sent_ar && lite_.delay_aw == 0;
        t.s_axi_control_rready = lite_.delay_answer == 0;
    }
    if (lite_.delay_aw) --lite_.delay_aw;
    if (lite_.delay_w) --lite_.delay_w;
    if (lite_.delay_answer) --lite_.delay_answer;
}

void Harness::sample_lite() {
    Vopendpu_top& t = *top_;
    if (lite_.write) {
        bool early = !lite_.sent_aw || !lite_.sent_w;
        if (t.s_axi_control_awvalid && t.s_axi_control_awready) lite_.sent_aw = true;
        if (t.s_axi_control_wvalid && t.s_axi_control_wready) lite_.sent_w = true;
        if (t.s_axi_control_bvalid && early) fail("s_axi_control: bvalid before address and data");
        if (t.s_axi_control_bvalid && t.s_axi_control_bready) {
            lite_.response = t.s_axi_control_bresp;
            lite_.finished = true;
        }
    } else {
        bool early = !lite_.sent_ar;
        if (t.s_axi_control_arvalid && t.s_axi_control_arready) lite_.sent_ar = true;
        if (t.s_axi_control_rvalid && early) fail("s_axi_control: rvalid before an address");
        if (t.s_axi_control_rvalid && t.s_axi_control_rready) {
            lite_.response = t.s_axi_control_rresp;
            lite_.value = t.s_axi_control_rdata;
            lite_.finished = true;
        }
    }
}

void Harness::drive() {
    if (settings_.beats_a_window) {
        uint8_t& oldest = window_[now_ & (kWindow - 1)];
        window_beats_ -= oldest;
        oldest = 0;
    }
    drive_read(ports_[0]);
    Port& first = ports_[1 + (now_ & 1)];
    Port& second = ports_[2 - (now_ & 1)];
    drive_read(first);
    drive_write(second);
    drive_read(second);
    drive_write(first);
    if (lite_.write || lite_.read) drive_lite();
}

void Harness::sample() {
    for (Port& p : ports_) {
        sample_read(p);
        if (p.writes) sample_write(p);
    }
    if (lite_.write || lite_.read) sample_lite();
}

// A digest of the outputs of one interface.
uint64_t Harness::outputs(uint32_t which) const {
    uint64_t h = 0;
    auto mix = [&h](uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15ull; h ^= h >> 29; };
    if (which == 3) {
        const Vopendpu_top& t = *top_;
        for (uint64_t v : {t.s_axi_control_awready, t.s_axi_control_wready, t.s_axi_control_bvalid,
                           t.s_axi_control_bresp, t.s_axi_control_arready, t.s_axi_control_rvalid,
                           t.s_axi_control_rresp, t.__SYM__interrupt})
            mix(v);
        mix(t.s_axi_control_rdata);
        return h;
    }
    const Port& p = ports_[which];
    mix(*p.ar.valid);
    if (*p.ar.valid) mix(*p.ar.address), mix(*p.ar.length);
    mix(*p.rready);
    if (p.writes) {
        mix(*p.aw.valid);
        if (*p.aw.valid) mix(*p.aw.address), mix(*p.aw.length);
        mix(*p.wvalid);
        if (*p.wvalid) {
            for (int i = 0; i < 4; ++i) mix(p.wdata[i]);
            mix(*p.wstrb), mix(*p.wlast);
        }
        mix(*p.bready);
    }
    return h;
}

// The rising edge. The model compares the clock with the value it saw last; telling it that it saw 0
// saves the evaluation of the falling edge, on which nothing happens.
void Harness::rise() {
#if VM_TRACE
    top_->aclk = 0;
    top_->eval();
    if (trace_) trace_->dump(10 * now_);
    top_->aclk = 1;
    top_->eval();
    if (trace_) trace_->dump(10 * now_ + 5);
#elif OPENDPU_ONE_EVAL
    top_->aclk = 1;
    top_->rootp->__Vtrigprevexpr___TOP__aclk__0 = 0;
    top_->eval();
#else
    top_->aclk = 0;
    top_->eval();
    top_->aclk = 1;
    top_->eval();
#endif
}

void Harness::step() {
    if (settings_.check_paths) {
        static const char* const names[] = {"m_axi_instr", "m_axi_data0", "m_axi_data1", "s_axi_control"};
        uint64_t before[4];
        for (uint32_t i = 0; i < 4; ++i) before[i] = outputs(i);
        drive();
        top_->aclk = 0;
        top_->eval();
        for (uint32_t i = 0; i < 4; ++i)
            if (before[i] != outputs(i))
                fail("%s: an output follows an input within a cycle (AXI forbids such paths)", names[i]);
    } else {
        drive();
    }
    sample();
    rise();
    ++now_;
    ++counters.cycles;
}

int Harness::reset() {
    failed_ = false;
    quiet();
    top_->aresetn = 0;
    for (int i = 0; i < 16; ++i) {
        top_->aclk = 0;
        top_->eval();
        top_->aclk = 1;
        top_->eval();
        ++now_;
    }
    top_->aresetn = 1;
    rise();  // masters may raise valid after the first edge that sees aresetn high, not earlier
    ++now_;
    for (Port& p : ports_)
        if (*p.ar.valid || (p.writes && (*p.aw.valid || *p.wvalid)))
            fail("%s: a valid is high in reset", p.name);
    if (top_->__SYM__interrupt) fail("interrupt is high in reset");
    return failed_ ? -1 : 0;
}

int Harness::access(uint32_t offset, uint32_t* value, bool write) {
    if (failed_) return -1;
    lite_ = Lite{};
    lite_.write = write;
    lite_.read = !write;
    lite_.offset = offset;
    lite_.value = *value;
    if (settings_.random) {
        lite_.delay_aw = random_.below(4);
        lite_.delay_w = random_.below(4);
        lite_.delay_answer = random_.below(8);
    }
    for (uint32_t i = 0; i < kLiteLimit && !lite_.finished && !failed_; ++i) step();
    if (!lite_.finished) fail("s_axi_control: no answer at offset %#x in %u cycles", offset, kLiteLimit);
    if (!failed_ && lite_.response != kOkay)
        fail("s_axi_control: offset %#x answered %u, not OKAY", offset, lite_.response);
    *value = lite_.value;
    lite_ = Lite{};
    Vopendpu_top& t = *top_;
    t.s_axi_control_awvalid = t.s_axi_control_wvalid = t.s_axi_control_bready = 0;
    t.s_axi_control_arvalid = t.s_axi_control_rready = 0;
    return failed_ ? -1 : 0;
}

// 1: the interrupt came, 0: `limit` cycles went by, -1: a rule was broken.
int Harness::run(uint64_t limit, uint64_t* ran) {
    uint64_t start = now_;
    while (!failed_ && !top_->__SYM__interrupt && now_ - start < limit) step();
    *ran = now_ - start;
    if (!failed_ && top_->__SYM__interrupt)
        for (Port& p : ports_)
            if (p.writes && (p.reads.size() || p.writings.size()))
                fail("%s: interrupt with %u reads and %u writes outstanding", p.name, p.reads.size(),
                     p.writings.size());
    if (failed_) return -1;
    return top_->__SYM__interrupt ? 1 : 0;
}

int Harness::trace(const char* path) {
#if VM_TRACE
    delete trace_;
    trace_ = nullptr;
    if (path) {
        context_.traceEverOn(true);
        trace_ = new VerilatedFstC;
        top_->trace(trace_, 99);
        trace_->open(path);
        if (!trace_->isOpen()) return -1;
    }
    return 0;
#else
    return path ? -1 : 0;
#endif
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API void* odpu_create() { return new Harness; }
API void odpu_destroy(void* h) { delete static_cast<Harness*>(h); }
API int odpu_reset(void* h) { return static_cast<Harness*>(h)->reset(); }
API void odpu_configure(void* h, const Settings* s) { static_cast<Harness*>(h)->configure(*s); }
API int odpu_map(void* h, uint64_t base, uint64_t size, uint8_t* data, uint32_t writable) {
    return static_cast<Harness*>(h)->map(base, size, data, writable);
}
API void odpu_unmap(void* h) { static_cast<Harness*>(h)->unmap(); }
API int odpu_inject(void* h, const Fault* f) { return static_cast<Harness*>(h)->inject(*f); }
API void odpu_forget_faults(void* h) { static_cast<Harness*>(h)->forget_faults(); }
API int odpu_write(void* h, uint32_t offset, uint32_t value) {
    return static_cast<Harness*>(h)->access(offset, &value, true);
}
API int odpu_read(void* h, uint32_t offset, uint32_t* value) {
    *value = 0;
    return static_cast<Harness*>(h)->access(offset, value, false);
}
API int odpu_run(void* h, uint64_t limit, uint64_t* ran) {
    return static_cast<Harness*>(h)->run(limit, ran);
}
API void odpu_counters(void* h, Counters* c) { *c = static_cast<Harness*>(h)->counters; }
API void odpu_clear_counters(void* h) { static_cast<Harness*>(h)->clear_counters(); }
API const char* odpu_message(void* h) { return static_cast<Harness*>(h)->message; }
API int odpu_trace(void* h, const char* path) { return static_cast<Harness*>(h)->trace(path); }
