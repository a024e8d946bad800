package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tritier/tritier/cuda"
)

// look copies from the GPU on a stream of its own, so that it works beside kernels, and
// through pinned memory: a copy to other memory makes the driver wait as long as the GPU
// does. Engine.mu guards it.
type look struct {
	stream *cuda.Stream
	stage  *cuda.HostMemory
}

const lookBytes = 1 << 20

func (l *look) open(gpu *cuda.Context) (err error) {
	if l.stream, err = gpu.NewStream(); err != nil {
		return err
	}
	l.stage, err = gpu.AllocHost(lookBytes, 0)
	return err
}

func (l *look) close() error {
	var errs []error
	if l.stream != nil {
		errs = append(errs, l.stream.Close())
	}
	if l.stage != nil {
		errs = append(errs, l.stage.Close())
	}
	return errors.Join(errs...)
}

// get copies a struct back from the GPU.
func (e *Engine) get(ctx context.Context, at uint64, v any) error {
	b := make([]byte, binary.Size(v))
	if err := e.copyBack(ctx, cuda.Ptr(at), b); err != nil {
		return err
	}
	_, err := binary.Decode(b, binary.LittleEndian, v)
	return err
}

// copyBack waits for each piece no longer than Deadline, whatever ctx says.
func (e *Engine) copyBack(ctx context.Context, at cuda.Ptr, b []byte) error {
	for done := 0; done < len(b); {
		n, err := e.look.piece(ctx, e, at.Add(uint64(done)), b[done:])
		if err != nil {
			return fmt.Errorf("a look at the GPU engine's tables: %w", err)
		}
		done += n
	}
	return nil
}

func (l *look) piece(ctx context.Context, e *Engine, at cuda.Ptr, b []byte) (int, error) {
	bounded, cancel := context.WithTimeout(ctx, e.o.Deadline)
	defer cancel()
	if err := l.stream.Wait(bounded); err != nil { // what an earlier call gave up on may still write here
		return 0, err
	}
	n := min(len(b), lookBytes)
	if err := l.stream.CopyToHost(l.stage.Bytes()[:n], at); err != nil {
		return 0, err
	}
	if err := l.stream.Wait(bounded); err != nil {
		return 0, err
	}
	return copy(b, l.stage.Bytes()[:n]), nil
}
