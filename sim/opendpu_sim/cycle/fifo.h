// SPDX-License-Identifier: Apache-2.0
// The two kinds of queue that the gateware is made of.

#pragma once

#include <cstdint>

namespace opendpu {

// Amaranth's SyncFIFO and the gateware's FieldQueue: what is written is there one cycle later. `room` must be
// asked before anything is popped in the same cycle. N is a power of two.
template <class T, uint32_t N>
struct Fifo {
    T ring[N];
    uint32_t head = 0;
    uint32_t level = 0;
    bool room() const { return level != N; }
    bool any() const { return level != 0; }
    T& front() { return ring[head]; }
    const T& front() const { return ring[head]; }
    const T& at(uint32_t number) const { return ring[(head + number) & (N - 1)]; }
    void pop() {
        head = (head + 1) & (N - 1);
        --level;
    }
    T& push() { return ring[(head + level++) & (N - 1)]; }
    void push(const T& value) { push() = value; }
};

// Amaranth's SyncFIFOBuffered: N - 1 entries and an output register.
template <class T, uint32_t N>
struct BufferedFifo {
    T ring[N];
    T out{};
    uint32_t head = 0;
    uint32_t inner = 0;
    bool ready = false;  // `out` is valid
    bool room() const { return inner != N - 1; }
    uint32_t level() const { return inner + ready; }
    // Whether `step` does nothing while nobody writes or reads.
    bool still() const { return ready || !inner; }
    // One cycle: `write` only with room.
    void step(bool write, const T& value, bool read) {
        bool move = inner && (!ready || read);
        if (move) {
            out = ring[head];
            head = (head + 1) & (N - 1);
            --inner;
            ready = true;
        } else if (read) {
            ready = false;
        }
        if (write) ring[(head + inner++) & (N - 1)] = value;
    }
};

// BufferedFifo with one more register behind it.
template <class T, uint32_t N>
struct RegisteredFifo {
    BufferedFifo<T, N> inner;
    T out{};
    bool ready = false;  // `out` is valid
    bool room() const { return inner.room(); }
    uint32_t level() const { return inner.level() + ready; }
    bool still() const { return inner.still() && (ready || !inner.ready); }
    void step(bool write, const T& value, bool read) {
        bool move = inner.ready && (!ready || read);
        if (move) {
            out = inner.out;
            ready = true;
        } else if (read) {
            ready = false;
        }
        inner.step(write, value, move);
    }
};

}  // namespace opendpu
