// Package bundled carries one real trace inside the program, so that a first run
// needs no files: the Mooncake conversation trace (12,031 requests, 288,500
// accesses to LLM KV-cache blocks). ATTRIBUTION.md in ../testdata says where it
// comes from and under which licence.
package bundled

import (
	"bytes"
	_ "embed" // for data

	"github.com/tritier/tritier/sim/trace"
)

// Name is what results call the bundled trace.
const Name = "mooncake_conversation"

//go:embed mooncake_conversation.jsonl.zst
var data []byte

// Open reads the bundled trace from its start. Several Readers may be open at a
// time; the caller closes each.
func Open() (trace.Reader, error) {
	return trace.New(bytes.NewReader(data), "bundled:"+Name, trace.Options{Format: "mooncake"})
}
