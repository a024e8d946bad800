package main

import "github.com/spf13/cobra"

func newBenchCommand() *cobra.Command {
	c := newGroup(&cobra.Command{
		Use:   "bench",
		Short: "Measure what tritier makes of this machine, against the machine's own limits",
		Long: `Measure what tritier makes of this machine, against limits that are measured in the same
run: copies between host and GPU memory, and I/O that GPU threads submit themselves. What the CPU
makes of drives is measured by "tritier nvme bench" in more detail.`,
		Example: `  tritier bench copy
  tritier bench copy --page 64KiB --pages 256,1024 --check
  tritier bench io mem:1GiB`,
	})
	c.AddCommand(newBenchCopyCommand(), newBenchIOCommand())
	return c
}
