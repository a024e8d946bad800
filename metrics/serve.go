package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// DefaultAddress is where Serve listens by default: this machine alone, and not
// the port that Prometheus itself has.
const DefaultAddress = "127.0.0.1:9467"

// Server answers /metrics.
type Server struct {
	http *http.Server
	addr net.Addr
	done chan error
}

// Serve answers scrapes of the collectors at addr until Close.
func Serve(addr string, collectors ...prometheus.Collector) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return ServeOn(l, collectors...)
}

// ServeOn is Serve where the caller listens already: to know that the address is a good one
// before there is anything to collect from. The listener is the server's, also on an error.
func ServeOn(l net.Listener, collectors ...prometheus.Collector) (*Server, error) {
	r := prometheus.NewRegistry()
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			return nil, errors.Join(fmt.Errorf("metrics: %w", err), l.Close())
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	s := &Server{http: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}, addr: l.Addr(), done: make(chan error, 1)}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.addr.String() }

// Close ends the server, after requests under way, for at most ctx.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
