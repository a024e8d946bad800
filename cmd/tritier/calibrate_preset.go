package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
)

const defaultPresetBase = "h200-4xgen5"

// presetPage is the page size that the figures of the GPU's edges are of.
const presetPage = 64 << 10

// loadPresetBase loads the preset whose drives, and whose assumptions about
// what cannot be measured here, the new one has.
func loadPresetBase(name string) (*servicetime.Model, error) {
	m, err := servicetime.Load(name)
	if err != nil {
		return nil, fmt.Errorf("--preset-base: %w", firstLineOf(err))
	}
	if m.GPU == nil {
		return nil, fmt.Errorf("--preset-base: %s has drives alone; name a preset with a GPU, such as %s", name, defaultPresetBase)
	}
	return m, nil
}

// firstLineOf keeps a file, which may be no model at all, from being quoted.
func firstLineOf(err error) error {
	text, _, cut := strings.Cut(err.Error(), "\n")
	if !cut {
		return err
	}
	return errors.New(text)
}

// makePreset puts what was measured into the model, and checks that it loads.
func (f *calibrateFlags) makePreset(ctx context.Context, c *cuda.Context, cal *copyeng.Calibration, files *calibrateFiles) error {
	rate, err := deviceMemoryRate(ctx, c, min(memoryRateBytes, uint64(f.bytes)/2), f.runs)
	if err != nil {
		return fmt.Errorf("preset: device memory of %s: %w", c.Device(), err)
	}
	sms, err := c.Device().Attribute(cuda.MultiprocessorCount)
	if err != nil {
		return fmt.Errorf("preset: %w", err)
	}
	p := presetMaker{cal: cal, how: fmt.Sprintf("%s, CUDA %s, %s, by tritier calibrate --gpu %s --runs %d --bytes %s --seed %d",
		cal.GPU.Name, cal.Driver, cal.Measured.Format(time.DateOnly), cal.GPU.UUID, f.runs, f.bytes.String(), f.seed)}
	m, err := p.model(files.base, presetName(f.preset), rate, sms)
	if err != nil {
		return fmt.Errorf("preset: %w", err)
	}
	files.presetText, err = marshalPreset(m)
	return err
}

// presetName makes the file's name the model's.
func presetName(file string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".yml")
	return strings.NewReplacer(" ", "-", "\\", "-").Replace(name)
}

// presetMaker turns a calibration into figures.
type presetMaker struct {
	cal *copyeng.Calibration
	how string // GPU, driver, date and command
}

func (p *presetMaker) measured(v float64, format string, args ...any) servicetime.Figure {
	return servicetime.Figure{Value: significant(v), Kind: servicetime.Measured, Source: fmt.Sprintf(format, args...) + "; " + p.how}
}

// significant rounds to four digits, more than the figures are worth.
func significant(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil { // what was formatted is a number
		return v
	}
	return rounded
}

// model is the base with this machine's GPU and link.
func (p *presetMaker) model(base *servicetime.Model, name string, memoryRate float64, sms int) (*servicetime.Model, error) {
	m := *base
	m.Name = name
	m.Description = fmt.Sprintf("%s and its link as measured on %s, with the drives of %s", p.cal.GPU.Name, p.cal.Measured.Format(time.DateOnly), base.Name)
	m.CPU = &servicetime.CPU{Name: "host of the measured " + p.cal.GPU.Name, Cores: runtime.NumCPU()}
	m.Links = map[string]servicetime.Link{} // the base's paths may name links that are not measured here
	maps.Copy(m.Links, base.Links)
	maps.Copy(m.Links, map[string]servicetime.Link{
		"pcie-in":   {Bandwidth: p.measured(p.cal.Link.ToDevice*1e9, "large pinned copies, host to device")},
		"pcie-out":  {Bandwidth: p.measured(p.cal.Link.ToHost*1e9, "large pinned copies, device to host")},
		"pcie-both": {Bandwidth: p.measured(p.cal.Link.BothWays*1e9, "large pinned copies, both ways at once")},
	})
	in, out := []string{"pcie-in", "pcie-both"}, []string{"pcie-out", "pcie-both"}
	gpu := *base.GPU
	gpu.Name = p.cal.GPU.Name
	gpu.T1.Bandwidth = p.measured(memoryRate, "copies within device memory, bytes read and bytes written")
	gpu.T1.Concurrency = servicetime.Figure{Value: float64(32 * sms), Kind: servicetime.Assumed,
		Source: fmt.Sprintf("32 warps with an access in flight on each of %d SMs", sms)}
	var err1, err2 error
	gpu.T2T1, err1 = p.edge(copyeng.ToDevice, in)
	gpu.T1T2, err2 = p.edge(copyeng.ToHost, out)
	m.GPU = &gpu
	m.Drives.Read.Links, m.Drives.Write.Links = in, out
	return &m, errors.Join(err1, err2, m.Validate())
}

