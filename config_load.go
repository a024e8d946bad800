package tritier

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tritier/tritier/internal/smallfile"
)

// EnvPrefix begins the environment variables of a configuration: TRITIER_T1=16GiB
// sets t1.
const EnvPrefix = "TRITIER_"

// maxConfigFile bounds a configuration file, in bytes.
const maxConfigFile = 1 << 20

// LoadConfig reads a YAML file over c: fields that it names are set, others stay. An
// unknown field is an error, and so is a value that a flag would not take; all are reported
// together, as a *ConfigError, and c stays as it was. Set c from the environment afterwards, and flags last.
func (c *Config) LoadConfig(path string) error {
	data, err := smallfile.Read(path, maxConfigFile)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	var values map[string]any
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration: %s: %w", path, err)
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration: %s: it has more than one document", path)
	}
	next := *c
	if bad := next.set(values); bad != nil {
		return fmt.Errorf("%s: %w", path, &ConfigError{bad})
	}
	*c = next
	return nil
}

// set sets the fields that a file names. The decoder itself would make 1 of 1.5 threads, and
// end at the first value that it cannot read.
func (c *Config) set(values map[string]any) (bad []error) {
	fields := map[string]reflect.Value{}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if name := fieldName(v.Type().Field(i)); name != "" {
			fields[name] = v.Field(i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, known := fields[name]
		text, single := scalar(values[name])
		switch {
		case !known:
			bad = append(bad, fmt.Errorf("unknown field %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", ")))
		case values[name] == nil: // named, but not set
		case !single:
			bad = append(bad, fmt.Errorf("%s: want a single value, not a list or mapping", name))
		default:
			if err := setField(field, text); err != nil {
				bad = append(bad, fmt.Errorf("%s: %q: %w", name, text, err))
			}
		}
	}
	return bad
}

// scalar is a value of a file as a flag's would be written.
func scalar(v any) (text string, ok bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case float64: // without an exponent, which a large one would get
		return strconv.FormatFloat(x, 'f', -1, 64), true
	case bool, int, int64, uint64:
		return fmt.Sprint(x), true
	}
	return "", false
}

// LoadEnv sets the fields for which lookup, os.LookupEnv for example, finds a variable:
// EnvPrefix and the field's name in files, in capitals. All values that cannot be
// read are reported together, as a *ConfigError.
func (c *Config) LoadEnv(lookup func(string) (string, bool)) error {
	var bad []error
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		name := fieldName(v.Type().Field(i))
		if name == "" {
			continue
		}
		variable := EnvPrefix + strings.ToUpper(name)
		text, ok := lookup(variable)
		if !ok {
			continue
		}
		if err := setField(v.Field(i), text); err != nil {
			bad = append(bad, fmt.Errorf("%s=%q: %w", variable, text, err))
		}
	}
	if bad != nil {
		return &ConfigError{bad}
	}
	return nil
}

// fieldName is the field's name in files, or "" if it has none.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// setField reads text as a flag's value would be.
func setField(v reflect.Value, text string) error {
	switch p := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("want a duration, such as 30s")
		}
		*p = d
		return nil
	case *string:
		*p = text
		return nil
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("want true or false")
		}
		*p = b
		return nil
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("want a whole number")
		}
		*p = n
		return nil
	case *uint64:
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return errors.New("want a whole number from 0 to 2^64-1")
		}
		*p = n
		return nil
	}
	return fmt.Errorf("a %v cannot be set", v.Type())
}

// Flag is a field of a Config as a command's flag: a pflag.Value.
type Flag struct {
	Name  string // as in files, with dashes
	Usage string
	field reflect.Value
}

// String is the present value.
func (f *Flag) String() string {
	if !f.field.IsValid() || f.field.IsZero() {
		return ""
	}
	return fmt.Sprint(f.field.Interface())
}

// Set reads a value.
func (f *Flag) Set(text string) error { return setField(f.field, text) }

// Type is the kind of value, for help texts.
func (f *Flag) Type() string {
	switch f.field.Interface().(type) {
	case Size:
		return "size"
	case time.Duration:
		return "duration"
	}
	return f.field.Kind().String()
}

// IsBoolFlag says that the flag needs no value.
func (f *Flag) IsBoolFlag() bool { return f.field.Kind() == reflect.Bool }

var usages = map[string]string{
	"store": "drives that hold the arrays: mem:SIZE, file:PATH[?size=SIZE], nvme:ADDRESS, separated by commas", "create": "make a store of drives that hold nothing",
	"force": "make a store of drives that hold something else, which is lost", "page_size": "of a store that is made, 4KiB to 2MiB (default 64KiB)",
	"checksums": "keep a checksum of every page of a store that is made", "t1": "size of the first tier, GPU memory", "t2": "size of the second tier, host memory; 0 for none",
	"buffers": "host memory that pages pass through (default an eighth of T1, from 16MiB to 128MiB)", "policy": "placement policy (default gmt-reuse)", "seed": "of the policy's random choices",
	"engine": "who decides: host, or gpu (kernels)",
	"moves":  "who copies pages between T1 and T2 with engine gpu: auto (as calibrated), kernel or copy-engine",
	"gpu":    "auto, none, a number or a UUID", "threads": "service threads per software-served drive (default 1)", "model": "pace software-served drives as this model; results are then modelled",
	"timeout": "bound of every wait for drives and GPU (default 30s)", "retries": "of a failed read or write; -1 for none (default 2)",
}

// Flags are c's fields as flags, which set c.
func (c *Config) Flags() []*Flag {
	var list []*Flag
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if name := fieldName(v.Type().Field(i)); name != "" {
			list = append(list, &Flag{Name: strings.ReplaceAll(name, "_", "-"), Usage: usages[name], field: v.Field(i)})
		}
	}
	return list
}
