package main

import "github.com/spf13/cobra"

func newBenchCommand() *cobra.Command {
	c := newGroup(&cobra.Command{
		Use:   "bench",
		Short: "Measure what tritier makes of this machine, against the machine's own limits",
		Long: `Measure what tritier makes of this machine, against limits that are measured in the same
run. Drives are measured by "tritier nvme bench".`,
		Example: `  tritier bench copy
  tritier bench copy --page 64KiB --pages 256,1024 --check`,
	})
	c.AddCommand(newBenchCopyCommand())
	return c
}
