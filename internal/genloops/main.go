// Command genloops writes the machine's inner loops, tier/twotier_gen.go and
// tier/threetier_gen.go, one of each for every evictor, and tier/pick_gen.go,
// which picks one. Go compiles a generic
// loop over pointer types once and calls through a dictionary; one loop for
// each concrete type inlines the evictor's hit path, which is most of what a
// replay does.
package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed *.go.tmpl
var templates embed.FS

// evictors are the concrete types of package placement that get loops.
var evictors = []string{"LRU", "FIFO", "Clock", "Sieve", "LFU", "Random", "S3FIFO", "ARC", "TwoQ", "LIRS", "WTinyLFU", "Belady"}

// files names each generated file's template.
var files = map[string]string{
	"pick_gen.go":      "pick.go.tmpl",
	"twotier_gen.go":   "twotier.go.tmpl",
	"threetier_gen.go": "threetier.go.tmpl",
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: genloops FOLDER")
		os.Exit(2)
	}
	for name := range files {
		if err := write(os.Args[1], name); err != nil {
			fmt.Fprintln(os.Stderr, "genloops:", err)
			os.Exit(1)
		}
	}
}

func write(folder, name string) error {
	code, err := source(name)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), code, 0o644)
}

// source returns the generated file's text.
func source(name string) ([]byte, error) {
	t, err := template.ParseFS(templates, files[name])
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, evictors); err != nil {
		return nil, err
	}
	return format.Source(out.Bytes())
}
