// Package bindings turns CUDA sources into PTX and typed Go handles, and tells
// whether committed ones still match their sources.
//
// Generate compiles (it needs clang 19) and writes; CheckFresh only reads, and
// works on any machine. Both are pure functions of the files in one folder and
// of the headers that its sources include:
//
//   - NAME.ptx carries a header that lists every input's hash, the compiler's
//     flags and the hash of the PTX itself;
//   - the Go file carries ptxgen's arguments, and everything else in it follows
//     from the sources' text and the PTX. So CheckFresh writes it again in
//     memory and compares.
//
// # What a source declares
//
// Kernels are written extern "C" __global__ void name(...). Each becomes a
// method. Parameters may be pointers (cuda.Ptr), the fixed-size integers, int,
// unsigned, long, long long, size_t, float, double, bool, and types that a
// comment line of the source describes:
//
//	// ptxgen:type Name size=4096 go=Type
//	// ptxgen:type Name size=4096 go=example.org/module/pkg.Type
//	// ptxgen:type Mode size=4 go=uint32
//
// The Go type has the same size (the generated file does not compile otherwise,
// and ptxgen compares the size with the PTX) and must have the same layout; a
// struct is passed as a pointer and read during the call. Constants that both
// sides need are exported by TRITIER_EXPORT_CONST(name, value) at namespace
// scope, from cuda/device/platform.cuh.
package bindings

// Version changes when the same sources would give other output: every
// committed file is stale then.
const Version = 2
