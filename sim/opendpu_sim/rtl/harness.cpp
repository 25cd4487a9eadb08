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

#include "ddr_timing.h"

#include "Vopendpu_top.h"
#include "Vopendpu_top___024root.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace {

using namespace opendpu;

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

struct Burst : BurstTiming {
    uint64_t address;
    uint8_t response;
    uint8_t data[16][16];
    uint16_t strobe[16];
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

    Held held_ar, held_aw;
    bool held_w = false;
    uint32_t held_data[4] = {};
    uint16_t held_strobe = 0;
};

// Where to note the cycles in which instructions start and finish, by engine; `running` tells cycle 0.
struct Record {  // mirrored by ctypes in verilated.py
    uint64_t capacity[4];
    int64_t* start[4];
    int64_t* end[4];
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
    void begin();
    void count(Counters& to) const { to = counters, to.throttled = ddr_.throttled; }
    void record(const Record* where);
    void beat(uint32_t port);
    void answer(uint32_t port);
    Counters counters{};
    char message[512] = "";

  private:
    VerilatedContext context_;
    Vopendpu_top* top_;
#if VM_TRACE
    VerilatedFstC* trace_ = nullptr;
#endif
    uint64_t now_ = 0;
    DdrTiming<Burst> ddr_;
    Port ports_[kPorts];
    Lite lite_;
    Segment segments_[kSegments];
    uint32_t segments_count_ = 0;
    Fault faults_[kFaults];
    uint32_t faults_count_ = 0;
    bool failed_ = false;
    bool recording_ = false;
    Record record_;
    uint64_t started_[4];
    uint64_t finished_[4];
    uint64_t origin_;
    bool origin_known_;

    void bind();
    void step();
    void clock(uint8_t level);
    void rise();
    void drive();
    void sample();
    void sample_read(uint32_t i);
    void sample_write(uint32_t i);
    void note();
    void drive_lite();
    void sample_lite();
    void request(Port& p, AddressPins& pins, Held& held, BurstQueue<Burst>& queue,
                 const char* channel);
    void quiet();
    uint8_t fetch(Port& p, uint64_t address, uint8_t* to);
    uint8_t spoilt(const Port& p, uint64_t address, bool write, uint8_t response) const;
    void commit(Port& p, Burst& burst);
    uint32_t index(const Port& p) const { return static_cast<uint32_t>(&p - ports_); }
    void decode_error(const Port& p, uint64_t address, bool write);
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
    ddr_.restart();
    for (Port& p : ports_) {
        p.held_w = false;
        p.held_ar = p.held_aw = Held{};
        *p.ar.ready = *p.rvalid = *p.rlast = *p.rresp = 0;
        if (p.writes) *p.aw.ready = *p.wready = *p.bvalid = *p.bresp = 0;
    }
    lite_ = Lite{};
    top_->s_axi_control_awvalid = top_->s_axi_control_wvalid = top_->s_axi_control_bready = 0;
    top_->s_axi_control_arvalid = top_->s_axi_control_rready = 0;
    top_->s_axi_control_wstrb = 15;
}

void Harness::configure(const Settings& settings) {
    ddr_.settings = settings;
    ddr_.random.seed(settings.seed);
}

// A job begins: counts from zero, and the memory behaves as it does for every job.
void Harness::begin() {
    counters = Counters{};
    for (Port& p : ports_)
        if (ddr_.ports[index(p)].reads.size() || ddr_.ports[index(p)].writings.size())
            fail("%s: bursts are outstanding at the begin of a job", p.name);
    ddr_.restart();
    origin_known_ = false;
    std::memset(started_, 0, sizeof started_);
    std::memset(finished_, 0, sizeof finished_);
}

void Harness::record(const Record* where) {
    recording_ = where != nullptr;
    if (where) record_ = *where;
}

