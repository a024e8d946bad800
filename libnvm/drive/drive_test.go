package drive_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, uri string, o drive.Options) *drive.Drive {
	t.Helper()
	d, err := drive.Open(context.WithoutCancel(t.Context()), uri, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// do moves one block of the first namespace.
func do(t *testing.T, d *drive.Drive, op libnvm.Opcode, data []byte) ([]byte, error) {
	t.Helper()
	ns, err := d.Controller.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := d.Transport.Alloc(ns.BlockSize)
	if err != nil {
		t.Fatal(err)
	}
	copy(mem.Bytes(), data)
	err = q.Do(&libnvm.Request{Op: op, NS: ns, Blocks: 1, Mem: mem})
	got := bytes.Clone(mem.Bytes()[:ns.BlockSize])
	if e := errors.Join(q.Close(), mem.Free()); e != nil {
		t.Fatal(e)
	}
	return got, err
}

func write(t *testing.T, path, content string, size int64) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
}

func TestMemory(t *testing.T) {
	d := open(t, "mem:1MiB", drive.Options{Access: drive.FreshOnly})
	if !d.Fresh || d.Model != "" || !strings.Contains(d.Describe(), "memory, 1048576 bytes") {
		t.Errorf("fresh %v, model %q, %s", d.Fresh, d.Model, d.Describe())
	}
	if d.Found.CAP == 0 || d.Found.CC != 0 || d.Found.UnreachableByBus {
		t.Errorf("registers %+v, want those of a controller that is off", d.Found)
	}
	if _, err := do(t, d, libnvm.OpWrite, []byte("hello")); err != nil {
		t.Error(err)
	}
	if got, err := do(t, d, libnvm.OpRead, nil); err != nil || !bytes.HasPrefix(got, []byte("hello")) {
		t.Errorf("%.8q, %v", got, err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// A file is as it was unless writing was asked for.
func TestFileAccess(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	write(t, path, "old", 1<<20)
	uri := "file:" + path
	d := open(t, uri, drive.Options{})
	var se *libnvm.StatusError
	if _, err := do(t, d, libnvm.OpWrite, []byte("new")); !errors.As(err, &se) || se.Status != libnvm.StatusWriteProtected {
		t.Errorf("write to a file opened for reading: %v, want %v", err, libnvm.StatusWriteProtected)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var exists *drive.ExistsError
	for _, u := range []string{uri, uri + "?size=2MiB"} {
		if _, err := drive.Open(t.Context(), u, drive.Options{Access: drive.FreshOnly}); !errors.As(err, &exists) {
			t.Errorf("%s as a fresh one: %v, want an *ExistsError", u, err)
		}
	}
	if _, err := drive.Open(t.Context(), uri+"?size=2MiB", drive.Options{}); err == nil {
		t.Error("a file was extended by a reader, or reported as larger than it is")
	}
	if b, err := os.ReadFile(path); err != nil || len(b) != 1<<20 || !bytes.HasPrefix(b, []byte("old\x00")) {
		t.Fatalf("the file changed: %d bytes, %.8q, %v", len(b), b, err)
	}
	d = open(t, uri+"?size=2MiB", drive.Options{Access: drive.ReadWrite})
	if d.Fresh {
		t.Error("a file that was there counts as fresh")
	}
	if _, err := do(t, d, libnvm.OpWrite, []byte("new")); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || len(b) != 2<<20 || !bytes.HasPrefix(b, []byte("new")) {
		t.Errorf("after writing: %d bytes, %.8q, %v", len(b), b, err)
	}
}

func TestFileCreation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	uri := "file:" + path + "?size=1MiB"
	missing := func(when string) {
		t.Helper()
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: the file is there (%v)", when, err)
		}
	}
	for _, u := range []string{uri, "file:" + path} {
		if _, err := drive.Open(t.Context(), u, drive.Options{}); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", u, err)
		}
	}
	missing("read")
	if _, err := drive.Open(t.Context(), uri, drive.Options{Access: drive.ReadWrite, Threads: 1000}); err == nil {
		t.Error("1000 threads were accepted")
	}
	missing("failed to open")
	d := open(t, uri, drive.Options{Access: drive.FreshOnly})
	if st, err := os.Stat(path); err != nil || st.Size() != 1<<20 || !d.Fresh {
		t.Errorf("size %v, %v, fresh %v", st, err, d.Fresh)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	model, err := servicetime.Load("1x980pro")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range []struct {
		uri    string
		o      drive.Options
		reason string
	}{
		{"file:" + dir, drive.Options{}, "neither a file nor a block device"},
		{"file:" + dir, drive.Options{Access: drive.ReadWrite}, "neither a file nor a block device"},
		{"file:/dev/null", drive.Options{}, "neither a file nor a block device"},
		{"file:" + dir + "/no/disk?size=1MiB", drive.Options{Access: drive.ReadWrite}, "no such file"},
		{"mem:511", drive.Options{}, "smaller than a block"},
		{"mem:1EiB", drive.Options{}, "this machine has"},
		{"mem:1MiB", drive.Options{UnsafeRaw: true}, "nvme: drives only"},
		{"nvme:ffff:ff:1f.7", drive.Options{}, "no NVMe controller"},
		{"nvme:ffff:ff:1f.7", drive.Options{Model: model}, "for software drives"},
		{"nvme:ffff:ff:1f.7", drive.Options{UnsafeRaw: true}, "no NVMe controller"},
		{"nvme:ffff:ff:1f.7", drive.Options{UnsafeRaw: true, UnsafeNoIOMMU: true}, "exclude each other"},
		{"nvme:ffff:ff:1f.7", drive.Options{Access: drive.FreshOnly}, "would be overwritten"},
		{"mem:", drive.Options{}, "size"},
	} {
		if d, err := drive.Open(t.Context(), c.uri, c.o); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s %+v: %v, %v, want %q", c.uri, c.o, d, err, c.reason)
		}
	}
	if _, err := drive.OpenList(t.Context(), "mem:1MiB,1MiB", drive.Options{Model: model}); err == nil || !strings.Contains(err.Error(), "1 drives") {
		t.Errorf("one modelled drive for two: %v", err)
	}
	// The second one fails: the first must not stay open (goleak).
	if _, err := drive.OpenList(context.WithoutCancel(t.Context()), "mem:1MiB,file:"+dir, drive.Options{}); err == nil {
		t.Error("a directory was opened")
	}
}

func TestFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	write(t, path, "", 1<<20)
	open(t, "file:"+path, drive.Options{Access: drive.ReadWrite})
	var inUse *soft.FileInUseError
	if _, err := drive.Open(t.Context(), "file:"+path, drive.Options{}); !errors.As(err, &inUse) {
		t.Errorf("%v, want a *soft.FileInUseError", err)
	}
}

func TestContent(t *testing.T) {
	for _, c := range []struct {
		name   string
		offset int64
		mark   string
		want   string
		block  string
	}{
		{"empty", 0, "", "", ""},
		{"unknown data", 0, "hello", "", ""},
		{"volume", 0, "TRITIERV", "tritier volume", ""},
		{"gpt", 512, "EFI PART", "GPT", ""},
		{"gpt of large blocks", 4096, "EFI PART", "GPT", "?block=4096"},
		{"btrfs", 65600, "_BHRfS_M", "Btrfs", ""},
		{"ext4", 1080, "\x53\xef", "ext4", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk")
			write(t, path, strings.Repeat("\x00", int(c.offset))+c.mark, 1<<20)
			got, err := open(t, "file:"+path+c.block, drive.Options{}).Content()
			if err != nil || got == "" != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "small")
	write(t, path, "TRITIERV", 512)
	if got, err := open(t, "file:"+path+"?block=512", drive.Options{}).Content(); err != nil || got != "tritier volume" {
		t.Errorf("a drive of one block: %q, %v", got, err)
	}
	if s, err := pci.Signature(strings.NewReader("")); s != "" || err != nil {
		t.Errorf("nothing has signature %q, %v", s, err)
	}
}

// A paced drive is never faster than its model.
func TestModel(t *testing.T) {
	model, err := servicetime.Load("4x980pro")
	if err != nil {
		t.Fatal(err)
	}
	ds, err := drive.OpenList(context.WithoutCancel(t.Context()), "mem:1MiB,1MiB", drive.Options{Model: model, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := drive.CloseAll(ds); err != nil {
			t.Error(err)
		}
	}()
	for _, d := range ds {
		if d.Model != "4x980pro" || !strings.Contains(d.Describe(), "modelled") {
			t.Errorf("model %q: %s", d.Model, d.Describe())
		}
		begun := time.Now()
		for range 20 {
			if _, err := do(t, d, libnvm.OpRead, nil); err != nil {
				t.Fatal(err)
			}
		}
		// 20 reads, one after the other, of 45 us with a spread of 0.3.
		if took := time.Since(begun); took < 20*30*time.Microsecond {
			t.Errorf("20 reads took %v", took)
		}
	}
}

func TestAttach(t *testing.T) {
	d, err := drive.Attach(context.WithoutCancel(t.Context()), "mem:1MiB", drive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Controller != nil {
		t.Error("attaching brought the controller up")
	}
	if err := errors.Join(d.BringUp(), d.BringUp()); err != nil || d.Controller == nil {
		t.Errorf("%v, controller %v", err, d.Controller)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
