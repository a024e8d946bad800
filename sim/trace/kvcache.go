package trace

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	maxSessionFile = 256 << 20 // bytes of one session's JSON
	maxSubagents   = 8         // nesting of sub-agents
	maxRuns        = 1 << 26   // run-encoded ids held for the merged order: 1 GiB
	maxRequests    = 1 << 24
)

// run is a sequence of consecutive ids: prompts grow by appending, so a request
// of thousands of blocks is a handful of runs.
type run struct {
	first, n uint64
}

// request is one prompt.
type request struct {
	time        uint64 // ns since the session's start
	session     uint32
	first, last int // its runs are runs[first:last]
}

// sessions reads kv-cache-tester traces: JSON files with one session each, alone
// or in a tar archive. Block ids are per file, so the session's number is the
// array. Sub-agents are requests within a request; their times count from the
// start of the request that holds them.
//
// The concatenated order streams, one session in memory at a time. The merged
// order has to see every session first; it holds run-encoded ids, a few bytes
// for hundreds of ids, and maxRuns and maxRequests bound it.
type sessions struct {
	in     *input
	info   Info
	tar    *tar.Reader // nil when the input is one JSON file
	end    *tarEnd     // below tar
	member string
	buf    bytes.Buffer
	count  int // sessions read

	runs  []run
	reqs  []request
	req   int // request being given out
	run   int // within reqs[req]: run, and how far into it
	at    uint64
	made  int64
	ended bool // no more sessions
	err   error
}

// tarMagic is at tarMagicAt in a tar archive (POSIX ustar and GNU tar).
const (
	tarMagic   = "ustar"
	tarMagicAt = 257
)

func isTar(b []byte) bool {
	return len(b) >= 512 && string(b[tarMagicAt:tarMagicAt+len(tarMagic)]) == tarMagic
}

// probeSessions accepts a tar archive, which only this format uses, and a JSON
// object with requests that have hash_ids.
func probeSessions(h *head) verdict {
	if isTar(h.buf) {
		return sure
	}
	if t := bytes.TrimSpace(h.buf); len(t) == 0 || t[0] != '{' {
		return no
	}
	if jsonKeys(h.buf)["requests"] && bytes.Contains(h.buf, []byte(`"hash_ids"`)) {
		return sure
	}
	return no
}

func openSessions(in *input, info Info, h *head, o *Options) (Reader, *Error) {
	s := &sessions{in: in, info: info}
	s.info.Order = Merged
	if o.Order == Concatenated {
		s.info.Order = Concatenated
	}
	if isTar(h.buf) {
		s.end = &tarEnd{r: in}
		s.tar = tar.NewReader(s.end)
	}
	return s, nil
}

// Next implements Reader.
func (s *sessions) Next(recs []Record) (n int, err error) {
	for n < len(recs) && s.err == nil {
		if s.req < len(s.reqs) {
			k := s.emit(recs[n:])
			n += k
			s.made += int64(k)
			continue
		}
		s.err = s.load()
	}
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}

// emit makes records of the current request, and goes on to the next.
func (s *sessions) emit(recs []Record) (n int) {
	r := &s.reqs[s.req]
	for n < len(recs) && r.first+s.run < r.last {
		u := &s.runs[r.first+s.run]
		flags := PageAddressed
		if s.run == 0 && s.at == 0 {
			flags |= RequestStart
		}
		k := int(min(u.n-s.at, uint64(len(recs)-n)))
		for i := range k {
			recs[n+i] = Record{Addr: u.first + s.at + uint64(i), Time: r.time, Array: r.session, Flags: flags}
			flags = PageAddressed
		}
		n += k
		if s.at += uint64(k); s.at == u.n {
			s.at = 0
			s.run++
		}
	}
	if r.first+s.run == r.last {
		s.req++
		s.run = 0
	}
	return n
}

// load replaces the requests by the next session's, or, in the merged order, by
// all sessions'.
func (s *sessions) load() error {
	s.reqs, s.runs, s.req = s.reqs[:0], s.runs[:0], 0
	for !s.ended {
		data, err := s.nextFile()
		if err != nil {
			return err
		}
		if data == nil {
			s.ended = true
			break
		}
		if err := s.parse(data); err != nil {
			return err
		}
		s.count++
		if s.info.Order == Concatenated && len(s.reqs) > 0 {
			return nil
		}
	}
	if s.info.Order == Merged {
		slices.SortStableFunc(s.reqs, func(a, b request) int {
			switch {
			case a.time < b.time:
				return -1
			case a.time > b.time:
				return 1
			}
			return 0
		})
	}
	switch {
	case len(s.reqs) > 0:
		return nil
	case s.made == 0 && s.count == 0:
		return s.fault("the archive holds no .json session file; other traces must be taken out of their archive")
	case s.made == 0:
		return s.fault("the file has no records")
	}
	return io.EOF
}

// nextFile reads the next session's JSON; nil means that there is none.
func (s *sessions) nextFile() ([]byte, error) {
	var src io.Reader = s.in
	if s.tar == nil && s.count > 0 {
		return nil, nil
	}
	for s.tar != nil {
		h, err := s.tar.Next()
		if err == io.EOF {
			return nil, s.endOfTar()
		}
		if err != nil {
			return nil, s.readFault(err)
		}
		s.member = h.Name
		if h.Typeflag == tar.TypeReg && strings.HasSuffix(h.Name, ".json") {
			src = s.tar
			break
		}
	}
	s.buf.Reset()
	n, err := s.buf.ReadFrom(io.LimitReader(src, maxSessionFile+1))
	if err != nil {
		return nil, s.readFault(err)
	}
	if n > maxSessionFile {
		return nil, s.fault(fmt.Sprintf("a session file of more than %d MiB", maxSessionFile>>20))
	}
	return s.buf.Bytes(), nil
}

