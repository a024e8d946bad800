// Package kernels holds the workloads of package workload as CUDA kernels over
// tritier::array_ref: which access form each uses, its sources say. A handle's method
// launches a kernel; package workload has the order of launches, the sizes of scratch
// memory and what an Outcome means.
//
// Dense programs read through cursors or in bulk, and write whole pages from scratch
// memory, so that those are not fetched. Searches read single elements; all of a
// graph and all that they know of its vertices is in tiered arrays, as in the batch
// form, so that it may outgrow the GPU. Only what does not grow with the data is
// ordinary GPU memory: an Outcome, and scratch memory for each warp.
//
// Kernels have no barrier of a block or of the grid: a program launches another one
// where all warps must have ended.
package kernels

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type VectorAdd -o vectoradd_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device vectoradd.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type Pathfinder -o pathfinder_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device pathfinder.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type Hotspot -o hotspot_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device hotspot.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type Backprop -o backprop_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device backprop.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type Srad -o srad_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device srad.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type BFS -o bfs_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device bfs.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type SSSP -o sssp_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device sssp.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type Pagerank -o pagerank_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device pagerank.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type Embedding -o embedding_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device embedding.cu
