// SPDX-License-Identifier: Apache-2.0
// Stands in for liblz4-dev where it is not installed: LZ4 blocks of literals only, which every reader takes.
// Verilator's FST writer falls back to raw data, so only the size of a waveform suffers.
#pragma once

#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
    if (capacity < LZ4_compressBound(size)) return 0;
    unsigned char* out = reinterpret_cast<unsigned char*>(target);
    if (size < 15) {
        *out++ = static_cast<unsigned char>(size << 4);
    } else {
        *out++ = 0xF0;
        int left = size - 15;
        for (; left >= 255; left -= 255) *out++ = 255;
        *out++ = static_cast<unsigned char>(left);
    }
    std::memcpy(out, source, static_cast<std::size_t>(size));
    return static_cast<int>(reinterpret_cast<char*>(out) - target) + size;
}
