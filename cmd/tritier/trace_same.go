package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// refuseInput refuses to write a file that is one of the inputs, by whatever
// name, link or redirection: it would be lost before it is read. A path of "-"
// or "" is standard output, an input of "-" standard input.
func refuseInput(out string, stdout io.Writer, inputs []string, stdin io.Reader) error {
	target, name := statOf(out, stdout), out
	if out == "" || out == "-" {
		name = "standard output"
	}
	if target == nil {
		return nil
	}
	for _, in := range inputs {
		if source := statOf(in, stdin); source != nil && os.SameFile(source, target) {
			if in == "" || in == "-" {
				in = "standard input"
			}
			return fmt.Errorf("%s: is the same file as the input %s, which writing would destroy: name another output", name, in)
		}
	}
	return nil
}

// statOf describes a file whose content can be lost: not one that does not
// exist, nor a terminal, another character device or a socket, which may well
// be both input and output. standard is what "-" stands for.
func statOf(path string, standard any) os.FileInfo {
	var info os.FileInfo
	var err error
	if path == "" || path == "-" {
		f := fileOf(standard)
		if f == nil {
			return nil
		}
		info, err = f.Stat()
	} else {
		info, err = os.Stat(path)
	}
	if err != nil || info.Mode()&(os.ModeCharDevice|os.ModeSocket) != 0 {
		return nil
	}
	return info
}

// fileOf is the file behind a standard stream, or nil.
func fileOf(stream any) *os.File {
	if c, ok := stream.(*checkedWriter); ok {
		stream = c.Writer
	}
	f, _ := stream.(*os.File)
	return f
}

// document is a kind of file that a flag writes beside the results.
type document struct {
	extensions []string // the first is the customary one
	starts     []string // what such a file begins with, in lower case
}

var (
	htmlDocument = document{[]string{".html", ".htm"}, []string{"<!doctype html", "<html", "<!--"}}
	plotDocument = document{[]string{".svg", ".png"}, []string{"<?xml", "<svg", "<!--", "\x89png\r\n"}}
)

// check refuses a name that such a document does not have, and a file that is
// none: a flag's value that was forgotten must not make a trace the output.
// Devices and pipes hold nothing that can be lost.
func (d document) check(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil
	}
	if !slices.Contains(d.extensions, strings.ToLower(filepath.Ext(path))) {
		return fmt.Errorf("%s: the name must end in %s", path, strings.Join(d.extensions, " or "))
	}
	if err != nil || info.IsDir() || info.Size() == 0 {
		return nil // creating it says what is wrong, if anything
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: cannot be replaced: %w", path, err)
	}
	defer f.Close() // nothing was written
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head) // a short file, or one that cannot be read, is no such document
	text := bytes.TrimLeft(bytes.TrimPrefix(head[:n], []byte("\xef\xbb\xbf")), " \t\r\n")
	for i, b := range text { // not bytes.ToLower: a picture is no UTF-8, of which that replaces bytes
		if 'A' <= b && b <= 'Z' {
			text[i] = b - 'A' + 'a'
		}
	}
	for _, start := range d.starts {
		if bytes.HasPrefix(text, []byte(start)) {
			return nil
		}
	}
	return fmt.Errorf("%s: exists and is no %s file: remove it, or name another", path, strings.Join(d.extensions, " or "))
}
