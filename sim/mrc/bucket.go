package mrc

import "math/bits"

// Depths are counted in buckets: exact up to exactDepths frames, beyond that
// exactDepths/2 to each doubling, so that sizes are right to 0.02 %.
const (
	exactBits   = 14
	exactDepths = 1 << exactBits
)

// bucketOf is the bucket of a depth from 1 on; bucket 0 stays empty.
func bucketOf(depth uint64) int {
	if depth < exactDepths {
		return int(depth)
	}
	shift := bits.Len64(depth) - exactBits
	return shift<<(exactBits-1) + int(depth>>shift)
}

// bucketEnd is the largest depth of a bucket.
func bucketEnd(i int) int {
	if i < exactDepths {
		return i
	}
	shift := i>>(exactBits-1) - 1
	return (i-shift<<(exactBits-1)+1)<<shift - 1
}

// bucketPlace is how many buckets so many frames hold, the last one in part.
func bucketPlace(frames int) float64 {
	if frames < exactDepths {
		return float64(max(frames, 0))
	}
	i := bucketOf(uint64(frames))
	end, before := bucketEnd(i), bucketEnd(i-1)
	return float64(i-1) + float64(frames-before)/float64(end-before)
}
