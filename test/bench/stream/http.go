//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

// serveHTTP answers each request with its body. A DELETE ends the server.
func serveHTTP(ctx context.Context, x exchange) error {
	l, err := x.listen()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			close(done)
			return
		}
		_, _ = io.Copy(w, r.Body) // after an error the client gets a short body
	})}
	answered := make(chan error, 1)
	go func() {
		<-done
		answered <- s.Shutdown(ctx) // waits for outstanding answers
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-answered
}

func dialHTTP(ctx context.Context, x exchange) ([]result.Sample, error) {
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return x.connect(ctx) },
		MaxIdleConnsPerHost: x.count,
	}
	client := &http.Client{Transport: transport}
	body := make([]byte, x.size)
	ask := func(method string) error {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+x.addr+"/", bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if err == nil && method == http.MethodPost && n != int64(x.size) {
			err = fmt.Errorf("an answer of %d bytes", n)
		}
		return errors.Join(err, answer.Body.Close())
	}
	together := func(rounds int) error {
		var all sync.WaitGroup
		failed := make([]error, x.count)
		for i := range x.count {
			all.Go(func() {
				for range rounds {
					if failed[i] = ask(http.MethodPost); failed[i] != nil {
						return
					}
				}
			})
		}
		all.Wait()
		return errors.Join(failed...)
	}
	if err := together(warmUp); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := together(x.rounds); err != nil {
		return nil, err
	}
	took := time.Since(start)
	err := ask(http.MethodDelete)
	transport.CloseIdleConnections()
	return []result.Sample{{Measure: "http", Unit: "requests/s", Value: float64(x.rounds*x.count) / took.Seconds()}}, err
}
