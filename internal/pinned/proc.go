package pinned

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// Unlimited stands for a limit that does not exist or is not known.
const Unlimited = math.MaxUint64

// tree reads the files of proc and sys. A file that does not exist, is hidden or cannot be parsed leaves its value unknown; what is
// there and cannot be used is collected in errs, so that it is reported once and not lost.
type tree struct {
	fsys fs.FS
	errs []error
}

// text returns a file without the space around its content, and whether there is one.
func (t *tree) text(name string) (string, bool) {
	b, err := fs.ReadFile(t.fsys, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.errs = append(t.errs, err)
		}
		return "", false
	}
	return strings.TrimSpace(string(b)), true
}

// number reads a file that holds one number; "max" and what is not there are Unlimited.
func (t *tree) number(name string) uint64 {
	s, ok := t.text(name)
	if !ok || s == "max" {
		return Unlimited
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s: %w", name, err))
		return Unlimited
	}
	return n
}

// table reads lines of "Key: 12 kB" or "key 12" into bytes. Lines of a node's meminfo begin with "Node 0".
func (t *tree) table(name string) map[string]uint64 {
	s, ok := t.text(name)
	if !ok {
		return nil
	}
	m := make(map[string]uint64)
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == "Node" {
			f = f[2:]
		}
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue // a line of another kind
		}
		if len(f) > 2 && f[2] == "kB" {
			n *= 1024
		}
		m[strings.TrimSuffix(f[0], ":")] = n
	}
	return m
}

// list reads a file like "0-3,8".
func (t *tree) list(name string) []int {
	s, ok := t.text(name)
	if !ok {
		return nil
	}
	l, err := parseList(s)
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("%s: %w", name, err))
	}
	return l
}

// chosen returns the word in brackets of a file like "always [madvise] never".
func (t *tree) chosen(name string) string {
	s, _ := t.text(name)
	_, s, _ = strings.Cut(s, "[")
	s, _, _ = strings.Cut(s, "]")
	return s
}

// lines counts the lines of a file without holding it.
func (t *tree) lines(name string) uint64 {
	f, err := t.fsys.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close() // read only: nothing is lost
	var n uint64
	for sc := bufio.NewScanner(f); sc.Scan(); {
		n++
	}
	return n
}

// maxListed bounds a list, so that a damaged file cannot ask for all memory.
const maxListed = 1 << 16

// parseList reads the kernel's lists of CPUs and nodes: "0-3,8,10-11".
func parseList(s string) ([]int, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 31)
		b, errB := strconv.ParseUint(to, 10, 31)
		if errA != nil || errB != nil || b < a || b >= maxListed {
			return nil, fmt.Errorf("%q is no list of numbers like 0-3,8", s)
		}
		for i := a; i <= b; i++ {
			list = append(list, int(i))
		}
	}
	return list, nil
}
