package main

import (
	"testing"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// TestEcho has 20 connections of one pool to another, over a slow network.
func TestEcho(t *testing.T) {
	const conns = 20
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Endless: true})
	fabric.SetLatency(100 * time.Microsecond)
	pools := make([]msg.Config, 2)
	for i, h := range fabric.Hosts() {
		dev, err := uverbs.Open(h.Device(0).Name())
		if err != nil {
			t.Fatal(err)
		}
		pools[i] = msg.Config{Window: 4, EagerSize: 256}
		if pools[i].Pool, err = msg.NewPool(dev, conns, &pools[i]); err != nil {
			t.Fatal(err)
		}
	}
	address := fabric.Host(1).Addr() + ":7471"
	go func() { t.Error(serve(address, pools[1])) }()
	err := ask(address, conns, 3, pools[0])
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(time.Millisecond) { // until it listens
		err = ask(address, conns, 3, pools[0])
	}
	if err != nil {
		t.Error(err)
	}
}
