package rdmatest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

var (
	groupMAC = [6]byte{0x01, 0x50, 0x56, 0x19, 0x20, 0xa7}
	ownMAC   = [6]byte{0x24, 0x8a, 0x07, 0xa5, 0x28, 0xc8}
)

const (
	frameSize        = 80
	srcPort, dstPort = 1234, 5678
)

// frameOf is an Ethernet frame of IPv4 and UDP, or IPv6 and TCP, without checksums.
func frameOf(v6 bool) []byte {
	b := append(groupMAC[:], ownMAC[:]...)
	if v6 {
		b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, 0, frameSize-14-40, 6, 64)
		b = append(b, bytes.Repeat([]byte{0xa1}, 16)...)
		b = append(b, bytes.Repeat([]byte{0xb2}, 16)...)
	} else {
		b = append(b, 8, 0, 0x45, 0, 0, frameSize-14, 0, 0, 0x40, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2)
	}
	b = binary.BigEndian.AppendUint16(b, srcPort)
	b = binary.BigEndian.AppendUint16(b, dstPort)
	if v6 {
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0)
	} else {
		b = binary.BigEndian.AppendUint16(b, frameSize-14-20)
	}
	for len(b) < frameSize {
		b = append(b, byte(len(b)))
	}
	if !v6 {
		b[40], b[41] = 0, 0
	}
	return b
}

var (
	exactMAC = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	ethernet = func(typ uint16) *flow.Eth {
		return &flow.Eth{Val: flow.EthFields{DstMAC: groupMAC, SrcMAC: ownMAC, EtherType: typ},
			Mask: flow.EthFields{DstMAC: exactMAC, SrcMAC: exactMAC, EtherType: 0xffff}}
	}
	ipv4 = &flow.IPv4{Val: flow.IPv4Fields{Src: [4]byte{1, 1, 1, 1}, Dst: [4]byte{2, 2, 2, 2}, Proto: 17},
		Mask: flow.IPv4Fields{Src: [4]byte{255, 255, 255, 255}, Dst: [4]byte{255, 255, 255, 255}, Proto: 255}}
)

// rawNode is a raw packet QP that is ready, with two receives.
func rawNode(t *testing.T, d *rdmatest.Device) *node {
	t.Helper()
	n := newNode(t, d, verbs.QPTypeRawPacket, all)
	n.receive(1000, 0, recvSize)
	if err := n.qp.Connect(nil); err != nil {
		t.Fatal(err)
	}
	n.receive(1001, recvSize, recvSize)
	return n
}

// flow has a rule give packets to a QP.
func (n *node) flow(o *uverbs.FlowOptions) {
	n.t.Helper()
	closed(n.t, must(n.qp.CreateFlow(o))(n.t))
}

// send posts a frame in two pieces, and waits until it has left.
func (n *node) send(frame []byte, flags verbs.SendFlags) {
	n.t.Helper()
	copy(n.mr.Bytes()[sendFrom:], frame)
	const first = 10
	n.post(verbs.SendWR{WRID: 7, Opcode: verbs.OpSend, Flags: flags, SGL: []verbs.SGE{n.mr.SGE(sendFrom, first), n.mr.SGE(sendFrom+first, len(frame)-first)}})
	if wc := n.next(); wc.Err() != nil || wc.WRID != 7 {
		n.t.Fatal(wc)
	}
}

