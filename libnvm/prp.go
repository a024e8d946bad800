package libnvm

// listBytes is the size of the PRP list area that one command may need when it
// moves up to maxBytes. Lists of at most one page get a power of two, so that
// none crosses a page; longer ones get whole pages, chained.
func listBytes(maxBytes int) int {
	// PRP1 takes the first page, and an offset in it can push one page more.
	entries := maxBytes / PageSize
	const perPage = PageSize / 8
	if entries <= perPage {
		n := 64
		for n < entries*8 {
			n *= 2
		}
		return n
	}
	// Every page but the last gives one entry to the pointer to the next.
	return (entries + perPage - 3) / (perPage - 1) * PageSize
}

// setPRP describes n bytes of m from off in cmd, with list[at:] for the list.
// The caller has checked the range, and that off is a multiple of 4. Only PRP1
// has an offset in its page (NVMe base specification 4.1.1).
func setPRP(cmd *Command, m *Memory, off, n int, list *Memory, at int) {
	cmd.PRP1, cmd.PRP2 = m.iova(off), 0
	first := PageSize - off%PageSize
	if n <= first {
		return
	}
	n -= first
	off += first
	if n <= PageSize {
		cmd.PRP2 = m.iova(off)
		return
	}
	cmd.PRP2 = list.iova(at)
	for n > 0 {
		if at%PageSize == PageSize-8 && n > PageSize {
			// The page's last entry points to the next page of the list.
			le.PutUint64(list.buf[at:], list.iova(at+8))
			at += 8
		}
		le.PutUint64(list.buf[at:], m.iova(off))
		at += 8
		off += PageSize
		n -= PageSize
	}
}
