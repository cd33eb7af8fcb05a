package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"

	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func onesidedFlags(f *flag.FlagSet, s *session) {
	s.endsFlags(f)
	s.portFlag(f)
	f.StringVar(&s.device, "d", "", "`device`; without it the first one")
}

// runOnesided tries the operations on the peer's memory: first the client's on the server's, then the reverse. They connect over
// TCP.
func runOnesided(ctx context.Context, s *session) error {
	stream, err := s.streams(ctx)
	if err != nil {
		return err
	}
	if s.device == "" {
		all, err := uverbs.Devices()
		if err != nil || len(all) == 0 {
			return fmt.Errorf("no device: %w", err)
		}
		s.device = all[0].Name
	}
	dev, err := uverbs.Open(s.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	for _, requests := range []bool{s.server != "", s.server == ""} {
		o := &onesided{session: s}
		cfg := &oob.Config{PD: pd, QP: uverbs.QPOptions{Cap: verbs.QPCap{MaxSendSGE: 2}}, Prepare: o.prepare}
		meet := oob.Dial
		if s.server == "" {
			meet = oob.Accept
		}
		rw, err := stream()
		if err != nil {
			return err
		}
		if o.Conn, err = meet(ctx, rw, cfg); err != nil {
			return err
		}
		talk := o.respond
		if requests {
			talk = o.request
		}
		if err := errors.Join(talk(ctx), o.Close()); err != nil {
			return err
		}
	}
	s.say("all data is equal")
	return nil
}

// streams returns a function that returns the next connection over TCP.
func (s *session) streams(ctx context.Context) (func() (net.Conn, error), error) {
	at := net.JoinHostPort(s.server, strconv.Itoa(s.port))
	if s.server != "" {
		return func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", at) }, nil
	}
	l, err := net.Listen("tcp", s.listenAddress())
	if err != nil {
		return nil, err
	}
	return l.Accept, nil
}

// onesided is a connection with memory, whose parts begin at offsets.
type onesided struct {
	*session
	*oob.Conn
	mr *uverbs.MR
}

const (
	partSize = 1 << 17
	target   = 0 // what the peer writes, and what is read from it
	source   = partSize
	word     = 2 * partSize // of the peer's atomic operations
	fetched  = word + 8
	slots    = word + 16 // for received messages
	slotSize = 16
	received = 8 // slots
)

// firstWord is the word's value at first.
const firstWord = 0xfffffffe

var onesidedSizes = []int{0, 1, 8, 1023, 1024, 1025, 4096, 70_001}

// readNumber is the number of the pattern that the peer finds in source.
const readNumber = 100

// fill writes a pattern.
func fill(b []byte, number int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + number*31)
	}
}

// holds reports whether b is a pattern.
func holds(b []byte, number int) bool {
	want := make([]byte, len(b))
	fill(want, number)
	return bytes.Equal(b, want)
}

func (o *onesided) prepare(c *oob.Conn) (err error) {
	o.Conn = c
	o.mr, err = c.PD().AllocMR(slots+received*slotSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic, nil)
	if err != nil {
		return err
	}
	c.Own(o.mr)
	fill(o.mr.Bytes()[source:source+partSize], readNumber)
	binary.NativeEndian.PutUint64(o.mr.Bytes()[word:], firstWord)
	c.SetPrivateData(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, o.mr.Addr()), o.mr.RKey()))
	for i := range received {
		if err := o.postRecv(i); err != nil {
			return err
		}
	}
	return nil
}

func (o *onesided) postRecv(slot int) error {
	_, err := o.QP().PostRecv([]verbs.RecvWR{{WRID: uint64(slot), SGL: []verbs.SGE{o.mr.SGE(slots+slot*slotSize, slotSize)}}})
	return err
}

// next waits for a completion.
func (o *onesided) next(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if n, err := cq.Wait(ctx, wcs[:]); n == 0 {
		return wcs[0], err
	}
	return wcs[0], nil
}

// do carries work requests out. The remote address of each is an offset.
func (o *onesided) do(ctx context.Context, wrs ...verbs.SendWR) error {
	for i := range wrs {
		about := o.PrivateData()
		wrs[i].Flags |= verbs.SendSignaled
		wrs[i].RemoteAddr += binary.BigEndian.Uint64(about)
		wrs[i].RKey ^= binary.BigEndian.Uint32(about[8:])
	}
	if _, err := o.QP().PostSend(wrs); err != nil {
		return err
	}
	for i := range wrs {
		wc, err := o.next(ctx, o.SendCQ())
		if err == nil {
			err = wc.Err()
		}
		if err != nil {
			return fmt.Errorf("%v, work request %d: %w", wrs[i].Opcode, i, err)
		}
	}
	return nil
}

