package main

import (
	"encoding/binary"
	"fmt"
)

// The pattern of a verified drive: each 8 bytes are a hash of the seed, the
// drive, and where on the drive they lie. Data that is stale from another seed,
// torn, or from another place does not match.

// patternKey mixes seed and drive number.
func patternKey(seed uint64, drive int) uint64 { return mix64(seed + uint64(drive)*0x9e3779b97f4a7c15) }

// mix64 is the finalizer of SplitMix64 (Steele et al., OOPSLA 2014), a bijection.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// stamp fills b, whole 8-byte words, with the pattern of byte offset on the drive.
func stamp(b []byte, key, offset uint64) {
	for word := offset / 8; len(b) >= 8; word++ {
		binary.LittleEndian.PutUint64(b, mix64(key+word))
		b = b[8:]
	}
}

// mismatchError is data that is not what was written.
type mismatchError struct {
	Drive     string
	Offset    uint64 // bytes on the drive
	LBA       uint64
	Got, Want uint64
}

func (e *mismatchError) Error() string {
	return fmt.Sprintf("%s: wrong data at byte %d (LBA %d): %#016x, want %#016x", e.Drive, e.Offset, e.LBA, e.Got, e.Want)
}

// verify compares b with the pattern and returns the first word that differs.
func verify(b []byte, key, offset uint64) *mismatchError {
	for at := 0; at+8 <= len(b); at += 8 {
		got, want := binary.LittleEndian.Uint64(b[at:]), mix64(key+(offset+uint64(at))/8)
		if got != want {
			return &mismatchError{Offset: offset + uint64(at), Got: got, Want: want}
		}
	}
	return nil
}

// spoil makes sure that a buffer does not hold the pattern already, in any of
// its blocks of 512 bytes: a read that moves nothing must not pass.
func spoil(b []byte, key, offset uint64) {
	for at := 0; at+8 <= len(b); at += 512 {
		binary.LittleEndian.PutUint64(b[at:], ^mix64(key+(offset+uint64(at))/8))
	}
}
