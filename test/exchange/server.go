package exchange

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// MaxSize is the largest buffer that a server gives away, 64 MiB.
const MaxSize = 64 << 20

// Received is the data that a client left in the server's memory.
type Received struct {
	Size int
	CRC  uint32 // IEEE, of the memory after the client went
}

// Serve takes one connection and lends the client as much memory as it asks
// for, until the client disconnects.
func Serve(ctx context.Context, ln *rdmacm.Listener) (*Received, error) {
	req, err := ln.Next(ctx)
	if err != nil {
		return nil, err
	}
	var s session
	conn, err := req.Accept(ctx, &rdmacm.Config{Prepare: s.prepare})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	theirs, err := s.receive(ctx)
	if err != nil {
		return nil, err
	}
	if theirs.Length > MaxSize {
		return nil, fmt.Errorf("the client wants %d bytes, the most is %d", theirs.Length, MaxSize)
	}
	mr, err := conn.PD().AllocMR(int(theirs.Length), verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead, nil)
	if err != nil {
		return nil, err
	}
	defer mr.Close()
	if err := s.send(ctx, Buffer{mr.Addr(), theirs.Length, mr.RKey()}); err != nil {
		return nil, err
	}
	select {
	case <-conn.Done():
		return &Received{mr.Len(), crc32.ChecksumIEEE(mr.Bytes())}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
