package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// forbidden are calls that take the decision out of the caller's hands.
var forbidden = map[string]bool{
	"panic": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true, "log.Panic": true, "log.Panicf": true,
	"log.Print": true, "log.Printf": true, "log.Println": true, "os.Exit": true, "fmt.Print": true, "fmt.Printf": true, "fmt.Println": true,
}

// pid1 is the body of the test guest's first process: it has nobody to return
// an error to, and its output is its result.
const pid1 = "internal/qemu/guest"

// TestLibrariesDoNotExit checks that no library package panics, logs, prints
// or exits: errors are values. Programs (package main) may.
func TestLibrariesDoNotExit(t *testing.T) {
	for _, p := range packages(t) {
		if p.Name == "main" || relative(p.ImportPath) == pid1 {
			continue
		}
		for _, f := range p.GoFiles {
			if !strings.HasSuffix(f, "_test.go") {
				checkCalls(t, relative(p.ImportPath), filepath.Join(p.Dir, f))
			}
		}
	}
}

func checkCalls(t *testing.T, rel, file string) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && forbidden[callee(call)] {
			t.Errorf("%s: %s calls %s: return an error instead", fset.Position(call.Pos()), rel, callee(call))
		}
		return true
	})
}

func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}
