package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/placement"
)

// Default tier sizes: small enough that policies differ, large enough that hot
// pages fit.
const (
	defaultGPUShare   = 5 // T1 in percent of the trace's distinct pages
	defaultHostFactor = 4 // T2 in terms of T1
	// smallestDefault keeps the default size of T1 sane for every policy on
	// traces of a few pages.
	smallestDefault = 16
)

// tierSize is the size of one tier as it was asked for.
type tierSize struct {
	text    string  // as given
	flag    string  // the flag that gave it
	bytes   uint64  // of --gpu-mem and --host-mem
	frames  uint64  // of --gpu-frames and --host-frames
	percent float64 // of the distinct pages; used when share is set
	share   bool
	inBytes bool
	implied bool // no flag: the default
}

// sizePair is the sizes of both tiers of one result.
type sizePair struct{ gpu, host tierSize }

// sizeFlags are the flags that size the tiers; each may be repeated and may
// hold several sizes separated by commas.
type sizeFlags struct {
	gpuMem, gpuFrames, hostMem, hostFrames []string
}

// pairs reads the flags: GPU and host sizes pair up in order; a single one
// goes with each of the other list.
func (f *sizeFlags) pairs() ([]sizePair, error) {
	gpu, err := readSizes("gpu", f.gpuMem, f.gpuFrames)
	if err != nil {
		return nil, err
	}
	host, err := readSizes("host", f.hostMem, f.hostFrames)
	if err != nil {
		return nil, err
	}
	if len(gpu) == 0 {
		gpu = []tierSize{{share: true, percent: defaultGPUShare, implied: true}}
	}
	if len(host) == 0 {
		host = []tierSize{{implied: true}}
	}
	n := max(len(gpu), len(host))
	if len(gpu) != n && len(gpu) != 1 || len(host) != n && len(host) != 1 {
		return nil, fmt.Errorf("%d GPU sizes and %d host sizes do not pair up: give as many of one as of the other, or a single one", len(gpu), len(host))
	}
	out := make([]sizePair, n)
	for i := range out {
		out[i] = sizePair{gpu[min(i, len(gpu)-1)], host[min(i, len(host)-1)]}
	}
	return out, nil
}

// readSizes reads the sizes of one tier from its two flags, of which only one
// may be given.
func readSizes(tier string, mem, frames []string) ([]tierSize, error) {
	if len(mem) > 0 && len(frames) > 0 {
		return nil, fmt.Errorf("--%s-mem and --%s-frames both size the same tier: give one of them", tier, tier)
	}
	flag, list := "--"+tier+"-mem", mem
	if len(frames) > 0 {
		flag, list = "--"+tier+"-frames", frames
	}
	out := make([]tierSize, 0, len(list))
	for _, text := range list {
		s, err := readSize(flag, strings.TrimSpace(text), len(frames) > 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if tier == "gpu" && s.share && s.percent == 0 {
			return nil, fmt.Errorf("%s: %q is not a percentage above 0%% and up to 100%% of the trace's distinct pages", flag, s.text)
		}
		if tier == "gpu" && !s.share && s.bytes == 0 && s.frames == 0 {
			return nil, fmt.Errorf("%s %s: GPU memory needs at least one frame", flag, s.text)
		}
		out = append(out, s)
	}
	return out, nil
}

// readSize reads one size: bytes or frames, or a percentage.
func readSize(flag, text string, frames bool) (tierSize, error) {
	s := tierSize{text: text, flag: flag, inBytes: !frames}
	if strings.HasPrefix(text, "-") {
		return s, fmt.Errorf("%q is negative", text)
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			from := "from 0%"
			if strings.HasPrefix(flag, "--gpu") {
				from = "above 0% and up"
			}
			return s, fmt.Errorf("%q is not a percentage %s to 100%%", text, from)
		}
		s.percent, s.share = p, true
		return s, nil
	}
	var err error
	if frames {
		s.frames, err = wholeCount(text)
	} else {
		s.bytes, err = units.ParseBytes(text)
	}
	return s, err
}

// wholeCount reads a number of frames. A suffix may make a fraction whole
// (1.5K), but nothing is rounded.
func wholeCount(text string) (uint64, error) {
	n, err := units.ParseCount(text)
	if err != nil {
		return 0, err
	}
	number := strings.TrimRight(text, "KMGTkmgt ")
	_, fraction, _ := strings.Cut(number, ".")
	decimals := len(strings.TrimRight(fraction, "0"))
	zeros := map[string]int{"K": 3, "M": 6, "G": 9, "T": 12}[strings.ToUpper(strings.TrimSpace(text[len(number):]))]
	if decimals > zeros {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

// needsPages says whether a size depends on the trace's distinct pages.
func needsPages(pairs []sizePair) bool {
	for _, p := range pairs {
		if p.gpu.share || p.host.share {
			return true
		}
	}
	return false
}

// framesOf are the frames of a pair for a trace of pages distinct pages of
// pageSize bytes.
func (p sizePair) framesOf(pages int, pageSize uint64) (gpu, host int, err error) {
	if gpu, err = p.gpu.framesOf(pages, pageSize); err != nil {
		return 0, 0, err
	}
	if p.gpu.implied {
		gpu = max(gpu, min(smallestDefault, pages))
	}
	if gpu == 0 {
		return 0, 0, fmt.Errorf("%s %s: that is no whole page of the trace's %s: GPU memory needs at least one frame, so %.3g%% or more",
			p.gpu.flag, p.gpu.text, units.FormatCount(uint64(pages)), leastPercent(1, pages))
	}
	if p.host.implied {
		return gpu, min(defaultHostFactor*gpu, placement.MaxPages), nil
	}
	host, err = p.host.framesOf(pages, pageSize)
	return gpu, host, err
}

// leastPercent is the smallest share of pages that is so many frames, rounded
// up to three digits.
func leastPercent(frames, pages int) float64 {
	p := 100 * float64(frames) / float64(max(pages, 1))
	step := math.Pow(10, math.Floor(math.Log10(p))-2)
	return math.Ceil(p/step-1e-9) * step
}

var errTooManyFrames = errors.New("too many frames")

func (s tierSize) framesOf(pages int, pageSize uint64) (int, error) {
	frames := s.frames
	switch {
	case s.share:
		return int(math.Floor(float64(pages) * s.percent / 100)), nil
	case s.inBytes && s.bytes > 0 && s.bytes < pageSize:
		return 0, fmt.Errorf("%s %s: smaller than a page of %s", s.flag, s.text, units.FormatBytes(pageSize))
	case s.inBytes:
		frames = s.bytes / pageSize
	}
	if frames > placement.MaxPages {
		return 0, fmt.Errorf("%s %s: %w: %s, at most %s: use larger pages", s.flag, s.text, errTooManyFrames,
			units.FormatCount(frames), units.FormatCount(placement.MaxPages))
	}
	return int(frames), nil
}
