package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/volume"
)

// checkFlags are the flags of tritier check.
type checkFlags struct {
	repair  bool
	threads int
	json    bool
}

func newCheckCommand() *cobra.Command {
	f := &checkFlags{}
	c := &cobra.Command{
		Use:   "check DRIVE[,DRIVE...]",
		Short: "Read every page of a store and verify it",
		Long: `Read every page of every array of a store, verify it against its checksum, and report damage by
array and page. The store is all the drives that it was made of, in any order; no program may have
it open. Status 0 means that everything is as it was written, and that of what is kept twice both
copies are good.

Nothing is written, unless --repair is given. Then a store that was not closed (the process was
killed, or the machine went down) is first brought into order: each page that was being written is
found to be old, new, or torn, a mixture. Superblocks, the directory of arrays and checksums are
kept twice; a damaged copy is written anew from the other one. Neither brings back a page that is torn or corrupt: write it again, or restore it from elsewhere.

A store that was made without checksums is read as a whole, but what a drive changed unnoticed
cannot be seen.`,
		Example: `  tritier check file:/data/embeddings
  tritier check file:/data/a,file:/data/b --json
  tritier check nvme:0000:01:00.0 --repair`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("check takes one store, its drives separated by commas, not %d names; a drive is %s", len(args), drive.Forms)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.repair, "repair", false, "write: settle what a crash has left, and write damaged copies anew")
	fs.IntVar(&f.threads, "threads", 1, "service `THREADS` of each file")
	fs.BoolVar(&f.json, "json", false, "write JSON instead of text")
	return c
}

func (f *checkFlags) run(c *cobra.Command, store string) error {
	if f.threads < 1 || f.threads > 64 {
		return fmt.Errorf("--threads %d is not from 1 to 64", f.threads)
	}
	stop := startProgress(c.ErrOrStderr(), "checking", unknownProgress)
	r, checkErr := lib.CheckStore(c.Context(), lib.StoreCheck{Store: store, Threads: f.threads, Repair: f.repair})
	stop()
	if checkErr != nil && c.Context().Err() != nil {
		checkErr = &interruption{while: "while checking " + store}
	}
	var unclean *volume.UncleanError
	if errors.As(checkErr, &unclean) {
		checkErr = fmt.Errorf("%w: --repair does", checkErr)
	}
	if r == nil {
		return checkErr
	}
	k := &checkReport{StoreReport: r, store: store, f: f, complete: checkErr == nil}
	write := k.text
	if f.json {
		write = k.json
	}
	if err := write(c.OutOrStdout()); err != nil {
		return fmt.Errorf("standard output: %w", firstOf(err))
	}
	return errors.Join(checkErr, k.verdict())
}

// checkReport is what the command writes.
type checkReport struct {
	*lib.StoreReport
	store    string
	f        *checkFlags
	complete bool // every page was looked at
}

// verdict is the error that damage is.
func (k *checkReport) verdict() error {
	s := k.Scrub
	switch {
	case !s.OK():
		return fmt.Errorf("%s is damaged: %s of %s pages are not as they were written", k.store,
			units.FormatCount(s.Corrupt+s.Torn+s.Failed), units.FormatCount(s.Pages))
	case !k.OK(k.f.repair):
		return fmt.Errorf("%s has %s, while the other copies are good: --repair writes them anew", k.store, damagedCopies(&s))
	}
	return nil
}

// damagedCopies counts them in words, by what they are copies of.
func damagedCopies(s *volume.ScrubReport) string {
	var all []string
	for _, c := range []struct {
		n    uint64
		what string
	}{{s.Superblocks, "superblocks"}, {s.Directories, "the directory"}, {s.Repaired, "checksums"}} {
		switch {
		case c.n == 1:
			all = append(all, "1 damaged copy of "+c.what)
		case c.n > 1:
			all = append(all, units.FormatCount(c.n)+" damaged copies of "+c.what)
		}
	}
	return strings.Join(all, ", ")
}

