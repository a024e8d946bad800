package mrc

// sampledPage is a page in the sample of a FixedSize.
type sampledPage struct {
	point, key uint64
	entry      uint32
}

// pointHeap has the page with the largest point first.
type pointHeap struct{ list []sampledPage }

func (h *pointHeap) push(p sampledPage) {
	h.list = append(h.list, p)
	i := len(h.list) - 1
	for i > 0 && h.list[(i-1)/2].point < p.point {
		h.list[i] = h.list[(i-1)/2]
		i = (i - 1) / 2
	}
	h.list[i] = p
}

func (h *pointHeap) pop() sampledPage {
	top, n := h.list[0], len(h.list)-1
	p := h.list[n]
	h.list = h.list[:n]
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h.list[child+1].point > h.list[child].point {
			child++
		}
		if h.list[child].point <= p.point {
			break
		}
		h.list[i] = h.list[child]
		i = child
	}
	if n > 0 {
		h.list[i] = p
	}
	return top
}
