package bindings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// remedy ends every message about a stale file.
const remedy = "run go generate ./... (needs clang " + clangMajor + ")"

// CheckFresh compares what ptxgen wrote into dir (not below it) with what it
// would write now, without compiling. The error, nil when all is fresh, names
// every file that does not match its inputs and the input that has changed.
func CheckFresh(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	expected := map[string]bool{} // PTX files that a Go file embeds
	written := map[string]bool{}  // argument lines of the Go files
	var wanted []string           // argument lines of the directives
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if filepath.Ext(name) != ".go" || e.IsDir() {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines, err := directiveArgs(string(data))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		wanted = append(wanted, lines...)
		if !strings.HasPrefix(string(data), mark) {
			continue
		}
		c, err := checkOutput(dir, e.Name(), string(data))
		errs = append(errs, err)
		if c.Output != "" {
			written[strings.Join(c.Args(), " ")] = true
		}
		for _, src := range c.Sources {
			for _, t := range c.Targets {
				expected[c.ptxName(src, t)] = true
			}
		}
	}
	errs = append(errs, checkDirectives(dir, wanted, written), checkOrphans(dir, entries, expected))
	return errors.Join(errs...)
}

var (
	argsForm     = regexp.MustCompile(`(?m)^// ptxgen:args (.*)$`)
	generateForm = regexp.MustCompile(`(?m)^//go:generate go run \S*internal/ptxgen[ \t]+(.*?)[ \t\r]*$`)
)

// directiveArgs reads a file's go:generate lines that run ptxgen.
func directiveArgs(text string) ([]string, error) {
	var list []string
	for _, m := range generateForm.FindAllStringSubmatch(text, -1) {
		c, err := ParseArgs(strings.Fields(m[1]), io.Discard)
		if err != nil {
			return nil, fmt.Errorf("go:generate: %w", err)
		}
		list = append(list, strings.Join(c.Args(), " "))
	}
	return list, nil
}

// checkDirectives compares the arguments in go:generate lines with those that
// the Go files were written with, both ways.
func checkDirectives(dir string, wanted []string, written map[string]bool) error {
	var errs []error
	for _, args := range wanted {
		if !written[args] {
			errs = append(errs, fmt.Errorf("%s: no generated file was written with the arguments %q of its go:generate line: %s", dir, args, remedy))
		}
	}
	for args := range written {
		if !slices.Contains(wanted, args) {
			errs = append(errs, fmt.Errorf("%s: no go:generate line has the arguments %q that its generated file was written with", dir, args))
		}
	}
	return errors.Join(errs...)
}

// checkOrphans finds PTX that ptxgen wrote and that no Go file embeds any more.
func checkOrphans(dir string, entries []os.DirEntry, expected map[string]bool) error {
	var errs []error
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".ptx" || expected[e.Name()] {
			continue
		}
		name := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(name)
		if err == nil && strings.HasPrefix(string(data), mark) {
			err = fmt.Errorf("%s: no generated file embeds it: delete it", name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkOutput checks a generated Go file and its PTX files.
func checkOutput(dir, name, text string) (Config, error) {
	full := filepath.Join(dir, name)
	m := argsForm.FindStringSubmatch(text)
	if m == nil {
		return Config{}, fmt.Errorf("%s: it lacks its ptxgen:args line: %s", full, remedy)
	}
	c, err := ParseArgs(strings.Fields(m[1]), io.Discard)
	if err != nil {
		return Config{}, fmt.Errorf("%s: its ptxgen:args line: %w", full, err)
	}
	if c.Output != name {
		return c, fmt.Errorf("%s was written as %s: %s", full, c.Output, remedy)
	}
	var units []unit
	var errs []error
	for _, source := range c.Sources {
		in, err := readInputs(dir, source, c.Includes)
		if err != nil {
			return c, fmt.Errorf("%s: %w", full, err)
		}
		u := unit{in: in}
		for _, t := range c.Targets {
			img, err := c.checkImage(dir, in, t)
			errs = append(errs, err)
			u.images = append(u.images, img)
		}
		units = append(units, u)
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	want, err := render(c, units)
	if err == nil && string(want) != text {
		err = errors.New("it is not what ptxgen writes for these sources: " + remedy)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", full, err)
	}
	return c, nil
}

// checkImage compares a PTX file's header with the one that its inputs give now.
func (c Config) checkImage(dir string, in inputs, t Target) (image, error) {
	img := image{target: t, file: c.ptxName(in.source, t)}
	full := filepath.Join(dir, img.file)
	data, err := os.ReadFile(full)
	if err != nil {
		return img, fmt.Errorf("%w: %s", err, remedy)
	}
	img.text = string(data)
	have, body, err := splitHeader(img.text)
	if err != nil {
		return img, fmt.Errorf("%s: it %w: %s", full, err, remedy)
	}
	if want := in.header(c.flags(t), body); have != want {
		return img, fmt.Errorf("%s is stale: %s: %s", full, changed(have, want), remedy)
	}
	return img, nil
}

// changed says in words which lines of the header differ.
func changed(have, want string) string {
	lines := func(s string) map[string]string {
		m := map[string]string{}
		for _, line := range strings.Split(s, "\n") {
			key, value, _ := strings.Cut(strings.TrimPrefix(line, "// ptxgen:"), " ")
			if key == "input" {
				key, value, _ = strings.Cut(value, " ")
			}
			m[key] = value
		}
		return m
	}
	old, now := lines(have), lines(want)
	var said []string
	for _, key := range []string{"version", "flags", "body"} {
		if old[key] != now[key] {
			said = append(said, map[string]string{"version": "ptxgen", "flags": "its flags", "body": "the PTX itself"}[key])
		}
		delete(old, key)
		delete(now, key)
	}
	delete(old, "hash")
	delete(now, "hash")
	for key, value := range now {
		if old[key] != value {
			said = append(said, key)
		}
	}
	for key := range old {
		if _, ok := now[key]; !ok {
			said = append(said, key)
		}
	}
	if len(said) == 0 {
		said = []string{"its header"}
	}
	slices.Sort(said)
	return "changed since: " + strings.Join(slices.Compact(said), ", ")
}
