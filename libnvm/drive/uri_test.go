package drive

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want URI
		out  string // canonical form; "" is the input
	}{
		{"mem:1GiB", URI{Scheme: Memory, Size: 1 << 30}, ""},
		{"mem:4096?block=512", URI{Scheme: Memory, Size: 4096, BlockSize: 512}, "mem:4KiB?block=512B"},
		{"file:/data/disk", URI{Scheme: File, Path: "/data/disk"}, ""},
		{"file:disk?size=64GiB&block=4KiB", URI{Scheme: File, Path: "disk", Size: 64 << 30, BlockSize: 4096}, ""},
		{"file:a%2Cb%3Fc%25d%26e", URI{Scheme: File, Path: "a,b?c%d&e"}, ""},
		{"file:a+b c", URI{Scheme: File, Path: "a+b c"}, ""},
		{"nvme:0000:01:00.0", URI{Scheme: PCI, Path: "0000:01:00.0"}, ""},
		{"nvme:C1:00.0", URI{Scheme: PCI, Path: "0000:c1:00.0"}, "nvme:0000:c1:00.0"},
	} {
		got, err := Parse(c.in)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.in, got, err, c.want)
		}
		if c.out == "" {
			c.out = c.in
		}
		if s := got.String(); s != c.out {
			t.Errorf("%s: written as %s, want %s", c.in, s, c.out)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, reason string }{
		{"", "mem:SIZE, file:PATH"},
		{"disk:/x", "no known scheme"},
		{"/dev/nvme0n1", "a file is written file:/dev/nvme0n1"},
		{"disk", "a file is written file:disk"},
		{"mem:", "size"},
		{"mem:1GB", "GiB"},
		{"mem:0", "from 1 byte"},
		{"mem:9EiB", "from 1 byte"},
		{"mem:?size=1GiB", "before the question mark"},
		{"mem:1GiB?block=1000", "power of two"},
		{"mem:1GiB?block=128KiB", "power of two"},
		{"file:", "needs a path"},
		{"file:a\x00b", "zero byte"},
		{"file:a%2", "%25"},
		{"file:a%zz", "%25"},
		{"file:a%00", "%25"},
		{"file:a?size=1GiB&size=2GiB", "given twice"},
		{"file:a?sizes=1GiB", `unknown option "sizes=1GiB"`},
		{"file:a?", "unknown option"},
		{"file:a?size=-1", "-1"},
		{"nvme:01", "no PCI address"},
		{"nvme:0000:01:00.9", "no PCI address"},
		{"nvme:01:00.0?size=1", "takes no options"},
	} {
		_, err := Parse(c.in)
		var ue *URIError
		if !errors.As(err, &ue) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%q: %v, want a *URIError with %q", c.in, err, c.reason)
		}
	}
}

func TestParseList(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"mem:1MiB", "mem:1MiB"},
		{"mem:1MiB,1MiB", "mem:1MiB mem:1MiB"},
		{"file:a,b?size=1MiB,file:c", "file:a file:b?size=1MiB file:c"},
		{"file:a,mem:1MiB,nvme:01:00.0,02:00.0", "file:a mem:1MiB nvme:0000:01:00.0 nvme:0000:02:00.0"},
	} {
		us, err := ParseList(c.in)
		var got []string
		for _, u := range us {
			got = append(got, u.String())
		}
		if s := strings.Join(got, " "); err != nil || s != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.in, s, err, c.want)
		}
	}
	for _, c := range []struct{ in, reason string }{
		{"file:a,b,a", "a is named twice"},
		{"file:a,", "needs a path"},
		{"a,file:b", "no known scheme"},
		{"mem:1" + strings.Repeat(",1", MaxDrives), "more than 32"},
	} {
		if _, err := ParseList(c.in); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", c.in, err, c.reason)
		}
	}
}

// What Parse accepts is written so that Parse reads the same again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"mem:1GiB", "mem:1.5KiB?block=4KiB", "file:/a%2C%25?size=1GiB", "nvme:c1:00.0", "file:a,b", "x:y", "file:%e4?block=512"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := Parse(s)
		if err != nil {
			var ue *URIError
			if !errors.As(err, &ue) {
				t.Fatalf("%q: %v is no *URIError", s, err)
			}
			return
		}
		again, err := Parse(u.String())
		if err != nil || again != u {
			t.Fatalf("%q is %+v, written as %q, which is %+v, %v", s, u, u.String(), again, err)
		}
		if us, err := ParseList(u.String()); err != nil || len(us) != 1 || us[0] != u {
			t.Fatalf("%q as a list of one: %v, %v", u.String(), us, err)
		}
	})
}
