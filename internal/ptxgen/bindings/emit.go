package bindings

import (
	_ "embed"
	"fmt"
	"go/format"
	"maps"
	"slices"
	"strings"
	"text/template"
)

//go:embed kernels.go.tmpl
var kernelsTemplate string

var emitter = template.Must(template.New("kernels").Funcs(template.FuncMap{
	"struct": func(a argument) bool { return a.Type.put == "" },
	"store":  func(a argument) string { return fmt.Sprintf(a.Type.put, a.Offset, a.Name) },
	"behind": func(a argument) int { return a.Offset + a.Type.size },
	"gotype": func(t goType) string { return t.name },
	"size":   func(t goType) int { return t.size },
}).Parse(kernelsTemplate))

// cudaPath is the package that loads and launches.
const cudaPath = "github.com/tritier/tritier/cuda"

// page is what the template sees.
type page struct {
	Config
	Mark, Args, Loader, SourceList string
	Pool                           string   // the variable for parameter blocks
	Largest                        int      // size of the largest block
	Std, Others                    []string // import paths
	Constants                      []constant
	Kernels                        []kernel
	Structs                        []goType
	Embedded                       []embedded
	Choices                        []choice
}

// embedded is one PTX file in the Go file. Its hash lets a comparison of Go
// files alone see that the PTX has changed.
type embedded struct{ File, Var, Sum string }

// choice is a target with its images, one a source.
type choice struct {
	Compute int
	Vars    string
}

// render writes the Go file. It depends on nothing but its arguments.
func render(c Config, units []unit) ([]byte, error) {
	m, err := build(c, units)
	if err != nil {
		return nil, err
	}
	p := page{
		Config: c, Mark: mark, Args: strings.Join(c.Args(), " "), Loader: c.loader(), SourceList: strings.Join(c.Sources, ", "),
		Kernels: m.kernels, Structs: m.structs, Pool: lower(c.Type) + "Blocks",
	}
	for _, k := range m.kernels {
		p.Largest = max(p.Largest, k.Size)
	}
	for _, k := range m.constants {
		p.Constants = append(p.Constants, constant{c.constName(k.Name), k.Value})
	}
	p.Std, p.Others = m.imports()
	p.addImages(units)
	var out strings.Builder
	if err := emitter.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Output, err)
	}
	code, err := format.Source([]byte(out.String()))
	if err != nil {
		return nil, fmt.Errorf("%s: the generated code is wrong: %w", c.Output, err)
	}
	return code, nil
}

// addImages lists the PTX files and the targets, the newest first: the first
// that the device is not older than is the one to load.
func (p *page) addImages(units []unit) {
	for i, t := range slices.Backward(p.Targets) {
		var vars []string
		for _, u := range units {
			e := embedded{u.images[i].file, p.variable(u.in.source, t), sum(u.images[i].text)}
			p.Embedded = append(p.Embedded, e)
			vars = append(vars, e.Var)
		}
		p.Choices = append(p.Choices, choice{t.compute(), strings.Join(vars, ", ")})
	}
}

// variable names the variable for a source's PTX. The type's name is in it, so
// that two generated files fit into one package.
func (c Config) variable(source string, t Target) string {
	base := strings.NewReplacer(".", "_", "-", "_").Replace(strings.TrimSuffix(source, ".cu"))
	return lower(c.Type) + camel(base) + camel(t.Arch)
}

// imports lists the import paths: the standard library's and the others.
func (m model) imports() (std, others []string) {
	uses, extra := map[string]bool{"fmt": true, "errors": true}, map[string]bool{cudaPath: true}
	for _, k := range m.kernels {
		uses["sync"] = uses["sync"] || len(k.Args) > 0
		for _, a := range k.Args {
			t := a.Type
			uses["unsafe"] = uses["unsafe"] || t.put == ""
			uses["encoding/binary"] = uses["encoding/binary"] || strings.Contains(t.put, "binary.")
			uses["math"] = uses["math"] || strings.Contains(t.put, "math.")
			if t.imports != "" {
				extra[t.imports] = true
			}
		}
	}
	maps.DeleteFunc(uses, func(_ string, used bool) bool { return !used })
	return slices.Sorted(maps.Keys(uses)), slices.Sorted(maps.Keys(extra))
}