// A frame goes where a rule asks for it, over the network and within the device: rdma-core's
// test_flow.
func TestFrames(t *testing.T) {
	ipv6 := func(next uint8) *flow.IPv6 {
		f := &flow.IPv6{Val: flow.IPv6Fields{NextHeader: next}, Mask: flow.IPv6Fields{NextHeader: 0xff}}
		for i := range f.Val.Src {
			f.Val.Src[i], f.Val.Dst[i], f.Mask.Src[i], f.Mask.Dst[i] = 0xa1, 0xb2, 0xff, 0xff
		}
		return f
	}
	ports, exact := flow.Ports{Dst: dstPort, Src: srcPort}, flow.Ports{Dst: 0xffff, Src: 0xffff}
	for name, c := range map[string]struct {
		v6    bool
		specs []flow.Spec
		takes bool
	}{
		"Ethernet":           {false, []flow.Spec{ethernet(0x800)}, true},
		"IPv4":               {false, []flow.Spec{ipv4}, true},
		"UDP":                {false, []flow.Spec{ethernet(0x800), ipv4, &flow.UDP{Val: ports, Mask: exact}}, true},
		"IPv6":               {true, []flow.Spec{ethernet(0x86dd), ipv6(6)}, true},
		"TCP":                {true, []flow.Spec{ethernet(0x86dd), ipv6(6), &flow.TCP{Val: ports, Mask: exact}}, true},
		"another type":       {true, []flow.Spec{ethernet(0x800)}, false},
		"another version":    {true, []flow.Spec{ipv4}, false},
		"another protocol":   {true, []flow.Spec{ipv6(17)}, false},
		"another transport":  {false, []flow.Spec{&flow.TCP{Val: ports, Mask: exact}}, false},
		"the ports' reverse": {false, []flow.Spec{&flow.UDP{Val: flow.Ports{Dst: srcPort, Src: dstPort}, Mask: exact}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
			for _, from := range []*rdmatest.Device{f.Host(0).Device(0), f.Host(1).Device(0)} {
				a, b := rawNode(t, from), rawNode(t, f.Host(1).Device(0))
				rule := must(b.qp.CreateFlow(&uverbs.FlowOptions{Specs: c.specs}))(t)
				frame := frameOf(c.v6)
				a.send(frame, 0)
				if err := rule.Close(); err != nil {
					t.Fatal(err)
				}
				a.send(frame, 0) // nobody asks any more
				want := "1000 work request flushed, 1001 work request flushed; RTS"
				if c.takes {
					want = "1000 RECV success 80, 1001 work request flushed; RTS"
				}
				if got := b.story(); got != want || c.takes && !bytes.Equal(b.mr.Bytes()[:frameSize], frame) {
					t.Errorf("%s, want %s: %x", got, want, b.mr.Bytes()[:frameSize])
				}
			}
		})
	}
}

// Rules of one device: which comes first, and which gets the rest.
func TestFrameRules(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	d := f.Host(1).Device(0)
	a := rawNode(t, f.Host(0).Device(0))
	var nodes []*node
	for _, o := range []*uverbs.FlowOptions{
		{Specs: []flow.Spec{ethernet(0x800), ipv4}, Priority: 1},
		{Specs: []flow.Spec{ethernet(0x800)}, Priority: 1},
		{Specs: []flow.Spec{ethernet(0x800), ipv4}, Priority: 2},
		{Type: flow.AllDefault},
		{Type: flow.MulticastDefault, Priority: 1},
		{Type: flow.Sniffer},
	} {
		n := rawNode(t, d)
		n.flow(o)
		nodes = append(nodes, n)
	}
	a.send(frameOf(false), 0)
	a.send(frameOf(true), 0)
	alone := frameOf(true)
	alone[0] &^= 1 // for one station
	a.send(alone, 0)
	for i, want := range []int{1, 0, 0, 2, 0, 2} { // the sniffer had two receives
		var got int
		wcs := make([]verbs.WC, 4)
		for k := must(nodes[i].cq.Poll(wcs))(t); k > 0; k-- {
			got++
		}
		if got != want {
			t.Errorf("rule %d: %d frames, want %d", i, got, want)
		}
	}
}

