package qemu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// qmpTimeout bounds one command of QEMU's control protocol.
const qmpTimeout = 30 * time.Second

// qmp is a connection to QEMU's control socket (the QEMU Machine Protocol: one JSON object a line). One caller at a time.
type qmp struct {
	conn net.Conn
	r    *bufio.Reader
}

// dialQMP connects, reads the greeting and leaves the negotiation mode.
func dialQMP(ctx context.Context, path string) (*qmp, error) {
	c, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	q := &qmp{conn: c, r: bufio.NewReader(c)}
	c.SetReadDeadline(time.Now().Add(qmpTimeout))
	if _, err := q.r.ReadString('\n'); err != nil {
		c.Close()
		return nil, fmt.Errorf("qemu: no greeting on the control socket: %w", err)
	}
	if _, err := q.do(`{"execute":"qmp_capabilities"}`); err != nil {
		c.Close()
		return nil, err
	}
	return q, nil
}

// do sends one command and gives its reply line, which may be an error reply; events that come between are dropped.
func (q *qmp) do(command string) (string, error) {
	if !json.Valid([]byte(command)) {
		return "", fmt.Errorf("qemu: not JSON: %q", command)
	}
	q.conn.SetDeadline(time.Now().Add(qmpTimeout))
	if _, err := fmt.Fprintln(q.conn, command); err != nil {
		return "", fmt.Errorf("qemu: control socket: %w", err)
	}
	for {
		line, err := q.r.ReadBytes('\n')
		if err != nil {
			return "", fmt.Errorf("qemu: no reply to %s: %w", command, err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return "", fmt.Errorf("qemu: control socket sent %q: %w", line, err)
		}
		if _, event := m["event"]; event {
			continue
		}
		return string(bytes.TrimSpace(line)), nil // QEMU ends lines with CR LF
	}
}

func (q *qmp) close() { q.conn.Close() }

// dial waits for QEMU to make its socket.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("qemu: no socket %s: %w", path, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
