package selftest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// The frames of these tests go from the port to itself, by UDP between addresses that are set aside
// for tests of networks. Rules ask for all of that, so they take no frame of anybody else.
var (
	frameFrom = [4]byte{198, 18, 9, 1}
	frameTo   = [4]byte{198, 18, 9, 2}
)

const (
	framePort   = 5791 // of the first receiver
	frameRoom   = 2048
	frameLayout = 0x0800 // IPv4
)

// framer sends frames with a device of its own: a card returns the frames of one process to
// another, and not to itself.
type framer struct {
	*environment
	from *uverbs.Endpoint
	at   *uverbs.PD // of receivers
	qp   *uverbs.QP
	mr   *uverbs.MR
	mac  [6]byte
	port uint16 // of the receiver; the next one is free too
	next uint64
}

// newFramer needs a port on Ethernet, and CAP_NET_RAW.
func (b *environment) newFramer() (f *framer, err error) {
	if !b.dev.Supports(verbs.QPTypeRawPacket, verbs.OpSend) {
		return nil, none("there are no raw packet queue pairs")
	}
	if b.link.LinkLayer != verbs.LinkEthernet {
		return nil, none("raw packets are Ethernet's")
	}
	// A frame of an earlier test that comes late is no frame of this one.
	*b.frames += 2
	f = &framer{environment: b, port: framePort + *b.frames}
	if f.mac, err = b.portMAC(); err != nil {
		return nil, err
	}
	dev, err := b.open()
	if err != nil {
		return nil, err
	}
	b.keep(dev.Close)
	receivers, err := b.endpoint(b.dev, nil)
	if err != nil {
		return nil, err
	}
	f.at = receivers.PD
	if f.from, err = b.endpoint(dev, frameQueues(nil, uverbs.CQOptions{})); err != nil {
		return nil, err
	}
	if f.mr, err = f.from.PD.AllocMR(frameRoom, verbs.AccessLocalWrite, nil); err != nil {
		return nil, err
	}
	f.qp, err = f.queue(f.from, 0)
	return f, err
}

// portMAC finds the port's own address in the GID that the kernel makes of it.
func (b *environment) portMAC() (mac [6]byte, err error) {
	gids, err := b.dev.GIDTable()
	if err != nil {
		return mac, err
	}
	for _, e := range gids {
		g := e.GID
		if e.Port == b.port && g[0] == 0xfe && g[1] == 0x80 && g[11] == 0xff && g[12] == 0xfe {
			return [6]byte{g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}, nil
		}
	}
	return mac, none("no GID has the port's MAC address")
}

// frameQueues are the CQs of queue.
func frameQueues(pd *uverbs.PD, cq uverbs.CQOptions) *uverbs.EndpointOptions {
	return &uverbs.EndpointOptions{PD: pd, SendCQEntries: 2 * depth, RecvCQEntries: 2 * depth, CQ: cq}
}

// queue creates a raw packet queue pair that is ready.
func (f *framer) queue(at *uverbs.Endpoint, flags verbs.QPFlags) (*uverbs.QP, error) {
	qp, err := at.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket, Flags: flags,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 2, MaxRecvSGE: 1}})
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return nil, none("raw packets need CAP_NET_RAW")
	}
	if err != nil {
		return nil, err
	}
	return qp, errors.Join(qp.Init(&verbs.QPAttr{Port: f.environment.port}), qp.Connect(nil))
}

// sink receives frames.
type sink struct {
	*framer
	cq *uverbs.CQ
	mr *uverbs.MR
}

