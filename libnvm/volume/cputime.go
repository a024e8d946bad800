package volume

import "time"

// ServiceCPU is the processor time that the service threads of software controllers
// behind the members have used so far; known is false when no member has any, or
// when the system does not say. Any goroutine may call it.
func (v *Volume) ServiceCPU() (used time.Duration, known bool) {
	for _, m := range v.members {
		n, ok := m.(*namespace)
		if !ok {
			continue
		}
		if t, ok := n.c.Transport().(interface{ CPUTime() time.Duration }); ok {
			used += t.CPUTime()
		}
	}
	return used, used > 0
}