// text writes the report for people.
func (k *checkReport) text(out io.Writer) error {
	w := bufio.NewWriter(out)
	sums := "every page has a checksum"
	if !k.Checksums {
		sums = "made without checksums: that every page can be read is all that is known"
	}
	_, _ = fmt.Fprintf(w, "store %s, %s\n%s of %v, %s\n", k.UUID, k.store, plural(k.Pages, "page"), k.PageSize, sums) // Flush reports errors
	switch r := k.Recovery; {
	case r.Uncertain:
		_, _ = fmt.Fprintf(w, "whether %s closed it is not known: the copy of the directory that would say so is damaged%s\n", r.LastOwner,
			map[bool]string{true: "; no page was being written"}[k.Checksums])
	case r.Unclean:
		_, _ = fmt.Fprintf(w, "not closed by %s: %s were being written, %s have their new contents, %s are torn\n",
			r.LastOwner, plural(uint64(r.Pages), "page"), units.FormatCount(uint64(r.New)), units.FormatCount(uint64(r.Torn)))
	}
	_, _ = fmt.Fprintln(w)
	bad := map[string]int{}
	for _, d := range k.Damage {
		bad[d.Array]++
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "array\telements\tpages\tdamaged")
	for _, a := range k.Arrays {
		elements := "of another program"
		if !a.Foreign {
			elements = units.FormatCount(a.Length) + " " + a.Element
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%d\n", a.Name, elements, units.FormatCount(a.Pages), bad[a.Name])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w)
	for _, d := range k.Damage {
		_, _ = fmt.Fprintf(w, "array %q, page %d: %s: %s\n", d.Array, d.Page, d.Kind, oneLine(d.Err))
	}
	s := k.Scrub
	if all := s.Corrupt + s.Torn + s.Failed; all > uint64(len(k.Damage)) {
		_, _ = fmt.Fprintf(w, "and %s more\n", units.FormatCount(all-uint64(len(k.Damage))))
	}
	switch {
	case s.Copies() > 0 && k.f.repair:
		_, _ = fmt.Fprintf(w, "repaired: %s\n", damagedCopies(&s))
	case s.Copies() > 0:
		_, _ = fmt.Fprintf(w, "to be repaired by --repair: %s\n", damagedCopies(&s))
	}
	_, _ = fmt.Fprintf(w, "%s read: %d corrupt, %d torn, %d unreadable\n", plural(s.Pages, "page"), s.Corrupt, s.Torn, s.Failed)
	switch {
	case !k.complete:
		_, _ = fmt.Fprintln(w, "ended early: the rest of the store is not known")
	case k.OK(k.f.repair):
		_, _ = fmt.Fprintln(w, "clean")
	}
	return w.Flush()
}

// json writes the report for programs.
func (k *checkReport) json(w io.Writer) error {
	arrays, damage := []map[string]any{}, []map[string]any{}
	for _, a := range k.Arrays {
		m := map[string]any{"name": a.Name, "pages": a.Pages, "foreign": a.Foreign}
		if !a.Foreign {
			m["element"], m["length"] = a.Element, a.Length
		}
		arrays = append(arrays, m)
	}
	for _, d := range k.Damage {
		damage = append(damage, map[string]any{"array": d.Array, "page": d.Page, "kind": d.Kind, "error": d.Err.Error()})
	}
	s, r := k.Scrub, k.Recovery
	return writeJSON(w, map[string]any{
		"store": k.store, "uuid": k.UUID, "page_bytes": uint64(k.PageSize), "pages": k.Pages, "checksums": k.Checksums,
		"arrays": arrays, "damage": damage, "clean": k.complete && k.OK(k.f.repair), "complete": k.complete,
		"pages_read": s.Pages, "corrupt": s.Corrupt, "torn": s.Torn, "unreadable": s.Failed, "repair": k.f.repair,
		"checksum_copies_damaged": s.Repaired, "superblock_copies_damaged": s.Superblocks, "directory_copies_damaged": s.Directories,
		"recovery": map[string]any{"unclean": r.Unclean, "uncertain": r.Uncertain, "last_owner": r.LastOwner, "pages": r.Pages, "new": r.New, "torn": r.Torn},
	})
}
