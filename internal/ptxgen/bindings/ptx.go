package bindings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// slot is one parameter as the compiler laid it out.
type slot struct{ offset, size int }

// entry is a kernel of the PTX.
type entry struct {
	name  string
	slots []slot
	size  int // of the whole parameter block, in bytes
}

// constant is a value that TRITIER_EXPORT_CONST exported.
type constant struct {
	Name  string
	Value uint64
}

// program is what a PTX text declares.
type program struct {
	entries   []entry
	constants []constant
}

// maxBlock is the largest parameter block that every target takes. Blocks of
// 32,764 bytes need PTX 8.1 and a driver that knows it.
const maxBlock = 4096

var (
	entryForm = regexp.MustCompile(`(?s)\.entry[ \t]+([\w$]+)[ \t]*(?:\(([^)]*)\))?`)
	slotForm  = regexp.MustCompile(`^\.param((?:[ \t]+\.(?:ptr|global|align|const|shared|local)|[ \t]+[0-9]+)*)[ \t]+\.([a-z]+)([0-9]+)((?:[ \t]+\.(?:ptr|global|align|const|shared|local)|[ \t]+[0-9]+)*)[ \t]+[\w$]+(?:\[([0-9]+)\])?$`)
	alignForm = regexp.MustCompile(`\.align[ \t]+([0-9]+)`)
	constForm = regexp.MustCompile(`(?m)^\.visible[ \t]+\.(?:const|global)[ \t]+\.align[ \t]+8[ \t]+\.[ub]64[ \t]+ptxgen_const_(\w+)(?:[ \t]*=[ \t]*(-?[0-9]+|0x[0-9A-Fa-f]+))?;`)
	anyConst  = regexp.MustCompile(`(?m)^\.[^\n;]*[ \t]ptxgen_const_\w+`)
)

// parsePTX reads kernels, their parameters' places and the constants.
func parsePTX(text string) (program, error) {
	var p program
	for _, m := range entryForm.FindAllStringSubmatch(text, -1) {
		e, err := parseEntry(m[1], m[2])
		if err != nil {
			return program{}, fmt.Errorf("kernel %s: %w", m[1], err)
		}
		p.entries = append(p.entries, e)
	}
	for _, m := range constForm.FindAllStringSubmatch(text, -1) {
		v, err := parseValue(m[2])
		if err != nil {
			return program{}, fmt.Errorf("constant %s: %w", m[1], err)
		}
		p.constants = append(p.constants, constant{m[1], v})
	}
	if n := len(anyConst.FindAllString(text, -1)); n != len(p.constants) {
		return program{}, fmt.Errorf("it defines %d ptxgen_const_ objects but %d could be read: export constants with TRITIER_EXPORT_CONST alone", n, len(p.constants))
	}
	return p, nil
}

// parseValue reads an initialiser; the compiler leaves out 0 and writes values
// of 2^63 and more as negative.
func parseValue(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	if strings.HasPrefix(s, "-") {
		v, err := strconv.ParseInt(s, 10, 64)
		return uint64(v), err
	}
	return strconv.ParseUint(s, 0, 64)
}

func parseEntry(name, list string) (entry, error) {
	e := entry{name: name}
	if strings.TrimSpace(list) == "" {
		return e, nil
	}
	for _, line := range strings.Split(list, ",") {
		size, align, err := parseSlot(strings.TrimSpace(line))
		if err != nil {
			return entry{}, err
		}
		e.size = (e.size + align - 1) / align * align
		e.slots = append(e.slots, slot{e.size, size})
		e.size += size
	}
	if e.size > maxBlock {
		return entry{}, fmt.Errorf("its parameters take %d bytes, more than the %d that every driver takes: pass a pointer to them", e.size, maxBlock)
	}
	return e, nil
}

// parseSlot reads one .param line: a scalar has its size as alignment, an array
// of bytes (a struct) says its own. A .ptr's .align is that of the memory it
// points to, not of the parameter.
func parseSlot(line string) (size, align int, err error) {
	m := slotForm.FindStringSubmatch(line)
	if m == nil {
		return 0, 0, fmt.Errorf("cannot read %q", line)
	}
	bits, err := strconv.Atoi(m[3])
	if err != nil || bits < 8 || bits > 64 || bits%8 != 0 {
		return 0, 0, fmt.Errorf("cannot read the size in %q", line)
	}
	size = bits / 8
	align = size
	if a := alignForm.FindStringSubmatch(m[1]); a != nil {
		if align, err = strconv.Atoi(a[1]); err != nil || align < 1 {
			return 0, 0, fmt.Errorf("cannot read the alignment in %q", line)
		}
	}
	if m[5] != "" {
		n, err := strconv.Atoi(m[5])
		if err != nil {
			return 0, 0, fmt.Errorf("cannot read the length in %q", line)
		}
		size *= n
	}
	return size, align, nil
}