// The device fills in checksums and reports which are right; a frame that has no room ends a QP.
func TestFrameChecksums(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a, b := rawNode(t, f.Host(0).Device(0)), rawNode(t, f.Host(1).Device(0))
	b.flow(&uverbs.FlowOptions{Specs: []flow.Spec{ipv4}})
	frame := frameOf(false)
	a.send(frame, verbs.SendIPCsum)
	if wc := b.next(); wc.Flags != verbs.WCIPCsumOK {
		t.Errorf("%+v", wc)
	}
	got := b.mr.Bytes()[:frameSize]
	binary.BigEndian.PutUint16(frame[24:], 0x34a6) // as another program computes them
	binary.BigEndian.PutUint16(frame[40:], 0x6601)
	if !bytes.Equal(got, frame) {
		t.Errorf("%x, want %x", got, frame)
	}
	got[50] ^= 1
	a.send(got, 0)
	if wc := b.next(); wc.Err() != nil || wc.Flags != 0 {
		t.Errorf("%+v", wc)
	}
	b.receive(1002, 0, frameSize-1)
	a.send(frame, 0)
	if wc := b.next(); !errors.Is(wc.Err(), verbs.StatusLocLenErr) {
		t.Errorf("%+v", wc)
	}
}

// The device cuts a TCP segment into packets, and adapts their headers.
func TestTSO(t *testing.T) {
	const mss, sequence, id = 24, 0xfffffff0, 0xffff
	const length = 2*mss + 7
	for name, v6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
			d := f.Host(1).Device(0)
			n := newNode(t, f.Host(0).Device(0), verbs.QPTypeRawPacket, all)
			a := *n
			a.qp = closed(t, must(n.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket, SendCQ: n.cq, RecvCQ: n.cq, MaxTSOHeader: 128,
				Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 2}}))(t))
			if err := errors.Join(a.qp.Init(nil), a.qp.Connect(nil)); err != nil {
				t.Fatal(err)
			}
			b := rawNode(t, d)
			b.receive(1002, 2*recvSize, recvSize)
			b.receive(1003, 3*recvSize, recvSize)
			specs := []flow.Spec{ethernet(0x800), &flow.IPv4{Val: flow.IPv4Fields{Proto: 6}, Mask: flow.IPv4Fields{Proto: 255}}}
			ip := []byte{0x45, 0, 0, 0, id >> 8, id & 255, 0x40, 0, 64, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}
			if v6 {
				specs = []flow.Spec{ethernet(0x86dd)}
				ip = append([]byte{0x60, 0, 0, 0, 0, 0, 6, 64}, bytes.Repeat([]byte{0xa1}, 32)...)
			}
			b.flow(&uverbs.FlowOptions{Specs: specs})
			headers := append(bytes.Clone(groupMAC[:]), ownMAC[:]...)
			if v6 {
				headers = append(headers, 0x86, 0xdd)
			} else {
				headers = append(headers, 8, 0)
			}
			const all = 0xff // flags, of which CWR is only the first packet's, FIN and PSH only the last one's
			headers = append(append(headers, ip...), 4, 0xd2, 0, 80, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1, 5<<4, all, 0, 0, 0, 0, 0, 0)
			payload := a.mr.Bytes()[sendFrom:][:length]
			for i := range payload {
				payload[i] = byte(i)
			}
			a.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpTSO, Flags: verbs.SendIPCsum, MSS: mss, Inline: headers,
				SGL: []verbs.SGE{a.mr.SGE(sendFrom, 5), a.mr.SGE(sendFrom+5, length-5)}})
			if wc := a.next(); wc.Err() != nil || wc.Opcode != verbs.WCTSO {
				t.Fatal(wc)
			}
			for i, c := range []struct {
				size  int
				flags byte
			}{{mss, all &^ 0x09}, {mss, all &^ 0x89}, {7, all &^ 0x80}} {
				wc := b.next()
				got := b.mr.Bytes()[i*recvSize:][:wc.ByteLen]
				if int(wc.ByteLen) != len(headers)+c.size || !bytes.Equal(got[len(headers):], payload[i*mss:][:c.size]) || !bytes.Equal(got[:14], headers[:14]) {
					t.Fatalf("%d: %+v, %x", i, wc, got)
				}
				inner := got[14:]
				if v6 {
					if n := binary.BigEndian.Uint16(inner[4:]); int(n) != 20+c.size || wc.Flags != 0 {
						t.Errorf("%d: %d bytes of payload, %+v", i, n, wc)
					}
					inner = inner[40:]
				} else {
					if n, at := binary.BigEndian.Uint16(inner[2:]), binary.BigEndian.Uint16(inner[4:]); int(n) != 40+c.size || at != uint16(id+i&0xffff) || wc.Flags != verbs.WCIPCsumOK {
						t.Errorf("%d: length %d, id %#x, %+v", i, n, at, wc)
					}
					inner = inner[20:]
				}
				if at := binary.BigEndian.Uint32(inner[4:]); at != uint32((sequence+i*mss)&0xffffffff) || inner[13] != c.flags {
					t.Errorf("%d: sequence %#x, flags %#x", i, at, inner[13])
				}
			}
			a.post(verbs.SendWR{WRID: 2, Opcode: verbs.OpTSO, MSS: mss, Inline: headers[:len(headers)-1], SGL: []verbs.SGE{a.mr.SGE(sendFrom, 5)}})
			if wc := a.next(); wc.Err() != nil {
				t.Fatal(wc)
			}
			if got := b.story(); got != "1003 work request flushed; RTS" {
				t.Errorf("headers that are cut off: %s", got)
			}
		})
	}
}

