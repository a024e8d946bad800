package placement_test

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/placement"
)

func ExampleParse() {
	for _, s := range []string{"clock", "gmt-reuse{k=4,t2copy=keep}", "tier-order{t1=s3-fifo(small=0.2),t2=fifo}"} {
		spec, err := placement.Parse(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(spec)
	}
	// Output:
	// tier-order{t1=clock,t2=clock,t2copy=drop}
	// gmt-reuse{t1=clock,t2=fifo,first=0.5,fit-every=8192,k=4,r2=0.75,starve=0.8,t2copy=keep,vtd-direct=10240,window=4096}
	// tier-order{t1=s3-fifo(cap=3,ghost=1,promote=1,small=0.2),t2=fifo,t2copy=drop}
}

func ExampleSyntaxError() {
	_, err := placement.Parse("gmt-reuse{t1=clock,starv=0.9}")
	fmt.Println(err)
	var syntax *placement.SyntaxError
	if errors.As(err, &syntax) {
		fmt.Printf("at byte %d, %s instead?\n", syntax.Pos, syntax.Near)
	}
	// Output:
	// policy "gmt-reuse{t1=clock,starv=0.9}", character 20: unknown key of gmt-reuse "starv", did you mean "starve"? (valid: t1, t2, first, fit-every, k, r2, starve, t2copy, vtd-direct, window)
	// at byte 19, starve instead?
}

func ExampleSpec_Build() {
	spec, err := placement.Parse("bypass{t1=2q}")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = spec.Build(placement.Env{T1Frames: 1, Pages: 100, Seed: 1})
	fmt.Println(err)
	p, err := spec.Build(placement.Env{T1Frames: 16, Pages: 100, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.T1.Name(), p.T1.Cap(), p.Placer.Name())
	// Output:
	// 2q in T1: 1 frame is too few: it needs at least 2
	// 2q 16 bypass
}