// newSink creates the memory of a receiver on the tested device.
func (f *framer) newSink(cq *uverbs.CQ) (s *sink, err error) {
	s = &sink{framer: f, cq: cq}
	if s.mr, err = f.at.AllocMR(depth*frameRoom, verbs.AccessLocalWrite, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// receiver creates a queue pair that receives what specs ask for.
func (f *framer) receiver(specs ...flow.Spec) (*sink, *uverbs.Flow, error) {
	return f.receiverWith(uverbs.CQOptions{}, 0, specs...)
}

func (f *framer) receiverWith(cq uverbs.CQOptions, flags verbs.QPFlags, specs ...flow.Spec) (*sink, *uverbs.Flow, error) {
	at, err := f.endpoint(f.environment.dev, frameQueues(f.at, cq))
	if err != nil {
		return nil, nil, err
	}
	qp, err := f.queue(at, flags)
	if err != nil {
		return nil, nil, err
	}
	s, err := f.newSink(qp.RecvCQ())
	if err != nil {
		return nil, nil, err
	}
	if err := s.fill(qp.PostRecv, 8, 0); err != nil {
		return nil, nil, err
	}
	rule, err := qp.CreateFlow(&uverbs.FlowOptions{Port: f.environment.port, Specs: specs})
	if err != nil {
		return nil, nil, err
	}
	return s, rule, nil
}

// fill posts receives, from a place in the sink's memory on.
func (s *sink) fill(post func([]verbs.RecvWR) (int, error), n, at int) error {
	for i := range n {
		s.next++
		wr := verbs.RecvWR{WRID: s.next<<8 | uint64(at+i), SGL: []verbs.SGE{s.mr.SGE((at+i)*frameRoom, frameRoom)}}
		if _, err := post([]verbs.RecvWR{wr}); err != nil {
			return err
		}
	}
	return nil
}

// ether, ipv4 and udp are what rules ask for: all headers of the tests' frames.
func (f *framer) ether() flow.Spec {
	all := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	return &flow.Eth{Val: flow.EthFields{DstMAC: f.mac, SrcMAC: f.mac, EtherType: frameLayout},
		Mask: flow.EthFields{DstMAC: all, SrcMAC: all, EtherType: 0xffff}}
}

func ipv4(from, to [4]byte) flow.Spec {
	all := [4]byte{0xff, 0xff, 0xff, 0xff}
	return &flow.IPv4{Val: flow.IPv4Fields{Src: from, Dst: to}, Mask: flow.IPv4Fields{Src: all, Dst: all}}
}

func udp(port uint16) flow.Spec {
	return &flow.UDP{Val: flow.Ports{Dst: port}, Mask: flow.Ports{Dst: 0xffff}}
}

// frame makes a frame of a size, without checksums unless they are asked for.
func (f *framer) frame(size int, src uint16, dst uint16, checksums bool) []byte {
	b := slices.Concat(f.mac[:], f.mac[:], []byte{frameLayout >> 8, frameLayout & 0xff, 0x45, 0})
	b = binary.BigEndian.AppendUint16(b, uint16(size-14))
	b = append(b, 0, 0, 0x40, 0, 64, 17, 0, 0)
	b = append(b, frameFrom[:]...)
	b = append(b, frameTo[:]...)
	b = binary.BigEndian.AppendUint16(b, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint16(b, uint16(size-14-20))
	b = append(b, 0, 0)
	f.next++
	for len(b) < size {
		b = append(b, byte(uint64(len(b))*7+f.next*31))
	}
	if checksums {
		ip, l4 := b[14:34], b[34:]
		binary.BigEndian.PutUint16(ip[10:], inet(0, ip))
		pseudo := uint32(17) + uint32(len(l4)) + sum16(ip[12:20])
		binary.BigEndian.PutUint16(l4[6:], inet(pseudo, l4))
	}
	return b
}

// sum16 adds up the 16-bit words of a header, and inet is the Internet's checksum of RFC 1071.
func sum16(b []byte) (sum uint32) {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func inet(sum uint32, b []byte) uint16 {
	sum += sum16(b)
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// send sends a frame in two pieces.
func (f *framer) send(frame []byte, flags verbs.SendFlags) error {
	return f.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: flags}, frame)
}

// post posts a request with data in two pieces, and waits until it is done.
func (f *framer) post(wr verbs.SendWR, data []byte) error {
	copy(f.mr.Bytes(), data)
	const first = 18 // some cards want so much in the request
	f.next++
	wr.WRID, wr.Flags = f.next, wr.Flags|verbs.SendSignaled
	wr.SGL = []verbs.SGE{f.mr.SGE(0, first), f.mr.SGE(first, len(data)-first)}
	if _, err := f.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	var wcs [1]verbs.WC
	if _, err := f.qp.SendCQ().Wait(f.ctx, wcs[:]); err != nil {
		return fmt.Errorf("send of a frame: %w", err)
	}
	if wcs[0].WRID != wr.WRID {
		return fmt.Errorf("the completion is of request %d, not %d", wcs[0].WRID, wr.WRID)
	}
	return wcs[0].Err()
}

// frameTime is how long a frame may take. One that the port does not return takes for ever.
const frameTime = 5 * time.Second

// take waits for a frame.
func (s *sink) take() (wc verbs.WC, frame []byte, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, frameTime)
	defer cancel()
	var wcs [1]verbs.WC
	if _, err := s.cq.Wait(ctx, wcs[:]); err != nil {
		return wc, nil, fmt.Errorf("the frame was sent, and did not come back in %v: %w", frameTime, err)
	}
	return wcs[0], s.frameOf(&wcs[0]), wcs[0].Err()
}

// frameOf returns the frame of a receive.
func (s *sink) frameOf(wc *verbs.WC) []byte {
	return s.mr.Bytes()[int(wc.WRID&0xff)*frameRoom:][:min(int(wc.ByteLen), frameRoom)]
}

// takeExt is take for a CQ whose completions have further fields.
func (s *sink) takeExt() (wc verbs.WC, ext verbs.WCExt, frame []byte, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, frameTime)
	defer cancel()
	var wcs [1]verbs.WC
	var exts [1]verbs.WCExt
	for {
		if err := s.cq.Arm(false); err != nil {
			return wc, ext, nil, err
		}
		n, err := s.cq.PollExt(wcs[:], exts[:])
		if err != nil {
			return wc, ext, nil, err
		}
		if n > 0 {
			return wcs[0], exts[0], s.frameOf(&wcs[0]), wcs[0].Err()
		}
		if _, err := s.cq.Channel().Get(ctx); err != nil {
			return wc, ext, nil, fmt.Errorf("the frame was sent, and did not come back in %v: %w", frameTime, err)
		}
	}
}

// expect waits for a frame and compares it.
func (s *sink) expect(want []byte) (wc verbs.WC, err error) {
	wc, got, err := s.take()
	switch {
	case err != nil:
		return wc, err
	case len(got) != len(want):
		return wc, fmt.Errorf("a frame of %d bytes came back with %d", len(want), len(got))
	case !bytes.Equal(got, want):
		return wc, differ("a frame", got, want)
	}
	return wc, nil
}

// nothing checks that no frame came. Another one, which came later, is there already.
func (s *sink) nothing() error {
	var wcs [1]verbs.WC
	n, err := s.cq.Poll(wcs[:])
	if n > 0 {
		err = errors.New("a frame came that no rule asks for")
	}
	return err
}

// rawFrames sends frames of all lengths, which a rule returns.
func rawFrames(b *environment) (string, error) {
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	s, _, err := f.receiver(f.ether(), ipv4(frameFrom, frameTo), udp(f.port))
	if err != nil {
		return "", err
	}
	sizes := []int{60, 61, 64, 128, 255, 256, 1000, 1514}
	for _, n := range sizes {
		frame := f.frame(n, 1000, f.port, true)
		if err := f.send(frame, 0); err != nil {
			return "", fmt.Errorf("a frame of %d bytes: %w", n, err)
		}
		if _, err := s.expect(frame); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d frames, to %d bytes", len(sizes), slices.Max(sizes)), nil
}

// checksums asks the device to fill in checksums, and to check them.
func checksums(b *environment) (string, error) {
	if b.attr.CapFlags&verbs.DeviceCapRawIPCsum == 0 {
		return "", none("the device has no checksums of raw packets")
	}
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	s, _, err := f.receiver(f.ether(), ipv4(frameFrom, frameTo), udp(f.port))
	if err != nil {
		return "", err
	}
	want := f.frame(200, 1000, f.port, true)
	bare := slices.Clone(want)
	clear(bare[24:26])
	clear(bare[40:42])
	if err := f.send(bare, verbs.SendIPCsum); err != nil {
		return "", err
	}
	wc, err := s.expect(want)
	if err != nil {
		return "", err
	}
	if wc.Flags&verbs.WCIPCsumOK == 0 {
		return "", fmt.Errorf("a frame with right checksums is received as one with wrong ones (flags %#x)", wc.Flags)
	}
	want[100]++
	if err := f.send(want, 0); err != nil {
		return "", err
	}
	if wc, err = s.expect(want); err != nil {
		return "", err
	}
	if wc.Flags&verbs.WCIPCsumOK != 0 {
		return "", errors.New("a frame with a wrong checksum is received as one with right ones")
	}
	return "filled in, found right and found wrong", nil
}

// flowRules has two rules for frames that differ in a port, of which one is then removed.
func flowRules(b *environment) (string, error) {
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	const frames = 3
	var sinks [2]*sink
	var rules [2]*uverbs.Flow
	for i := range sinks {
		if sinks[i], rules[i], err = f.receiver(f.ether(), ipv4(frameFrom, frameTo), udp(f.port+uint16(i))); err != nil {
			return "", err
		}
	}
	for i := range 2 * frames {
		to := i % 2
		frame := f.frame(100, 1000, f.port+uint16(to), true)
		if err := f.send(frame, 0); err != nil {
			return "", err
		}
		if _, err := sinks[to].expect(frame); err != nil {
			return "", err
		}
		if err := sinks[1-to].nothing(); err != nil {
			return "", err
		}
	}
	if err := rules[0].Close(); err != nil {
		return "", err
	}
	for i := range sinks {
		frame := f.frame(100, 1000, f.port+uint16(i), true)
		if err := f.send(frame, 0); err != nil {
			return "", err
		}
		if i == 1 {
			if _, err := sinks[i].expect(frame); err != nil {
				return "", err
			}
		}
	}
	if err := sinks[0].nothing(); err != nil {
		return "", fmt.Errorf("without its rule: %w", err)
	}
	return fmt.Sprintf("2 rules, %d frames; one rule was removed", 2*frames+2), nil
}

// packetFields has a rule mark its frames, and completions describe them.
func packetFields(b *environment) (string, error) {
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	const tag = 0xabcde
	s, _, err := f.receiverWith(uverbs.CQOptions{Ext: verbs.WCExtFlowTag | verbs.WCExtChecksum}, 0,
		f.ether(), ipv4(frameFrom, frameTo), udp(f.port), flow.Tag(tag))
	if err != nil {
		return "", err
	}
	frame := f.frame(100, 1000, f.port, true)
	for i, want := range []verbs.WCExtFlags{verbs.WCExtIPv4 | verbs.WCExtUDP | verbs.WCExtChecksumOK, verbs.WCExtIPv4 | verbs.WCExtUDP | verbs.WCExtL3OK} {
		frame[60] += byte(i) // then the checksum of UDP is wrong
		if err := f.send(frame, 0); err != nil {
			return "", err
		}
		_, ext, _, err := s.takeExt()
		if err != nil {
			return "", err
		}
		if ext.FlowTag != tag || ext.Flags != want {
			return "", fmt.Errorf("frame %d has tag %#x and flags %#x, and should have %#x and %#x", i, ext.FlowTag, ext.Flags, uint32(tag), want)
		}
	}
	return "2 frames", nil
}

const vlanTag = 0x6005 // priority 3, VLAN 5

// vlanTags inserts a tag into a frame. A rule that asks for the addresses alone takes it.
func vlanTags(b *environment) (string, error) { return b.tagged(0) }

// vlanStripping has the tag removed again, and reported by the completion.
func vlanStripping(b *environment) (string, error) { return b.tagged(verbs.QPCVLANStripping) }

func (b *environment) tagged(flags verbs.QPFlags) (string, error) {
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	o := uverbs.CQOptions{}
	if flags != 0 {
		o.Ext = verbs.WCExtVLAN
	}
	own := f.ether().(*flow.Eth) // of any type, for that of a frame with a tag differs
	own.Mask.EtherType = 0
	own.Val.VLANTag, own.Mask.VLANTag = vlanTag, 0xfff
	s, _, err := f.receiverWith(o, flags, own)
	if err != nil {
		return "", err
	}
	frame := f.frame(100, 1000, f.port, true)
	want := slices.Concat(frame[:12], []byte{0x81, 0, vlanTag >> 8, vlanTag & 0xff}, frame[12:])
	if flags != 0 {
		want = frame
	}
	if err := f.post(verbs.SendWR{Opcode: verbs.OpSend, VLAN: vlanTag}, frame); err != nil {
		return "", err
	}
	var got []byte
	var ext verbs.WCExt
	if flags != 0 {
		_, ext, got, err = s.takeExt()
	} else {
		_, got, err = s.take()
	}
	switch {
	case err != nil:
		return "", err
	case len(got) != len(want):
		return "", fmt.Errorf("a frame came back with %d bytes, and should with %d", len(got), len(want))
	case !bytes.Equal(got, want):
		return "", differ("a frame", got, want)
	case flags != 0 && ext.VLAN != vlanTag:
		return "", fmt.Errorf("the completion has tag %#x, not %#x", ext.VLAN, vlanTag)
	}
	return fmt.Sprintf("tag %#x", vlanTag), nil
}

// segmentation has the device cut a segment of TCP into packets.
func segmentation(b *environment) (string, error) {
	if b.attr.TSO.MaxPayload == 0 {
		return "", none("the device does not segment")
	}
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	const heads, mss, packets = 14 + 20 + 20, 300, 4
	const payload = (packets-1)*mss + 100
	o := uverbs.QPOptions{Type: verbs.QPTypeRawPacket, MaxTSOHeader: heads,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxSendSGE: 2}}
	if f.qp, err = f.from.CreateQP(&o); err != nil {
		return "", err
	}
	if err := errors.Join(f.qp.Init(&verbs.QPAttr{Port: b.port}), f.qp.Connect(nil)); err != nil {
		return "", err
	}
	s, _, err := f.receiver(f.ether(), ipv4(frameFrom, frameTo), &flow.TCP{Val: flow.Ports{Dst: f.port}, Mask: flow.Ports{Dst: 0xffff}})
	if err != nil {
		return "", err
	}
	head := f.frame(heads, 1000, f.port, false)
	head[23] = 6
	copy(head[38:], []byte{0, 0, 0x10, 0, 0, 0, 0, 1, 5 << 4, 0x10, 0x20, 0, 0, 0, 0, 0})
	data := f.frame(payload, 1000, f.port, false)
	if err := f.post(verbs.SendWR{Opcode: verbs.OpTSO, Flags: verbs.SendIPCsum, MSS: mss, Inline: head}, data); err != nil {
		return "", err
	}
	for i := range packets {
		part := data[i*mss : min(payload, (i+1)*mss)]
		wc, got, err := s.take()
		switch {
		case err != nil:
			return "", fmt.Errorf("packet %d: %w", i, err)
		case len(got) != heads+len(part):
			return "", fmt.Errorf("packet %d has %d bytes, and should have %d", i, len(got), heads+len(part))
		case !bytes.Equal(got[heads:], part):
			return "", differ(fmt.Sprintf("packet %d", i), got[heads:], part)
		case binary.BigEndian.Uint16(got[16:]) != uint16(len(got)-14):
			return "", fmt.Errorf("packet %d has %d bytes, and its header says %d", i, len(got)-14, binary.BigEndian.Uint16(got[16:]))
		case binary.BigEndian.Uint32(got[38:]) != uint32(0x1000+i*mss):
			return "", fmt.Errorf("packet %d has sequence number %#x, and should have %#x", i, binary.BigEndian.Uint32(got[38:]), 0x1000+i*mss)
		case wc.Flags&verbs.WCIPCsumOK == 0:
			return "", fmt.Errorf("packet %d has wrong checksums", i)
		}
	}
	return fmt.Sprintf("%d bytes in %d packets", payload, packets), nil
}

// flowCounters counts the frames of a rule.
func flowCounters(b *environment) (string, error) {
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	counters, err := b.dev.CreateCounters()
	if err != nil {
		return "", err
	}
	b.keep(counters.Close)
	if err := errors.Join(counters.Count(flow.CounterPackets, 0), counters.Count(flow.CounterBytes, 1)); err != nil {
		return "", err
	}
	s, _, err := f.receiver(f.ether(), ipv4(frameFrom, frameTo), udp(f.port), counters)
	if err != nil {
		return "", err
	}
	const frames, size = 5, 100
	for range frames {
		frame := f.frame(size, 1000, f.port, true)
		if err := f.send(frame, 0); err != nil {
			return "", err
		}
		if _, err := s.expect(frame); err != nil {
			return "", err
		}
	}
	var values [2]uint64
	if err := counters.Read(values[:], false); err != nil {
		return "", err
	}
	if values[0] != frames || values[1] < frames*size {
		return "", fmt.Errorf("%d frames and %d bytes are counted, and %d of %d came", values[0], values[1], frames, size)
	}
	return fmt.Sprintf("%d frames, %d bytes", values[0], values[1]), nil
}

// hashKey is the key of Microsoft's examples of RSS.
var hashKey = []byte{
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
}

// toeplitz is the hash of RSS: for each bit of the input that is set, the 32 bits of the key from
// there on.
func toeplitz(input []byte) (hash uint32) {
	key := binary.BigEndian.Uint64(hashKey)
	for i, v := range input {
		for bit := range 8 {
			if v<<bit&0x80 != 0 {
				hash ^= uint32(key >> 32)
			}
			key <<= 1
			if at := 64 + 8*i + bit; hashKey[at/8]<<(at%8)&0x80 != 0 {
				key |= 1
			}
		}
	}
	return hash
}

// spread deals frames out to queues, by the hash of their addresses and ports.
func spread(b *environment) (string, error) {
	if b.attr.RSS.MaxIndirectionTables == 0 {
		return "", none("the device has no RSS")
	}
	f, err := b.newFramer()
	if err != nil {
		return "", err
	}
	at, err := b.endpoint(b.dev, &uverbs.EndpointOptions{PD: f.at, SendCQEntries: 2 * depth})
	if err != nil {
		return "", err
	}
	s, err := f.newSink(at.RecvCQ)
	if err != nil {
		return "", err
	}
	const queues, each = 4, 8
	var wqs [queues]*uverbs.WQ
	for i := range wqs {
		if wqs[i], err = f.at.CreateWQ(&uverbs.WQOptions{MaxWR: each, MaxSGE: 1, CQ: at.RecvCQ}); err != nil {
			return "", err
		}
		if err := wqs[i].Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState); err != nil {
			return "", err
		}
		if err := s.fill(wqs[i].PostRecv, each, i*each); err != nil {
			return "", err
		}
	}
	table, err := b.dev.CreateRWQIndTable(wqs[:])
	if err != nil {
		return "", err
	}
	qp, err := f.at.CreateRSSQP(&uverbs.RSSOptions{Table: table, Hash: rss.Hash{Function: rss.Toeplitz, Key: hashKey,
		Fields: rss.SrcIPv4 | rss.DstIPv4 | rss.SrcPortUDP | rss.DstPortUDP}})
	if err != nil {
		return "", err
	}
	_, err = qp.CreateFlow(&uverbs.FlowOptions{Port: f.environment.port, Specs: []flow.Spec{f.ether(), ipv4(frameFrom, frameTo), udp(f.port)}})
	if err != nil {
		return "", err
	}
	var got [queues]int
	const frames = 16
	for i := range frames {
		frame := f.frame(100, uint16(1000+i), f.port, true)
		if err := f.send(frame, 0); err != nil {
			return "", err
		}
		wc, err := s.expect(frame)
		if err != nil {
			return "", err
		}
		hash := toeplitz(slices.Concat(frame[26:34], frame[34:38]))
		want := hash % queues
		if queue := wc.WRID & 0xff / each; queue != uint64(want) || wc.QPN != wqs[want].Num() {
			return "", fmt.Errorf("a frame of hash %#x comes to queue %d (its completion says %d), not %d", hash, queue, wc.QPN, wqs[want].Num())
		}
		got[want]++
	}
	return fmt.Sprintf("%d frames in %d queues: %v", frames, queues, got), nil
}
