package trace

import (
	"slices"
	"strings"
)

// Format names one trace format.
type Format struct {
	Name  string // for Options.Format and --format
	About string // one line
}

// format is an entry of the registry.
type format struct {
	name  string
	about string
	alias []string
	info  Info
	magic bool                  // probe goes by a magic number: sure ends detection
	probe func(h *head) verdict // nil: never detected, only named
	open  func(in *input, info Info, h *head, o *Options) (Reader, *Error)
}

// simple makes the open function of a format whose decoder needs nothing.
func simple(dec func() decoder) func(*input, Info, *head, *Options) (Reader, *Error) {
	return func(in *input, info Info, _ *head, _ *Options) (Reader, *Error) {
		return &windowReader{in: in, dec: dec(), info: info}, nil
	}
}

// lines makes a decoder constructor of a function that parses one line.
func lines(parse func([]byte, *Record) (bool, string)) func() decoder {
	return func() decoder { return &lineDecoder{parse: parse} }
}

func openIDs(in *input, info Info, h *head, o *Options) (Reader, *Error) {
	dec := newIDs(&info, h, o)
	return &windowReader{in: in, dec: dec, info: info}, nil
}

// formats is the registry, in the order of --help.
var formats = []format{
	{
		name: "native", about: "the own format, .ttrc: compact, checksummed, seekable (FORMAT.md)",
		alias: []string{"ttrc"}, probe: probeNative, open: openNative, magic: true,
	},
	{
		name: "mooncake", about: "Mooncake JSON lines: LLM KV-cache blocks, one request a line (timestamp, hash_ids)",
		info:  Info{PageAddressed: true, Times: true, Requests: true, Prompts: true},
		probe: probeKeys("timestamp", "hash_ids"), open: simple(func() decoder { return newMooncake() }),
	},
	{
		name: "kv-cache-tester", about: "kv-cache-tester sessions of coding agents: one JSON file, or a tar of them (see --order)",
		alias: []string{"kvcache", "kv-cache"}, info: Info{PageAddressed: true, Times: true, Requests: true, Prompts: true},
		probe: probeSessions, open: openSessions, magic: true,
	},
	{
		name: "lmcache", about: "LMCache lookup log, JSON lines (timestamp, seq_len, chunk_hashes)",
		info:  Info{PageAddressed: true, Times: true, Requests: true, Prompts: true},
		probe: probeKeys("timestamp", "chunk_hashes"), open: simple(func() decoder { return newLMCache() }),
	},
	{
		name: "oracleGeneral", about: "libCacheSim oracleGeneral: 24-byte binary records",
		alias: []string{"oracle"}, info: Info{PageAddressed: true, Times: true},
		probe: probeOracle, open: openOracle,
	},
	{
		name: "ids", about: "one page number a line, decimal or hexadecimal, optionally followed by R, W or P; # comments",
		info: Info{PageAddressed: true}, probe: probeIDs, open: openIDs,
	},
	{
		name: "ids-hex", about: "as ids, every number hexadecimal; never detected, only named",
		info: Info{PageAddressed: true}, open: openIDs,
	},
	{
		name: "lirs", about: "LIRS: one decimal page number a line, * lines between requests",
		info: Info{PageAddressed: true, Requests: true}, probe: probeLirs, open: openIDs,
	},
	{
		name: "lis", about: "ARC .lis: start, count, 0, request; count accesses a line",
		alias: []string{"arc"}, info: Info{PageAddressed: true, Requests: true},
		probe: probeLis, open: simple(func() decoder { return &lisDecoder{} }),
	},
	{
		name: "mqsim", about: "MQSim block trace: time in ns, device, LBA, sectors, type (0 write, 1 read)",
		info:  Info{Times: true, Requests: true, Writes: true},
		probe: probeMQSim, open: simple(lines(parseMQSim)),
	},
	{
		name: "vscsi", about: "VMware vscsi block trace, binary, versions 1 and 2",
		info:  Info{Times: true, Requests: true, Writes: true},
		probe: probeVSCSI, open: openVSCSI,
	},
	{
		name: "csv", about: "comma-, semicolon-, tab- or |-separated, with a header line or --csv-columns: time, page or offset, size, op, array, gpu, ...",
		probe: probeCSV, open: openCSV,
	},
	{
		name: "lackey", about: "valgrind --tool=lackey --trace-mem=yes; instruction fetches are left out",
		info: Info{Writes: true}, probe: probeLackey, open: simple(lines(parseLackey)),
	},
	{
		name: "nvbit", about: "NVBit mem_trace text: one line a warp access; shared and local memory are left out",
		alias: []string{"mem_trace"}, info: Info{Writes: true, Requests: true},
		probe: probeNVBit, open: simple(func() decoder { return &nvbitDecoder{} }),
	},
}

// Formats lists every format that Open reads, with a line on each.
func Formats() []Format {
	list := make([]Format, len(formats))
	for i, f := range formats {
		list[i] = Format{f.name, f.about}
	}
	return list
}

func formatNames() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// byName finds a format by its name or an alias, in any case.
func byName(name string) *format {
	for i := range formats {
		f := &formats[i]
		if strings.EqualFold(f.name, name) ||
			slices.ContainsFunc(f.alias, func(a string) bool { return strings.EqualFold(a, name) }) {
			return f
		}
	}
	return nil
}
