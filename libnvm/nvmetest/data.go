package nvmetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm"
)

func testIdentify(e *env) {
	i := e.c.Info()
	if i.Serial == "" || i.Model == "" {
		e.Errorf("serial %q, model %q", i.Serial, i.Model)
	}
	if e.c.MaxTransfer() < libnvm.PageSize || e.c.QueueLimit() < e.o.Queues || e.c.MaxDepth() < 2 {
		e.Errorf("max transfer %d, %d queue pairs, depth up to %d", e.c.MaxTransfer(), e.c.QueueLimit(), e.c.MaxDepth())
	}
	ids, err := e.c.NamespaceIDs()
	e.must(err)
	found := false
	for _, id := range ids {
		found = found || id == e.o.NSID
	}
	if !found {
		e.Errorf("namespace %d is not among %v", e.o.NSID, ids)
	}
	all, err := e.c.Namespaces()
	e.must(err)
	if len(all) == 0 {
		e.Error("no usable namespace")
	}
	ns := e.ns
	if ns.Formats[ns.Format].BlockSize != ns.BlockSize || ns.Bytes() != ns.Blocks*uint64(ns.BlockSize) {
		e.Errorf("namespace: %+v", *ns)
	}
	if e.c.State() != libnvm.StateReady || e.c.Health() != nil {
		e.Errorf("%v, %v", e.c.State(), e.c.Health())
	}
	if _, err := e.c.Namespace(0xfffffff0); !errors.Is(err, &libnvm.StatusError{Status: libnvm.StatusInvalidNamespace}) {
		e.Errorf("a namespace that does not exist: %v", err)
	}
}

// testSizes moves data of many sizes from and to many offsets: PRP1 alone,
// PRP1 and PRP2, lists, and requests that are split.
func testSizes(e *env) {
	q := e.queue(16)
	bs, mt := e.ns.BlockSize, e.c.MaxTransfer()
	sizes := []int{bs, 2 * bs, 4096, 8192, 8192 + bs, 12288, 65536, mt - bs, mt, mt + bs, 3*mt + bs}
	for _, size := range sizes {
		size = size / bs * bs
		if size < bs || uint64(size)*2 > e.ns.Bytes() {
			continue
		}
		for _, off := range []int{0, 4, 512, 4092, 4096 + 2048} {
			data := e.pattern(size)
			lba := e.rng.Uint64N(e.ns.Blocks - e.blocks(size) + 1)
			e.write(q, lba, data, off)
			e.expect(q, lba, data, (off+4)%8192/4*4)
		}
	}
	// The same data in single blocks: splitting has put each block where it belongs.
	data := e.pattern(mt + 4*bs)
	e.write(q, 5, data, 8)
	for _, i := range []int{0, 1, mt/bs - 1, mt / bs, len(data)/bs - 1} {
		e.expect(q, 5+uint64(i), data[i*bs:(i+1)*bs], 0)
	}
}

// testChains uses commands whose PRP lists take several pages.
func testChains(e *env) {
	if e.c.MaxTransfer() <= 2<<20 {
		e.Fatalf("transfers of up to %d bytes need no chain; raise Options.Config.MaxTransfer", e.c.MaxTransfer())
	}
	q := e.queue(4)
	for _, size := range []int{2<<20 - 4096, 2 << 20, 2<<20 + 4096, 2<<20 + 8192, 4<<20 + 12288, e.c.MaxTransfer()} {
		for _, off := range []int{0, 2048} {
			data := e.pattern(min(size, e.c.MaxTransfer()))
			e.write(q, 3, data, off)
			e.expect(q, 3, data, 4096-off)
		}
	}
	if st := q.Stats(); st.Commands != st.Submitted {
		e.Errorf("%d requests were split into %d commands", st.Submitted, st.Commands)
	}
}

// optional skips what the controller does not offer, visibly.
func (e *env) optional(name string, err error) bool {
	e.Helper()
	var u *libnvm.UnsupportedError
	if errors.As(err, &u) {
		e.Logf("not offered by the controller: %s", name)
		return false
	}
	e.must(err)
	return true
}

func testCommands(e *env) {
	q := e.queue(8)
	bs := e.ns.BlockSize
	data := e.pattern(8 * bs)
	e.write(q, 100, data, 0)
	e.must(q.Do(&libnvm.Request{Op: libnvm.OpFlush, NS: e.ns}))

	m := e.buffer(8 * bs)
	copy(m.Bytes(), data)
	if e.optional("Compare", q.Do(&libnvm.Request{Op: libnvm.OpCompare, NS: e.ns, LBA: 100, Blocks: 8, Mem: m})) {
		m.Bytes()[5*bs+3] ^= 1
		err := q.Do(&libnvm.Request{Op: libnvm.OpCompare, NS: e.ns, LBA: 100, Blocks: 8, Mem: m})
		if !errors.Is(err, &libnvm.StatusError{Status: libnvm.StatusCompareFailure}) {
			e.Errorf("compare of different data: %v", err)
		}
	}
	copy(m.Bytes(), data)
	e.must(q.Do(&libnvm.Request{Op: libnvm.OpWrite, NS: e.ns, LBA: 100, Blocks: 8, Mem: m, FUA: true}))
	e.expect(q, 100, data, 0)

	if e.optional("Write Zeroes", q.Do(&libnvm.Request{Op: libnvm.OpWriteZeroes, NS: e.ns, LBA: 102, Blocks: 3})) {
		clear(data[2*bs : 5*bs])
		e.expect(q, 100, data, 0)
	}
	if e.optional("deallocate", q.Do(&libnvm.Request{Op: libnvm.OpDataset, NS: e.ns, LBA: 106, Blocks: 1})) {
		e.expect(q, 100, data[:6*bs], 0)
		e.expect(q, 107, data[7*bs:], 0)
	}
}

