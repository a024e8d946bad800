package bench

import "github.com/tritier/tritier/cuda"

// Functions loads the kernels, for their attributes; they live as long as the context.
func Functions(ctx *cuda.Context) (hits, faults []*cuda.Function, err error) {
	h, err := loadHitKernels(ctx)
	if err != nil {
		return nil, nil, err
	}
	f, err := loadFaultKernels(ctx)
	if err != nil {
		return nil, nil, err
	}
	e, err := loadEachKernels(ctx)
	if err != nil {
		return nil, nil, err
	}
	return append(h.functions[:], e.functions[:]...), f.functions[:], nil
}
