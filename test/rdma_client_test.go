//go:build vm

package test

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// TestRdmaClientServer: librdmacm's smallest programs exchange a message of 16 bytes each
// way with ours, on both drivers.
func TestRdmaClientServer(t *testing.T) {
	onOneKernel(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			cmLink(t, typ)
			t.Run("C serves Go", func(t *testing.T) {
				noLeak(t)
				server := serveCM(t, exec.Command("rdma_server", "-s", "10.78.0.1", "-p", "7471"), "7471")
				var p cmPeer
				c := must(rdmacm.Dial(t.Context(), "10.78.0.1:7471", &rdmacm.Config{Prepare: p.prepare}))(t)
				ok(t, p.send(t.Context(), c, "sixteen bytes..."))
				if got := must(p.recv(t.Context(), c))(t); len(got) != 16 {
					t.Errorf("%d bytes came", len(got))
				}
				ok(t, c.Close())
				if end := server.end(); end.Code != 0 {
					t.Errorf("%+v", end)
				}
			})
			t.Run("Go serves C", func(t *testing.T) {
				noLeak(t)
				l := must(rdmacm.Listen("10.78.0.1:7471", nil))(t)
				client := launch(t, exec.Command("rdma_client", "-s", "10.78.0.1", "-p", "7471"))
				var p cmPeer
				r := must(l.Next(t.Context()))(t)
				c := must(r.Accept(t.Context(), &rdmacm.Config{Prepare: p.prepare}))(t)
				if got := must(p.recv(t.Context(), c))(t); len(got) != 16 {
					t.Errorf("%d bytes came", len(got))
				}
				// The client may have the answer, and be gone, before its kernel says so.
				if err := p.send(context.Background(), c, "and sixteen back"); err != nil && !errors.Is(err, uverbs.StatusWRFlushErr) {
					t.Error(err)
				}
				<-c.Done()
				if end := client.end(); end.Code != 0 {
					t.Errorf("%+v", end)
				}
				ok(t, c.Close())
				ok(t, l.Close())
			})
		})
	}
}
