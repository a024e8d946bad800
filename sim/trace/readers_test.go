package trace

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

const (
	pa = PageAddressed
	rs = RequestStart
)

// le packs values little-endian: each is a sized integer.
func le(vals ...any) []byte {
	var b []byte
	for _, v := range vals {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, v); err != nil {
			panic(err) // a test that is written wrong
		}
	}
	return b
}

// oracleOne is one oracleGeneral record.
func oracleOne(time uint32, id uint64, size uint32, next int64) []byte {
	return le(time, id, size, next)
}

// oracleSample has an object that recurs.
var oracleSample = slices.Concat(
	oracleOne(1, 7, 100, 2), oracleOne(1, 8, 200, -1), oracleOne(3, 7, 100, math.MaxInt64))

// vscsiSample1 and vscsiSample2 hold a read and a write in each layout.
var (
	vscsiSample1 = slices.Concat(
		le(uint32(1), uint32(4096), uint32(1), uint16(0x28), uint16(0x100), uint64(8), uint64(5)),
		le(uint32(2), uint32(512), uint32(1), uint16(0x2a), uint16(0x100), uint64(16), uint64(6)))
	vscsiSample2 = slices.Concat(
		le(uint16(0x28), uint16(0x200), uint32(1), uint32(4096), uint32(1), uint64(8), uint64(5), uint64(9)),
		le(uint16(0x2a), uint16(0x200), uint32(2), uint32(512), uint32(1), uint64(16), uint64(6), uint64(9)))
)

