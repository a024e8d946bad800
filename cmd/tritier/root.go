package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// newRootCommand assembles the command tree.
func newRootCommand() *cobra.Command {
	root := newGroup(&cobra.Command{
		Use:   "tritier",
		Short: "Three memory tiers for GPU programs: GPU memory, host memory, NVMe",
		Long: `tritier gives GPU programs arrays larger than GPU memory: pages live in GPU memory (T1), pinned
host memory (T2) or on NVMe drives (T3). This command runs programs over such arrays (run), writes
headers for kernels of your own (headers), verifies stores (check), says what a machine can do and
how to get what it lacks (doctor), measures its copies, I/O and drives against their own limits
(calibrate, bench, nvme), answers what the three tiers would do with a program's accesses under
any placement policy (replay) and of any size (mrc), finds the best of these (tune), shows what
modelled machines are made of (model), and makes, converts and describes traces of accesses (trace).
Nothing needs a GPU or a drive but what measures one.`,
		Example: `  tritier doctor
  tritier replay
  tritier mrc
  tritier tune
  tritier run bfs --scale 14
  tritier bench copy
  tritier bench io mem:1GiB
  tritier nvme list`,
	})
	root.SilenceUsage = true  // an error is one line; --help is a request away
	root.SilenceErrors = true // main writes it
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newReplayCommand(), newMRCCommand(), newTuneCommand(), newTraceCommand(), newNVMeCommand())
	root.AddCommand(newDoctorCommand(), newCalibrateCommand(), newBenchCommand())
	root.AddCommand(newRunCommand(), newCheckCommand(), newHeadersCommand(), newModelCommand())
	root.SetFlagErrorFunc(flagError)
	version := root.Flags().Bool("version", false, "say which build this is")
	group := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if *version && len(args) == 0 {
			_, err := fmt.Fprintln(c.OutOrStdout(), buildText(debug.ReadBuildInfo()))
			return err
		}
		return group(c, args)
	}
	refuseEmptyValues(root)
	return root
}

// buildText names a build: its version, its commit and what it was built with.
func buildText(info *debug.BuildInfo, ok bool) string {
	version, commit := "unknown", ""
	if ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = ", commit " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				commit += " with changes"
			}
		}
	}
	return fmt.Sprintf("tritier %s%s, %s %s/%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// newGroup makes c a command that only has subcommands: bare, it shows its
// help; a word that is no subcommand is an error.
func newGroup(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		var names []string
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return fmt.Errorf("%s has no subcommand %q; valid are %s", c.CommandPath(), args[0], strings.Join(names, ", "))
	}
	return c
}