// tarEnd counts the bytes of 0 at the end of what was read.
type tarEnd struct {
	r     io.Reader
	zeros int
}

// Read implements io.Reader.
func (t *tarEnd) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	last := len(bytes.TrimRight(p[:n], "\x00"))
	if last > 0 {
		t.zeros = 0
	}
	t.zeros += n - last
	return n, err
}

// endOfTar checks that the archive ends with a block of zeros, without which it
// is cut off between two files, and reads what is left, so that a decompressor
// checks the end of its data.
func (s *sessions) endOfTar() error {
	const block = 512
	if s.end.zeros < block {
		return s.fault("the tar archive is cut off: its end mark is missing")
	}
	if _, err := io.Copy(io.Discard, s.in); err != nil {
		return s.readFault(err)
	}
	return nil
}

// parse appends the requests of one session.
func (s *sessions) parse(data []byte) error {
	j := jscan{b: data}
	what, found := "", false
	ok := j.object(func(key []byte) bool {
		if string(key) != "requests" {
			return j.skip(0)
		}
		found = true
		what = s.requests(&j, 0, 0)
		return what == ""
	})
	if what == "" {
		switch {
		case !ok:
			what = "not a JSON object, or cut off"
		case j.ws() != 0 || j.i < len(data):
			what = "text after the JSON object"
		case !found:
			what = "the session has no requests"
		default:
			return nil
		}
	}
	e := s.fault(what)
	e.Member = s.member
	e.Offset = int64(min(j.i, len(data)))
	return e
}

// requests appends an array of requests whose times count from base, in ns.
func (s *sessions) requests(j *jscan, base uint64, depth int) (what string) {
	if depth > maxSubagents {
		return fmt.Sprintf("sub-agents nested more than %d deep", maxSubagents)
	}
	if ok := j.array(func() bool { what = s.one(j, base, depth); return what == "" }); !ok && what == "" {
		what = "requests is not an array, or cut off"
	}
	return what
}

// one appends a request, and the requests of a sub-agent within it.
func (s *sessions) one(j *jscan, base uint64, depth int) (what string) {
	r := request{session: uint32(s.count), first: len(s.runs)}
	timed, inner := false, -1
	ok := j.object(func(key []byte) bool {
		switch string(key) {
		case "t":
			tok, ok := j.number()
			if r.time, timed = parseScaled(tok, 1e9); !ok || !timed || r.time+base < base {
				what = "time " + clip(tok) + " is not a number, negative or out of range"
			}
			r.time += base
		case "hash_ids":
			what = s.ids(j)
		case "requests":
			j.ws()
			inner = j.i // its times need t, which may come later
			return j.skip(depth)
		default:
			return j.skip(0)
		}
		return what == ""
	})
	r.last = len(s.runs)
	switch {
	case what != "":
		return what
	case !ok:
		return "a request is not a JSON object, or cut off"
	case !timed:
		return "a request has no time t"
	case len(s.reqs) == maxRequests || len(s.runs) > maxRuns:
		return "too much to merge sessions in memory; use the concatenated order"
	}
	if r.last > r.first {
		s.reqs = append(s.reqs, r)
	}
	if inner >= 0 {
		end := j.i
		j.i = inner
		if what = s.requests(j, r.time, depth+1); what == "" {
			j.i = end
		}
	}
	return what
}

// ids appends an array of ids as runs.
func (s *sessions) ids(j *jscan) (what string) {
	if !j.take('[') {
		return "hash_ids is not an array"
	}
	if j.take(']') {
		return ""
	}
	var u run
	for {
		v, ok := j.uint()
		switch {
		case !ok:
			return "bad id in hash_ids near " + clip(j.b[min(j.i, len(j.b)):min(j.i+24, len(j.b))])
		case u.n > 0 && v == u.first+u.n:
			u.n++
		default:
			if u.n > 0 {
				s.runs = append(s.runs, u)
			}
			u = run{v, 1}
		}
		if j.take(']') {
			s.runs = append(s.runs, u)
			return ""
		}
		if !j.take(',') || len(s.runs) > maxRuns {
			return "hash_ids is cut off or too long"
		}
	}
}

func (s *sessions) fault(what string) *Error {
	return &Error{Path: s.in.path, Format: s.info.Format, Offset: s.in.off, Packed: s.in.compression != "", What: what}
}

func (s *sessions) readFault(err error) *Error {
	if s.tar != nil && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)) && s.in.last {
		e := s.fault("the tar archive is damaged or cut off")
		e.Err = err
		return e
	}
	return s.in.fault(s.info.Format, err)
}

// Info implements Informer.
func (s *sessions) Info() Info { return s.info }

// Progress implements Progresser.
func (s *sessions) Progress() (done, total int64) { return s.in.progress() }

// Close implements Reader.
func (s *sessions) Close() error {
	if s.err == nil {
		s.err = s.fault("read after Close")
	}
	return s.in.close()
}
