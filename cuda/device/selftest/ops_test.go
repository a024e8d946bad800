package selftest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// op is one operation of ops.cuh: the PTX instruction that it must be, the
// values that it works with, and those that the kernel must write out.
type op struct {
	instruction string
	operands    []uint64
	results     []uint64
}

// orderedOps is what ops.cuh's ordered_ops does for a word of the given width.
func orderedOps(bits int) []op {
	mask := ^uint64(0) >> (64 - bits)
	high, low := uint64(0xf0f1f2f3f4f5f6f7)&mask, uint64(0x0102030405060708)&mask
	var ops []op
	n := uint64(0)
	for _, order := range []string{"relaxed", "acquire"} {
		for _, scope := range []string{"gpu", "sys"} {
			n++
			ops = append(ops, op{fmt.Sprintf("ld.%s.%s.u%d", order, scope, bits), nil, []uint64{high + n}})
		}
	}
	for _, order := range []string{"relaxed", "release"} {
		for _, scope := range []string{"gpu", "sys"} {
			n++
			ops = append(ops, op{fmt.Sprintf("st.%s.%s.u%d", order, scope, bits), []uint64{low + n}, []uint64{low + n}})
		}
	}
	for _, a := range []struct {
		name                   string
		kind                   byte
		before, operand, after uint64
	}{
		{"add", 'u', high, high, (high + high) & mask},
		{"exch", 'b', high, low, low},
		{"or", 'b', high, low, high | low},
		{"and", 'b', high, low, high & low},
		{"min", 'u', high, low, low},
		{"max", 'u', low, high, high},
	} {
		eachOrder(func(order, scope string) {
			name := fmt.Sprintf("atom.%s.%s.%s.%c%d", order, scope, a.name, a.kind, bits)
			ops = append(ops, op{name, []uint64{a.operand}, []uint64{a.before, a.after}})
		})
	}
	eachOrder(func(order, scope string) {
		cas := fmt.Sprintf("atom.%s.%s.cas.b%d", order, scope, bits)
		ops = append(ops, op{cas, []uint64{high, low}, []uint64{high, low}}, op{cas, []uint64{high, high}, []uint64{low, low}})
	})
	return ops
}

func eachOrder(f func(order, scope string)) {
	for _, order := range []string{"relaxed", "acquire", "release", "acq_rel"} {
		for _, scope := range []string{"gpu", "sys"} {
			f(order, scope)
		}
	}
}

// results are the values that ordered_ops writes for both widths.
func results() []uint64 {
	var list []uint64
	for _, o := range slices.Concat(orderedOps(32), orderedOps(64)) {
		list = append(list, o.results...)
	}
	return list
}

// otherOps are the instructions of ops.cuh's other_ops. globaltimer and
// nanosleep are checked by their numbers: the loop between is the compiler's.
var otherOps = []string{
	"fence.acq_rel.gpu", "fence.acq_rel.sys", "fence.sc.gpu", "fence.sc.sys", "fence.sc.gpu", "fence.sc.sys",
	"ld.volatile.v4.u32", "st.volatile.v4.u32", "prefetch.L1", "prefetch.L2", "mov.u64 %globaltimer",
}

// instruction is one that a kernel's source wrote out itself.
type instruction struct {
	name     string   // a move from a special register includes its name
	operands []uint64 // of the registers that hold constants
	// The compiler's own accesses to global memory, of the type that the
	// instruction has: stores since the one before, loads until the next.
	stores, loads int
}

// typeForm is the type at the end of an instruction's name.
var typeForm = regexp.MustCompile(`\.[bu](32|64)$`)

// plain says whether the line is the compiler's access of the instruction's
// type; a fence has none and takes them all.
func (in *instruction) plain(line, access string) bool {
	if !strings.HasPrefix(line, access) {
		return false
	}
	bits := typeForm.FindStringSubmatch(in.name)
	return bits == nil || strings.HasSuffix(strings.Fields(line)[0], bits[1])
}

// constantForm is how the compiler loads a constant into a register.
var constantForm = regexp.MustCompile(`^mov\.[bus](32|64)\s+(%\w+), (-?\d+);$`)

// inline returns the instructions that a kernel's source wrote out itself, in
// order; the compiler marks them.
func inline(t *testing.T, kernel string) []instruction {
	t.Helper()
	_, text, ok := strings.Cut(string(kernelsSelftestSm70), ".entry "+kernel+"(")
	if !ok {
		t.Fatalf("the PTX has no kernel %s", kernel)
	}
	text, _, _ = strings.Cut(text, "\n}")
	var list []instruction
	constants := map[string]uint64{}
	var since []string // the compiler's lines since the last instruction
	within := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch m := constantForm.FindStringSubmatch(line); {
		case line == "// begin inline asm":
			within = true
		case line == "// end inline asm":
			within = false
		case within:
			in := parseInstruction(line, constants)
			for _, l := range since {
				if in.plain(l, "st.global") {
					in.stores++
				}
			}
			since = nil
			list = append(list, in)
		case m != nil:
			v, err := strconv.ParseInt(m[3], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			constants[m[2]] = uint64(v)
			if m[1] == "32" {
				constants[m[2]] &= 1<<32 - 1
			}
		default:
			since = append(since, line)
			if n := len(list); n > 0 && list[n-1].plain(line, "ld.global") {
				list[n-1].loads++
			}
		}
	}
	return list
}

