package tritier_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tritier/tritier"
)

// userKernel is what a program of a user's would hold.
const userKernel = `#include "tier.cuh"
extern "C" __global__ void twice(const tritier::array_ref<float> a, uint64_t n) {
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) a.store(i, 2 * a[i]);
}
`

// TestWriteHeaders: what is written is all that a kernel needs, with clang and no
// CUDA toolkit, and on a CPU.
func TestWriteHeaders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	for range 2 {
		if err := tritier.WriteHeaders(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := tritier.WriteHeaders(filepath.Join(dir, "tier.cuh")); err == nil {
		t.Error("a file is taken for a folder")
	}
	testHeadersErrorOnce(t)
	source := filepath.Join(dir, "user.cu")
	if err := os.WriteFile(source, []byte(userKernel), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{
		{"clang-19", "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_70", "--cuda-feature=+ptx63", "-nocudainc", "-nocudalib", "-std=c++17", "-O1", "-S", "-o", filepath.Join(dir, "user.ptx"), source},
		{"g++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-include", filepath.Join(dir, "tier.cuh"), os.DevNull},
	} {
		bin, err := exec.LookPath(c[0])
		if err != nil {
			if strings.Contains(os.Getenv("REQUIRE"), strings.TrimSuffix(c[0], "-19")) {
				t.Fatal(err)
			}
			t.Log(err)
			continue
		}
		if out, err := exec.Command(bin, c[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", c, err, out)
		}
	}
}

// testHeadersErrorOnce: what stops every header is one error, of the first, and not one of each.
func testHeadersErrorOnce(t *testing.T) {
	t.Helper()
	all, err := tritier.Headers()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name := range all {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	err = tritier.WriteHeaders(dir)
	if err == nil || !strings.Contains(err.Error(), "acquire.cuh: is a folder") || strings.Count(err.Error(), ".cuh") != 1 {
		t.Errorf("headers that are all in the way of folders: %v", err)
	}
}