// packetNode is a raw packet queue pair that is ready, with receives from 1000 on. Its completions
// have all fields of packets.
func packetNode(t *testing.T, d *rdmatest.Device, flags verbs.QPFlags, receives int) *node {
	t.Helper()
	n := newNode(t, d, verbs.QPTypeRawPacket, all)
	ext := verbs.WCExtFlowTag | verbs.WCExtVLAN | verbs.WCExtChecksum
	n.cq = closed(t, must(n.dev.CreateCQ(16, &uverbs.CQOptions{Ext: ext}))(t))
	n.qp = closed(t, must(n.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket, SendCQ: n.cq, RecvCQ: n.cq, Flags: flags,
		Cap: verbs.QPCap{MaxRecvWR: 8, MaxRecvSGE: 1}}))(t))
	if err := errors.Join(n.qp.Init(nil), n.qp.Connect(nil)); err != nil {
		t.Fatal(err)
	}
	for i := range receives {
		n.receive(uint64(1000+i), i*recvSize, recvSize)
	}
	return n
}

// nextPacket returns the completion that has come, of which there is one.
func (n *node) nextPacket() (verbs.WC, verbs.WCExt) {
	n.t.Helper()
	wcs, ext := make([]verbs.WC, 2), make([]verbs.WCExt, 2)
	if got := must(n.cq.PollExt(wcs, ext))(n.t); got != 1 || wcs[0].Err() != nil {
		n.t.Fatal(got, wcs)
	}
	return wcs[0], ext[0]
}

// A rule tags packets, drops or counts them, or all of these.
func TestFlowActions(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a := rawNode(t, f.Host(0).Device(0))
	b := packetNode(t, f.Host(1).Device(0), 0, 4)
	counters := closed(t, must(b.dev.CreateCounters())(t))
	if err := errors.Join(counters.Count(flow.CounterPackets, 0), counters.Count(flow.CounterBytes, 1)); err != nil {
		t.Fatal(err)
	}
	const tag = 0x123456
	b.flow(&uverbs.FlowOptions{Specs: []flow.Spec{ethernet(0x800), flow.Tag(tag), counters}})
	b.flow(&uverbs.FlowOptions{Specs: []flow.Spec{ethernet(0x86dd), counters}})
	frame := frameOf(false)
	a.send(frame, 0)
	if _, ext := b.nextPacket(); ext != (verbs.WCExt{FlowTag: tag, Flags: verbs.WCExtIPv4 | verbs.WCExtUDP}) {
		t.Errorf("%+v", ext)
	}
	a.send(frame, verbs.SendIPCsum)
	if _, ext := b.nextPacket(); ext != (verbs.WCExt{FlowTag: tag, Flags: verbs.WCExtChecksumOK | verbs.WCExtIPv4 | verbs.WCExtUDP}) {
		t.Errorf("%+v", ext)
	}
	a.send(frameOf(true), verbs.SendIPCsum)
	if _, ext := b.nextPacket(); ext != (verbs.WCExt{Flags: verbs.WCExtChecksumOK | verbs.WCExtIPv6 | verbs.WCExtTCP}) {
		t.Errorf("%+v", ext)
	}
	b.flow(&uverbs.FlowOptions{Specs: []flow.Spec{ethernet(0x800), ipv4, flow.Drop{}, counters}})
	a.send(frame, 0)
	if n := must(b.cq.Poll(make([]verbs.WC, 1)))(t); n != 0 {
		t.Error("a packet was not dropped")
	}
	got := make([]uint64, 2)
	if err := counters.Read(got, false); err != nil || got[0] != 4 || got[1] != 4*frameSize {
		t.Errorf("%d, %v", got, err)
	}
}

