package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// server is the program that serves, as an operator starts and ends it.
type server struct {
	host *rdmatest.Host
	at   string
	file string
	ctx  context.Context
	stop context.CancelFunc
	done chan error
}

func (s *server) start() {
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.done = make(chan error, 1)
	go func() { s.done <- serve(s.ctx, s.at, s.file) }()
}

// lines counts the lines that are sent, until enough have been.
type lines struct {
	n       int
	ended   context.Context
	pending string
}

func (l *lines) Read(b []byte) (int, error) {
	if l.pending == "" {
		if l.ended.Err() != nil {
			return 0, io.EOF
		}
		l.pending = fmt.Sprintf("line %d\n", l.n)
		l.n++
	}
	n := copy(b, l.pending)
	l.pending = l.pending[n:]
	return n, nil
}

// The server is killed each second for a minute, of the bubble's time, or a few times, and started again after up to
// half a second. Its clients' lines are stored exactly once each, in order.
func TestServerKilledEachSecond(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			lasts := 5 * time.Second
			if kind == rdmatest.SIW && !testing.Short() {
				lasts = time.Minute
			}
			synctest.Test(t, func(t *testing.T) { endEachSecond(t, kind, lasts, false) })
		})
	}
}

// The same with a server that is shut down each second.
func TestServerShutDownEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { endEachSecond(t, rdmatest.MLX5, 10*time.Second, true) })
}

func endEachSecond(t *testing.T, kind rdmatest.Kind, lasts time.Duration, shutdown bool) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 2)})
	f.SetLatency(20 * time.Millisecond)
	s := &server{host: f.Host(1), at: f.Host(1).Addr() + ":7471", file: filepath.Join(t.TempDir(), "journal")}
	s.start()
	running, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	const clients = 3
	var all sync.WaitGroup
	sent, reports := [clients]lines{}, [clients]strings.Builder{}
	for i := range clients {
		all.Go(func() {
			sent[i].ended = running
			if err := send(f.Host(0).Context(t.Context()), s.at, &sent[i], &reports[i]); err != nil {
				t.Error(err)
			}
		})
	}
	ends := 0
	for ; running.Err() == nil; ends++ {
		time.Sleep(time.Second)
		if shutdown {
			s.stop()
		} else {
			s.host.Kill()
		}
		if err := <-s.done; shutdown && err != nil || !shutdown && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		s.stop()
		time.Sleep(rand.N(500 * time.Millisecond))
		s.start()
	}
	all.Wait()
	s.stop()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	for i := range reports {
		t.Logf("%d ends of the server: %s", ends, &reports[i])
	}
	stored, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	next := make(map[string]int)
	for line := range strings.Lines(string(stored)) {
		client, rest, _ := strings.Cut(line, " ")
		if n := next[client]; rest != fmt.Sprintf("%d line %d\n", n, n) {
			t.Fatalf("%q after %d lines", line, n)
		}
		next[client]++
	}
	total := 0
	for _, n := range next {
		total += n
	}
	want := 0
	for i := range sent {
		want += sent[i].n
	}
	if len(next) != clients || total != want {
		t.Errorf("%d lines of %d clients are stored, of %d", total, len(next), want)
	}
}
