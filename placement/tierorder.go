package placement

// TierOrder is a plain hierarchy: every victim of T1 goes to T2 and every
// victim of T2 to T3 (GMT-TierOrder, ASPLOS 2024).
type TierOrder struct{}

// NewTierOrder makes a TierOrder, which has no state.
func NewTierOrder() *TierOrder { return &TierOrder{} }

// Name is tier-order.
func (*TierOrder) Name() string { return "tier-order" }

// Grow has nothing to prepare.
func (*TierOrder) Grow(int) {}

// Fate is ToT2.
func (*TierOrder) Fate(Victim) Fate { return ToT2 }

// Always is ToT2.
func (*TierOrder) Always() Fate { return ToT2 }
