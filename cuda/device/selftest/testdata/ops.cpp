// Runs ops.cuh on a CPU and prints every result, one a line.
#include <cstdio>
#include <vector>

#include "ops.cuh"

TRITIER_EXPORT_CONST(unused, sizeof(uint4));

int main() {
    uint32_t narrow = 0;
    uint64_t wide = 0;
    uint4 v[2] = {};
    std::vector<uint64_t> out(4096);
    uint64_t* end = selftest::ordered_ops(&narrow, out.data());
    end = selftest::ordered_ops(&wide, end);
    end = selftest::other_ops(v, end);
    for (uint64_t* p = out.data(); p != end; p++) std::printf("%llu\n", static_cast<unsigned long long>(*p));
}