// good is the readers' table: what each format's text means. Detection must find
// the format unless it can only be named.
var good = []struct {
	name, format string
	in           string
	o            Options
	want         []Record
}{
	{"mooncake", "mooncake",
		`{"timestamp": 27, "input_length": 6758, "output_length": 5, "hash_ids": [0, 1, 46]}` + "\n" +
			`{"hash_ids":[3],"timestamp":27.5}` + "\r\n\n" + `{"timestamp":28,"hash_ids":[ ],"x":{"hash_ids":[1]}}`,
		Options{}, []Record{
			{Addr: 0, Time: 27e6, Flags: pa | rs}, {Addr: 1, Time: 27e6, Flags: pa}, {Addr: 46, Time: 27e6, Flags: pa},
			{Addr: 3, Time: 27_500_000, Flags: pa | rs}}},
	{"lmcache", "lmcache",
		`{"timestamp": 1711929600.123, "model_name": "a", "seq_len": 1024, "chunk_hashes": ["0xab", "ff", 12]}` + "\n" +
			`{"timestamp": 1711929601, "model_name": "b", "seq_len": 9, "chunk_hashes": [-1]}` + "\n" +
			`{"timestamp": 1711929602, "model_name": "a", "seq_len": 9, "chunk_hashes": [1]}`,
		Options{}, []Record{
			{Addr: 0xab, Time: 1711929600_123_000_000, Flags: pa | rs}, {Addr: 0xff, Time: 1711929600_123_000_000, Flags: pa},
			{Addr: 12, Time: 1711929600_123_000_000, Flags: pa},
			{Addr: math.MaxUint64, Time: 1711929601e9, Array: 1, Flags: pa | rs},
			{Addr: 1, Time: 1711929602e9, Flags: pa | rs}}},
	{"sessions, one file", "kv-cache-tester",
		`{"id":"s","block_size":64,"requests":[{"t":1.5,"type":"n","hash_ids":[1,2,3,9]},` +
			`{"t":10.0,"type":"subagent","requests":[{"t":0.0,"hash_ids":[70]},{"t":4,"hash_ids":[70,71]}]},` +
			`{"t":12,"hash_ids":[1,2]}],"totals":{}}`,
		Options{}, []Record{
			{Addr: 1, Time: 15e8, Flags: pa | rs}, {Addr: 2, Time: 15e8, Flags: pa}, {Addr: 3, Time: 15e8, Flags: pa}, {Addr: 9, Time: 15e8, Flags: pa},
			{Addr: 70, Time: 10e9, Flags: pa | rs},
			{Addr: 1, Time: 12e9, Flags: pa | rs}, {Addr: 2, Time: 12e9, Flags: pa},
			{Addr: 70, Time: 14e9, Flags: pa | rs}, {Addr: 71, Time: 14e9, Flags: pa}}},
	{"oracle", "oracleGeneral", string(oracleSample), Options{}, []Record{
		{Addr: 7, Bytes: 100, Time: 1e9, Flags: pa}, {Addr: 8, Bytes: 200, Time: 1e9, Flags: pa}, {Addr: 7, Bytes: 100, Time: 3e9, Flags: pa}}},
	{"ids", "ids", "17\n0\r\n18446744073709551615\n10000000000000000000\n\n# all\n5 # five\n6",
		Options{}, []Record{{Addr: 17, Flags: pa}, {Addr: 0, Flags: pa}, {Addr: math.MaxUint64, Flags: pa},
			{Addr: 1e19, Flags: pa}, {Addr: 5, Flags: pa}, {Addr: 6, Flags: pa}}},
	{"ids with operations", "ids", "17 R\n18\tw\n0x1F W\n20 P\n21 write\n", Options{}, []Record{{Addr: 17, Flags: pa},
		{Addr: 18, Op: Write, Flags: pa}, {Addr: 0x1f, Op: Write, Flags: pa}, {Addr: 20, Op: Prefetch, Flags: pa}, {Addr: 21, Op: Write, Flags: pa}}},
	{"ids, hexadecimal", "ids", "04033 W\n1fff000 R\n10 R\nFF\n", Options{}, []Record{
		{Addr: 0x4033, Op: Write, Flags: pa}, {Addr: 0x1fff000, Flags: pa}, {Addr: 0x10, Flags: pa}, {Addr: 0xff, Flags: pa}}},
	{"ids-hex", "ids-hex", "10\n20 W\n", Options{Format: "ids-hex"}, []Record{{Addr: 0x10, Flags: pa}, {Addr: 0x20, Op: Write, Flags: pa}}},
	{"lirs", "lirs", "5\n6\n*\n5\n", Options{}, []Record{{Addr: 5, Flags: pa | rs}, {Addr: 6, Flags: pa}, {Addr: 5, Flags: pa | rs}}},
	{"lis", "lis", "5 3 0 0\n36443 1 0 0\n 9\t1  0 12\r\n7 2 0 13", Options{}, []Record{{Addr: 5, Flags: pa | rs},
		{Addr: 6, Flags: pa}, {Addr: 7, Flags: pa}, {Addr: 36443, Flags: pa | rs}, {Addr: 9, Flags: pa | rs},
		{Addr: 7, Flags: pa | rs}, {Addr: 8, Flags: pa}}},
	{"mqsim", "mqsim", "100 4 10 16 0\n250 3 1 1 1\n", Options{}, []Record{
		{Time: 100, Array: 4, Addr: 5120, Bytes: 8192, Op: Write, Flags: rs}, {Time: 250, Array: 3, Addr: 512, Bytes: 512, Flags: rs}}},
	{"vscsi 1", "vscsi", string(vscsiSample1), Options{}, []Record{
		{Addr: 4096, Bytes: 4096, Time: 5000, Flags: rs}, {Addr: 8192, Bytes: 512, Time: 6000, Op: Write, Flags: rs}}},
	{"vscsi 2", "vscsi", string(vscsiSample2), Options{}, []Record{
		{Addr: 4096, Bytes: 4096, Time: 5000, Flags: rs}, {Addr: 8192, Bytes: 512, Time: 6000, Op: Write, Flags: rs}}},
	{"csv, pages", "csv", "time,page,op,array,gpu,note\n0.5,12,R,1,2,\"a, \"\"b\"\"\"\n2,0xff,write,0,0,\n", Options{}, []Record{
		{Addr: 12, Time: 5e8, Array: 1, GPU: 2, Flags: pa}, {Addr: 255, Time: 2e9, Op: Write, Flags: pa}}},
	{"csv, ranges", "csv", "\xef\xbb\xbfTime_us;Offset;Size;Request ID\r\n7;4096;100;a\r\n8;1;2;a\r\n9;0;1;b\r\n", Options{}, []Record{
		{Addr: 4096, Bytes: 100, Time: 7000, Flags: rs}, {Addr: 1, Bytes: 2, Time: 8000}, {Bytes: 1, Time: 9000, Flags: rs}}},
	{"csv, named columns", "csv", "1,R,10,2\n2,W,20,1\n", Options{Columns: []string{"time_ns", "op", "lba", "sectors"}}, []Record{
		{Time: 1, Addr: 5120, Bytes: 1024}, {Time: 2, Op: Write, Addr: 10240, Bytes: 512}}},
	{"csv, header overridden", "csv", "a\tb\n1\t2\n", Options{Columns: []string{"-", "id"}}, []Record{{Addr: 2, Flags: pa}}},
	{"lackey", "lackey", "==12== Lackey, an example Valgrind tool\n--12-- warning\nI  04001f40,3\n L 1ffeffe7e0,8\n S 04222c48,4\n M 0421c7cc,4\n==12==\n",
		Options{}, []Record{{Addr: 0x1ffeffe7e0, Bytes: 8}, {Addr: 0x4222c48, Bytes: 4, Op: Write}, {Addr: 0x421c7cc, Bytes: 4, Op: Write, Flags: Update}}},
	{"nvbit", "nvbit", "hello from the app\n" +
		"MEMTRACE: CTX 0x000055d0 - LAUNCH - Kernel pc 0x7f - Kernel name k - grid launch id 0\n" +
		"MEMTRACE: CTX 0x000055d0 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDG.E.64 - 0x7f0010 0x0 0x7f0018 \n" +
		"MEMTRACE: CTX 0x000055d0 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDS.32 - 0x10 0x20 \n" +
		"CTX 0x000055d0 - grid_launch_id 0 - CTA 0,0,0 - warp 1 - STG.E.128.SYS - 0x7f0020\n" +
		"CTX 0x000055d0 - grid_launch_id 1 - CTA 0,0,0 - warp 0 - ATOMG.E.ADD - 0x7f0000 0x7f0004\n" +
		"CTX 0x000055d0 - grid_launch_id 1 - CTA 0,0,0 - warp 0 - LDG.E.U8 - 0x7f0001\n",
		Options{}, []Record{
			{Addr: 0x7f0010, Bytes: 8, Flags: rs}, {Addr: 0x7f0018, Bytes: 8, Flags: SameGroup},
			{Addr: 0x7f0020, Bytes: 16, Op: Write},
			{Addr: 0x7f0000, Bytes: 4, Op: Write, Flags: Update | rs}, {Addr: 0x7f0004, Bytes: 4, Op: Write, Flags: Update | SameGroup},
			{Addr: 0x7f0001, Bytes: 1}}},
}