// VLAN tags are inserted on the way out, and stripped and reported on the way in, where the queue
// pair or the WQ asks for it.
func TestVLAN(t *testing.T) {
	const tag = 0xa00b
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a := rawNode(t, f.Host(0).Device(0))
	frame := frameOf(true)
	copy(a.mr.Bytes()[sendFrom:], frame)
	for flags, want := range map[verbs.QPFlags]uint16{0: 0, verbs.QPCVLANStripping: tag} {
		b := packetNode(t, f.Host(1).Device(0), flags, 1)
		b.flow(&uverbs.FlowOptions{Specs: []flow.Spec{ethernet(0x86dd)}})
		a.post(verbs.SendWR{Opcode: verbs.OpSend, VLAN: tag, SGL: []verbs.SGE{a.mr.SGE(sendFrom, frameSize)}})
		if wc := a.next(); wc.Err() != nil {
			t.Fatal(wc)
		}
		expect := append(append(bytes.Clone(frame[:12]), 0x81, 0, tag>>8, tag&0xff), frame[12:]...)
		if want != 0 {
			expect = frame
		}
		wc, ext := b.nextPacket()
		if got := b.mr.Bytes()[:wc.ByteLen]; !bytes.Equal(got, expect) || ext.VLAN != want {
			t.Errorf("flags %#x: %x, want %x; %+v", flags, got, expect, ext)
		}
	}
	b := packetNode(t, f.Host(1).Device(0), 0, 0)
	w := closed(t, must(b.pd.CreateWQ(&uverbs.WQOptions{MaxWR: 2, MaxSGE: 1, CQ: b.cq, Flags: rss.WQCVLANStripping}))(t))
	table := closed(t, must(b.dev.CreateRWQIndTable([]*uverbs.WQ{w}))(t))
	qp := closed(t, must(b.pd.CreateRSSQP(&uverbs.RSSOptions{Type: verbs.QPTypeRawPacket, Table: table,
		Hash: rss.Hash{Function: rss.Toeplitz, Key: make([]byte, 40), Fields: rss.SrcIPv6}}))(t))
	if err := w.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState); err != nil {
		t.Fatal(err)
	}
	closed(t, must(qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{ethernet(0x86dd)}}))(t))
	for _, want := range []uint16{tag, 0} {
		must(w.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{b.mr.SGE(0, recvSize)}}}))(t)
		a.post(verbs.SendWR{Opcode: verbs.OpSend, VLAN: tag, SGL: []verbs.SGE{a.mr.SGE(sendFrom, frameSize)}})
		a.next()
		if _, ext := b.nextPacket(); ext.VLAN != want {
			t.Errorf("%+v, want tag %#x", ext, want)
		}
		if err := w.Modify(&rss.WQAttr{Mask: rss.WQCVLANStripping}, rss.WQAttrFlags); err != nil {
			t.Fatal(err)
		}
	}
}
