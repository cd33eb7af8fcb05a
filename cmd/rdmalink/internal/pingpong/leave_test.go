//go:build linux

package pingpong

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/farewell"
)

// TestPingpongLeaves: an end that can't go on tells the other why, whatever that
// one waits for, and although it has not read all that it was told.
func TestPingpongLeaves(t *testing.T) {
	srq := kindOf("srq")
	for name, wait := range map[string]func(*talker) error{
		"hears": func(client *talker) error { _, err := client.hear(1, srq.records); return err },
		"waits": func(client *talker) error { return client.awaitReady() },
	} {
		client, server := talks(t, t.Context())
		if err := client.tell([]addr{cAddressRead}, srq.records); err != nil {
			t.Fatal(err)
		}
		go server.leave(errors.New("no device"))
		if err := wait(client); !farewell.Is(err) || !strings.Contains(err.Error(), `the peer gave up: "no device"`) {
			t.Errorf("%s: %v", name, err)
		}
		if err := client.say(make([]byte, 1)); err != nil {
			t.Errorf("%s: the connection was reset: %v", name, err)
		}
	}
}

// TestPingpongInterruptedLeaves: the deadline that ends an interrupted wait is not
// that of the farewell.
func TestPingpongInterruptedLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, server := talks(t, t.Context())
	server = talk(ctx, server.Conn)
	cancel()
	_, err := server.hear(1, 1)
	if !errors.Is(err, peer.ErrInterrupted) {
		t.Error(err)
	}
	go server.leave(err)
	if err := client.awaitReady(); !farewell.Is(err) || !strings.Contains(err.Error(), `"interrupted"`) {
		t.Error(err)
	}
}

// TestPingpongTold: an end that is still telling its addresses when the other has
// reset the connection hears why.
func TestPingpongTold(t *testing.T) {
	client, server := talks(t, t.Context())
	_, err := server.Write(farewell.Message(errors.New("no device")))
	if err := errors.Join(err, server.Conn.(*net.TCPConn).SetLinger(0), server.Close()); err != nil {
		t.Fatal(err)
	}
	if err := client.tell(nil, 1); !farewell.Is(err) {
		t.Error(err)
	}
}
