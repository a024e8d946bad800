package cudafake

import (
	"strconv"
	"strings"
)

// program is what the fake reads of a PTX text.
type program struct {
	versionMajor, versionMinor int
	target                     int // 70 for sm_70
	kernels                    map[string]*ptxKernel
	globals                    []*variable
	shared                     map[string]variable // declared outside of kernels
}

// ptxKernel is an entry function.
type ptxKernel struct {
	name       string
	params     []variable
	maxThreads int    // .maxntid or .reqntid, 0 without
	shared     uint64 // static, bytes
}

// variable is a declaration of memory: a global or a parameter.
type variable struct {
	name    string
	offset  uint64 // of a parameter in the block of all
	size    uint64 // bytes
	align   uint64
	element uint64 // bytes of one element
	init    []byte // nil for zeros
	unknown bool   // has an initialiser that is not plain numbers
}

// paramBytes is the size of the kernel's parameter block.
func (k *ptxKernel) paramBytes() uint64 {
	if len(k.params) == 0 {
		return 0
	}
	last := k.params[len(k.params)-1]
	return last.offset + last.size
}

// parser reads the declarations of a PTX text; it skips instructions.
type parser struct {
	tokens []token
	at     int
	err    *ptxError
}

// parsePTX reads a PTX text.
func parsePTX(src string) (*program, *ptxError) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	prog := &program{kernels: make(map[string]*ptxKernel), shared: make(map[string]variable)}
	for p.at < len(p.tokens) && p.err == nil {
		p.statement(prog)
	}
	if p.err == nil && prog.target == 0 {
		p.fail("no .target")
	}
	return prog, p.err
}

func (p *parser) fail(text string) {
	if p.err == nil {
		line := 1
		if n := min(p.at, len(p.tokens)-1); n >= 0 {
			line = p.tokens[n].line
		}
		p.err = &ptxError{line, text}
	}
}

// next takes a token; at the end, or after an error, it is empty.
func (p *parser) next() string {
	if p.err != nil {
		return ""
	}
	if p.at >= len(p.tokens) {
		p.fail("unexpected end of text")
		return ""
	}
	p.at++
	return p.tokens[p.at-1].text
}

// peek is the next token, which it leaves; empty at the end.
func (p *parser) peek() string {
	if p.err != nil || p.at >= len(p.tokens) {
		return ""
	}
	return p.tokens[p.at].text
}

func (p *parser) expect(t string) {
	if got := p.next(); got != t && p.err == nil {
		p.at--
		p.fail("expected '" + t + "', found '" + got + "'")
	}
}

// number takes a whole number.
func (p *parser) number() uint64 {
	t := p.next()
	n, err := strconv.ParseUint(strings.TrimSuffix(t, "U"), 0, 64)
	if err != nil {
		p.fail("'" + t + "' is no number")
	}
	return n
}

// statement reads one statement outside of functions.
func (p *parser) statement(prog *program) {
	switch t := p.next(); t {
	case ".version":
		major, minor, _ := strings.Cut(p.next(), ".")
		prog.versionMajor, prog.versionMinor = p.small(major), p.small(minor)
	case ".target":
		name := p.next()
		digits := strings.TrimRight(strings.TrimPrefix(name, "sm_"), "abcdefghijklmnopqrstuvwxyz")
		prog.target = p.small(digits)
		for p.peek() == "," {
			p.next()
			p.next()
		}
	case ".address_size":
		if p.number() != 64 {
			p.fail("only 64-bit addresses are supported")
		}
	case ".visible", ".extern", ".weak", ".common":
	case ".entry":
		p.entry(prog)
	case ".func":
		p.function()
	case ".global":
		if v := p.variable(); v.size > 0 {
			prog.globals = append(prog.globals, &v)
		}
	case ".shared":
		v := p.variable()
		prog.shared[v.name] = v
	case ".const":
		p.variable()
	case ".file", ".loc", ".pragma", ".alias", ".section":
		p.skipLine()
	default:
		p.at--
		p.fail("'" + t + "' begins no declaration")
	}
}

func (p *parser) small(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.fail("'" + s + "' is no number")
	}
	return n
}

// skipLine goes on to the next line, or over the section that begins here.
func (p *parser) skipLine() {
	if p.at == 0 || p.at >= len(p.tokens) {
		return
	}
	for line := p.tokens[p.at-1].line; p.at < len(p.tokens) && p.tokens[p.at].line == line; p.at++ {
		if p.peek() == "{" {
			break
		}
	}
	if p.peek() == "{" {
		p.block(nil, nil)
	}
}

// entry reads a kernel's declaration and body.
func (p *parser) entry(prog *program) {
	k := &ptxKernel{name: p.next()}
	if p.peek() == "(" {
		p.params(k)
	}
	for p.err == nil && p.peek() != "{" && p.peek() != ";" {
		if d := p.next(); d == ".maxntid" || d == ".reqntid" {
			k.maxThreads = p.product()
		}
	}
	if p.next() == "{" {
		p.at--
		p.block(k, prog.shared)
	}
	if prog.kernels[k.name] != nil {
		p.fail("'" + k.name + "' is declared twice")
	}
	prog.kernels[k.name] = k
}

// product reads n[, n[, n]].
func (p *parser) product() int {
	n := int(p.number())
	for p.peek() == "," {
		p.next()
		n *= int(p.number())
	}
	return n
}

// paramBase is where the parameters of sm_90 start in constant memory. A parameter
// that is aligned to more than that is elsewhere in the block than its alignment alone
// would say.
const paramBase = 0x210

// params reads a kernel's parameters and lays them out one after the other,
// each aligned, as the driver does.
func (p *parser) params(k *ptxKernel) {
	p.expect("(")
	for p.err == nil && p.peek() != ")" {
		p.expect(".param")
		v := p.variable()
		v.offset = (paramBase+k.paramBytes()+v.align-1)&^(v.align-1) - paramBase
		k.params = append(k.params, v)
		if p.peek() == "," {
			p.next()
		}
	}
	p.expect(")")
}

// function skips a device function.
func (p *parser) function() {
	for p.err == nil && p.peek() != "{" && p.peek() != ";" {
		p.next()
	}
	if p.next() == "{" {
		p.at--
		p.block(nil, nil)
	}
}

// block skips a body, and adds up the static shared memory that kernel k
// declares in it, or uses of what is declared outside.
func (p *parser) block(k *ptxKernel, shared map[string]variable) {
	add := func(v variable) {
		if k != nil {
			k.shared = (k.shared+v.align-1)&^(v.align-1) + v.size
		}
	}
	used := make(map[string]bool)
	p.expect("{")
	for depth := 1; depth > 0 && p.err == nil; {
		switch t := p.next(); t {
		case "{":
			depth++
		case "}":
			depth--
		case ".shared":
			add(p.variable())
		default:
			if v, ok := shared[t]; ok && !used[t] {
				used[t] = true
				add(v)
			}
		}
	}
}
