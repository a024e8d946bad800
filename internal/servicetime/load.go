package servicetime

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed presets/*.yaml
var presets embed.FS

// UnknownModelError is a name that is no preset.
type UnknownModelError struct {
	Name  string
	Known []string
}

// Error lists the presets that there are.
func (e *UnknownModelError) Error() string {
	return fmt.Sprintf("servicetime: no preset %q; there are %s, and a YAML file can be given by its path",
		e.Name, strings.Join(e.Known, ", "))
}

// Names returns the names of the presets, sorted.
func Names() []string {
	files, err := fs.Glob(presets, "presets/*.yaml")
	if err != nil { // only a malformed pattern fails, and this one is constant
		return nil
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Load returns a preset by name, or reads the file when name has a slash or
// ends in .yaml. Other names give an *UnknownModelError.
func Load(name string) (*Model, error) {
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		return LoadFile(name)
	}
	known := Names()
	if !slices.Contains(known, name) {
		return nil, &UnknownModelError{Name: name, Known: known}
	}
	data, err := presets.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("servicetime: preset %s: %w", name, err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("servicetime: preset %s: %w", name, err)
	}
	return m, nil
}

// LoadFile reads a model from a YAML file.
func LoadFile(file string) (*Model, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("servicetime: %w", err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("servicetime: %s: %w", file, err)
	}
	return m, nil
}

// maxFile bounds a model file, so that a wrong path does not fill memory.
const maxFile = 1 << 20

// Parse decodes and validates a model. Unknown and duplicate fields are errors.
func Parse(data []byte) (*Model, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many for a model (at most %d)", len(data), maxFile)
	}
	m := new(Model)
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(m); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}
