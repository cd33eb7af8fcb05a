//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// An engineOf is an engine of package transfer over the device that has an address, with a region. Its slices have the
// size of a piece, so it posts as many work requests as plain verbs do.
type engineOf struct {
	*transfer.Engine
	dev    *uverbs.Device
	region *transfer.Region
}

func newEngine(x exchange, access verbs.Access) (e *engineOf, err error) {
	addr, err := netip.ParseAddrPort(x.addr)
	if err != nil {
		return nil, err
	}
	e = new(engineOf)
	choice := uverbs.GIDChoice{Addr: addr.Addr()}
	if e.dev, err = deviceWith(&choice); err != nil {
		return nil, err
	}
	if e.Engine, err = transfer.New([]*uverbs.Device{e.dev}, &transfer.Config{SliceSize: x.size, GID: &choice}); err != nil {
		return nil, err
	}
	e.region, err = e.Register(make([]byte, x.size*x.count), access)
	return e, err
}

func (e *engineOf) close() error { return errors.Join(e.Close(), e.dev.Close()) }

func deviceWith(choice *uverbs.GIDChoice) (*uverbs.Device, error) {
	infos, err := uverbs.Devices()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		dev, err := uverbs.Open(info.Name)
		if err != nil {
			return nil, err
		}
		if _, err := dev.ChooseGID(1, choice); err == nil {
			return dev, nil
		}
		if err := dev.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no device has %v", choice.Addr)
}

// serveSlices sends the descriptor of its memory over the first stream, which the client closes at the end.
func serveSlices(ctx context.Context, x exchange) error {
	e, err := newEngine(x, verbs.AccessRemoteRead)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", x.addr)
	if err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	if _, err := c.Write(e.region.Descriptor()); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	go e.Serve(l)
	_, err = io.Copy(io.Discard, c)
	return errors.Join(err, c.Close(), e.close())
}

type sliceReader struct {
	*engineOf
	control net.Conn
	peer    *transfer.Peer
	ops     []transfer.Op
}

func dialSliceReader(ctx context.Context, x exchange) (reader, error) {
	e, err := newEngine(x, 0)
	if err != nil {
		return nil, err
	}
	r := &sliceReader{engineOf: e}
	if r.control, err = new(net.Dialer).DialContext(ctx, "tcp", x.addr); err != nil {
		return nil, err
	}
	descriptor, err := io.ReadAll(r.control)
	if err != nil {
		return nil, err
	}
	remote, err := transfer.ParseDescriptor(descriptor)
	if err != nil {
		return nil, err
	}
	if r.peer, err = e.Open(ctx, x.addr); err != nil {
		return nil, err
	}
	for i := range x.count {
		at := i * x.size
		r.ops = append(r.ops, transfer.Op{Opcode: verbs.OpRDMARead, Local: e.region.Span(at, x.size), Remote: remote, Offset: uint64(at)})
	}
	return r, nil
}

func (r *sliceReader) read(ctx context.Context) error {
	b, err := r.peer.Submit(ctx, r.ops)
	if err != nil {
		return err
	}
	return b.Wait()
}

func (r *sliceReader) close() error { return errors.Join(r.engineOf.close(), r.control.Close()) }
