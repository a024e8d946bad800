package volume

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
)

// TestOneFailureOfRecovery: an answer that allows to try again changes nothing of
// what a recovery does, whichever of its operations it is for, and whether or not
// some of the data of a write got through.
func TestOneFailureOfRecovery(t *testing.T) {
	for _, members := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d members", members), func(t *testing.T) {
			base := newRig(t, 1, []int{2 << 20, 2 << 20}[:members]...)
			v := create(t, base, options(true))
			a, err := v.CreateArray("a", 20)
			must(t, err)
			u := newUser(t, v, 8)
			_, err = u.write(a, []uint64{0, 1, 2, 3, 9, 14}, 1)
			must(t, err)
			for k := 0; recoverWith(t, base.clone(uint64(k)), k); k++ {
				if t.Failed() {
					t.Fatalf("operation %d failed once", k)
				}
			}
		})
	}
}

// recoverWith opens a volume that was not closed while operation k fails once,
// and says whether there was one.
func recoverWith(t *testing.T, r *rig, k int) bool {
	t.Helper()
	ms, n := r.members(-1), 0
	r.w.fail = func(*Op) error {
		if n++; n == k+1 {
			return &libnvm.StatusError{Status: libnvm.StatusInternalError}
		}
		return nil
	}
	v, err := Open(ms)
	must(t, err)
	fired := n > k
	r.w.fail = nil
	if rec := v.Recovery(); !rec.Unclean || rec.Pages != 6 || rec.New != 6 || rec.Torn != 0 {
		t.Errorf("recovery %+v, want 6 pages, all new", rec)
	}
	a, err := v.OpenArray("a")
	must(t, err)
	u := newUser(t, v, 1)
	for _, p := range []uint64{0, 1, 2, 3, 9, 14} {
		u.expect(a, p, 1)
	}
	u.expect(a, 4, 0)
	u.close()
	must(t, a.Close())
	must(t, v.Close())
	return fired
}

// TestNoAnswerIsNoReasonToRetry: an operation that ended without an answer of the
// member may still land.
func TestNoAnswerIsNoReasonToRetry(t *testing.T) {
	for _, lost := range []error{libnvm.ErrReset, &libnvm.TimeoutError{}, &libnvm.DeviceGoneError{}, errPower} {
		r := newRig(t, 1, 2<<20)
		v := create(t, r, options(true))
		n := 0
		r.w.fail = func(*Op) error { n++; return lost }
		if err := v.Flush(); !errors.Is(err, lost) || n != 1 {
			t.Errorf("%v after %d operations, want %v after one", err, n, lost)
		}
		r.w.fail = nil
		must(t, v.Close())
	}
}

// TestRetriesShareOneBound: they do not begin the time anew, and there is none
// once it is over.
func TestRetriesShareOneBound(t *testing.T) {
	r := newRig(t, 1, 2<<20)
	v := create(t, r, options(true))
	var bounds []time.Duration
	status := &libnvm.StatusError{Status: libnvm.StatusInternalError}
	r.w.fail = func(op *Op) error { bounds = append(bounds, op.Timeout); return status }
	v.SetMetadataTimeout(time.Minute)
	if err := v.Flush(); !errors.Is(err, status) || len(bounds) != 3 || bounds[0] > time.Minute || bounds[1] >= bounds[0] || bounds[2] >= bounds[1] {
		t.Errorf("%v, bounds %v, want three that get smaller", err, bounds)
	}
	bounds = nil
	v.SetMetadataTimeout(10 * metaPause) // not enough for the second pause
	if err := v.Flush(); !errors.Is(err, status) && !errors.Is(err, errMetaLate) || len(bounds) > 2 {
		t.Errorf("%v, bounds %v, want at most two", err, bounds)
	}
	r.w.fail = nil
	v.SetMetadataTimeout(0)
	must(t, v.Close())
}
