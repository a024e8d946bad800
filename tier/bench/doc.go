// Package bench measures the GPU-orchestrated engine against raw pointers in the same
// run: what a hit costs, by operator, cursor and random reads, and how fast pages come
// from T2 while a kernel runs. Everything that is read is compared.
package bench

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package bench -type hitKernels -o hits_gen.go -I ../../cuda/device -I ../../bamio/device -I ../device hits.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package bench -type eachKernels -o each_gen.go -I ../../cuda/device -I ../../bamio/device -I ../device each.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package bench -type faultKernels -o faults_gen.go -I ../../cuda/device -I ../../bamio/device -I ../device faults.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package bench -type verifyKernels -o verify_gen.go -I ../../cuda/device -I ../../bamio/device -I ../device verify.cu
