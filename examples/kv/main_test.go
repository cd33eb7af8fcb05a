package main

import (
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestPutGet runs the server on one host and clients on another, over each kind of device.
func TestPutGet(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Endless: true})
			server := fabric.Host(1)
			address := server.Addr() + ":7471"
			go func() { t.Error(serve(server.Device(0).Name(), address)) }()
			eventually(t, func() error { return ask([]string{address, "put", "colour", "red"}, nil) })
			var got strings.Builder
			if err := ask([]string{address, "get", "colour"}, &got); err != nil || got.String() != "red\n" {
				t.Errorf("%q, %v", &got, err)
			}
			if err := ask([]string{address, "get", "shape"}, nil); err == nil {
				t.Error("it has what nobody put")
			}
			if err := ask([]string{address, "gett", "shape"}, nil); err == nil || !strings.Contains(err.Error(), "kv -h") {
				t.Errorf("a command that is none: %v", err)
			}
		})
	}
}

// eventually tries until the server listens.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatal(err)
}
