package trace

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// nearMiss is content that looks like a format and is not, or not beyond doubt.
type nearMiss struct {
	name, file, in string
	want           string // format, or "?" and a part of the error
}

// binaryMisses are near misses of the binary formats.
func binaryMisses() []nearMiss {
	noise := make([]byte, 24*1000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	lone := slices.Concat(oracleOne(1, 7, 100, 50), oracleOne(1, 8, 200, -1))
	many := make([]byte, 0, 24*20)
	for i := range 20 {
		many = append(many, oracleOne(uint32(i/3), uint64(i*77), 10, int64(1000+i))...)
	}
	oracle := makeOracle(20_000, 3)
	back := bytes.Clone(oracle)
	back[24*50] = 200 // a time that falls afterwards
	link := bytes.Clone(oracle)
	for i := 0; i < len(link); i += oracleSize { // a next access to another object
		if next := binary.LittleEndian.Uint64(link[i+16:]); next < 1000 {
			link[i+16] ^= 1
			break
		}
	}
	return []nearMiss{
		{"noise", "x.oracleGeneral", string(noise), "?no known"},
		{"zeros", "x.oracleGeneral", string(make([]byte, 2400)), "?no known"},
		{"oracle, links", "x", string(oracle), "oracleGeneral"},
		{"oracle, cut off, links", "x", string(oracle[:24*2000+5]), "oracleGeneral"},
		{"oracle, times fall", "x", string(back), "?no known"},
		{"oracle, link to another object", "x.oracleGeneral", string(link), "?no known"},
		{"oracle, no links, two records", "x", string(lone), "?may be oracleGeneral"},
		{"oracle, no links, two records, named", "a.oracleGeneral.bin", string(lone), "oracleGeneral"},
		{"oracle, no links, twenty records", "x", string(many), "oracleGeneral"},
		{"oracle, no links, cut off", "x", string(many[:24*19+3]), "?no known"},
		{"vscsi, one record of two", "x", string(vscsiSample2[:50]), "?no known"},
		{"vscsi, times fall", "x", string(append(le(uint16(0x28), uint16(0x200), uint32(1), uint32(4096), uint32(1),
			uint64(8), uint64(5e12), uint64(9)), vscsiSample2...)), "?no known"},
		{"vscsi, mixed versions", "x", string(append(bytes.Clone(vscsiSample1), make([]byte, 32)...)), "?no known"},
	}
}

// textMisses are near misses of the text formats.
func textMisses() []nearMiss {
	tabs := "1\t2\t3\t4\t1\n9\t2\t3\t4\t0\n"
	return []nearMiss{
		{"mqsim or csv", "x", tabs, "?may be mqsim or csv"},
		{"mqsim, times fall", "x", "9 2 3 4 1\n1 2 3 4 1\n", "?no known"},
		{"mqsim, type 2", "x", "1 2 3 4 1\n2 2 3 4 2\n", "?no known"},
		{"five numbers, no times", "x", "0 2 3 4 1\n0 2 3 4 1\n", "?may be mqsim"},
		{"lis, third column", "x", "1 2 0 4\n1 2 1 4\n", "?no known"},
		{"lis, a count of 0", "x", "1 0 0 4\n", "?no known"},
		{"two numbers", "x", "1 2\n3 4\n", "?no known"},
		{"ids, all hexadecimal letters", "x", "face\nfeed\n", "?may be ids"},
		{"ids, a word", "x", "12\nword\n", "?no known"},
		{"ids, decimal and beyond 64 bits of hexadecimal", "x", "18446744073709551615\nff\n", "?no known"},
		{"lirs, hexadecimal", "x", "1f\n*\n2\n", "?no known"},
		{"lirs, first marker late", "x", strings.Repeat("1\n", headBytes) + "*\n2\n", "ids"},
		{"csv, no header", "x", "1,2\n3,4\n", "?may be csv"},
		{"csv, unknown header", "x", "a,b\n1,2\n", "?may be csv"},
		{"csv, ragged", "x", "1,2\n3\n", "?no known"},
		{"json, other", "x", `{"a":1,"hash_ids":[1]}`, "?no known"},
		{"mooncake, key nested", "x", `{"timestamp":1,"a":{"hash_ids":[1]}}`, "?no known"},
		{"sessions, cut off in the head", "x", `{"id":"a","requests":[{"t":0,"hash_ids":[` + strings.Repeat("1,", headBytes), "kv-cache-tester"},
		{"lackey, only noise", "x", "==1== hello\n", "?no known"},
		{"prose", "x", "To be, or not to be\nthat is the question\n", "?no known"},
		{"nvbit behind output", "x", strings.Repeat("app\n", 1000) + "CTX 0x1 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDG.E - 0x1\n", "nvbit"},
	}
}

// TestDetect: the clear cases are in TestReaders and TestGolden.
func TestDetect(t *testing.T) {
	for _, c := range slices.Concat(binaryMisses(), textMisses()) {
		r, err := New(strings.NewReader(c.in), "dir/"+c.file, Options{})
		if err == nil {
			if got := r.(Informer).Info().Format; got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			continue
		}
		part, ok := strings.CutPrefix(c.want, "?")
		if !ok || !strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "--format NAME") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// TestNoKnownFormat: a file of no format that is nearly one names the line that
// is wrong, and one without content says that.
func TestNoKnownFormat(t *testing.T) {
	blank := strings.Repeat("\n", headBytes)
	for _, c := range []struct {
		file, in string
		line     int64
		what     string
	}{
		{"x", "page\n1\n2\n3\n", 1, `nearly ids, but here "page" is not a decimal page number`},
		{"x", "# ids\n\n1\n12x\n2\n3\n", 4, `nearly ids, but here "12x" is not`},
		{"x", "oops\n1f R\n2e W\n", 1, `nearly ids, but here "oops" is not a hexadecimal page number`},
		{"x.ids", "oops\n", 1, `nearly ids, but here "oops"`},
		{"x.IDS.gz", "1 up\n2\n", 1, "nearly ids, but here the operation must be"},
		{"x.lis", "1 2 0\n", 1, "nearly lis, but here a line needs four numbers"},
		{"x", "1 2 0\n1 2 0 0\n1 2 0 0\n", 1, "nearly lis, but here a line needs four numbers"},
		{"x", "1 2 3 4 1\n2 2 3 4 2\n3 2 3 4 1\n", 2, "nearly mqsim, but here the type must be 0"},
		{"x.mqsim", "1 2 3 4\n", 1, "nearly mqsim, but here a line needs five numbers"},
		{"x", "a\n1\n*\n2\n*\n", 1, "nearly lirs, but here"},
		{"x", "x\n L 10,4\n S 20,4\n", 1, "nearly lackey, but here"},
		{"x", "{\n" + strings.Repeat("{\"timestamp\":1,\"hash_ids\":[1]}\n", 3), 1, "nearly mooncake, but here not a JSON object"},
		{"x", "To be or not to be\nthat is\n", 0, "no known trace format; if it is one of"},
		{"x", "  \n\n \t\r\n", 0, "the file has no records"},
		{"x.csv", "# only\n# comments\n\n", 0, "the file has no records"},
		{"x", blank + "1\n", 0, "no known trace format"},
	} {
		_, err := New(strings.NewReader(c.in), c.file, Options{})
		if te, ok := err.(*Error); !ok || te.Line != c.line || !strings.Contains(te.Error(), c.what) {
			t.Errorf("%s %.30q: %v\nwant line %d: %s", c.file, c.in, err, c.line, c.what)
		}
	}
}

// TestLateMarker: a * line beyond the head still starts a request.
func TestLateMarker(t *testing.T) {
	in := strings.Repeat("1\n", headBytes) + "*\n2\n"
	recs, _ := readBytes(t, []byte(in), Options{}, 4096)
	if n := len(recs); n != headBytes+1 || recs[n-1].Flags != pa|rs {
		t.Errorf("%d records, the last %+v", n, recs[n-1])
	}
}

// TestFormats checks the registry: each name is found, is unique, and is said.
func TestFormats(t *testing.T) {
	seen := map[string]bool{}
	for i, f := range Formats() {
		if f.Name == "" || f.About == "" || seen[f.Name] || byName(strings.ToUpper(f.Name)) != &formats[i] {
			t.Errorf("bad entry %+v", f)
		}
		seen[f.Name] = true
	}
	if byName("oracle") != byName("oracleGeneral") || byName("zip") != nil {
		t.Error("aliases")
	}
}