// The events on the pins are those of the cycle before, and so is `running`.
void Harness::note() {
    uint32_t events = top_->events;
    if (events >> 8 && !origin_known_) {
        origin_known_ = true;
        origin_ = now_;
    }
    for (uint32_t e = 0; events & 0xFF && e < 4; ++e) {
        if (events >> e & 1) {
            if (started_[e] < record_.capacity[e]) record_.start[e][started_[e]] = static_cast<int64_t>(now_ - origin_);
            ++started_[e];
        }
        if (events >> (4 + e) & 1) {
            if (finished_[e] < record_.capacity[e]) record_.end[e][finished_[e]] = static_cast<int64_t>(now_ - origin_);
            ++finished_[e];
        }
    }
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

// Another read beat is offered.
void Harness::beat(uint32_t port) {
    Port& p = ports_[port];
    Burst& burst = ddr_.ports[port].reads.front();
    uint64_t address = (burst.address & ~uint64_t(p.width - 1)) + uint64_t{p.width} * burst.done;
    uint8_t response = fetch(p, address, reinterpret_cast<uint8_t*>(p.rdata));
    *p.rresp = response;
    *p.rlast = burst.done + 1 == burst.beats;
}

// Another write response is offered.
void Harness::answer(uint32_t port) {
    Burst& burst = ddr_.ports[port].writings.front();
    commit(ports_[port], burst);
    *ports_[port].bresp = burst.response;
}

// Looks at an address channel: the rules of a request, and the burst it starts.
void Harness::request(Port& p, AddressPins& pins, Held& held, BurstQueue<Burst>& queue,
                      const char* channel) {
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
    if (queue.size() >= ddr_.settings.rule_limit)
        return fail("%s: %s burst number %u outstanding, at most %llu are allowed", p.name, channel,
                    queue.size() + 1, (unsigned long long)ddr_.settings.rule_limit);
    Burst& burst = ddr_.request(queue, beats);
    burst.address = address;
    burst.response = kOkay;
}

void Harness::sample_read(uint32_t i) {
    Port& p = ports_[i];
    if (ddr_.ports[i].reading && *p.rready) {
        ++counters.read_beats[i];
        if (ddr_.took_beat(i)) ++counters.read_bursts[i];
    }
    if (*p.ar.valid || p.held_ar.waiting) request(p, p.ar, p.held_ar, ddr_.ports[i].reads, "ar");
}

void Harness::sample_write(uint32_t i) {
    Port& p = ports_[i];
    PortTiming<Burst>& timing = ddr_.ports[i];
    if (timing.answering && *p.bready) {
        ddr_.took_answer(i);
        ++counters.write_bursts[i];
    }
    if (*p.wvalid) {
        if (p.held_w && (std::memcmp(p.held_data, p.wdata, 16) != 0 || p.held_strobe != *p.wstrb))
            fail("%s: wdata or wstrb changed before wready", p.name);
        p.held_w = !timing.granted;
        if (timing.granted) {
            Burst& burst = ddr_.filling(i);
            std::memcpy(burst.data[burst.done], p.wdata, 16);
            burst.strobe[burst.done] = *p.wstrb;
            counters.write_bytes[i] += static_cast<uint64_t>(__builtin_popcount(*p.wstrb));
            bool last = ddr_.gave_beat(i);
            if (last != bool(*p.wlast))
                fail("%s: wlast is %u in beat %u of %u", p.name, *p.wlast, burst.done, burst.beats);
        } else {
            std::memcpy(p.held_data, p.wdata, 16);
            p.held_strobe = *p.wstrb;
        }
    } else {
        if (p.held_w) fail("%s: wvalid was dropped before wready", p.name);
        ddr_.gave_nothing(i);
    }
    if (*p.aw.valid || p.held_aw.waiting) request(p, p.aw, p.held_aw, timing.writings, "aw");
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
    ddr_.drive(*this);
    for (uint32_t i = 0; i < kPorts; ++i) {
        Port& p = ports_[i];
        const PortTiming<Burst>& timing = ddr_.ports[i];
        *p.ar.ready = timing.ar_ready;
        *p.rvalid = timing.reading;
        if (!p.writes) continue;
        *p.aw.ready = timing.aw_ready;
        *p.wready = timing.granted;
        *p.bvalid = timing.answering;
    }
    if (lite_.write || lite_.read) drive_lite();
}

void Harness::sample() {
    for (uint32_t i = 0; i < kPorts; ++i) {
        sample_read(i);
        if (ports_[i].writes) sample_write(i);
    }
    if (lite_.write || lite_.read) sample_lite();
    if (recording_) note();
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

// An edge of the clock. The doubled one has two periods a cycle and rises with both edges.
void Harness::clock(uint8_t level) {
#if OPENDPU_DOUBLE_RATE
    top_->dpu_2x_clk = 0;
    top_->eval();
    top_->dpu_2x_clk = 1;
#endif
    top_->aclk = level;
    top_->eval();
}

// The rising edge. The model compares the clock with the value it saw last; telling it that it saw 0
// saves the evaluation of the falling edge, on which nothing happens.
void Harness::rise() {
#if VM_TRACE
    clock(0);
    if (trace_) trace_->dump(10 * now_);
    clock(1);
    if (trace_) trace_->dump(10 * now_ + 5);
#elif OPENDPU_ONE_EVAL
    top_->aclk = 1;
    top_->rootp->__Vtrigprevexpr___TOP__aclk__0 = 0;
    top_->eval();
#else
    clock(0);
    clock(1);
#endif
}

void Harness::step() {
    if (ddr_.settings.check_paths) {
        static const char* const names[] = {"m_axi_instr", "m_axi_data0", "m_axi_data1", "s_axi_control"};
        uint64_t before[4];
        for (uint32_t i = 0; i < 4; ++i) before[i] = outputs(i);
        drive();
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
    ddr_.advance();
    ++counters.cycles;
}

int Harness::reset() {
    failed_ = false;
    quiet();
    top_->aresetn = 0;
    for (int i = 0; i < 16; ++i) {
        clock(0);
        clock(1);
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
    if (ddr_.settings.random) {
        lite_.delay_aw = ddr_.random.below(4);
        lite_.delay_w = ddr_.random.below(4);
        lite_.delay_answer = ddr_.random.below(8);
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
            if (PortTiming<Burst>& t = ddr_.ports[index(p)]; p.writes && (t.reads.size() || t.writings.size()))
                fail("%s: interrupt with %u reads and %u writes outstanding", p.name, t.reads.size(),
                     t.writings.size());
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
API void odpu_counters(void* h, Counters* c) { static_cast<Harness*>(h)->count(*c); }
API void odpu_begin(void* h) { static_cast<Harness*>(h)->begin(); }
API void odpu_record(void* h, const Record* r) { static_cast<Harness*>(h)->record(r); }
API const char* odpu_message(void* h) { return static_cast<Harness*>(h)->message; }
API int odpu_trace(void* h, const char* path) { return static_cast<Harness*>(h)->trace(path); }
