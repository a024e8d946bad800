package copyeng

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// testUUID is the GPU of test calibrations.
const testUUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"

// manyPages is n growing numbers.
func manyPages(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

func TestCalibrationRoundTrip(t *testing.T) {
	c := crossing()
	c.Curves = append(c.Curves, Curve{Direction: "both-ways", Page: 4096, Pages: []int{1, 4}, Micros: map[Path][]float64{PathExchange: {3.5, 9}, PathSequential: {2}}})
	data, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "memcpy-async: [8.0, 16.0, 32.0,") {
		t.Errorf("a path's times should be one line:\n%s", data)
	}
	back, err := ParseCalibration(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, back); d != "" {
		t.Error(d)
	}
}

// All faults are reported together, each naming what it is about.
func TestCalibrationFaults(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Calibration)
		want string
	}{
		"version":   {func(c *Calibration) { c.Version = 9 }, "version 9"},
		"empty":     {func(c *Calibration) { c.Curves = nil }, "no curves"},
		"one way":   {func(c *Calibration) { c.Curves = c.Curves[:2] }, "no curve to-host"},
		"page":      {func(c *Calibration) { c.Curves[0].Page = 5000 }, "no power of two"},
		"direction": {func(c *Calibration) { c.Curves[0].Direction = "up" }, "no such direction"},
		"order":     {func(c *Calibration) { c.Curves[0].Pages[3] = 1 }, "must grow"},
		"path":      {func(c *Calibration) { c.Curves[0].Micros["teleport"] = []float64{1} }, "no path teleport"},
		"negative":  {func(c *Calibration) { c.Curves[0].Micros[PathBatch][2] = -1 }, "not positive"},
		"nan":       {func(c *Calibration) { c.Curves[0].Micros[PathBatch][2] = math.NaN() }, "not positive"},
		"infinite":  {func(c *Calibration) { c.Curves[0].Micros[PathBatch][2] = math.Inf(1) }, "not positive, or above"},
		"huge":      {func(c *Calibration) { c.Curves[0].Micros[PathBatch][2] = 1e300 }, "not positive, or above"},
		"zero":      {func(c *Calibration) { c.Curves[0].Micros[PathBatch][2] = 0 }, "not positive"},
		"long":      {func(c *Calibration) { c.Curves[0].Micros[PathBatch] = make([]float64, 99) }, "another number"},
		"twice":     {func(c *Calibration) { c.Curves[1].Page = c.Curves[0].Page }, "curve to-device of 4096 bytes: is there twice"},
		"same":      {func(c *Calibration) { c.Curves[0].Pages[3] = c.Curves[0].Pages[2] }, "must grow"},
		"from zero": {func(c *Calibration) { c.Curves[0].Pages[0] = 0 }, "must grow from 1"},
		"pages":     {func(c *Calibration) { c.Curves[0].Pages[10] = MaxPages + 1 }, "at most 1048576"},
		"points":    {func(c *Calibration) { c.Curves[0].Pages = manyPages(maxPoints + 1) }, "be at most 1024"},
		"curves":    {func(c *Calibration) { c.Curves = make([]Curve, maxCurves+1) }, "40 curves, more than 39"},
		"rate nan":  {func(c *Calibration) { c.Link.ToDevice = math.NaN() }, "link.to_device_gbps is NaN"},
		"rate inf":  {func(c *Calibration) { c.Link.ToHost = math.Inf(1) }, "link.to_host_gbps is +Inf"},
		"rate":      {func(c *Calibration) { c.Link.BothWays = -1 }, "link.both_ways_gbps is -1"},
		"rate huge": {func(c *Calibration) { c.Link.BothWays = 1e300 }, "link.both_ways_gbps is 1e+300"},
		"name":      {func(c *Calibration) { c.GPU.Name = "\x1b[31mred" }, "gpu.name is no name"},
		"driver":    {func(c *Calibration) { c.Driver = strings.Repeat("9", 300) }, "driver is no name"},
		"none": {func(c *Calibration) {
			for p, us := range c.Curves[0].Micros {
				c.Curves[0].Micros[p] = us[:3]
			}
		}, "no path was measured at every"},
	} {
		cal := crossing()
		c.edit(cal)
		err := cal.Check()
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "tritier calibrate") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestBuiltinIsSound(t *testing.T) {
	c, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if c.Link.ToDevice <= 0 || c.Link.ToHost <= 0 || c.Link.BothWays <= 0 {
		t.Errorf("link rates %+v", c.Link)
	}
}

func TestSaveIsWholeAndFound(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const uuid = testUUID
	if _, source, err := find(uuid, "13.0"); err != nil || !strings.Contains(source, "not calibrated") {
		t.Fatalf("without a file: %q, %v", source, err)
	}
	file, err := CalibrationFile(uuid, "13.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := crossing().Save(file); err != nil {
		t.Fatal(err)
	}
	c, source, err := find(uuid, "13.0")
	if err != nil || c.GPU.Name != "test" || !strings.Contains(source, "calibrated 1970-01-01") {
		t.Errorf("with a file: %v %q %v", c, source, err)
	}
	if _, source, _ = find(uuid, "13.1"); !strings.Contains(source, "not calibrated") {
		t.Errorf("another driver took the file: %q", source)
	}
	for _, name := range [][2]string{{"../../etc/passwd", "13.0"}, {"GPU-/0123456", "13.0"}, {uuid, "../../x"}, {uuid, "13/0"}, {uuid, ""}, {uuid, "13.0\n"}, {uuid, "13.0.yaml/../x"}} {
		if file, err := CalibrationFile(name[0], name[1]); err == nil {
			t.Errorf("%q gives %s", name, file)
		}
	}
}

