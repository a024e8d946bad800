package layout

// LoadKernels is for a test that needs package bamio, which imports this one.
var LoadKernels = loadKernels
