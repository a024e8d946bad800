//go:build !race

package copyengtest

// raceDetector says that the tests run under it.
const raceDetector = false
