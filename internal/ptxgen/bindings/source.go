package bindings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// param is one parameter of a kernel's declaration.
type param struct {
	name    string
	typ     string // without const, restrict and the like, such as "unsigned int"
	pointer bool
}

// declaration is a kernel as its source writes it.
type declaration struct {
	name   string
	params []param
}

// typeDirective is a ptxgen:type line.
type typeDirective struct {
	name   string
	size   int
	goType string // Type, or import/path.Type
}

// stripComments blanks comments and keeps everything else, strings too, in its
// line. Raw strings are not known here: kernels have no use for them.
func stripComments(text string) string {
	out := []byte(text)
	for i := 0; i < len(out); {
		end := i + 1
		switch {
		case strings.HasPrefix(text[i:], "//"):
			end = until(text, i, "\n")
			blank(out[i:end])
		case strings.HasPrefix(text[i:], "/*"):
			end = until(text, i+2, "*/")
			blank(out[i:end])
		case text[i] == '"', text[i] == '\'' && !digitSeparator(text, i):
			end = literalEnd(text, i)
		}
		i = end
	}
	return string(out)
}

// until is the offset behind the next mark, a newline excepted, or the end.
func until(text string, from int, mark string) int {
	i := strings.Index(text[from:], mark)
	switch {
	case i < 0:
		return len(text)
	case mark == "\n":
		return from + i
	}
	return from + i + len(mark)
}

func blank(b []byte) {
	for i := range b {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
}

// digitSeparator says whether the quote stands within a number, as in 1'000.
func digitSeparator(text string, i int) bool {
	return i > 0 && isWord(text[i-1]) && i+1 < len(text) && isWord(text[i+1])
}

func literalEnd(text string, i int) int {
	for j := i + 1; j < len(text); j++ {
		switch text[j] {
		case '\\':
			j++
		case text[i]:
			return j + 1
		case '\n':
			return j // not a literal that the compiler would take
		}
	}
	return len(text)
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

var tokenForm = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*|::|"[^"\n]*"|\S`)

// kernels finds the declarations of __global__ functions.
func kernels(f file) ([]declaration, error) {
	var list []declaration
	tokens := tokenForm.FindAllString(dropDefines(stripComments(f.text)), -1)
	for i := range tokens {
		if tokens[i] != "__global__" {
			continue
		}
		d, err := declare(tokens[i+1:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		list = append(list, d)
	}
	return list, nil
}

var defineForm = regexp.MustCompile(`(?m)^[ \t]*#(?:.*\\\n)*.*$`)

// dropDefines blanks preprocessor lines: a macro's text declares nothing.
func dropDefines(text string) string { return defineForm.ReplaceAllString(text, "") }

// declare reads what follows __global__: void, attributes such as
// __launch_bounds__(n), the name and the parameters.
func declare(tokens []string) (declaration, error) {
	for i := 0; i+1 < len(tokens); i++ {
		switch t := tokens[i]; {
		case t == "void", t == "extern", t == `"C"`, t == "static", t == "inline":
		case strings.HasPrefix(t, "__") && tokens[i+1] == "(":
			i = closing(tokens, i+1)
		case isWord(t[0]) && tokens[i+1] == "(":
			params, err := parameters(tokens[i+2 : closing(tokens, i+1)])
			if err != nil {
				return declaration{}, fmt.Errorf("kernel %s: %w", t, err)
			}
			return declaration{t, params}, nil
		default:
			return declaration{}, fmt.Errorf("cannot read the declaration after __global__ at %q: write extern \"C\" __global__ void name(...)", t)
		}
	}
	return declaration{}, fmt.Errorf("the file ends within a __global__ declaration")
}

// closing is the index of the parenthesis that closes the one at open, or the
// last token.
func closing(tokens []string, open int) int {
	depth := 0
	for i := open; i < len(tokens); i++ {
		switch tokens[i] {
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(tokens) - 1
}

func parameters(tokens []string) ([]param, error) {
	var list []param
	start, depth := 0, 0
	for i := 0; i <= len(tokens); i++ {
		if i < len(tokens) {
			switch tokens[i] {
			case "<", "(", "[":
				depth++
			case ">", ")", "]":
				depth--
			}
			if tokens[i] != "," || depth > 0 {
				continue
			}
		}
		one := tokens[start:i]
		start = i + 1
		if len(one) == 0 || len(one) == 1 && one[0] == "void" {
			continue
		}
		p, err := parameter(one, len(list))
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// decoration are words that change neither a parameter's size nor its meaning
// to the caller.
var decoration = map[string]bool{"const": true, "volatile": true, "struct": true, "enum": true,
	"__restrict__": true, "__restrict": true, "__grid_constant__": true, "std": true}

// builtinWord are the words of C's own type names: the last of them is never
// the parameter's name.
var builtinWord = map[string]bool{"unsigned": true, "signed": true, "char": true, "short": true, "int": true,
	"long": true, "float": true, "double": true, "bool": true}

func parameter(tokens []string, index int) (param, error) {
	var p param
	var words []string
	for i, t := range tokens {
		switch {
		case t == "&", t == "(", t == "<", t == "...", t == "=":
			return p, fmt.Errorf("parameter %s: ptxgen takes values and pointers only", strings.Join(tokens, " "))
		case t == "*", t == "[":
			p.pointer = true
		case t == "::":
			if i > 0 && tokens[i-1] != "std" && len(words) > 0 {
				words = words[:len(words)-1] // a namespace: types are known by their last name
			}
		case decoration[t]:
		case isWord(t[0]) && t[0] > '9':
			words = append(words, t)
		}
	}
	if n := len(words); n > 1 && !builtinWord[words[n-1]] {
		p.name, words = words[n-1], words[:n-1]
	} else {
		p.name = "arg" + strconv.Itoa(index)
	}
	if len(words) == 0 {
		return p, fmt.Errorf("parameter %s: no type", strings.Join(tokens, " "))
	}
	p.typ = strings.Join(words, " ")
	return p, nil
}

var (
	directiveForm = regexp.MustCompile(`(?m)^[ \t]*//[ \t]*ptxgen:(\S*)[ \t]*(.*?)[ \t\r]*$`)
	typeForm      = regexp.MustCompile(`^([A-Za-z_]\w*) size=([0-9]+) go=(\S+)$`)
)

// directives reads the ptxgen: lines of a file.
func directives(f file) ([]typeDirective, error) {
	var list []typeDirective
	for _, m := range directiveForm.FindAllStringSubmatch(f.text, -1) {
		t := typeForm.FindStringSubmatch(m[2])
		if m[1] != "type" || t == nil {
			return nil, fmt.Errorf("%s: ptxgen:%s %s: want ptxgen:type Name size=BYTES go=Type", f.path, m[1], m[2])
		}
		size, err := strconv.Atoi(t[2])
		if err != nil || size == 0 {
			return nil, fmt.Errorf("%s: ptxgen:type %s: size=%s is no size", f.path, t[1], t[2])
		}
		list = append(list, typeDirective{t[1], size, t[3]})
	}
	return list, nil
}
