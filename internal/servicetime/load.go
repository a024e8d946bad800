package servicetime

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tritier/tritier/internal/smallfile"
	"github.com/tritier/tritier/internal/yamlfile"
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

// LoadFile reads a model from a YAML file, which must be a regular file of at
// most 64 KiB.
func LoadFile(file string) (*Model, error) {
	data, err := smallfile.Read(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("servicetime: %w", err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("servicetime: %s: %w", file, err)
	}
	return m, nil
}

// maxFile bounds a model file, in bytes: a wrong path must not fill memory, nor
// keep the parser busy.
const maxFile = 64 << 10

// Parse decodes and validates a model. Unknown and duplicate fields are errors,
// as is a second document.
func Parse(data []byte) (*Model, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many for a model (at most %d)", len(data), maxFile)
	}
	m := new(Model)
	if err := yamlfile.Decode(data, m); errors.Is(err, yamlfile.ErrMore) {
		return nil, fmt.Errorf("holds %w", err)
	} else if err != nil {
		return nil, inWords(err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// inWords says what is wrong with YAML, and where, in one line: the parser would
// quote the file around the place, which may be no model at all, and name types
// of this program.
func inWords(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("holds no YAML document")
	}
	var wrong yaml.Error
	if !errors.As(err, &wrong) || wrong.GetToken() == nil {
		return err
	}
	at := wrong.GetToken().Position
	what := wrong.GetMessage()
	var kind *yaml.TypeError
	var large *yaml.OverflowError
	switch {
	case errors.As(err, &large):
		what = "the number is too large"
	case errors.As(err, &kind) && wants[kind.DstType.Kind()] != "":
		what = "here must be " + wants[kind.DstType.Kind()]
	}
	what, _, _ = strings.Cut(what, "\n")
	return fmt.Errorf("line %d, column %d: %s", at.Line, at.Column, what)
}

// wants names what a field of a kind holds.
var wants = map[reflect.Kind]string{
	reflect.Float64: "a number", reflect.Int: "a whole number", reflect.String: "a text",
	reflect.Slice: "a list", reflect.Struct: "named fields", reflect.Map: "named fields", reflect.Pointer: "named fields",
}
