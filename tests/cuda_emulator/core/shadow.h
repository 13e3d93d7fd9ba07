// shadow.h - what is known about each byte of memory: was it ever written, and who touched it last.
//
// All tables are mapped without reserving memory, so that only the pages in use exist: a buffer of
// gigabytes that a kernel touches in a few places costs a few pages.
//
// Accesses are remembered for each aligned 4-byte word while all its bytes share one history, and
// for each byte once they do not.  So threads that touch different bytes of one word are no race,
// and the usual access (4 to 16 bytes) looks at one to four records.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

// Who accessed, and when: `epoch` counts the __syncthreads it had passed, `clock` its own
// __syncwarp.  id 0 is nobody.
struct Access {
    uint32_t id;
    uint16_t epoch, clock;
};

// The last write and the last two reads (two, so that one thread's own read does not hide
// another's).  Records of an earlier generation (launch, or block for shared memory) are void.
struct Record {
    uint32_t generation;
    uint16_t atomic_write;
    uint16_t split;  // of a word: its bytes have records of their own
    Access write, read, older_read;
};

static_assert(sizeof(Record) == 32, "two records in a cache line");

inline void* map_sparse(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

class Shadow {
public:
    static const size_t PAGE = 4096;

    Shadow() = default;
    Shadow(const Shadow&) = delete;
    Shadow& operator=(const Shadow&) = delete;

    ~Shadow() {
        unmap(written_, bits_bytes());
        unmap(all_written_, pages());
        unmap(words_, words_bytes());
        unmap(bytes_, 4 * words_bytes());
    }

    void resize(size_t n) { n_ = n; }

    // ---- initialised or not

    void mark_written(size_t at, size_t n) {
        need_bits();
        size_t end = at + n;
        while (at < end) {
            if (at % PAGE == 0 && end - at >= PAGE) {
                size_t whole = (end - at) / PAGE;
                memset(all_written_ + at / PAGE, 1, whole);
                at += whole * PAGE;
            } else if (at % 8 == 0 && end - at >= 8) {
                written_[at / 8] = 0xFF;
                at += 8;
            } else {
                written_[at / 8] |= 1u << (at % 8);
                ++at;
            }
        }
    }

    void mark_all_written() { mark_written(0, (n_ + PAGE - 1) / PAGE * PAGE); }

    void forget_written(size_t n) {
        if (written_) memset(written_, 0, (n + 7) / 8);
    }

    // An access of 1, 2, 4, 8 or 16 aligned bytes.
    void mark_access_written(size_t at, unsigned size) {
        need_bits();
        if (!all_written_[at / PAGE]) bits16(at) |= mask(at, size);
    }

    bool is_written(size_t at, unsigned size) {
        need_bits();
        if (all_written_[at / PAGE]) return true;
        uint16_t m = mask(at, size);
        return (bits16(at) & m) == m;
    }

    // ---- accesses

    // Calls visit(record, offset) for each record that an access concerns.
    template <class Visit>
    void visit(size_t at, unsigned size, bool plain_write, uint32_t generation, Visit&& visit) {
        need_words();
        for (size_t end = at + size, word = at / 4; word * 4 < end; ++word) {
            Record& r = words_[word];
            if (r.generation != generation) {
                r = Record{};
                r.generation = generation;
            }
            if (size >= 4) {
                if (!r.split) {
                    visit(r, word * 4);
                } else {
                    Record* b = bytes_ + word * 4;
                    for (size_t i = 0; i < 4; ++i) visit(b[i], word * 4 + i);
                    if (plain_write) {  // from now on the four bytes have one history again
                        r = b[0];
                        r.split = 0;
                    }
                }
            } else {
                Record* b = need_bytes() + word * 4;
                if (!r.split) {
                    for (size_t i = 0; i < 4; ++i) b[i] = r;
                    r.split = 1;
                }
                for (size_t i = at; i < end; ++i) visit(b[i - word * 4], i);
            }
        }
    }

private:
    size_t n_ = 0;
    uint8_t* written_ = nullptr;      // a bit for each byte
    uint8_t* all_written_ = nullptr;  // a flag for each page: all its bytes are
    Record* words_ = nullptr;
    Record* bytes_ = nullptr;

    size_t pages() const { return n_ / PAGE + 2; }

    size_t bits_bytes() const { return n_ / 8 + 16; }

    size_t words_bytes() const { return (n_ / 4 + 8) * sizeof(Record); }

    static uint16_t mask(size_t at, unsigned size) { return ((1u << size) - 1) << (at % 16); }

    uint16_t& bits16(size_t at) { return ((uint16_t*)written_)[at / 16]; }

    void need_bits() {
        if (written_) return;
        written_ = (uint8_t*)map_sparse(bits_bytes());
        all_written_ = (uint8_t*)map_sparse(pages());
    }

    void need_words() {
        if (!words_) words_ = (Record*)map_sparse(words_bytes());
    }

    Record* need_bytes() {
        if (!bytes_) bytes_ = (Record*)map_sparse(4 * words_bytes());
        return bytes_;
    }

    static void unmap(void* p, size_t bytes) {
        if (p) munmap(p, bytes);
    }
};
