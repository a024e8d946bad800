// Stencils over a square grid whose rows are no whole pages: a warp makes a page of
// cells in the order of their numbers. What it needs of other rows lies the length of a
// row before and behind: strips of the same length, read in bulk into scratch memory.
#pragma once

#include "common.cuh"

namespace tritier {
namespace workload {

// Strip is cells from .. to-1 of a grid in scratch memory.
struct Strip {
    uint64_t from, to;
    float* cells; // of cell from

    TRITIER_DEVICE float operator[](uint64_t i) const { return cells[i - from]; }
};

// strip_floats is the room of a strip for n cells and a margin at each end.
TRITIER_DEVICE uint64_t strip_floats(uint64_t n, uint64_t margin) { return (n + 2 * margin + 8 + 3) / 4 * 4; }

// strip names cells low .. high-1 shifted by so many rows, with a margin, as far as the
// grid has them.
TRITIER_DEVICE Strip strip(uint64_t low, uint64_t high, int64_t rows, uint64_t side, uint64_t margin) {
    int64_t shift = rows * static_cast<int64_t>(side), all = static_cast<int64_t>(side * side);
    int64_t from = static_cast<int64_t>(low) + shift - static_cast<int64_t>(margin), to = static_cast<int64_t>(high) + shift + static_cast<int64_t>(margin);
    from = from < 0 ? 0 : from > all ? all : from;
    to = to < from ? from : to > all ? all : to;
    return Strip{static_cast<uint64_t>(from), static_cast<uint64_t>(to), nullptr};
}

// load reads the cells of a strip.
template <class G>
TRITIER_DEVICE bool load(Team<G>& w, const array_ref<float>& a, Strip* s, float* scratch) {
    s->cells = scratch;
    if (s->from < s->to) {
        s->cells = w.fetch(a, s->from, s->to - s->from, scratch);
    }
    return s->cells != nullptr;
}

// column_of is the column of a cell. A division of 64 bits is many instructions.
TRITIER_DEVICE uint64_t column_of(uint64_t cell, uint64_t side) {
    return cell >> 32 == 0 ? static_cast<uint32_t>(cell) % static_cast<uint32_t>(side) : cell % side;
}

} // namespace workload
} // namespace tritier
