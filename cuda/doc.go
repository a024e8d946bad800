// Package cuda is the CUDA driver API, loaded at run time: a program that
// uses it is built without a CUDA toolkit and without cgo, and starts on a
// machine without a GPU, where Open says what is missing. It covers devices,
// primary contexts, streams, events, device memory, pinned host memory,
// copies one by one and in batches, and kernels from PTX or cubins.
//
//	driver, err := cuda.Open()             // loads libcuda.so.1
//	gpu, err := driver.Device("0")         // or a UUID, or a PCI address
//	ctx, err := gpu.Retain()               // the primary context
//	defer ctx.Close()
//	module, err := ctx.LoadModule(ptx)     // the driver compiles it
//	add, err := module.Function("add")
//	stream, err := ctx.NewStream()
//	memory, err := ctx.Alloc(4 << 20)
//	err = stream.CopyToDevice(memory.Ptr(), input)
//	err = add.LaunchArgs(stream, cuda.LaunchConfig{Grid: cuda.D1(4096), Block: cuda.D1(256)},
//		memory, uint32(1<<20), float32(2))
//	err = stream.CopyToHost(output, memory.Ptr())
//	err = stream.Wait(deadline)
//
// # Goroutines
//
// Everything may be used from any goroutine, and closed while others use it:
// a call after Close returns ErrClosed, and a handle is destroyed only when
// no call with it is in progress. The exceptions are a CopyBatch, and the
// bytes of a buffer. The driver's notion of a current context belongs to a
// thread; each call locks its goroutine to one and sets it.
//
// # Work in flight
//
// Copies, launches and memory settings return before they are done. Until
// Stream.Wait, Event.Wait or a Query says that they are,
//
//   - pinned memory (AllocHost, RegisterHost) that a copy reads or a kernel
//     uses must not be changed, freed or unregistered;
//   - device memory that they use must not be used by another stream, unless
//     WaitEvent orders the two. Free waits for it;
//   - the slices of a HostMemory end with it: touching them after Free faults.
//
// Go's own memory may be given to the copies as well. It is not pinned, so the
// driver reads it during the call, and writes it before the call returns: such
// a copy is safe, slower and not asynchronous. Go memory must not be given to a
// kernel or to a CopyBatch, unless it is registered and outlives the work.
//
// A *DeadlineError from a wait changes nothing: the work goes on.
//
// # Errors
//
// A failed call is an *Error, with CUDA's own name and text for the result;
// errors.Is compares it with a Result or one of the Err variables. What the
// driver is not even asked for, such as an allocation of no bytes, a launch of no
// blocks or a call on nil, is an *Error with InvalidValue that names the function
// of this package. Faults of
// kernels and asynchronous copies are found by whichever call comes next, so an error
// need not be about the call that returned it. Some faults (Result.Sticky)
// end the context: its first one is remembered, Context.Err gives it, and every
// later call on the context returns an error that holds it and is ErrSticky. What
// helps is a new process.
//
// A function that the driver is too old to have makes only the calls that
// need it fail, with a *MissingSymbolError.
//
// # Tests
//
// OpenBackend runs the same code over any Backend; package cuda/cudafake is a
// software GPU behind it.
package cuda
