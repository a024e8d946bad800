package drive

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/tritier/tritier/internal/units"
)

// Scheme is the kind of a drive, the part of its URI before the colon.
type Scheme string

// The schemes.
const (
	Memory Scheme = "mem"  // the software controller over memory
	File   Scheme = "file" // the software controller over a file or block device
	PCI    Scheme = "nvme" // a raw drive on the PCI bus
)

// Forms lists the forms of a URI, for messages and help texts.
const Forms = "mem:SIZE, file:PATH[?size=SIZE], nvme:PCI-ADDRESS"

// MaxDrives bounds the drives of one list.
const MaxDrives = 32

// URI names a drive.
type URI struct {
	Scheme    Scheme
	Path      string // of File: the file; of PCI: the address
	Size      uint64 // bytes; of Memory, and of File the size to create or extend to, 0 to take it as it is
	BlockSize int    // bytes, 0 for the default
}

// A URIError says why a URI names no drive.
type URIError struct{ URI, Reason string }

func (e *URIError) Error() string { return fmt.Sprintf("drive %q: %s", e.URI, e.Reason) }

var (
	pciAddress = regexp.MustCompile(`^([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
	escaper    = strings.NewReplacer("%", "%25", "?", "%3F", "&", "%26", ",", "%2C")
)

// String is the URI as Parse reads it.
func (u URI) String() string {
	var options []string
	s := string(u.Scheme) + ":"
	switch u.Scheme {
	case Memory:
		s += units.ExactBytes(u.Size)
	case File:
		s += escaper.Replace(u.Path)
		if u.Size > 0 {
			options = append(options, "size="+units.ExactBytes(u.Size))
		}
	default:
		s += u.Path
	}
	if u.BlockSize > 0 {
		options = append(options, "block="+units.ExactBytes(uint64(u.BlockSize)))
	}
	if len(options) > 0 {
		s += "?" + strings.Join(options, "&")
	}
	return s
}

// Parse reads the URI of one drive. Its errors are *URIError.
func Parse(s string) (URI, error) {
	u, reason := parse(s)
	if reason != "" {
		return URI{}, &URIError{s, reason}
	}
	return u, nil
}

// ParseList reads URIs separated by commas. One without a scheme takes that of
// the one before it, so file:a,b is file:a and file:b.
func ParseList(s string) ([]URI, error) {
	var us []URI
	for i, part := range strings.Split(s, ",") {
		if i > 0 && !hasScheme(part) {
			part = string(us[i-1].Scheme) + ":" + part
		}
		u, err := Parse(part)
		if err != nil {
			return nil, err
		}
		us = append(us, u)
		for _, x := range us[:i] {
			if x.Path == u.Path && u.Path != "" {
				return nil, &URIError{s, u.Path + " is named twice"}
			}
		}
	}
	if len(us) > MaxDrives {
		return nil, &URIError{s, fmt.Sprintf("it names %d drives, more than %d", len(us), MaxDrives)}
	}
	return us, nil
}

func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	return ok && (Scheme(scheme) == Memory || Scheme(scheme) == File || Scheme(scheme) == PCI)
}

func parse(s string) (u URI, reason string) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !hasScheme(s) {
		hint := ""
		if !ok || strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") {
			hint = "; a file is written file:" + escaper.Replace(s)
		}
		return u, "it begins with no known scheme; a drive is " + Forms + hint
	}
	u.Scheme = Scheme(scheme)
	body, options, has := strings.Cut(rest, "?")
	if has {
		if reason := u.options(options); reason != "" {
			return u, reason
		}
	}
	switch u.Scheme {
	case Memory:
		if u.Size != 0 {
			return u, "mem: has its size before the question mark: mem:1GiB"
		}
		if body == "" {
			return u, "mem: needs a size, such as mem:1GiB"
		}
		return u, u.size(body)
	case File:
		return u, u.path(body)
	}
	if !pciAddress.MatchString(body) {
		return u, fmt.Sprintf("%q is no PCI address, such as 0000:01:00.0; tritier nvme list shows them", body)
	}
	u.Path = strings.ToLower(body)
	if strings.Count(u.Path, ":") == 1 {
		u.Path = "0000:" + u.Path
	}
	return u, ""
}

func (u *URI) path(body string) (reason string) {
	switch {
	case body == "":
		return "file: needs a path, such as file:/data/disk"
	case strings.ContainsRune(body, 0):
		return "the path has a zero byte"
	}
	p, err := unescape(body)
	if err != "" {
		return err
	}
	u.Path = p
	return ""
}

// unescape decodes %XX. Every other byte is itself, "+" too.
func unescape(s string) (string, string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", `"%" in a path is written %25`
		}
		v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil || v == 0 {
			return "", `"%" in a path is written %25`
		}
		b.WriteByte(byte(v))
		i += 2
	}
	return b.String(), ""
}

func (u *URI) size(s string) (reason string) {
	n, err := units.ParseBytes(s)
	if err != nil {
		return err.Error()
	}
	if n == 0 || n > math.MaxInt64 {
		return "a size is from 1 byte to 8 EiB"
	}
	u.Size = n
	return ""
}

func (u *URI) options(s string) (reason string) {
	for _, o := range strings.Split(s, "&") {
		key, value, _ := strings.Cut(o, "=")
		switch {
		case u.Scheme == PCI:
			return "nvme: takes no options after the address"
		case key == "size" && u.Size == 0:
			if reason := u.size(value); reason != "" {
				return reason
			}
		case key == "block" && u.BlockSize == 0:
			n, err := units.ParseBytes(value)
			if err != nil {
				return err.Error()
			}
			if n < 512 || n > 65536 || n&(n-1) != 0 {
				return fmt.Sprintf("block size %d is not a power of two from 512 to 65536", n)
			}
			u.BlockSize = int(n)
		case key == "size" || key == "block":
			return key + " is given twice"
		default:
			return fmt.Sprintf("unknown option %q; there are size=SIZE and block=SIZE", o)
		}
	}
	return ""
}
