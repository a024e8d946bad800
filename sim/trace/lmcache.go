package trace

import "github.com/cespare/xxhash/v2"

// newLMCache decodes the lookup log of LMCache: one lookup a line with its time
// in seconds (timestamp), its length in tokens (seq_len) and the hashes of its
// chunks (chunk_hashes). Models do not share chunks, so a line's model_name, if
// any, decides its array: 0 for the first model, 1 for the second, and so on.
func newLMCache() *jsonLines {
	return &jsonLines{keyTime: "timestamp", unit: 1e9, keyIDs: "chunk_hashes", id: chunkHash, keyName: "model_name"}
}

// chunkHash reads a chunk's hash: an integer from -2^63 to 2^64-1, or a string.
// A string of up to 16 hexadecimal digits is that number; longer ones, which
// are digests, are hashed to 64 bits. Only identity matters.
func chunkHash(s *jscan) (uint64, bool) {
	switch s.ws() {
	case '"':
		b, ok := s.str()
		if !ok || len(b) == 0 {
			return 0, false
		}
		digits := b
		if len(b) > 2 && b[0] == '0' && b[1] == 'x' {
			digits = b[2:]
		}
		if v, ok := parseHex(digits); ok && len(digits) <= 16 {
			return v, true
		}
		return xxhash.Sum64(b), true
	case '-':
		s.i++
		if s.i == len(s.b) || s.b[s.i]-'0' > 9 {
			return 0, false
		}
		v, ok := s.uint()
		return -v, ok && v <= 1<<63
	}
	return s.uint()
}