// testRandom runs random requests, several at a time, against a model.
func testRandom(e *env) {
	const ops, depth, region = 600, 8, 64
	e.Logf("seed %d", e.o.Seed)
	q := e.queue(depth + 3)
	bs := e.ns.BlockSize
	model := e.pattern(region * bs)
	e.write(q, 0, model, 0)
	const most = 8
	m := e.buffer(depth * most * bs)
	type job struct {
		busy      bool
		lba, n    uint64
		write     bool
		wanted    []byte
		bufferOff int
	}
	jobs := make([]job, depth)
	overlap := func(lba, n uint64) bool {
		for i := range jobs {
			if j := &jobs[i]; j.busy && lba < j.lba+j.n && j.lba < lba+n {
				return true
			}
		}
		return false
	}
	finish := func(c libnvm.Completion) {
		j := &jobs[c.Tag]
		e.must(c.Err)
		if got := m.Bytes()[j.bufferOff:][:len(j.wanted)]; !j.write && !bytes.Equal(got, j.wanted) {
			e.Fatalf("LBA %d, %d blocks: byte %d differs (seed %d)", j.lba, j.n, firstDifference(got, j.wanted), e.o.Seed)
		}
		j.busy = false
	}
	outstanding := 0
	for range ops {
		k := e.rng.IntN(depth)
		n := e.rng.Uint64N(most) + 1
		lba := e.rng.Uint64N(region - n + 1)
		for jobs[k].busy || overlap(lba, n) {
			finish(e.drain(q, 1)[0])
			outstanding--
		}
		j := job{busy: true, lba: lba, n: n, write: e.rng.IntN(2) == 0, bufferOff: k * most * bs}
		part := model[lba*uint64(bs) : (lba+n)*uint64(bs)]
		op := libnvm.OpRead
		if j.write {
			op = libnvm.OpWrite
			copy(part, e.pattern(len(part)))
			copy(m.Bytes()[j.bufferOff:], part)
		}
		j.wanted = bytes.Clone(part)
		jobs[k] = j
		r := libnvm.Request{Op: op, NS: e.ns, LBA: lba, Blocks: n, Mem: m, Offset: j.bufferOff, Tag: uint64(k)}
		_, err := q.Submit(&r)
		// Requests that the controller's transfer size splits fill the queue
		// with fewer than depth of them. Each round ends one, so this ends.
		for ; errors.Is(err, libnvm.ErrQueueFull) && outstanding > 0; outstanding-- {
			finish(e.drain(q, 1)[0])
			_, err = q.Submit(&r)
		}
		e.must(err)
		outstanding++
	}
	for range outstanding {
		finish(e.drain(q, 1)[0])
	}
	e.expect(q, 0, model, 0)
}

// testMemory checks what the transport promises about memory.
func testMemory(e *env) {
	for _, n := range []int{1, 4096, 4097, 1 << 20} {
		m, err := e.tr.Alloc(n)
		e.must(err)
		if m.Len() < n || m.Len()%libnvm.PageSize != 0 {
			e.Errorf("asked for %d bytes, got %d", n, m.Len())
		}
		if !bytes.Equal(m.Bytes(), make([]byte, m.Len())) {
			e.Fatal("new memory is not zero")
		}
		a, err := m.IOVA(0)
		if err != nil || a%libnvm.PageSize != 0 || !m.Contiguous(0, m.Len()) {
			e.Errorf("IOVA %#x, %v, contiguous %v", a, err, m.Contiguous(0, m.Len()))
		}
		if _, err := m.IOVA(m.Len()); err == nil {
			e.Error("an IOVA past the end")
		}
		paint(m.Bytes()) // what comes again must be zero all the same
		e.must(m.Free())
		e.must(m.Free())
	}
	testMap(e)
}

// testMap moves data to memory that the caller brings, where that is possible.
func testMap(e *env) {
	bs := e.ns.BlockSize
	size := (3*libnvm.PageSize + bs - 1) / bs * bs
	raw := make([]byte, size+3*libnvm.PageSize)
	at := 0
	for at < libnvm.PageSize && !aligned(raw[at:]) {
		at++
	}
	mine := raw[at : at+(size+2*libnvm.PageSize-1)/libnvm.PageSize*libnvm.PageSize]
	m, err := e.tr.Map(mine)
	var me *libnvm.MapError
	if errors.As(err, &me) {
		if me.Reason == "" {
			e.Error("a MapError without a reason")
		}
		e.Logf("no mapping of the caller's memory: %v", err)
		return
	}
	e.must(err)
	q := e.queue(4)
	data := e.pattern(size)
	e.write(q, 40, data, 0)
	e.must(q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: e.ns, LBA: 40, Blocks: e.blocks(len(data)), Mem: m, Offset: 64}))
	if !bytes.Equal(mine[64:64+len(data)], data) {
		e.Error("the data is not in the caller's memory")
	}
	e.must(m.Free())
	if _, err := e.tr.Map(mine[1:4097]); !errors.As(err, &me) {
		e.Errorf("memory that is not aligned: %v", err)
	}
}

// want checks for an error completion with a status.
func want(err error, st libnvm.Status) error {
	var se *libnvm.StatusError
	if !errors.As(err, &se) {
		return fmt.Errorf("got %v, want status %#x (%s)", err, uint16(st), st)
	}
	if se.Status != st {
		return fmt.Errorf("got status %#x (%s), want %#x (%s)", uint16(se.Status), se.Status, uint16(st), st)
	}
	return nil
}
