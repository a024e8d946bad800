package placement_test

import (
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/placement/policytest"
)

// TestPlacerConformance runs the suite on every placer of the registry, on
// gmt-reuse with its rules in force after a few evictions, and on adaptive when
// it switches often and when its shadows are samples.
func TestPlacerConformance(t *testing.T) {
	policies := []string{
		"gmt-reuse{k=1,fit-every=64,vtd-direct=0,window=100}",
		"gmt-reuse{k=3,starve=0.1,window=7}",
		"adaptive{k=1,fit-every=64,vtd-direct=0,window=100,hysteresis=0,price=0}",
		"adaptive{t1=lru,t2=arc,shadow-frames=64,hysteresis=0,t2copy=keep}",
	}
	for _, p := range placement.Placers() {
		policies = append(policies, p.Name+"{}")
	}
	for _, policy := range policies {
		spec, err := placement.Parse(policy)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(policy, func(t *testing.T) {
			policytest.RunPlacer(t, func(pages int, seed uint64) (placement.Placer, error) {
				p, err := spec.Build(placement.Env{T1Frames: 50, T2Frames: 100, Pages: pages, Seed: seed})
				if err != nil {
					return nil, err
				}
				if p.Placer.Name() != spec.Placer() {
					t.Errorf("%s calls itself %s", policy, p.Placer.Name())
				}
				return p.Placer, nil
			})
		})
	}
}
