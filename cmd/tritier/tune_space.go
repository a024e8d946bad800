package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/tritier/tritier/internal/yamlfile"
	"github.com/tritier/tritier/sim/tune"
	"github.com/tritier/tritier/tier/gpu"
)

// spaceFlags restrict what is searched.
type spaceFlags struct {
	file            string
	placers, t1, t2 []string
	engine          string
}

// The engines of a live Memory, which differ in the policies that they run.
const (
	engineHost = "host"
	engineGPU  = "gpu"
)

func (s *spaceFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&s.placers, "placers", nil, "search these placers only: a list of `NAMES`")
	fs.StringSliceVar(&s.t1, "t1", nil, "search these evictors of GPU memory only: a list of `NAMES`")
	fs.StringSliceVar(&s.t2, "t2", nil, "search these evictors of host memory only: a list of `NAMES`")
	fs.StringVar(&s.engine, "engine", "", "search what this engine of a live memory runs: host (everything) or gpu")
	fs.StringVar(&s.file, "space", "", "read placers, t1, t2, engine and values of parameters from a YAML `FILE`")
}

// spaceFile is the file of --space:
//
//	version: 1
//	placers: [tier-order, gmt-reuse]
//	t1: [lru, s3-fifo]
//	engine: host
//	values: # beside the defaults
//	  gmt-reuse.window: [1024, 4096]
//	  s3-fifo.small: [0.05, 0.1]
type spaceFile struct {
	Version int              `yaml:"version"`
	Placers []string         `yaml:"placers"`
	T1      []string         `yaml:"t1"`
	T2      []string         `yaml:"t2"`
	Engine  string           `yaml:"engine"`
	Values  map[string][]any `yaml:"values"`
}

const (
	spaceVersion  = 1
	maxSpaceBytes = 64 << 10
)

// space is what to search: flags go before the file.
func (s *spaceFlags) space() (tune.Space, error) {
	var out tune.Space
	engine := s.engine
	if s.file != "" {
		f, err := readSpace(s.file)
		if err != nil {
			return out, fmt.Errorf("--space %s: %w", s.file, err)
		}
		out.Placers, out.T1, out.T2 = f.Placers, f.T1, f.T2
		if out.Values, err = f.values(); err != nil {
			return out, fmt.Errorf("--space %s: %w", s.file, err)
		}
		if engine == "" {
			engine = f.Engine
		}
	}
	for _, l := range []struct {
		flag []string
		list *[]string
	}{{s.placers, &out.Placers}, {s.t1, &out.T1}, {s.t2, &out.T2}} {
		if len(l.flag) > 0 {
			*l.list = l.flag
		}
	}
	switch engine {
	case "", engineHost:
	case engineGPU:
		out.Accepts = gpu.Accepts
	default:
		return out, fmt.Errorf("engine %q: there are %s and %s", engine, engineHost, engineGPU)
	}
	if err := out.Fill(); err != nil && s.file != "" {
		return out, fmt.Errorf("--space %s: %w", s.file, err)
	} else if err != nil {
		return out, err
	}
	return out, nil
}

func readSpace(path string) (f spaceFile, err error) {
	file, err := os.Open(path)
	if err != nil {
		return f, errors.Unwrap(err) // the name is in front
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxSpaceBytes+1))
	if err != nil {
		return f, err
	}
	if len(raw) > maxSpaceBytes {
		return f, fmt.Errorf("longer than %d bytes: that is no space to search", maxSpaceBytes)
	}
	if err := yamlfile.Decode(raw, &f); errors.Is(err, yamlfile.ErrMore) {
		return f, fmt.Errorf("%w: a space to search is one", err)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return f, errors.New(yaml.FormatError(err, false, false)) // without the source, a line of which may be the whole file
	}
	for name, list := range map[string][]string{"placers": f.Placers, "t1": f.T1, "t2": f.T2} {
		if list != nil && len(list) == 0 {
			return f, fmt.Errorf("%s: the list is empty: name what to search, or leave it out for all", name)
		}
	}
	if f.Version == 0 {
		return f, fmt.Errorf("no version: write \"version: %d\" into it", spaceVersion)
	}
	if f.Version != spaceVersion {
		return f, fmt.Errorf("version %d, this program reads version %d", f.Version, spaceVersion)
	}
	return f, nil
}

// values are the values as the grammar of policies has them.
func (f *spaceFile) values() (map[string][]string, error) {
	out := map[string][]string{}
	for key, list := range f.Values {
		out[key] = nil // empty ones are refused like any other wrong list
		for _, v := range list {
			text := ""
			switch x := v.(type) {
			case string:
				text = x
			case uint64:
				text = strconv.FormatUint(x, 10)
			case int64:
				text = strconv.FormatInt(x, 10)
			case float64:
				text = strconv.FormatFloat(x, 'f', -1, 64)
			default:
				return nil, fmt.Errorf("%s: %v is neither a word nor a number", key, v)
			}
			out[key] = append(out[key], strings.TrimSpace(text))
		}
	}
	return out, nil
}
