package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	lib "github.com/tritier/tritier"
)

func newHeadersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "headers DIR",
		Short: "Write the device headers into a folder, for your own kernels",
		Long: `Write the headers that kernels include to use arrays into a folder, which is made if need be. Files
of the same names there are replaced, and nothing else is touched.

A kernel includes "tier.cuh" and takes tritier::array_ref<T> by value; a Go program gets the value
from Array.Ref of a Memory opened with engine gpu, loads the PTX with package cuda and launches it.
Use headers and library of the same version: array_ref carries a version number.`,
		Example: `  tritier headers include
  nvcc -std=c++17 -arch=sm_90 -I include -ptx -o mine.ptx mine.cu
  clang++-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_70 --cuda-feature=+ptx63 \
      -std=c++17 -O3 -I include -S -o mine.ptx mine.cu`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("headers takes one folder, not %d", len(args))
			}
			if args[0] == "" {
				return errors.New("headers: the folder has an empty name")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := lib.WriteHeaders(args[0]); err != nil {
				return fmt.Errorf("headers: %w", err)
			}
			all, err := lib.Headers()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d headers in %s\n", len(all), args[0])
			return err
		},
	}
}