// request requests all operations, the last of them with a wrong key.
func (o *onesided) request(ctx context.Context) error {
	for number, size := range onesidedSizes {
		fill(o.mr.Bytes()[source:source+size], number)
		write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{o.mr.SGE(source, size/3), o.mr.SGE(source+size/3, size-size/3)}, RemoteAddr: target}
		about := verbs.SendWR{Opcode: verbs.OpSendImm, Inline: binary.BigEndian.AppendUint32(nil, uint32(size)), Imm: uint32(number)}
		if err := o.checked(ctx, write, about); err != nil {
			return err
		}
		write.Opcode, write.Imm = verbs.OpRDMAWriteImm, uint32(number)
		if err := o.checked(ctx, write); err != nil {
			return err
		}
	}
	if err := o.read(ctx); err != nil {
		return err
	}
	if err := o.atomics(ctx); err != nil {
		return err
	}
	err := o.do(ctx, verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{o.mr.SGE(source, 8)}, RemoteAddr: target, RKey: 1 << 20})
	if !errors.Is(err, verbs.StatusRemAccessErr) {
		return fmt.Errorf("a WRITE with a wrong key: %v", err)
	}
	return nil
}

// checked carries work requests out, and waits until the peer has compared the data.
func (o *onesided) checked(ctx context.Context, wrs ...verbs.SendWR) error {
	number := wrs[len(wrs)-1].Imm
	if err := o.do(ctx, wrs...); err != nil {
		return err
	}
	wc, err := o.next(ctx, o.RecvCQ())
	if err == nil {
		err = wc.Err()
	}
	if err == nil && wc.Imm != number {
		err = fmt.Errorf("an answer about %d, not %d", wc.Imm, number)
	}
	return errors.Join(err, o.postRecv(int(wc.WRID)))
}

// read reads pieces of all sizes at once.
func (o *onesided) read(ctx context.Context) error {
	var reads []verbs.SendWR
	clear(o.mr.Bytes()[target : target+partSize])
	at := 0
	for _, size := range onesidedSizes {
		reads = append(reads, verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{o.mr.SGE(target+at, size)}, RemoteAddr: uint64(source + at)})
		at += size
	}
	if err := o.do(ctx, reads...); err != nil {
		return err
	}
	if !holds(o.mr.Bytes()[target:target+at], readNumber) {
		return errors.New("READs have brought other data")
	}
	return nil
}

// atomics changes the word by each operation. The peer's word is an integer of its own byte order, which is taken for ours.
func (o *onesided) atomics(ctx context.Context) error {
	value := uint64(firstWord)
	for i, c := range []struct {
		op        verbs.Opcode
		add, swap uint64
		want      uint64
	}{
		{verbs.OpFetchAdd, 5, 0, value + 5},
		{verbs.OpFetchAdd, 1 << 63, 0, value + 5 + 1<<63},
		{verbs.OpCompareSwap, 1, 7, value + 5 + 1<<63},
		{verbs.OpCompareSwap, value + 5 + 1<<63, 7, 7},
		{verbs.OpFetchAdd, ^uint64(0), 0, 6},
	} {
		if err := o.do(ctx, verbs.SendWR{Opcode: c.op, SGL: []verbs.SGE{o.mr.SGE(fetched, 8)}, RemoteAddr: word, CompareAdd: c.add, Swap: c.swap}); err != nil {
			return err
		}
		if got := binary.NativeEndian.Uint64(o.mr.Bytes()[fetched:]); got != value {
			return fmt.Errorf("atomic operation %d fetched %#x, not %#x", i, got, value)
		}
		value = c.want
	}
	if err := o.do(ctx, verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{o.mr.SGE(fetched, 8)}, RemoteAddr: word}); err != nil {
		return err
	}
	if got := binary.NativeEndian.Uint64(o.mr.Bytes()[fetched:]); got != value {
		return fmt.Errorf("after the atomic operations the word is %#x, not %#x", got, value)
	}
	return nil
}

// respond compares what the peer has written until its request with a wrong key ends the connection.
func (o *onesided) respond(ctx context.Context) error {
	for compared := 0; ; compared++ {
		wc, err := o.next(ctx, o.RecvCQ())
		if err != nil {
			return err
		}
		if wc.Status != verbs.StatusSuccess {
			if compared != 2*len(onesidedSizes) {
				return fmt.Errorf("after %d messages: %w", compared, wc.Err())
			}
			return nil
		}
		slot, size := int(wc.WRID), int(wc.ByteLen)
		if wc.Opcode == verbs.WCRecv {
			size = int(binary.BigEndian.Uint32(o.mr.Bytes()[slots+slot*slotSize:]))
		}
		got := o.mr.Bytes()[target : target+partSize]
		if size > partSize || !holds(got[:size], int(wc.Imm)) || len(bytes.Trim(got[size:], "\x00")) != 0 {
			return fmt.Errorf("%v, number %d: other than %d bytes arrived", wc.Opcode, wc.Imm, size)
		}
		clear(got)
		answer := verbs.SendWR{Opcode: verbs.OpSendImm, Imm: wc.Imm}
		if err := errors.Join(o.postRecv(slot), o.do(ctx, answer)); err != nil {
			return err
		}
	}
}