// edge is the move of a page one way: a page alone, many pages, and as many in
// flight as the smallest pages need to be as fast as they were measured.
func (p *presetMaker) edge(d copyeng.Direction, links []string) (servicetime.Edge, error) {
	e := servicetime.Edge{Links: links}
	var pagesPerSecond float64
	var small string
	for _, c := range p.cal.Curves {
		if c.Direction != d.String() {
			continue
		}
		last := len(c.Pages) - 1
		n := c.Pages[last]
		path, us := fastest(&c, last)
		if r := float64(n) / us * 1e6; r > pagesPerSecond {
			pagesPerSecond = r
			small = fmt.Sprintf("%s pages of %s by %s", units.FormatCount(uint64(n)), shortBytes(c.Page), path)
		}
		if c.Page == presetPage {
			alone, first := fastest(&c, 0)
			e.LatencyNS = p.measured(first*1e3, "one page of %s by %s", shortBytes(c.Page), alone)
			e.Bandwidth = p.measured(float64(n)*float64(c.Page)/us*1e6, "%s pages of %s by %s", units.FormatCount(uint64(n)), shortBytes(c.Page), path)
		}
	}
	if e.LatencyNS.Value == 0 {
		return e, fmt.Errorf("%s: no curve of pages of %s: give more --bytes", d, shortBytes(presetPage))
	}
	e.Concurrency = p.measured(max(1, pagesPerSecond*e.LatencyNS.Value*1e-9),
		"what lets pages move at the rate of %s, %s a second, each taking the latency", small, units.FormatCount(uint64(pagesPerSecond)))
	return e, nil
}

// fastest is the best path at the i-th number of pages of a curve.
func fastest(c *copyeng.Curve, i int) (best copyeng.Path, us float64) {
	for p, times := range c.Micros {
		if i < len(times) && (best == "" || times[i] < us || times[i] == us && p < best) {
			best, us = p, times[i]
		}
	}
	return best, us
}

// Copies within device memory are timed in rounds, so that a launch and the
// naps of a wait count little.
const (
	memoryRateBytes  = 256 << 20
	memoryRateRounds = 64
	memoryRateWait   = 10 * time.Second
)

// deviceMemoryRate is bytes read and bytes written per second, of copies of
// size bytes.
func deviceMemoryRate(ctx context.Context, c *cuda.Context, size uint64, runs int) (rate float64, err error) {
	var halves [2]*cuda.DeviceMemory
	for i := range halves {
		if halves[i], err = c.Alloc(size); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, halves[i].Free()) }()
	}
	s, err := c.NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, memoryRateWait)
	defer cancel()
	var sample copyeng.Sample
	for run := range runs + 1 { // the first warms up
		begun := time.Now()
		for range memoryRateRounds {
			if err := s.CopyDevice(halves[run%2].Ptr(), halves[1-run%2].Ptr(), size); err != nil {
				return 0, err
			}
		}
		if err := s.Wait(ctx); err != nil {
			return 0, err
		}
		if run > 0 {
			sample.Runs = append(sample.Runs, time.Since(begun))
		}
	}
	return 2 * memoryRateRounds * float64(size) / sample.Median().Seconds(), nil
}

// marshalPreset writes a model as the presets are written, a figure a line, and
// reads it back.
func marshalPreset(m *servicetime.Model) ([]byte, error) {
	body, err := yaml.MarshalWithOptions(m, yaml.CustomMarshaler[servicetime.Figure](flowFigure),
		yaml.CustomMarshaler[*servicetime.Figure](func(f *servicetime.Figure) ([]byte, error) { return flowFigure(*f) }))
	if err != nil {
		return nil, fmt.Errorf("preset: %w", err)
	}
	text := append([]byte("# Service times for the simulator, paced soft drives and the tuner, written by tritier calibrate.\n"), body...)
	if _, err := servicetime.Parse(text); err != nil {
		return nil, fmt.Errorf("preset: what was written does not load: %w", firstLineOf(err))
	}
	return text, nil
}

func flowFigure(f servicetime.Figure) ([]byte, error) {
	value := strconv.FormatFloat(f.Value, 'f', -1, 64)
	if f.Value >= 1e9 {
		value = strconv.FormatFloat(significant(f.Value)/1e9, 'g', 6, 64) + "e9"
	}
	return fmt.Appendf(nil, "{value: %s, kind: %s, source: %s}", value, f.Kind, strconv.Quote(f.Source)), nil
}