// A file that cannot be read is an error, never a silent fallback.
func TestBrokenFileIsSaid(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const uuid = testUUID
	file, _ := CalibrationFile(uuid, "13.0")
	bad := crossing()
	bad.Version = 7
	if err := bad.Save(file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := find(uuid, "13.0"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want an error that names %s", err, file)
	}
}

// A file under the name of one GPU or driver that holds another's figures is an
// error: it was copied by mistake.
func TestFileOfAnotherGPU(t *testing.T) {
	const other = "GPU-ffffffff-89ab-cdef-0123-456789abcdef"
	for name, c := range map[string]struct{ uuid, driver, want string }{
		"GPU":    {other, "13.0", "it was measured on \"" + testUUID + "\", not on " + other},
		"driver": {testUUID, "13.1", "with a driver for CUDA \"13.0\", not 13.1"},
	} {
		t.Setenv("XDG_CONFIG_HOME", t.TempDir())
		file, err := CalibrationFile(c.uuid, c.driver)
		if err != nil {
			t.Fatal(err)
		}
		if err := crossing().Save(file); err != nil {
			t.Fatal(err)
		}
		_, _, err = find(c.uuid, c.driver)
		var fault *CalibrationError
		if !errors.As(err, &fault) || fault.Where != file || !strings.Contains(err.Error(), c.want) {
			t.Errorf("another %s: %v, want %q", name, err, c.want)
		}
	}
	upper := crossing()
	upper.GPU.UUID = "GPU-" + strings.ToUpper(testUUID[4:])
	if err := upper.CheckFor(testUUID, "13.0"); err != nil {
		t.Errorf("the same UUID in capitals: %v", err)
	}
}

// What YAML allows and a calibration does not.
func TestParseCalibrationRefuses(t *testing.T) {
	whole, err := crossing().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	for name, c := range map[string]struct{ text, want string }{
		"second document":  {text + "---\n" + text, "more than one YAML document"},
		"garbage document": {text + "---\n[1, 2]\n", "more than one YAML document"},
		"unknown field":    {text + "colour: red\n", "colour"},
		"field twice":      {text + "version: 1\n", "already defined"},
		"path twice":       {strings.Replace(text, "    batch: [", "    batch: [1.0]\n    batch: [", 1), "already defined"},
		"not a number":     {strings.Replace(text, "    batch: [36.0,", "    batch: [.nan,", 1), "not positive"},
		"infinite":         {strings.Replace(text, "    batch: [36.0,", "    batch: [.inf,", 1), "not positive"},
		"part of a page":   {strings.Replace(text, "pages: [1, 2,", "pages: [1, 2.5,", 1), "here must be a whole number"},
		"part of version":  {strings.Replace(text, "version: 1\n", "version: 1.9\n", 1), "[2:10] here must be a whole number"},
		"pages overflow":   {strings.Replace(text, "pages: [1, 2,", "pages: [1, 99999999999999999999,", 1), "overflow"},
		"empty":            {"", "version 0"},
		"long":             {text + "# " + strings.Repeat("x", maxCalibrationFile), "too many"},
	} {
		if c.text == text {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := ParseCalibration([]byte(c.text))
		var fault *CalibrationError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := ParseCalibration([]byte(text + "---\n# nothing\n")); err != nil {
		t.Errorf("a mark at the end: %v", err)
	}
}

// A wrong path is refused, and never waited for.
func TestLoadCalibrationRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe, long := filepath.Join(dir, "pipe"), filepath.Join(dir, "long")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(long, make([]byte, maxCalibrationFile+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{pipe: "is a pipe", long: "too long", dir: "is a folder"} {
		done := make(chan error, 1)
		go func() {
			_, err := LoadCalibration(file)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", file, err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it hangs", file)
		}
	}
}

// A link to a calibration stays a link, and nothing is left beside either.
func TestSaveThroughLink(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link.yaml"), filepath.Join(dir, "real.yaml")
	if err := os.Symlink("real.yaml", link); err != nil {
		t.Fatal(err)
	}
	// What a killed program left.
	if err := os.WriteFile(filepath.Join(dir, ".real.yaml.tmp"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := crossing().Save(link); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "real.yaml" {
		t.Errorf("the link: %q, %v", to, err)
	}
	if _, err := LoadCalibration(file); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("files %v, %v", entries, err)
	}
}

// Times are written with enough digits, however short they are, and stay positive.
func TestTimesKeepTheirDigits(t *testing.T) {
	for v, want := range map[float64]string{0.04: "0.04", 0.0412: "0.0412", 8: "8.0", 9.5: "9.5", 9.876: "9.88", 12.34: "12.3", 1656.42: "1656.4", 0.999: "0.999",
		0.1: "0.1", 1e9: "1000000000.0", 0.00051: "5.10e-04"} {
		if got := shortFloat(v); got != want {
			t.Errorf("%v is written as %s, want %s", v, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := crossing()
		us := c.Curves[0].Micros[PathZeroCopy]
		for i := range us {
			us[i] = math.Exp2(rapid.Float64Range(-40, 29).Draw(t, "log2 us"))
		}
		data, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseCalibration(data)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range back.Curves[0].Micros[PathZeroCopy] {
			if math.Abs(got-us[i]) > 0.0051*us[i] {
				t.Fatalf("%v us came back as %v", us[i], got)
			}
		}
	})
}

// The faults of one file have one order, whatever that of its paths in memory.
func TestFaultsHaveAnOrder(t *testing.T) {
	c := crossing()
	for _, p := range gpuPaths {
		c.Curves[0].Micros[p] = []float64{-1}
	}
	first := c.Check().Error()
	for range 20 {
		if again := c.Check().Error(); again != first {
			t.Fatalf("%s\nthen\n%s", first, again)
		}
	}
}
