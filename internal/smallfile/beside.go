package smallfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// besideTries bounds the names that CreateBeside tries.
	besideTries = 100
	// besideLook bounds the names of a folder that are looked at for what dead
	// processes left.
	besideLook   = 1 << 16
	besideRandom = 8 // hexadecimal digits
)

// CreateBeside makes a new file beside one that it is to replace, for contents that take
// long to write: .NAME.XXXXXXXX.tmp. Rename or remove it before it is closed: until then
// it is locked, which tells it from one that a killed process left. Those of the same
// NAME are removed first. Several processes may write the same file at once.
func CreateBeside(file string) (*os.File, error) {
	sweep(file)
	dir, base := filepath.Split(file)
	for range besideTries {
		name := fmt.Sprintf("%s.%s.%0*x.tmp", dir, base, besideRandom, rand.Uint32())
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Before it was locked it looked like one that was left: another process may
		// have taken it for that, and it is that one's to remove then.
		locked, err := lock(f)
		if err == nil && locked {
			return f, nil
		}
		if err != nil {
			return nil, errors.Join(err, os.Remove(name), f.Close())
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, &Error{file, "no free name for a file beside it"}
}

// sweep removes what dead processes left beside a file, as far as that can be done:
// whoever has to know whether it could is not here.
func sweep(file string) {
	dir, base := filepath.Split(file)
	d, err := os.Open(filepath.Join(dir, "."))
	if err != nil {
		return
	}
	defer d.Close() //nolint:errcheck // it was only read from
	for n := 0; n < besideLook; {
		names, err := d.Readdirnames(1024)
		n += len(names)
		for _, name := range names {
			if isBeside(name, base) {
				removeDead(filepath.Join(dir, name))
			}
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

// isBeside says whether a name is one that CreateBeside gives.
func isBeside(name, base string) bool {
	middle, ok := strings.CutPrefix(name, "."+base+".")
	if !ok {
		return false
	}
	middle, ok = strings.CutSuffix(middle, ".tmp")
	return ok && len(middle) == besideRandom && strings.Trim(middle, "0123456789abcdef") == ""
}

// removeDead removes a file that nobody has locked. Where locks do not work nothing is
// known, and it stays.
func removeDead(name string) {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return
	}
	if still, err := lock(f); err == nil && still { // a regular file that has its name still
		_ = os.Remove(name) // as far as it can be done
	}
}
