package main

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestRead runs the server on one host and the client on the other, over each kind of device.
func TestRead(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			ctx, stop := context.WithCancel(t.Context())
			address := fabric.Host(1).Addr() + ":7471"
			served := make(chan error, 1)
			go func() { served <- serve(ctx, address, "hello, RDMA") }()
			var out strings.Builder
			err := fetch(ctx, address, &out)
			for errors.Is(err, syscall.ECONNREFUSED) { // until the server listens
				select {
				case err := <-served:
					t.Fatal(err)
				default:
					err = fetch(ctx, address, &out)
				}
			}
			if err != nil || out.String() != "hello, RDMA\n" {
				t.Errorf("%q, %v", &out, err)
			}
			fabric.Host(0).Device(0).FailSend(0, verbs.StatusRemAccessErr)
			out.Reset()
			if err := fetch(ctx, address, &out); err == nil || out.Len() != 0 {
				t.Errorf("a READ that is refused: %v", err)
			}
			stop()
			if err := <-served; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
