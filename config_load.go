package tritier

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
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
// unknown field is an error. Set c from the environment afterwards, and flags last.
func (c *Config) LoadConfig(path string) error {
	data, err := smallfile.Read(path, maxConfigFile)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	var holds any
	if err := yaml.Unmarshal(data, &holds); err == nil && holds == nil {
		return nil // nothing but comments, which decoding would take for an empty Config
	}
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.DisallowUnknownField())
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration: %s: %w", path, err)
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return fmt.Errorf("configuration: %s: it has more than one document", path)
	}
	return nil
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
		if err == nil {
			*p = d
		}
		return err
	case *string:
		*p = text
		return nil
	case *bool:
		b, err := strconv.ParseBool(text)
		if err == nil {
			*p = b
		}
		return err
	case *int:
		n, err := strconv.Atoi(text)
		if err == nil {
			*p = n
		}
		return err
	case *uint64:
		n, err := strconv.ParseUint(text, 0, 64)
		if err == nil {
			*p = n
		}
		return err
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
