//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/bench/result"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A reader reads the peer's memory in batches, each of which it posts and waits for once.
type reader interface {
	read(context.Context) error
	close() error
}

var readers = map[string]func(context.Context, exchange) (reader, error){
	"msg-batch":    dialMsgReader,
	"verbs-batch":  dialVerbsReader,
	"engine-batch": dialSliceReader,
}

// dialBatches reads COUNT blocks in each round.
func dialBatches(ctx context.Context, x exchange) ([]result.Sample, error) {
	r, err := readers[x.kind](ctx, x)
	if err != nil {
		return nil, err
	}
	var start time.Time
	var before, after runtime.MemStats
	for i := range x.rounds + warmUp {
		if i == warmUp {
			runtime.ReadMemStats(&before)
			start = time.Now()
		}
		if err := r.read(ctx); err != nil {
			return nil, err
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return []result.Sample{
		{Measure: "batch", Unit: "µs", Value: 2 * x.each(took)},
		{Measure: "batch_allocs", Unit: "allocs", Value: float64((after.Mallocs - before.Mallocs) / uint64(x.rounds))},
	}, r.close()
}

// serveMsgBatches sends the description of its memory, and waits until the client closes the connection.
func serveMsgBatches(ctx context.Context, x exchange) error {
	l, err := msg.Listen(ctx, x.addr)
	if err != nil {
		return err
	}
	c, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	region, err := c.Register(make([]byte, x.size*x.count), msg.MayRead)
	if err != nil {
		return err
	}
	description, err := region.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	if err := c.Send(ctx, description); err != nil {
		return err
	}
	if _, err := c.Recv(ctx); ignoreEOF(err) != nil {
		return err
	}
	return errors.Join(region.Close(), c.Shutdown(ctx), l.Close())
}

type msgReader struct {
	*msg.Conn
	ours *msg.Region
	ops  []msg.Op
}

func dialMsgReader(ctx context.Context, x exchange) (reader, error) {
	c, err := msg.Dial(ctx, x.addr)
	if err != nil {
		return nil, err
	}
	m, err := c.Recv(ctx)
	if err != nil {
		return nil, err
	}
	var theirs msg.RemoteRegion
	err = theirs.UnmarshalBinary(m.Bytes())
	m.Release()
	if err != nil {
		return nil, err
	}
	r := &msgReader{Conn: c}
	if r.ours, err = c.Register(make([]byte, x.size*x.count), 0); err != nil {
		return nil, err
	}
	for i := range x.count {
		at := i * x.size
		r.ops = append(r.ops, msg.Op{Opcode: verbs.OpRDMARead, Local: r.ours.Span(at, x.size), Remote: theirs, Offset: uint64(at)})
	}
	return r, nil
}

func (r *msgReader) read(ctx context.Context) error { return r.Do(ctx, r.ops) }
func (r *msgReader) close() error {
	return errors.Join(r.ours.Close(), r.Shutdown(context.Background()))
}

// serveVerbsBatches describes its memory in the private data: the address and the key.
func serveVerbsBatches(ctx context.Context, x exchange) error {
	prepare := func(c *rdmacm.Conn) error {
		mr, err := c.PD().AllocMR(x.size*x.count, verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil)
		if err != nil {
			return err
		}
		c.Own(mr)
		c.SetPrivateData(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, mr.Addr()), mr.RKey()))
		return nil
	}
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{Prepare: prepare}}).Listen(ctx, x.addr)
	if err != nil {
		return err
	}
	c, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	<-c.Done()
	return errors.Join(c.Close(), l.Close())
}

type verbsReader struct {
	conn *rdmacm.Conn
	mr   *uverbs.MR
	wrs  []verbs.SendWR
	wcs  [1]verbs.WC
}

// dialVerbsReader signals the last READ of a batch only, as package msg does.
func dialVerbsReader(ctx context.Context, x exchange) (reader, error) {
	c, err := (&rdmacm.Dialer{Config: rdmacm.Config{QP: uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: uint32(x.count)}}}}).Dial(ctx, x.addr)
	if err != nil {
		return nil, err
	}
	private := c.PrivateData()
	if len(private) < 12 {
		return nil, fmt.Errorf("%d bytes of private data", len(private))
	}
	r := &verbsReader{conn: c}
	if r.mr, err = c.PD().AllocMR(x.size*x.count, verbs.AccessLocalWrite, nil); err != nil {
		return nil, err
	}
	c.Own(r.mr)
	address, key := binary.BigEndian.Uint64(private), binary.BigEndian.Uint32(private[8:])
	for i := range x.count {
		at := i * x.size
		r.wrs = append(r.wrs, verbs.SendWR{
			Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{r.mr.SGE(at, x.size)}, RemoteAddr: address + uint64(at), RKey: key,
		})
	}
	r.wrs[x.count-1].Flags = verbs.SendSignaled
	return r, nil
}

func (r *verbsReader) read(ctx context.Context) error {
	if _, err := r.conn.QP().PostSend(r.wrs); err != nil {
		return err
	}
	if _, err := r.conn.SendCQ().Wait(ctx, r.wcs[:]); err != nil {
		return err
	}
	return r.wcs[0].Err()
}

func (r *verbsReader) close() error { return r.conn.Close() }
