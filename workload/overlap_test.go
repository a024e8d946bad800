package workload

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestOverlapped: every range is made and then used, once and in order, one made beside
// one that is used; and an error ends both.
func TestOverlapped(t *testing.T) {
	for _, n := range []uint64{0, 1, 7, 8, 9, 64, 67} {
		var made, used []uint64
		err := overlapped(n, 8, func(low uint64, buf []uint64) error {
			for i := range buf {
				buf[i] = low + uint64(i)
			}
			made = append(made, buf...)
			return nil
		}, func(low uint64, buf []uint64) error {
			if low%8 != 0 || uint64(len(buf)) != min(8, n-low) {
				t.Errorf("%d: a range of %d from %d on", n, len(buf), low)
			}
			used = append(used, buf...)
			return nil
		})
		want := make([]uint64, n)
		for i := range want {
			want[i] = uint64(i)
		}
		if err != nil || !slices.Equal(made, want) || !slices.Equal(used, want) {
			t.Errorf("%d: made %v, used %v, %v", n, made, used, err)
		}
	}
}

func TestOverlappedIsSideBySide(t *testing.T) {
	second := make(chan struct{})
	err := overlapped(3, 1, func(low uint64, _ []byte) error {
		if low != 1 {
			return nil
		}
		select { // while the range before is used
		case <-second:
			return nil
		case <-time.After(10 * time.Second):
			return errors.New("nothing is used meanwhile")
		}
	}, func(low uint64, _ []byte) error {
		if low == 0 {
			close(second)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOverlappedEnds(t *testing.T) {
	for at := range uint64(5) {
		for _, where := range []string{"first", "second"} {
			broken := fmt.Errorf("%s %d", where, at)
			var used uint64
			fails := func(who string, low uint64) error {
				if who == where && low == at {
					return broken
				}
				return nil
			}
			err := overlapped(5, 1, func(low uint64, _ []byte) error { return fails("first", low) }, func(low uint64, _ []byte) error {
				used++
				return fails("second", low)
			})
			if want := at + map[string]uint64{"first": 0, "second": 1}[where]; !errors.Is(err, broken) || used != want {
				t.Errorf("%s fails at %d: %v, %d ranges used, want %d", where, at, err, used, want)
			}
		}
	}
}