func TestReaders(t *testing.T) {
	for _, c := range good {
		t.Run(c.name, func(t *testing.T) {
			for _, batch := range []int{1, 2, 1000} {
				r, err := New(&dribble{data: c.in}, "mem", c.o)
				if err != nil {
					t.Fatal(err)
				}
				if f := r.(Informer).Info().Format; f != c.format {
					t.Errorf("read as %s, want %s", f, c.format)
				}
				got, err := readAll(t, r, batch)
				if err != io.EOF || !slices.Equal(got, c.want) {
					t.Errorf("batches of %d: got %+v, %v\nwant %+v", batch, got, err, c.want)
				}
			}
		})
	}
}

// dribble is a reader that gives its data in pieces of 1 to 7 bytes, so that
// windows end anywhere.
type dribble struct {
	data string
	n    int
}

func (d *dribble) Read(p []byte) (int, error) {
	if d.data == "" {
		return 0, io.EOF
	}
	d.n = d.n%7 + 1
	n := copy(p[:min(len(p), d.n)], d.data)
	d.data = d.data[n:]
	return n, nil
}

// badCase is damaged input. A place > 0 is a line, a place <= 0 minus an offset.
type badCase struct {
	format, in string
	place      int64
	what       string
	records    int
}

const (
	long21 = "999999999999999999999" // beyond 64 bits
	nvLine = "CTX 0x1 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDG.E - "
)

