//go:build !race

package cuda

// raceEnabled: the tests run under the race detector.
const raceEnabled = false
