package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/mrc"
)

// readSizes reads the sizes of the tiers along the curves.
func (m *curveMaker) readSizes() error {
	for i, text := range m.mrcFlags.sizes {
		if strings.TrimSpace(text) == "" {
			return fmt.Errorf("--sizes: number %d of the list is empty", i+1)
		}
		s, err := readSize("--gpu-mem", strings.TrimSpace(text), false)
		if err == nil && (s.share && s.percent == 0 || !s.share && s.bytes == 0) {
			err = errors.New("GPU memory needs at least one frame")
		}
		if err != nil {
			return fmt.Errorf("--sizes %s: %w", text, err)
		}
		s.flag = "--sizes"
		m.sizes = append(m.sizes, s)
	}
	if len(m.sizes) > 0 && m.points > 0 {
		return errors.New("--sizes and --points both say where the curves have points: give one of them")
	}
	if m.mrcFlags.t2 == "" {
		return nil
	}
	if number, ok := strings.CutSuffix(m.mrcFlags.t2, "x"); ok {
		factor, err := strconv.ParseFloat(number, 64)
		if err != nil || !(factor >= 0 && factor <= 1e6) {
			return fmt.Errorf("--t2 %s: a multiple of T1 is a number from 0 to 1000000 and an x, such as 4x", m.mrcFlags.t2)
		}
		m.factor = factor
		return nil
	}
	s, err := readSize("--t2", m.mrcFlags.t2, false)
	if err != nil {
		return fmt.Errorf("--t2: %w", err)
	}
	m.t2 = s
	return nil
}

// readMore reads what there is and what may be added.
func (m *curveMaker) readMore() error {
	pairs, err := m.now.pairs()
	if err != nil {
		return err
	}
	if len(pairs) > 1 {
		return errors.New("--gpu-mem and --host-mem are the memory that there is: give one size of each; --sizes takes several")
	}
	m.pair = pairs[0]
	for _, list := range []struct {
		flag  string
		texts []string
	}{{"--more-host", m.moreHost}, {"--more-gpu", m.moreGPU}} {
		for _, text := range list.texts {
			n, err := units.ParseBytes(strings.TrimSpace(text))
			if err != nil {
				return fmt.Errorf("%s: %w", list.flag, err)
			}
			if n == 0 {
				return fmt.Errorf("%s %s: that is no more memory", list.flag, text)
			}
			o := moreMemory{flag: list.flag, host: n}
			if list.flag == "--more-gpu" {
				o.gpu, o.host = n, 0
			}
			m.more = append(m.more, o)
		}
	}
	n := m.now
	m.read = len(m.more)+len(n.gpuMem)+len(n.gpuFrames)+len(n.hostMem)+len(n.hostFrames) > 0
	return nil
}

// toRead are the sizes that there are, and the offers in frames.
func (m *curveMaker) toRead(info sim.TraceInfo) (now mrc.Pair, more []mrc.Pair, err error) {
	now.GPU, now.Host, err = m.pair.framesOf(info.Pages, info.PageSize)
	if err != nil {
		return now, nil, err
	}
	for _, o := range m.more {
		gpu, host := o.gpu/info.PageSize, o.host/info.PageSize
		if gpu+host == 0 {
			return now, nil, fmt.Errorf("%s %s: smaller than a page of %s", o.flag, units.FormatBytes(o.gpu+o.host), units.FormatBytes(info.PageSize))
		}
		if room := placement.MaxPages - max(now.GPU, now.Host); gpu+host > uint64(room) {
			return now, nil, fmt.Errorf("%s %s: too many frames: %s more, at most %s: use larger pages", o.flag, units.FormatBytes(o.gpu+o.host),
				units.FormatCount(gpu+host), units.FormatCount(uint64(room)))
		}
		more = append(more, mrc.Pair{GPU: int(gpu), Host: int(host)})
	}
	return now, more, nil
}
