package tritier_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier"
)

const everyField = `store: file:/data/a,file:/data/b
create: true
force: true
page_size: 128KiB
checksums: true
t1: 2GiB
t2: 8GiB
buffers: 64MiB
policy: tier-order{t1=lru}
seed: 7
engine: host
gpu: none
moves: auto
threads: 3
model: 4x980pro
timeout: 5s
retries: -1
`

var everyValue = tritier.Config{Store: "file:/data/a,file:/data/b", Create: true, Force: true, PageSize: 128 << 10, Checksums: true, T1: 2 << 30, T2: 8 << 30,
	Buffers: 64 << 20, Policy: "tier-order{t1=lru}", Seed: 7, Engine: "host", GPU: "none", Moves: "auto", Threads: 3, Model: "4x980pro", Timeout: 5 * time.Second, Retries: -1}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigSources: file, environment and flags set every field, each over the one
// before.
func TestConfigSources(t *testing.T) {
	var file, env, flags tritier.Config
	if err := file.LoadConfig(writeFile(t, everyField)); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(everyField) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
		values[k] = v
	}
	if err := env.LoadEnv(func(name string) (string, bool) {
		v, ok := values[strings.ToLower(strings.TrimPrefix(name, tritier.EnvPrefix))]
		return v, ok
	}); err != nil {
		t.Fatal(err)
	}
	for _, f := range flags.Flags() {
		if err := f.Set(values[strings.ReplaceAll(f.Name, "-", "_")]); err != nil {
			t.Errorf("--%s: %v", f.Name, err)
		}
		if f.Usage == "" || f.Type() == "" {
			t.Errorf("--%s has no help", f.Name)
		}
	}
	for name, c := range map[string]tritier.Config{"file": file, "environment": env, "flags": flags} {
		if !reflect.DeepEqual(c, everyValue) {
			t.Errorf("from the %s:\n%+v, want\n%+v", name, c, everyValue)
		}
		if err := c.Check(); err != nil {
			t.Errorf("from the %s: %v", name, err)
		}
	}
	c := everyValue
	if err := errors.Join(c.LoadConfig(writeFile(t, "t1: 4GiB\n")), c.LoadEnv(func(n string) (string, bool) { return "9", n == "TRITIER_SEED" })); err != nil {
		t.Fatal(err)
	}
	if c.T1 != 4<<30 || c.Seed != 9 || c.T2 != everyValue.T2 {
		t.Errorf("one over the other: %+v", c)
	}
}

// TestConfigFaults: what cannot be read is refused, with its place.
func TestConfigFaults(t *testing.T) {
	for text, want := range map[string]string{"t3: 1GiB": "t3", "t1: 1GB": "1GiB", "t1: [1]": "c.yaml", "seed: -1": "seed", "a: b\n---\nt1: 1GiB": "a", "t1: 1GiB\n---\nt1: 2GiB": "document"} {
		var c tritier.Config
		if err := c.LoadConfig(writeFile(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	testFileValues(t)
	var c tritier.Config
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir(), writeFile(t, strings.Repeat("#", 1<<20+1))} {
		if err := c.LoadConfig(path); err == nil {
			t.Errorf("%s is read", path)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		c = everyValue
		if err := c.LoadConfig(writeFile(t, text)); err != nil || !reflect.DeepEqual(c, everyValue) {
			t.Errorf("%q: %v, %+v", text, err, c)
		}
	}
	err := c.LoadEnv(func(name string) (string, bool) { return "x", name != "TRITIER_STORE" && name != "TRITIER_MODEL" })
	var bad *tritier.ConfigError
	if !errors.As(err, &bad) || len(bad.Violations) < 8 || !strings.Contains(err.Error(), "TRITIER_T1") {
		t.Errorf("%v", err)
	}
}

// testFileValues: a file's value is one that a flag takes, or refused by the field's name, with all
// others that are, and nothing is set then.
func testFileValues(t *testing.T) {
	t.Helper()
	text := "t1: [1]\nt2: -1\nthreads: 1.5\nretries: 1e2\nseed: -1\ncreate: maybe\ntimeout: 5\nbuffers: {a: b}\nt3: 1\nforce: true\n"
	c := everyValue
	err := c.LoadConfig(writeFile(t, text))
	var bad *tritier.ConfigError
	if !errors.As(err, &bad) || len(bad.Violations) != 9 || !reflect.DeepEqual(c, everyValue) {
		t.Errorf("%v, %+v", err, c)
	}
	for _, want := range []string{"c.yaml", "t1: want a single value", "t2: ", `threads: "1.5": want a whole number`, "retries: ", "seed: ", "create: ", "timeout: ", "buffers: ", `unknown field "t3"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	c = everyValue
	text = "threads: '4'\nretries: 10.0\nseed: 0x10\ngpu: 0\nt1: ~\nt2: 0\ncreate: false\ntimeout: 1m\n"
	want := everyValue
	want.Threads, want.Retries, want.Seed, want.GPU, want.T2, want.Create, want.Timeout = 4, 10, 16, "0", 0, false, time.Minute
	if err := c.LoadConfig(writeFile(t, text)); err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, c, want)
	}
}
