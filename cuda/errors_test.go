//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestErrorIsOneLineAndCarriesTheLog(t *testing.T) {
	e := &Error{
		Call: "cuModuleLoadDataEx", Result: InvalidPTX, Name: "CUDA_ERROR_INVALID_PTX", Text: "a PTX JIT compilation failed",
		On: "image of 9 bytes", Hint: "look at the log", Log: "\n  ptxas line 1; error\nline 2\n",
	}
	const line = "cuModuleLoadDataEx (image of 9 bytes): CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: ptxas line 1; error; look at the log"
	for format, want := range map[string]string{
		"%v": line, "%s": line, "%q": fmt.Sprintf("%q", line),
		"%+v": line + "\n\n  ptxas line 1; error\nline 2",
	} {
		if got := fmt.Sprintf(format, e); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	lost := &Error{Call: "cuStreamQuery", Result: IllegalAddress}
	later := &Error{Call: "cuMemAlloc_v2", Result: IllegalAddress, cause: lost}
	for _, c := range []struct {
		err, target error
		want        bool
	}{
		{&Error{Result: OutOfMemory}, ErrOutOfMemory, true},
		{&Error{Result: OutOfMemory}, OutOfMemory, true},
		{&Error{Result: OutOfMemory}, ErrSticky, false},
		{&Error{Result: OutOfMemory}, ErrNoDevice, false},
		{fmt.Errorf("wrapped: %w", lost), ErrSticky, true},
		{later, lost, true},
		{later, IllegalAddress, true},
		{&MissingSymbolError{Symbol: SymMemcpyBatchAsync}, ErrNotSupported, true},
		{&MissingSymbolError{Symbol: SymMemcpyBatchAsync}, ErrNotFound, false},
		{closedError("cuMemFree", "stream"), ErrClosed, true},
		{&DeadlineError{Err: context.DeadlineExceeded}, context.DeadlineExceeded, true},
	} {
		if got := errors.Is(c.err, c.target); got != c.want {
			t.Errorf("errors.Is(%v, %v) = %v", c.err, c.target, got)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&MissingSymbolError{SymMemcpyBatchAsync, 12040}, []string{"older than CUDA 12.8", "cuMemcpyBatchAsync", "12.4", "update"}},
		{&MissingLibraryError{Tried: []string{"a.so", "b.so"}, Reason: "no such file"}, []string{"a.so or b.so", "no such file", "install"}},
		{&DeadlineError{Wait: "stream 0x1", Elapsed: time.Second, Err: context.Canceled}, []string{"1s", "stream 0x1", "canceled", "in flight"}},
		{closedError("cuStreamQuery", "stream"), []string{"cuStreamQuery", "stream", "closed"}},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.err.Error(), want) {
				t.Errorf("%q does not say %q", c.err, want)
			}
		}
	}
}

func TestResultsHaveNamesAndSomeAreSticky(t *testing.T) {
	sticky := map[Result]bool{
		214: true, 220: true, 226: true, 700: true, 702: true, 709: true, 710: true, 714: true, 715: true,
		716: true, 717: true, 718: true, 719: true, 721: true, 810: true, 911: true,
	}
	for r := range Result(1000) {
		if r.Sticky() != sticky[r] {
			t.Errorf("%d: sticky is %v", r, r.Sticky())
		}
		if name, known := resultNames[r]; known != strings.HasPrefix(r.String(), "CUDA_") || known && r.Error() != name {
			t.Errorf("%d is called %q", r, r)
		}
	}
	if got := Result(12345).String(); got != "CUDA error 12345" {
		t.Errorf("a result without a name is called %q", got)
	}
}

func TestVersion(t *testing.T) {
	v := Version(12080)
	if v.String() != "12.8" || Version(13000).String() != "13.0" {
		t.Errorf("versions are written %s and %s", v, Version(13000))
	}
	for _, c := range []struct {
		major, minor int
		want         bool
	}{{12, 8, true}, {12, 7, true}, {11, 9, true}, {12, 9, false}, {13, 0, false}} {
		if v.AtLeast(c.major, c.minor) != c.want {
			t.Errorf("12.8 at least %d.%d is %v", c.major, c.minor, !c.want)
		}
	}
}

func TestSymbolsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range Symbols() {
		if !strings.HasPrefix(s.String(), "cu") || s.Since() == "" || seen[s.String()] {
			t.Errorf("symbol %d is called %q, since %q", s, s, s.Since())
		}
		seen[s.String()] = true
	}
	if numSymbols.Since() != "" || Symbol(-1).String() != "unknown driver function" {
		t.Error("symbols that do not exist have names")
	}
}
