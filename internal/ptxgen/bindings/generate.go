package bindings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Generate compiles the sources in dir and writes their PTX and the Go file. It
// writes nothing unless all of it succeeds.
func Generate(ctx context.Context, dir string, c Config) error {
	clang, err := findClang(ctx)
	if err != nil {
		return err
	}
	out := map[string][]byte{}
	var units []unit
	for _, source := range c.Sources {
		in, err := readInputs(dir, source, c.Includes)
		if err != nil {
			return err
		}
		u := unit{in: in}
		for _, t := range c.Targets {
			body, err := c.compile(ctx, clang, dir, in, t)
			if err != nil {
				return err
			}
			text := in.header(c.flags(t), body) + body
			u.images = append(u.images, image{t, c.ptxName(source, t), text})
			out[c.ptxName(source, t)] = []byte(text)
		}
		units = append(units, u)
	}
	if out[c.Output], err = render(c, units); err != nil {
		return err
	}
	for name, data := range out {
		if err := replace(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file as a whole or not at all, and leaves one alone that has
// the content already: build caches look at times.
func replace(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && string(old) == string(data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".ptxgen-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
	}
	return nil
}
