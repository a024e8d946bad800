package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/servicetime"
)

func newModelCommand() *cobra.Command {
	c := newGroup(&cobra.Command{
		Use:   "model",
		Short: "What the modelled machines are made of, and what they would do",
		Long: `Describe the machines that modelled times come from: presets that are part of the program,
or YAML files of the same form, such as "tritier calibrate --preset" writes. Nothing here is
measured, and no time is spent on any drive or GPU.`,
		Example: `  tritier model list
  tritier model show v100-4x980pro
  tritier model curve v100-4x980pro --path bam,spdk,gds --plot curve.svg`,
	})
	c.AddCommand(newModelListCommand(), newModelShowCommand(), newModelCurveCommand())
	return c
}

// modelEntry is a model in a list.
type modelEntry struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	GPU         string      `json:"gpu,omitempty"`
	Drives      string      `json:"drives"`
	DriveCount  int         `json:"drive_count"`
	DefaultPath string      `json:"default_path"`
	Paths       []modelPath `json:"paths"`
}

// modelPath is one access path of a model.
type modelPath struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Initiator   string   `json:"initiator"`    // gpu or cpu
	Ends        string   `json:"payload_ends"` // gpu or host
	InFlight    int      `json:"in_flight,omitempty"`
	LogicalCPUs *float64 `json:"logical_cpus,omitempty"`
	GPUShare    *float64 `json:"gpu_share,omitempty"`
	GPUThreads  *float64 `json:"gpu_threads,omitempty"`
	ReadLinks   []string `json:"read_links"`
	WriteLinks  []string `json:"write_links"`
}

func describeModel(m *servicetime.Model) (modelEntry, error) {
	e := modelEntry{Name: m.Name, Description: m.Description, Drives: m.Drives.Name, DriveCount: m.Drives.Count, Paths: []modelPath{}}
	if m.GPU != nil {
		e.GPU = m.GPU.Name
	}
	for _, name := range m.PathNames() {
		by, _, p, err := m.By(name)
		if err != nil {
			return e, err
		}
		x := modelPath{Name: name, Description: p.Description, Initiator: string(servicetime.ByGPU), Ends: string(p.Ends),
			ReadLinks: append([]string{}, by.Drives.Read.Links...), WriteLinks: append([]string{}, by.Drives.Write.Links...)}
		if p.Initiator != nil && p.Initiator.Who != "" {
			x.Initiator = string(p.Initiator.Who)
		}
		if p.InFlight != nil || p.InFlightPerDrive != nil {
			x.InFlight = p.Outstanding(m.Drives.Count)
		}
		for to, f := range map[**float64]*servicetime.Figure{&x.LogicalCPUs: p.Bill.LogicalCPUs, &x.GPUShare: p.Bill.GPUShare, &x.GPUThreads: p.Bill.GPUThreads} {
			if f != nil {
				*to = &f.Value
			}
		}
		e.Paths = append(e.Paths, x)
	}
	if _, name, _, err := m.By(""); err == nil {
		e.DefaultPath = name
	}
	return e, nil
}

func newModelListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the presets and their access paths",
		Long: `List the presets: machines that replay, bench and the tuner can reckon with. The first path
named is the default one.`,
		Example: `  tritier model list
  tritier model list --json | jq -r '.models[].name'`,
		Args: noArguments("model list"),
		RunE: func(c *cobra.Command, _ []string) error {
			list := []modelEntry{}
			for _, name := range servicetime.Names() {
				m, err := servicetime.Load(name)
				if err != nil {
					return err
				}
				e, err := describeModel(m)
				if err != nil {
					return err
				}
				list = append(list, e)
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), map[string]any{"models": list})
			}
			return printModels(c.OutOrStdout(), list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "JSON instead of text")
	return c
}

func printModels(out io.Writer, list []modelEntry) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tPATHS\tDESCRIPTION") // Flush reports it
	for _, e := range list {
		names := []string{e.DefaultPath}
		for _, p := range e.Paths {
			if p.Name != e.DefaultPath {
				names = append(names, p.Name)
			}
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, strings.Join(names, ", "), e.Description)
	}
	return w.Flush()
}

func newModelShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show every figure of a model with its kind and source",
		Long: `Show a model, a preset's name or a YAML file: its access paths, what each takes of the
processors, and every figure with its kind (data sheet, measured or assumed) and source.`,
		Example: `  tritier model show v100-4x980pro
  tritier model show h200-4xgen5 --json | jq '.figures[] | select(.kind == "assumed")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("model show takes one model, not %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			m, err := servicetime.Load(args[0])
			if err != nil {
				return firstLineOf(err)
			}
			e, err := describeModel(m)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), shownModel{e, figuresOf(m)})
			}
			return printModel(c.OutOrStdout(), e, figuresOf(m))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "JSON instead of text")
	return c
}

// shownModel is a model with all its figures.
type shownModel struct {
	modelEntry
	Figures []shownFigure `json:"figures"`
}

type shownFigure struct {
	Where  string  `json:"where"`
	Value  float64 `json:"value"`
	Kind   string  `json:"kind"`
	Source string  `json:"source"`
}

func figuresOf(m *servicetime.Model) []shownFigure {
	list := []shownFigure{}
	for _, f := range m.Figures() {
		list = append(list, shownFigure{f.Where, f.Value, string(f.Kind), f.Source})
	}
	return list
}

func printModel(out io.Writer, e modelEntry, figures []shownFigure) error {
	s := newSheet(out)
	s.row("model", "%s", e.Name)
	s.row("is", "%s", e.Description)
	if e.GPU != "" {
		s.row("GPU", "%s", e.GPU)
	}
	s.row("drives", "%d x %s", e.DriveCount, e.Drives)
	for _, p := range e.Paths {
		name := "path " + p.Name
		if p.Name == e.DefaultPath {
			name += " (default)"
		}
		s.row(name, "%s", p.Description)
		s.row("", "%s", pathText(&p))
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nFIGURE\tVALUE\tKIND\tSOURCE") // Flush reports it
	for _, f := range figures {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Where, strconv.FormatFloat(f.Value, 'g', 6, 64), f.Kind, f.Source)
	}
	return w.Flush()
}

// pathText says in a line who does what.
func pathText(p *modelPath) string {
	out := []string{"started by the " + strings.ToUpper(p.Initiator)}
	place := "GPU memory"
	if p.Ends == string(servicetime.InHost) {
		place = "host memory"
	}
	out = append(out, "payload ends in "+place)
	if p.InFlight > 0 {
		out = append(out, plural(uint64(p.InFlight), "request")+" in flight")
	}
	if p.LogicalCPUs != nil {
		out = append(out, fmt.Sprintf("logical CPUs: %g", *p.LogicalCPUs))
	}
	if p.GPUShare != nil {
		out = append(out, fmt.Sprintf("%.3g %% of the GPU", 100**p.GPUShare))
	}
	if p.GPUThreads != nil {
		out = append(out, plural(uint64(*p.GPUThreads), "GPU thread"))
	}
	return strings.Join(out, ", ")
}
