package main

import (
	"io"
	"net"
	"net/http"
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
