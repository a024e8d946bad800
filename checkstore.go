package tritier

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// StoreCheck says how CheckStore goes about it.
type StoreCheck struct {
	Store   string // drives, as in Config
	Threads int    // service threads of each software drive, 1 when 0
	// Repair opens the store for writing: what a crash has left is settled, and
	// damaged copies of metadata are written anew. Otherwise nothing is written.
	Repair bool
	// Most bounds the damaged pages that are named, 10,000 when 0; all are counted.
	Most int
	// Faults, for tests, as in Config.
	Faults func(i int) soft.Faults
}

// StoreReport is what CheckStore found.
type StoreReport struct {
	UUID      string
	PageSize  Size
	Pages     uint64 // that the drives hold together
	Checksums bool   // without them, only that pages can be read is known
	Arrays    []StoredArray
	Damage    []StoreDamage // in order of array and page
	Recovery  volume.Recovery
	// Scrub counts pages. Its Copies are damaged copies of metadata that are harmless
	// so far, since each has another copy: repaired with StoreCheck.Repair.
	Scrub volume.ScrubReport
}

// StoredArray is an array of a store, also one of another program.
type StoredArray struct {
	ArrayInfo
	Foreign bool // not made by NewArray: Element, Size and Length are unknown
}

// StoreDamage is a page that is not as it was written.
type StoreDamage struct {
	Array string
	Page  uint64 // in the array
	Kind  string // corrupt, torn or unreadable
	Err   error
}

// OK says that every page was read and is as recorded, and that no copy of metadata
// is left damaged.
func (r *StoreReport) OK(repaired bool) bool {
	return r.Scrub.OK() && (repaired || r.Scrub.Copies() == 0)
}

// CheckStore reads every page of a store that no Memory has open, and verifies its
// checksum. Damage is in the report, not in the error: that says why the store could
// not be checked at all, a *volume.UncleanError for instance, when it was not closed
// properly and Repair is not set. The report holds what is known until then.
func CheckStore(ctx context.Context, c StoreCheck) (report *StoreReport, err error) {
	p := &parsed{Config: Config{Store: c.Store, Threads: max(c.Threads, 1), Faults: c.Faults}.withDefaults(), readOnly: !c.Repair}
	if p.drives, err = parseStore(c.Store); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if p.inMemory() {
		return nil, errors.New("store: a store in memory (mem:) is gone when it is closed: there is nothing to check")
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	members, err := openMembers(life, p)
	if err != nil {
		return nil, err
	}
	open := volume.OpenReadOnly
	if c.Repair {
		open = volume.Open
	}
	v, err := open(members)
	var format *volume.FormatError
	if errors.As(err, &format) {
		err = fmt.Errorf("%s holds no tritier store that can be read: %w", c.Store, err)
	}
	if err != nil {
		return nil, closeMembers(members, err)
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	return scrub(ctx, v, &c)
}

// scrub fills the report.
func scrub(ctx context.Context, v *volume.Volume, c *StoreCheck) (*StoreReport, error) {
	id := v.UUID()
	r := &StoreReport{UUID: hex.EncodeToString(id[:]), PageSize: Size(v.PageSize()), Pages: v.Pages(), Checksums: v.Checksums(), Recovery: v.Recovery()}
	names := map[string]string{}
	for _, info := range v.Arrays() {
		a := StoredArray{ArrayInfo{Name: info.Name, Pages: info.Pages}, true}
		if k, err := parseKey(info.Name); err == nil {
			a = StoredArray{ArrayInfo{Name: k.name, Element: k.element.String(), Size: k.element.size, Length: k.length, Pages: info.Pages}, false}
		}
		names[info.Name] = a.Name
		r.Arrays = append(r.Arrays, a)
	}
	slices.SortFunc(r.Arrays, func(a, b StoredArray) int { return compareStrings(a.Name, b.Name) })
	most := c.Most
	if most == 0 {
		most = 10_000
	}
	var err error
	r.Scrub, err = v.Scrub(ctx, func(array string, page uint64, err error) {
		if len(r.Damage) < most {
			r.Damage = append(r.Damage, StoreDamage{names[array], page, damageKind(err), err})
		}
	})
	slices.SortStableFunc(r.Damage, func(a, b StoreDamage) int { return compareStrings(a.Array, b.Array) })
	return r, err
}

func damageKind(err error) string {
	var corrupt *volume.CorruptPageError
	var torn *volume.TornPageError
	switch {
	case errors.As(err, &corrupt):
		return "corrupt"
	case errors.As(err, &torn):
		return "torn"
	}
	return "unreadable"
}
