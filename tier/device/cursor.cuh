// cursor: a pin that moves along. Within a page an element costs what a raw
// pointer does; the pin moves by itself when the page changes.
//
// A cursor belongs to a group, and all its lanes ask for elements of the same
// page at a time: run says how far one goes. It holds one pin, also while
// it waits for the next page's frame? No: it lets go first. What other cursors
// of the same group hold, stays pinned: with fewer frames than cursors there is
// no frame left, and kAllPinned comes back.
#pragma once

#include "array_ref.cuh"

namespace tritier {
namespace tier {

template <class T, class S = DriveStore, class G = Lanes>
class cursor {
public:
    // A cursor for reading, or for reading and writing.
    TRITIER_DEVICE cursor(const G& g, const array_ref<T, S>& a, const Context<S>& t, bool writes = false)
        : a_(a), g_(g), t_(t), page_(kNoPage), begin_(nullptr), status_(kTierOk), op_(writes ? kWriteOp : kReadOp) {}
    TRITIER_DEVICE ~cursor() { drop(); }
    cursor(const cursor&) = delete;
    cursor& operator=(const cursor&) = delete;

    // run is the address of element i and the number of elements from there on
    // that lie in the same page; valid until the next call. Null: status says
    // why. i is in the same page for all lanes.
    TRITIER_DEVICE T* run(uint64_t i, uint64_t* n) {
        *n = 0;
        if (!seek(i)) {
            return nullptr;
        }
        uint64_t in_page = ((1ull << a_.page_shift) - a_.offset_of(i)) / sizeof(T), left = a_.length - i;
        *n = in_page < left ? in_page : left;
        return begin_ + a_.offset_of(i) / sizeof(T);
    }

    // at is element i, or null.
    TRITIER_DEVICE T* at(uint64_t i) { return seek(i) ? begin_ + a_.offset_of(i) / sizeof(T) : nullptr; }

    // operator[] is element i by value; zero on errors.
    TRITIER_DEVICE T operator[](uint64_t i) { return seek(i) ? load_element<T>(begin_ + a_.offset_of(i) / sizeof(T)) : T{}; }

    // drop lets the page go; the next element pins again.
    TRITIER_DEVICE void drop() {
        if (page_ != kNoPage) {
            release(g_, t_, page_, op_ == kWriteOp);
            page_ = kNoPage;
            begin_ = nullptr;
        }
    }

    // status is how the last move ended.
    TRITIER_DEVICE uint32_t status() const { return status_; }

private:
    static constexpr uint64_t kNoPage = ~0ull;

    TRITIER_DEVICE bool seek(uint64_t i) {
        uint64_t page = a_.page_of(i);
        if (i < a_.length && page == page_) {
            return true;
        }
        return move(i < a_.length ? page : kNoPage);
    }
    TRITIER_DEVICE bool move(uint64_t page) {
        drop();
        if (page == kNoPage) {
            status_ = kOutOfRange;
            return false;
        }
        Access a = acquire(g_, t_, page, op_);
        status_ = a.status;
        if (a.status != kTierOk) {
            return false;
        }
        page_ = page;
        begin_ = static_cast<T*>(t_.frame(a.frame));
        return true;
    }

    array_ref<T, S> a_;
    G g_;
    Context<S> t_;
    uint64_t page_;
    T* begin_;
    uint32_t status_;
    uint32_t op_;
};

} // namespace tier

using tier::cursor;

} // namespace tritier
