package bindings

import (
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Target is one GPU architecture to compile for.
type Target struct {
	Arch string // such as sm_70
	PTX  string // the PTX version as clang's feature, such as +ptx63
}

// compute is the target's compute capability, 70 for 7.0.
func (t Target) compute() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(t.Arch, "sm_")) // parseTargets has checked the form
	return n
}

// Config is one run of ptxgen. All names are relative to the folder that it
// runs in, which holds the sources and gets the output.
type Config struct {
	Package  string
	Output   string   // the Go file, NAME_gen.go
	Type     string   // the generated type; a lower-case name keeps everything unexported
	Targets  []Target // ascending
	Includes []string
	Sources  []string
}

// minPTX is the lowest PTX version that knows an architecture, and at least
// 6.3, which the device headers need. Newer architectures run PTX of older ones.
var minPTX = map[int]string{
	70: "+ptx63", 72: "+ptx63", 75: "+ptx63", 80: "+ptx70", 86: "+ptx71", 87: "+ptx74", 89: "+ptx78", 90: "+ptx78",
}

var (
	archForm = regexp.MustCompile(`^sm_[0-9]+$`)
	ptxForm  = regexp.MustCompile(`^\+ptx[0-9]+$`)
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	pathForm = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)
)

// ParseArgs reads ptxgen's command line, without the program's name. The error
// is flag.ErrHelp when help was asked for; usage goes to out.
func ParseArgs(args []string, out io.Writer) (Config, error) {
	var c Config
	var archs, versions string
	fs := flag.NewFlagSet("ptxgen", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&c.Package, "package", "", "`name` of the Go package")
	fs.StringVar(&c.Output, "o", "", "Go `file` to write, NAME_gen.go in this folder")
	fs.StringVar(&c.Type, "type", "Kernels", "`name` of the generated type; lower case keeps it and the constants unexported")
	fs.StringVar(&archs, "arch", "sm_70", "GPU `architectures`, comma-separated")
	fs.StringVar(&versions, "ptx", "", "PTX `versions` as clang's features, one for each architecture (default: the oldest that knows it)")
	fs.Func("I", "`folder` of headers, relative to this one; may be repeated", func(s string) error {
		c.Includes = append(c.Includes, path.Clean(s))
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return Config{}, err
	}
	c.Sources = fs.Args()
	var err error
	if c.Targets, err = parseTargets(archs, versions); err != nil {
		return Config{}, err
	}
	return c, c.check()
}

func parseTargets(archs, versions string) ([]Target, error) {
	var targets []Target
	ptx := strings.Split(versions, ",")
	for i, arch := range strings.Split(archs, ",") {
		if !archForm.MatchString(arch) {
			return nil, fmt.Errorf("-arch %s: want names such as sm_70, comma-separated", archs)
		}
		t := Target{Arch: arch}
		switch {
		case versions == "":
			if t.PTX = minPTX[t.compute()]; t.PTX == "" {
				return nil, fmt.Errorf("-arch %s: its PTX version is not known here: give it with -ptx", arch)
			}
		case i < len(ptx) && ptxForm.MatchString(ptx[i]):
			t.PTX = ptx[i]
		default:
			return nil, fmt.Errorf("-ptx %s: want one version such as +ptx63 for each of -arch %s", versions, archs)
		}
		targets = append(targets, t)
	}
	if versions != "" && len(ptx) != len(targets) {
		return nil, fmt.Errorf("-ptx %s: want one version for each of -arch %s", versions, archs)
	}
	slices.SortFunc(targets, func(a, b Target) int { return a.compute() - b.compute() })
	for i := 1; i < len(targets); i++ {
		if targets[i].Arch == targets[i-1].Arch {
			return nil, fmt.Errorf("-arch %s names %s twice", archs, targets[i].Arch)
		}
	}
	return targets, nil
}

// check reports all that is wrong with the names.
func (c Config) check() error {
	var errs []error
	wrong := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if !token.IsIdentifier(c.Package) {
		wrong("-package %q: want a Go package's name", c.Package)
	}
	if !token.IsIdentifier(c.Type) {
		wrong("-type %q: want a Go identifier", c.Type)
	}
	if !nameForm.MatchString(c.Output) || !strings.HasSuffix(c.Output, "_gen.go") {
		wrong("-o %q: want a file NAME_gen.go in this folder", c.Output)
	}
	for _, dir := range c.Includes {
		if !pathForm.MatchString(dir) || path.IsAbs(dir) {
			wrong("-I %s: want a relative path, so that the output is the same on every machine", dir)
		}
	}
	if len(c.Sources) == 0 {
		wrong("no source: name at least one .cu file")
	}
	for i, src := range c.Sources {
		if !nameForm.MatchString(src) || path.Ext(src) != ".cu" {
			wrong("source %q: want a file NAME.cu in this folder", src)
		}
		if slices.Contains(c.Sources[:i], src) {
			wrong("source %s is named twice", src)
		}
	}
	return errors.Join(errs...)
}

// Args is the command line that ParseArgs reads back to the same Config.
func (c Config) Args() []string {
	var archs, versions []string
	for _, t := range c.Targets {
		archs, versions = append(archs, t.Arch), append(versions, t.PTX)
	}
	args := []string{"-package", c.Package, "-o", c.Output, "-type", c.Type,
		"-arch", strings.Join(archs, ","), "-ptx", strings.Join(versions, ",")}
	for _, dir := range c.Includes {
		args = append(args, "-I", dir)
	}
	return append(args, c.Sources...)
}

// ptxName is the file for a source's PTX: NAME.ptx, or NAME.ARCH.ptx where
// there are several targets.
func (c Config) ptxName(source string, t Target) string {
	base := strings.TrimSuffix(source, ".cu")
	if len(c.Targets) > 1 {
		base += "." + t.Arch
	}
	return base + ".ptx"
}
