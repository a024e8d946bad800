// Command genloops writes tier/loops_gen.go: the machine's inner loops, one
// pair for each evictor. Go compiles a generic loop over pointer types once
// and calls through a dictionary; one loop for each concrete type inlines the
// evictor's hit path, which is most of what a replay does.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/format"
	"os"
	"text/template"
)

//go:embed loops.go.tmpl
var source string

// evictors are the concrete types of package placement that get loops.
var evictors = []string{"LRU", "FIFO", "Clock", "Sieve", "LFU", "Random", "S3FIFO", "ARC", "TwoQ", "LIRS", "WTinyLFU", "Belady"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: genloops OUTPUT.go")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "genloops:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	code, err := Source()
	if err != nil {
		return err
	}
	return os.WriteFile(path, code, 0o644)
}

// Source returns the generated file's text.
func Source() ([]byte, error) {
	t, err := template.New("loops").Parse(source)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, evictors); err != nil {
		return nil, err
	}
	return format.Source(out.Bytes())
}