// bad gives each reader damage.
var bad = []badCase{
	{"mooncake", "{\"timestamp\":1,\"hash_ids\":[1]}\n{\"timestamp\":1,\"hash_ids\":[1", 2, "bad id", 1},
	{"mooncake", "{\"timestamp\":1,\"hash_ids\":[1]", 1, "cut off", 0},
	{"mooncake", `{"timestamp":1,"hash_ids":[1,-2]}`, 1, "bad id", 0},
	{"mooncake", `{"timestamp":1,"hash_ids":[1.5]}`, 1, "bad id", 0},
	{"mooncake", `{"timestamp":1,"hash_ids":[` + long21 + `]}`, 1, "bad id", 0},
	{"mooncake", `{"timestamp":-1,"hash_ids":[1]}`, 1, "negative", 0},
	{"mooncake", `{"timestamp":"x","hash_ids":[1]}`, 1, "not a number", 0},
	{"mooncake", `{"timestamp":1e300,"hash_ids":[1]}`, 1, "out of range", 0},
	{"mooncake", `{"timestamp":1}`, 1, "no hash_ids", 0},
	{"mooncake", `{"hash_ids":[1]}`, 1, "one timestamp", 0},
	{"mooncake", `{"timestamp":1,"hash_ids":[1],"hash_ids":[2]}`, 1, "twice", 0},
	{"mooncake", `{"timestamp":1,"hash_ids":[1]} x`, 1, "text after", 0},
	{"mooncake", "\n\x00\xff", 2, "not a JSON object", 0},
	{"mooncake", `{"timestamp":1,"a":` + strings.Repeat("[", 5000), 1, "not a JSON object", 0},
	{"mooncake", `{"timestamp":1,"hash_ids":[]}`, -29, "no records", 0},
	{"lmcache", `{"timestamp":1,"chunk_hashes":[true]}`, 1, "bad id", 0},
	{"lmcache", `{"timestamp":1,"chunk_hashes":[-9223372036854775809]}`, 1, "bad id", 0},
	{"lmcache", `{"timestamp":1,"chunk_hashes":["a]}`, 1, "bad id", 0},
	{"kv-cache-tester", `{"id":1}`, -8, "no requests", 0},
	{"kv-cache-tester", `{"requests":[{"hash_ids":[1]}]}`, -29, "no time", 0},
	{"kv-cache-tester", `{"requests":[{"t":-4,"hash_ids":[1]}]}`, -20, "negative", 0},
	{"kv-cache-tester", `{"requests":[{"t":4,"hash_ids":[1,x]}]}`, -34, "bad id", 0},
	{"kv-cache-tester", `{"requests":[{"t":4,"hash_ids":[1]}`, -35, "cut off", 0},
	{"kv-cache-tester", `{"requests":[]}`, -15, "no records", 0},
	{"kv-cache-tester", strings.Repeat(`{"requests":[{"t":1,"hash_ids":[1],"requests":[`, 12), -564, "not a JSON", 0},
	{"oracleGeneral", string(oracleSample[:71]), -48, "cut off", 2},
	{"oracleGeneral", string(oracleSample) + string(make([]byte, 24)), -72, "next access", 3},
	{"oracleGeneral", string(oracleOne(1, 1, 1, -2)), 0, "next access", 0},
	{"ids", "1\nx\n", 2, "not a decimal", 1},
	{"ids", "1\n-2\n", 2, "not a decimal", 1},
	{"ids", "1\n" + long21 + "\n", 2, "below 2^64", 1},
	{"ids", strings.Repeat("1\n", headBytes/2) + "ff\n", headBytes/2 + 1, "--format ids-hex", headBytes / 2},
	{"ids", "1 X\n", 1, "R, W or P", 0},
	{"ids", "1 R 5\n", 1, "more on the line", 0},
	{"ids", "1\n*\n", 2, "--format lirs", 1},
	{"ids", "# nothing\n\n", -11, "no records", 0},
	{"ids-hex", "0x1ffffffffffffffff\n", 1, "below 2^64", 0},
	{"ids-hex", "12345678123456781 R\n", 1, "below 2^64", 0},
	{"lirs", "1\n2 W\n", 2, "more on the line", 1},
	{"lis", "1 1 0 0\n1 2 3\n", 2, "four numbers", 1},
	{"lis", "1 0 0 0\n", 1, "count", 0},
	{"lis", "1 5000000000 0 0\n", 1, "count", 0},
	{"lis", "18446744073709551615 2 0 0\n", 1, "2^64", 0},
	{"lis", "1 -1 0 0\n", 1, "not a decimal", 0},
	{"mqsim", "1 2 3 4\n", 1, "five numbers", 0},
	{"mqsim", "1 2 3 4 2\n", 1, "0 (write) or 1 (read)", 0},
	{"mqsim", "1 2 36028797018963968 4 1\n", 1, "2^64", 0},
	{"mqsim", "1 2 36028797018963967 4 1\n", 1, "2^64", 0},
	{"mqsim", "1 2 3 4294967296 1\n", 1, "2^40", 0},
	{"mqsim", "1 4294967296 3 4 1\n", 1, "2^32", 0},
	{"mqsim", "1 2 3 0 1\n", 1, "0 sectors", 0},
	{"vscsi", string(vscsiSample2[:79]), -40, "cut off", 1},
	{"vscsi", string(vscsiSample1) + string(make([]byte, 32)), -64, "version", 2},
	{"vscsi", string(le(uint16(0x28), uint16(0x200), uint32(1), uint32(4096), uint32(1), uint64(1<<60), uint64(5), uint64(9))), 0, "2^64", 0},
	{"csv", "a,b\n1,2\n", 1, "no header", 0},
	{"csv", "time,op\n1,R\n", 1, "which page", 0},
	{"csv", "page,id\n1,2\n", 1, "mean the same", 0},
	{"csv", "page,offset\n1,2\n", 1, "which page", 0},
	{"csv", "page,op\n1,R\n2\n", 3, "1 fields, but there are 2", 1},
	{"csv", "page,op\n1,\"R\n", 2, "quoted", 0},
	{"csv", "page,op\n1,up\n", 2, "operation", 0},
	{"csv", "page,gpu\n1,65536\n", 2, "0 to 65535", 0},
	{"csv", "offset,size\n18446744073709551615,2\n", 2, "2^64", 0},
	{"csv", "time,page\nx,2\n", 2, "time", 0},
	{"csv", "page,op\n", -8, "no records", 0},
	{"lackey", " L 10,4\n X 10,4\n", 2, "unknown access", 1},
	{"lackey", " L 10\n", 1, "no address,size", 0},
	{"lackey", " L 1g,4\n", 1, "hexadecimal", 0},
	{"lackey", " L ffffffffffffffff,4\n", 1, "2^64", 0},
	{"lackey", " L 10,0\n", 1, "positive", 0},
	{"lackey", "L 10,4\n", 1, "I, L, S or M", 0},
	{"lackey", "I  10,3\n", -8, "no records", 0},
	{"nvbit", nvLine + "0x10\n" + nvLine + "7\n", 2, "address", 1},
	{"nvbit", nvLine + strings.Repeat("0x10 ", 33) + "\n", 1, "1 to 32", 0},
	{"nvbit", nvLine + "0xffffffffffffffff\n", 1, "2^64", 0},
	{"nvbit", "CTX 0x1 - grid_launch_id 0 - CTA", 1, "cut off", 0},
	{"nvbit", "MEM - grid_launch_id 0 - CTA 0,0,0 - LDG.E - 0x10", 1, "not a mem_trace", 0},
	{"nvbit", "just the program's output\n", -26, "no records", 0},
	{"native", nativeMagic, 0, "cut off in its header", 0},
	{"native", "oops, not it, not at all, really not so", 0, "magic", 0},
}

// TestBadInput: the error must name the place and say what is wrong.
func TestBadInput(t *testing.T) {
	for _, c := range bad {
		got, err := readBytes(t, []byte(c.in), Options{Format: c.format}, 10)
		te, ok := err.(*Error)
		if !ok {
			t.Errorf("%s %.50q: %v", c.format, c.in, err)
			continue
		}
		place := te.Line
		if place == 0 {
			place = -te.Offset
		}
		if place != c.place || !strings.Contains(te.Error(), c.what) || te.Path != "mem" || te.Format != c.format || len(got) != c.records {
			t.Errorf("%s %.50q: %d records, then at %d: %v\nwant %d records, then at %d: %s",
				c.format, c.in, len(got), place, te, c.records, c.place, c.what)
		}
	}
}
