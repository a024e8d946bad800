package metrics_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/metrics"
)

func memory(t *testing.T) *tritier.Memory {
	t.Helper()
	m, err := tritier.Open(t.Context(), tritier.Config{Store: "mem:8MiB", PageSize: 4096, T1: 8192, T2: 4096, GPU: "none", Policy: "tier-order"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 5120) // 10 pages
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Write(t.Context(), 0, make([]uint64, 5120)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestMetrics: what is scraped over HTTP is what was done.
func TestMetrics(t *testing.T) {
	m := memory(t)
	defer m.Close(t.Context())
	c := metrics.New("test", m)
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	s, err := metrics.Serve("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + s.Address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	for _, want := range []string{
		`tritier_accesses_total{memory="test",outcome="overwrite"} 20`,
		`tritier_accesses_total{memory="test",outcome="error"} 0`,
		`tritier_victims_total{fate="t2",memory="test"} 18`,
		`tritier_moved_pages_total{dst="t2",memory="test",src="t1"} 18`,
		`tritier_moved_bytes_total{dst="t3",memory="test",src="t2"} 69632`,
		`tritier_move_duration_seconds_count{dst="t1",memory="test",src="t2"} 0`,
		`tritier_dirty_pages{memory="test"} 3`,
		`tritier_tier_size_bytes{memory="test",tier="t1"} 8192`,
		`tritier_copied_bytes_total{direction="to-host",memory="test",path="`,
		`tritier_info{engine="host-orchestrated`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if _, err := metrics.Serve(s.Address(), c); err == nil {
		t.Error("two servers have one address")
	}
	if _, err := metrics.Serve("127.0.0.1:0", c, c); err == nil {
		t.Error("one collector is registered twice")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
