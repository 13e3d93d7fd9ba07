// buffers.h - the registered buffers of global memory, and the way from an address to its buffer.
#pragma once
#include "shadow.h"
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

// Bytes [begin, end): a device array, or the variables of a kernel library.
struct Buffer {
    uintptr_t begin, end;
    std::string name;
    bool read_only, of_library;
    Shadow shadow;

    Buffer(uintptr_t a, size_t n, const char* what, bool ro, bool lib)
        : begin(a), end(a + n), name(what), read_only(ro), of_library(lib) {
        shadow.resize(n);
    }

    size_t size() const { return end - begin; }
};

class Buffers {
public:
    void add(std::unique_ptr<Buffer> b) {
        remove(b->begin);
        all_.insert(after(b->begin), std::move(b));
        forget_cache();
    }

    void remove(uintptr_t begin) {
        auto it = after(begin);
        if (it != all_.begin() && (*(it - 1))->begin == begin) all_.erase(it - 1);
        forget_cache();
    }

    void remove_arrays() {
        all_.erase(std::remove_if(all_.begin(), all_.end(), [](auto& b) { return !b->of_library; }),
                   all_.end());
        forget_cache();
    }

    // The buffer that holds the address, or null.
    Buffer* find(uintptr_t a) {
        Buffer*& cached = cache_[a / Shadow::PAGE % CACHED];
        if (cached && a - cached->begin < cached->size()) return cached;
        Buffer* b = before(a);
        if (!b || a >= b->end) return nullptr;
        return cached = b;
    }

    // The last buffer that begins at or before the address, or null: for messages.
    Buffer* before(uintptr_t a) {
        auto it = after(a);
        return it == all_.begin() ? nullptr : (it - 1)->get();
    }

private:
    // Buffers do not share pages, so the page says the buffer, nearly always.
    static const size_t CACHED = 1024;

    std::vector<std::unique_ptr<Buffer>> all_;  // sorted by address
    Buffer* cache_[CACHED] = {};

    std::vector<std::unique_ptr<Buffer>>::iterator after(uintptr_t a) {
        return std::upper_bound(all_.begin(), all_.end(), a,
                                [](uintptr_t x, auto& b) { return x < b->begin; });
    }

    void forget_cache() { memset(cache_, 0, sizeof cache_); }
};
