package main

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunMetrics: a run answers Prometheus while it lasts and not after, and an
// address that is taken is an error before anything runs.
func TestRunMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	r, w := faultyRunner(t, 1)
	r.f.metrics = addr
	if err := r.all(t.Context()); err == nil || !strings.Contains(err.Error(), "metrics: ") {
		t.Errorf("an address that is taken: %v", err)
	}
	l.Close()
	var body string
	w.run = func() error {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		body = string(b)
		return err
	}
	if err := r.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(body, `tritier_accesses_total{memory="pathfinder bypass",outcome="t3_fetch"}`) {
		t.Errorf("%s", body)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := http.Get("http://" + addr + "/metrics"); err == nil {
		t.Error("the endpoint outlives the run")
	}
}

// TestRunMetricsAddress: an address that cannot be had is found out before the store is made,
// and a store that cannot be had gives the address back.
func TestRunMetricsAddress(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "s") + "?size=16MiB"
	for _, addr := range []string{"nonsense:99999", "127.0.0.1", "no such host:1"} {
		_, _, err := tritier(t.Context(), "run", "pathfinder", "--size", "256KiB", "--page", "4KiB", "--gpu", "none", "--store", store, "--metrics", addr)
		if err == nil || !strings.Contains(err.Error(), "--metrics: ") {
			t.Errorf("%s: %v", addr, err)
		}
		if left := filesBelow(t, dir); len(left) != 0 {
			t.Errorf("%s: left behind: %v", addr, left)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	r, _ := faultyRunner(t, 1)
	r.f.metrics, r.config.Store = addr, "file:"+filepath.Join(dir, "absent", "s")+"?size=16MiB"
	if err := r.all(t.Context()); err == nil {
		t.Error("a store that cannot be: no error")
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	l.Close()
}
