// Command ptxgen compiles CUDA sources to PTX with clang 19, without a CUDA
// toolkit, and writes a Go file that embeds the PTX, exports the device's
// constants and has a typed method for every kernel. Package bindings beside it
// says what sources may declare. It is run by go generate in the sources'
// folder:
//
//	//go:generate go run github.com/tritier/tritier/internal/ptxgen -package copyeng -o kernels_gen.go -I ../cuda/device copy.cu
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/tritier/tritier/internal/ptxgen/bindings"
)

func main() {
	c, err := bindings.ParseArgs(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = bindings.Generate(ctx, ".", c)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ptxgen:", err)
		os.Exit(1)
	}
}