func parseInstruction(line string, constants map[string]uint64) instruction {
	name, rest, _ := strings.Cut(strings.TrimSuffix(line, ";"), " ")
	in := instruction{name: name}
	for _, operand := range strings.Split(rest, ", ") {
		if v, ok := constants[operand]; ok {
			in.operands = append(in.operands, v)
		}
		if strings.HasPrefix(name, "mov.") {
			in.name = name + " " + operand
		}
	}
	return in
}

// The compiler moves no plain access of the same word across an operation, and
// takes no value for known that the operation may have changed: ops.cuh stores
// the word before each operation and loads it after each that changes it.
func TestPTXKeepsPlainAccessesInPlace(t *testing.T) {
	for i, in := range inline(t, "memory_ops") {
		family, _, _ := strings.Cut(in.name, ".")
		wantStores := map[string]int{"ld": 1, "fence": 1}[family]
		second := strings.Contains(in.name, ".cas.") && in.operands[0] == in.operands[1] // goes on with the word of the first
		if family == "atom" && strings.HasSuffix(in.name, "32") && !second {
			wantStores = 1 // only of the word: results are stored as 64 bits
		}
		if in.stores < wantStores {
			t.Errorf("instruction %d, %s: %d stores before it, want %d", i, in.name, in.stores, wantStores)
		}
		if (family == "atom" || family == "st") && in.loads < 1 {
			t.Errorf("instruction %d, %s: no load after it", i, in.name)
		}
	}
}

// names are the instructions alone.
func names(list []instruction) []string {
	var all []string
	for _, in := range list {
		all = append(all, in.name)
	}
	return all
}

// Every ordered operation is the one instruction that its name says, on the
// values that it was given, and none is weakened, doubled or moved.
func TestPTXHasTheNamedInstructions(t *testing.T) {
	want := slices.Concat(orderedOps(32), orderedOps(64))
	got := inline(t, "memory_ops")
	if len(got) < len(want)+len(otherOps) {
		t.Fatalf("%d instructions, want at least %d", len(got), len(want)+len(otherOps))
	}
	for i, w := range want {
		if got[i].name != w.instruction || !slices.Equal(got[i].operands, w.operands) {
			t.Errorf("instruction %d: got %s %#x, want %s %#x", i, got[i].name, got[i].operands, w.instruction, w.operands)
		}
	}
	others := names(got[len(want):])
	if n := len(otherOps); !slices.Equal(others[:n], otherOps) {
		t.Errorf("got %q, want %q", others[:n], otherOps)
	}
	rest := others[len(otherOps):]
	if n := count(rest, "nanosleep.u32"); n < 2 || n != len(rest)-count(rest, "mov.u64 %globaltimer") {
		t.Errorf("after the ordered operations: %q, want nanosleep and globaltimer alone", rest)
	}
}

func count(list []string, s string) int {
	n := 0
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}

// The compiler adds no atomic of its own, and uses the warp instructions that
// the built-ins stand for.
func TestPTXOfTheCompiler(t *testing.T) {
	within := false
	seen := map[string]bool{}
	for line := range strings.Lines(string(kernelsSelftestSm70)) {
		line = strings.TrimSpace(line)
		within = line == "// begin inline asm" || within && line != "// end inline asm"
		first := strings.TrimSuffix(strings.Fields(line + " .")[0], ";")
		seen[first] = true
		for _, family := range []string{"atom.", "red.", "fence"} {
			if !within && strings.HasPrefix(first, family) {
				t.Errorf("%s comes from the compiler, not from memory.cuh", line)
			}
		}
	}
	for _, want := range []string{"shfl.sync.idx.b32", "shfl.sync.up.b32", "shfl.sync.down.b32", "shfl.sync.bfly.b32", "match.any.sync.b32",
		"match.any.sync.b64", "vote.sync.ballot.b32", "activemask.b32", "bar.warp.sync", "bar.sync", "popc.b32", "clz.b32", "brev.b32",
		"membar.cta", "membar.gl", "membar.sys", "bar.red.and.pred", "bar.red.or.pred", "bar.red.popc.u32"} {
		if !seen[want] {
			t.Errorf("no %s in the PTX", want)
		}
	}
}

// The waits and the publications of the protocols under test are the strong ones.
func TestPTXOfTheProtocols(t *testing.T) {
	for kernel, want := range map[string][]string{
		"messages": {"ld.acquire.gpu.u32", "st.release.gpu.u32"},
		"converse": {"ld.acquire.sys.u32", "st.release.sys.u32"},
		"contend":  {"atom.acquire.gpu.cas.b32", "st.release.gpu.u32", "atom.relaxed.sys.add.u64"},
	} {
		got := names(inline(t, kernel))
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%s has no %s: %q", kernel, w, got)
			}
		}
	}
}

func TestExportedConstants(t *testing.T) {
	const ones uint64 = allOnes
	if mailSize != 56 || mailWordsOffset != 8 || zero != 0 || ones != ^uint64(0) || patience != 5_000_000_000 || warpRows != 24 {
		t.Errorf("constants: %d %d %d %#x %d %d", mailSize, mailWordsOffset, zero, ones, patience, warpRows)
	}
}
