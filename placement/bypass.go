package placement

// Bypass lets every victim of T1 skip T2, which leaves two tiers (BaM,
// ASPLOS 2023).
type Bypass struct{}

// NewBypass makes a Bypass, which has no state.
func NewBypass() *Bypass { return &Bypass{} }

// Name is bypass.
func (*Bypass) Name() string { return "bypass" }

// Grow has nothing to prepare.
func (*Bypass) Grow(int) {}

// Fate is ToT3.
func (*Bypass) Fate(Victim) Fate { return ToT3 }

// Always is ToT3.
func (*Bypass) Always() Fate { return ToT3 }
