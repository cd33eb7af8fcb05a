//go:build vm

package rxe

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeTransfer moves memory over two rails in both directions, with notifications, beside an operation with the
// descriptor of a region that is gone, and cancels a batch. Both rails lead over one device.
func TestRxeTransfer(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
	defer cancel()
	devices := []*uverbs.Device{d.Device, d.Device}
	client, server := kit.Must(transfer.New(devices, nil))(t), kit.Must(transfer.New(devices, nil))(t)
	l := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	p := kit.Must(client.Open(ctx, l.Addr().String()))(t)
	const half = 3<<20 + 4321
	ours := kit.Must(client.Register(make([]byte, 2*half), 0))(t)
	theirs := kit.Must(server.Register(make([]byte, 2*half), verbs.AccessRemoteRead|verbs.AccessRemoteWrite))(t)
	gone := kit.Must(server.Register(make([]byte, half), verbs.AccessRemoteWrite))(t)
	remote, stale := kit.Must(transfer.ParseDescriptor(theirs.Descriptor()))(t), kit.Must(transfer.ParseDescriptor(gone.Descriptor()))(t)
	kit.OK(t, gone.Close())
	write := transfer.Op{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, half), Remote: remote}
	read := transfer.Op{Opcode: verbs.OpRDMARead, Local: ours.Span(half, half), Remote: remote, Offset: half}
	for round := range byte(3) {
		for i := range half {
			ours.Bytes()[i], theirs.Bytes()[half+i] = byte(i*7)+round, byte(i*5)-round
		}
		bad := write
		bad.Remote = stale
		lies := kit.Must(p.Submit(ctx, []transfer.Op{bad}))(t)
		b := kit.Must(p.SubmitNotify(ctx, []transfer.Op{write, read}, 7))(t)
		kit.OK(t, b.Wait())
		if err := lies.Wait(); !errors.Is(err, verbs.StatusRemAccessErr) {
			t.Errorf("memory that is gone: %v", err)
		}
		kit.OK(t, server.Await(ctx, 7, 1))
		if !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
			t.Errorf("round %d: other bytes", round)
		}
	}
	short, stop := context.WithCancel(ctx)
	b := kit.Must(p.Submit(short, []transfer.Op{write, read}))(t)
	stop()
	if err := b.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := ours.Close(); err != nil && !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
	kit.OK(t, client.Close())
	kit.OK(t, server.Close())
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
