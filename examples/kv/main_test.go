package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestPutGet runs the server on one host and clients on another, over each kind of device.
func TestPutGet(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Endless: true})
			server := fabric.Host(1)
			address := server.Addr() + ":7471"
			go func() {
				t.Error(serve(server.Device(0).Name(), func(lc *msg.ListenConfig) (*msg.Listener, error) {
					return lc.Listen(context.Background(), address)
				}))
			}()
			putGet(t, address, msg.Dial)
		})
	}
}

// TestTCP exchanges the addresses of queue pairs over TCP.
func TestTCP(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Endless: true})
			streams, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				t.Error(serve(fabric.Host(1).Device(0).Name(), func(lc *msg.ListenConfig) (*msg.Listener, error) {
					return lc.ListenOver(streams, nil)
				}))
			}()
			putGet(t, streams.Addr().String(), dialTCP(fabric.Host(0).Device(0).Name()))
		})
	}
}

// putGet asks a server. The first call waits until the server listens.
func putGet(t *testing.T, address string, dial func(context.Context, string) (*msg.Conn, error)) {
	ask := func(to *strings.Builder, words ...string) error {
		return ask(dial, append([]string{address}, words...), to)
	}
	var got strings.Builder
	if err := ask(&got, "put", "colour", "red"); err != nil {
		t.Fatal(err)
	}
	if err := ask(&got, "get", "colour"); err != nil || got.String() != "red\n" {
		t.Errorf("%q, %v", &got, err)
	}
	got.Reset()
	if err := ask(&got, "put", "size", "10"); err != nil {
		t.Error(err)
	}
	if err := ask(&got, "get", "size", "colour", "size"); err != nil || got.String() != "10\nred\n10\n" {
		t.Errorf("%q, %v", &got, err)
	}
	got.Reset()
	if err := ask(&got, "list"); err != nil || got.String() != "colour red\nsize 10\n" && got.String() != "size 10\ncolour red\n" {
		t.Errorf("%q, %v", &got, err)
	}
	got.Reset()
	if err := ask(&got, "put", "shape\r", "\x1b[31mé"); err != nil {
		t.Error(err)
	}
	if err := ask(&got, "get", "shape\r"); err != nil || got.String() != "\ufffd[31mé\n" {
		t.Errorf("%q, %v", &got, err)
	}
	if err := ask(&got, "list"); err != nil || strings.ContainsAny(got.String(), "\r\x1b") {
		t.Errorf("%q, %v", &got, err)
	}
	if err := ask(&got, "put", "big", strings.Repeat("x", entrySize-8)); err != nil {
		t.Error(err)
	}
	if err := ask(&got, "put", "big", strings.Repeat("x", entrySize-7)); err == nil {
		t.Error("it puts more than an entry holds")
	}
	if err := ask(&got, "get", "shape"); err == nil {
		t.Error("it has what nobody put")
	}
	if err := ask(&got, "gett", "shape"); err == nil || !strings.Contains(err.Error(), "kv -h") {
		t.Errorf("a command that is none: %v", err)
	}
}
