package gpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/tritier/tritier/placement"
)

func TestAccepts(t *testing.T) {
	for policy, want := range map[string]bool{
		"bypass": true, "gmt-reuse": true, "random{t1=fifo}": true, "tier-order{t1=clock,t2=fifo}": true,
		"tier-order": false, "bypass{t2=lru}": false, "gmt-reuse{t2copy=keep}": true, "bypass{t1=s3-fifo}": false, "adaptive": false,
	} {
		spec, err := placement.Parse(policy)
		if err != nil {
			t.Fatal(err)
		}
		err = Accepts(spec)
		var refused *PolicyError
		if (err == nil) != want || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v", policy, err)
		}
		if policy == "adaptive" && !strings.Contains(err.Error(), "the placers bypass, tier-order, random and gmt-reuse, not adaptive") {
			t.Errorf("which placers work? %v", err)
		}
	}
}
