package main

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rsocket"
)

// statistics serves the statistics of a listener and of the connections that an http.Server has
// accepted from it, in the text format of Prometheus.
type statistics struct {
	listener *rsocket.Listener

	mu     sync.Mutex
	open   map[*rsocket.Conn]bool
	closed rdmacm.ConnStats // the sums of closed connections
}

func newStatistics(l *rsocket.Listener) *statistics {
	return &statistics{listener: l, open: make(map[*rsocket.Conn]bool)}
}

// connState is the server's ConnState. With TLS, the connection would be that of (*tls.Conn).NetConn.
func (s *statistics) connState(c net.Conn, state http.ConnState) {
	conn := c.(*rsocket.Conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.open, conn)
		last := conn.Stats()
		last.RegisteredBytes = 0 // which is freed
		s.closed.Add(&last)
	}
}

// ServeHTTP writes the metrics. Prometheus' own library does this as well; the format is simple enough to do without.
func (s *statistics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	open := len(s.open)
	var conns rdmacm.ConnStats
	conns.Add(&s.closed)
	for c := range s.open {
		one := c.Stats()
		conns.Add(&one)
	}
	s.mu.Unlock()
	l := s.listener.Stats()

	var page bytes.Buffer
	family := func(name, kind, help string) {
		fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
	}
	metric := func(name, kind, help string, value any) {
		family(name, kind, help)
		fmt.Fprintln(&page, name, value)
	}
	metric("rsocket_requests_total", "counter", "Connect requests that arrived.", l.Requests)
	metric("rsocket_requests_waiting", "gauge", "Connect requests that nothing has accepted yet.", l.Waiting)
	metric("rsocket_accepted_total", "counter", "Connections that were accepted.", l.Accepted)
	family("rsocket_refused_total", "counter", "Connect requests that did not become a connection.")
	fmt.Fprintf(&page, "rsocket_refused_total{reason=\"busy\"} %d\n", l.Busy)
	fmt.Fprintf(&page, "rsocket_refused_total{reason=\"evicted\"} %d\n", l.Evicted)
	fmt.Fprintf(&page, "rsocket_refused_total{reason=\"expired\"} %d\n", l.Expired)
	fmt.Fprintf(&page, "rsocket_refused_total{reason=\"failed\"} %d\n", l.Failed)
	metric("rsocket_connections", "gauge", "Connections that are open.", open)
	metric("rsocket_registered_bytes", "gauge", "Memory that is registered, and so pinned.", conns.RegisteredBytes)
	metric("rsocket_sent_bytes_total", "counter", "Bytes that were sent.", conns.BytesSent)
	metric("rsocket_received_bytes_total", "counter", "Bytes that were received.", conns.BytesReceived)
	metric("rsocket_room_wait_seconds_total", "counter", "Time that writes waited for room at the peer.", conns.RoomWait.Seconds())
	metric("rsocket_wakeups_total", "counter", "How often a goroutine slept until the device woke it.", conns.Wakeups)
	family("rsocket_failed_completions_total", "counter", "Completions with an error. A broken connection has many flushed ones.")
	for _, status := range slices.Sorted(maps.Keys(conns.Failed)) {
		fmt.Fprintf(&page, "rsocket_failed_completions_total{status=%q} %d\n", status, conns.Failed[status])
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = page.WriteTo(w)
}
