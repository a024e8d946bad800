package placement

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tritier/tritier/internal/smallfile"
	"github.com/tritier/tritier/internal/yamlfile"
)

// fileVersion is the version of saved policies that this program reads and
// writes.
const fileVersion = 1

// maxFileLen bounds a saved policy.
const maxFileLen = 64 << 10

// file is a saved policy:
//
//	version: 1
//	policy: gmt-reuse{t1=clock,t2=fifo,k=16}
type file struct {
	Version int    `yaml:"version"`
	Policy  string `yaml:"policy"`
}

// LoadFile reads a saved policy: the policy that @FILE names. Unknown fields,
// other versions and a policy that is itself an @FILE are errors, and so is what
// is no regular file: nothing is waited for.
func LoadFile(path string) (Spec, error) {
	raw, err := smallfile.Read(path, maxFileLen)
	if err != nil {
		return Spec{}, fmt.Errorf("saved policy: %w", err)
	}
	spec, err := parseFile(raw)
	if err != nil {
		return Spec{}, fmt.Errorf("saved policy %s: %w", path, err)
	}
	return spec, nil
}

// parseFile reads the content of a saved policy.
func parseFile(raw []byte) (Spec, error) {
	var f file
	if err := yamlfile.Decode(raw, &f); errors.Is(err, yamlfile.ErrMore) {
		return Spec{}, fmt.Errorf("%w: a saved policy is one", err)
	} else if err != nil && !errors.Is(err, io.EOF) { // an empty file has no version
		return Spec{}, err
	}
	if f.Version != fileVersion {
		return Spec{}, fmt.Errorf("version %d, this program reads version %d", f.Version, fileVersion)
	}
	return parseInline(f.Policy)
}

// SaveFile writes s to path in its canonical form, below comments for people. The
// file appears complete or not at all: it is written beside path and renamed. Its folder
// has to exist.
func SaveFile(path string, s Spec, comments ...string) error {
	if s.placer == nil {
		return errors.New("an empty policy cannot be saved: make one with Parse")
	}
	raw, err := yaml.Marshal(file{fileVersion, s.String()})
	if err != nil {
		return fmt.Errorf("save policy: %w", err)
	}
	for i := len(comments) - 1; i >= 0; i-- {
		line := strings.NewReplacer("\n", " ", "\r", " ").Replace(comments[i])
		raw = append([]byte("# "+line+"\n"), raw...)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("save policy: %w", err)
	}
	if err := smallfile.Replace(path, raw); err != nil {
		return fmt.Errorf("save policy %s: %w", path, err)
	}
	return nil
}
