//go:build vm

package kit

import (
	"context"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/exchange"
)

var (
	SomeSizes = []int{1, 4095, 65537}
	AllSizes  = []int{1, 7, 4095, 65537, 1 << 20, 64 << 20}
)

// ExchangeOnce runs one client of package exchange against a server on ln.
func ExchangeOnce(ctx context.Context, t *testing.T, ln *rdmacm.Listener, size int) {
	t.Helper()
	served := make(chan error, 1)
	var got *exchange.Received
	go func() {
		var err error
		got, err = exchange.Serve(ctx, ln)
		served <- err
	}()
	sent, err := exchange.Client(ctx, ln.Addr().String(), size)
	if err != nil {
		t.Fatalf("%d bytes: client: %v", size, err)
	}
	if err := <-served; err != nil {
		t.Fatalf("%d bytes: server: %v", size, err)
	}
	if got.Size != size || got.CRC != sent.CRC {
		t.Errorf("the client wrote %d bytes, CRC %08x; the server has %d, CRC %08x", size, sent.CRC, got.Size, got.CRC)
	}
	t.Logf("%d bytes: write %v, read %v", size, sent.Write, sent.Read)
}
