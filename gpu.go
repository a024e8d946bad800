package tritier

import (
	"github.com/tritier/tritier/copyeng"
)

// openTiers allocates T1 and T2 where the configuration wants them, and says why
// T1 is there.
func openTiers(p *parsed, frames, slots int) (*tiers, string, error) {
	t, err := newTiers(copyeng.OpenHost(copyeng.HostOptions{}), frames, slots, int(p.PageSize), p.Timeout)
	if err != nil {
		return t, "", err
	}
	t.elements = inMemory{t.t1.Bytes(), int(p.PageSize)}
	return t, "ordinary memory: the configuration wants no GPU", nil
}
