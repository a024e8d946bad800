package servicetime

// NamedFigure is a figure with its place in the model's file.
type NamedFigure struct {
	Where string // such as drives.read.latency_ns
	Figure
}

// Figures lists every figure of the model, in the order of its file.
func (m *Model) Figures() []NamedFigure {
	var l figureList
	if g := m.GPU; g != nil {
		l.edge("gpu.t1", &g.T1)
		l.edge("gpu.t2_to_t1", &g.T2T1)
		l.edge("gpu.t1_to_t2", &g.T1T2)
	}
	for _, name := range sortedKeys(m.Links) {
		f := m.Links[name].Bandwidth
		l.add("links."+name+".bandwidth_bytes_per_s", &f)
	}
	l.edge("drives.read", &m.Drives.Read)
	l.edge("drives.write", &m.Drives.Write)
	l.pool("initiator", m.Initiator)
	l.pool("controller", m.Controller)
	for _, name := range sortedKeys(m.Paths) {
		p, where := m.Paths[name], "paths."+name
		l.pool(where+".initiator", p.Initiator)
		l.pool(where+".controller", p.Controller)
		l.add(where+".in_flight", p.InFlight)
		l.add(where+".in_flight_per_drive", p.InFlightPerDrive)
		if p.Crossing != nil {
			l.add(where+".crossing.latency_ns", &p.Crossing.LatencyNS)
			l.add(where+".crossing.up_to_bytes", &p.Crossing.UpToBytes)
		}
		l.add(where+".bill.logical_cpus", p.Bill.LogicalCPUs)
		l.add(where+".bill.gpu_share", p.Bill.GPUShare)
		l.add(where+".bill.gpu_threads", p.Bill.GPUThreads)
	}
	return l
}

type figureList []NamedFigure

func (l *figureList) add(where string, f *Figure) {
	if f != nil {
		*l = append(*l, NamedFigure{where, *f})
	}
}

func (l *figureList) edge(where string, e *Edge) {
	l.add(where+".latency_ns", &e.LatencyNS)
	l.add(where+".bandwidth_bytes_per_s", &e.Bandwidth)
	l.add(where+".iops", e.IOPS)
	l.add(where+".concurrency", &e.Concurrency)
	l.add(where+".access_bytes", e.AccessBytes)
	l.add(where+".latency_sigma", e.LatencySigma)
	l.add(where+".controller_ns", e.ControllerNS)
	l.add(where+".controller_units", e.ControllerUnits)
}

func (l *figureList) pool(where string, i *Initiator) {
	if i == nil {
		return
	}
	l.add(where+".cost_ns", &i.CostNS)
	l.add(where+".threads", &i.Threads)
	l.add(where+".cost_ns_per_kib", i.CostNSPerKiB)
}
