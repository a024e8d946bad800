package workload

import "testing"

// TestGolden keeps the streams equal over versions and processors: traces that
// were generated once must stay reproducible from their canonical form. A
// checksum changes only with a deliberate change of a shape.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		spec string
		want uint64
	}{
		{"zipf{accesses=100000,theta=0.99,writes=0.1}", 0x9adc84335ee2917e},
		{"zipf{accesses=100000,theta=1,scramble=true,seed=7}", 0x1531e8cf2accca61},
		{"zipf{accesses=100000,theta=2.5,pages=1000000000000}", 0xab2eb01924c51bfd},
		{"uniform{accesses=100000,writes=0.5,seed=2}", 0x1bc91c6d7c3b0cf9},
		{"scan{pages=1000,writes=0.3}", 0x9dac1866374d7f8d},
		{"loop{pages=300,accesses=10000}", 0xaf59a58f3d542f2c},
		{"mix{accesses=50000,scan=0.3,scramble=true,writes=0.2}", 0x878c02c6573870ab},
		{"shift{accesses=50000,to=uniform}", 0x9aebcbee311cea71},
		{"multi-vector-add{bytes=64MiB,passes=2}", 0xaa6a6a8bc1952865},
		{"pathfinder{bytes=64MiB,height=3,page-size=4KiB}", 0x235ba0116b1137ba},
		{"hotspot{bytes=16MiB,iterations=3,page-size=4KiB}", 0x94ea1b4e92eb3155},
		{"srad{bytes=16MiB,iterations=3,page-size=4KiB}", 0xa054e632f7b8945d},
		{"backprop{bytes=16MiB,epochs=2}", 0xdd4435440e9af54a},
		{"bfs{scale=12,sources=2}", 0xfe0e59086aa233fd},
		{"sssp{scale=11,edges=thread,page-size=4KiB}", 0x362b5cdcfef3d942},
		{"pagerank{scale=11,iterations=3,index=8}", 0xb5d8c1d03d6949f1},
	} {
		first := checksum(t, c.spec)
		if first != c.want {
			t.Errorf("{%q, %#x},", c.spec, first)
		}
		if again := checksum(t, c.spec); again != first {
			t.Errorf("%s: two runs differ", c.spec)
		}
	}
}

// TestSeedsDiffer: every random shape follows its seed.
func TestSeedsDiffer(t *testing.T) {
	for _, spec := range []string{
		"zipf{accesses=1000", "uniform{accesses=1000", "mix{accesses=1000", "shift{accesses=1000", "scan{pages=1000,writes=0.5",
		"loop{accesses=1000,writes=0.5", "bfs{scale=8", "sssp{scale=8", "pagerank{scale=8,iterations=1",
	} {
		if checksum(t, spec+",seed=1}") == checksum(t, spec+",seed=2}") {
			t.Errorf("%s}: seeds 1 and 2 give the same stream", spec)
		}
	}
}
