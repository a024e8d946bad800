//go:build race

package pinned

const raceDetector = true
