package libnvm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// TestStatuses (pitfall 8): every status code comes back as a typed error with
// the specification's name and its flags; only zero is success.
func TestStatuses(t *testing.T) {
	for field := uint32(0); field < 1<<15; field += 1 + field/512*3 {
		h := newHost(t, 2)
		_, err := h.read(7)
		h.must(err)
		h.post(h.fetch().CID, h.fetched, Status(field))
		err = h.poll(1)[0].Err
		st := Status(field & 0x7ff)
		if st == 0 {
			if err != nil {
				t.Fatalf("field %#x: %v", field, err)
			}
			continue
		}
		var se *StatusError
		if !errors.As(err, &se) || se.Status != st || se.DNR != (field>>14 == 1) || se.More != (field>>13&1 == 1) || se.CRD != uint8(field>>11&3) {
			t.Fatalf("field %#x: %+v", field, se)
		}
		if se.LBA != 7 || se.Blocks != 1 || se.NSID != 1 || se.Opcode != OpRead || !errors.Is(err, &StatusError{Status: st}) {
			t.Fatalf("field %#x: %+v", field, se)
		}
		if s := err.Error(); !strings.Contains(s, st.String()) || !strings.Contains(s, "Read") {
			t.Fatalf("field %#x: %s", field, s)
		}
	}
}

func TestStatusNames(t *testing.T) {
	for st, want := range map[Status]string{
		0x000: "Successful Completion", 0x001: "Invalid Command Opcode", 0x00b: "Invalid Namespace or Format", 0x013: "PRP Offset Invalid",
		0x080: "LBA Out of Range", 0x102: "Invalid Queue Size", 0x281: "Unrecovered Read Error", 0x285: "Compare Failure",
		0x371: "Command Aborted By Host", 0x7ff: "vendor specific status 0xff", 0x0ff: "generic command status 0xff", 0x4ff: "reserved status code type 0xff",
	} {
		if got := st.String(); got != want {
			t.Errorf("%#x is %q, want %q", uint16(st), got, want)
		}
	}
	seen := map[string]Status{}
	for st, n := range statusNames {
		if o, ok := seen[n]; ok {
			t.Errorf("%#x and %#x are both %q", uint16(st), uint16(o), n)
		}
		seen[n] = st
	}
}

// TestSickController (pitfall 8): a wait ends early with the one right error,
// every request ends once, and nothing is taken afterwards.
func TestSickController(t *testing.T) {
	const ones = 1<<32 - 1
	for _, x := range []struct {
		name           string
		csts, cc, caps uint32
		is             string
	}{
		{"gone", ones, ones, ones, "*libnvm.DeviceGoneError"},
		{"fatal", spec.CSTSReady | spec.CSTSFatal, spec.CCEnable, 0xff, "*libnvm.ControllerFatalError"},
		{"fatal, as QEMU shows it", spec.CSTSFatal, spec.CCEnable, 0xff, "*libnvm.ControllerFatalError"},
		{"reset", 0, 0, 0xff, "*libnvm.NotReadyError"},
		{"reset and enabled by another", 0, spec.CCEnable, 0xff, "*libnvm.NotReadyError"},
		{"zeroes", 0, 0, 0, "*libnvm.NotReadyError"},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := newHost(t, 8)
			h.f.regs.Write32(spec.RegCAP, 0xff)
			h.f.regs.Write32(spec.RegCSTS, spec.CSTSReady)
			h.c.setState(StateReady)
			h.must(h.c.Health())
			is := func(err error) bool {
				var n *NotReadyError
				return fmt.Sprintf("%T", err) == x.is && (!errors.As(err, &n) || n.NoAnswer == (x.caps == 0) && n.CC == x.cc)
			}
			var last Ticket
			for i := range uint64(3) {
				ticket, err := h.read(i)
				h.must(err)
				last = ticket
			}
			h.f.regs.Write32(spec.RegCAP, x.caps)
			h.f.regs.Write32(spec.RegCC, x.cc)
			h.f.regs.Write32(spec.RegCSTS, x.csts)
			begun := time.Now()
			if _, err := h.q.Wait(last, 0); !is(err) {
				t.Errorf("wait ended with %v, want a %s", err, x.is)
			}
			if d := time.Since(begun); d > h.c.cfg.IOTimeout/2 {
				t.Errorf("it took %v to notice", d)
			}
			for _, c := range h.poll(2) {
				if !is(c.Err) {
					t.Errorf("request ended with %v", c.Err)
				}
			}
			if _, err := h.read(9); !is(err) || !is(h.q.Err()) || !is(h.c.Health()) || h.f.memory[0].Held() != 3 {
				t.Errorf("then %v, %d held", err, h.f.memory[0].Held())
			}
		})
	}
}

// TestNotReadyIsHealthyBeforeEnable: a controller that the driver itself has
// disabled, or is about to enable, is not to blame.
func TestNotReadyIsHealthyBeforeEnable(t *testing.T) {
	h := newHost(t, 2)
	for s := StateNew; s <= StateClosed; s++ {
		h.c.setState(s)
		err := h.c.Health()
		var lost *NotReadyError
		if want := s == StateIdentifying || s == StateReady; errors.As(err, &lost) != want || errors.Is(err, ErrClosed) != (s == StateClosed) {
			t.Errorf("%v with CSTS 0: %v, want a *NotReadyError: %v", s, err, want)
		}
	}
}

// TestPollDeadline (pitfall 8): a caller that only polls sees the time-out too.
func TestPollDeadline(t *testing.T) {
	h := newHost(t, 4)
	_, err := h.q.Submit(&Request{Op: OpFlush, NS: h.ns, Tag: 3, Timeout: shortly})
	h.must(err)
	out := make([]Completion, 1)
	end := time.Now().Add(10 * time.Second)
	for h.q.Poll(out) == 0 {
		if time.Now().After(end) {
			t.Fatal("no time-out after 10 s")
		}
	}
	var te *TimeoutError
	if !errors.As(out[0].Err, &te) || out[0].Tag != 3 || !strings.Contains(te.Error(), "Flush") {
		t.Fatalf("%+v", out[0])
	}
}

func TestConfigReportsAll(t *testing.T) {
	_, err := Config{Queues: -1, AdminDepth: 1, MaxTransfer: 5000, IOTimeout: -1, CMBBase: 3}.withDefaults()
	for _, word := range []string{"Queues", "AdminDepth", "MaxTransfer", "time-out", "CMBBase"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is missing in: %v", word, err)
		}
	}
}

func TestRegistersOutside(t *testing.T) {
	f := newFake(t)
	for _, off := range []int{-4, 2, 32 << 10, 32<<10 - 2, 1 << 40} {
		f.regs.Write32(off, 1)
		if f.regs.Read32(off) != 1<<32-1 {
			t.Errorf("offset %#x does not read as ones", off)
		}
		if _, err := f.regs.Doorbell(off); err == nil {
			t.Errorf("a doorbell at %#x", off)
		}
	}
	if (Registers{}).Read64(0) != 1<<64-1 {
		t.Error("no registers do not read as ones")
	}
}
