package tritier

import "github.com/tritier/tritier/internal/units"

// Size is a number of bytes. In files, flags and messages it has a binary suffix:
// 64KiB, 16GiB.
type Size uint64

// String is the size with the largest suffix that says it exactly.
func (s Size) String() string { return units.ExactBytes(uint64(s)) }

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what String writes, or a plain number of bytes.
func (s *Size) UnmarshalText(text []byte) error { return s.Set(string(text)) }

// Set reads a flag's value.
func (s *Size) Set(text string) error {
	n, err := units.ParseBytes(text)
	if err == nil {
		*s = Size(n)
	}
	return err
}

// Type is the flag's type in help texts.
func (s *Size) Type() string { return "size" }
