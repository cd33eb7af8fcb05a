package rdmatest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/roce"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cable carries datagrams between fabrics. It loses, repeats and delays parts of them.
type cable struct {
	mu      sync.Mutex
	random  *rand.Rand
	bad     float64 // the part of each
	to      map[netip.Addr]func(rdmatest.Datagram)
	longest int                          // packet, in bytes
	loses   func(rdmatest.Datagram) bool // what else it loses, or nil
	members map[netip.Addr][]netip.Addr  // of groups
	wrong   error                        // of join
}

func (c *cable) join(own, group netip.Addr, member bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in := slices.Contains(c.members[group], own); in == member {
		c.wrong = fmt.Errorf("%v is in group %v: %v", own, group, in)
		return c.wrong
	}
	if member {
		c.members[group] = append(c.members[group], own)
	} else {
		c.members[group] = slices.DeleteFunc(c.members[group], func(a netip.Addr) bool { return a == own })
	}
	return nil
}

func (c *cable) send(d rdmatest.Datagram) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, len(d.Payload))
	if c.random.Float64() < c.bad || c.loses != nil && c.loses(d) {
		return
	}
	if receive := c.to[d.Dst]; receive != nil {
		c.carry(d, receive)
	}
	for _, m := range c.members[d.Dst] { // also the sender, as on Linux
		d.Member = m
		c.carry(d, c.to[m])
	}
}

func (c *cable) carry(d rdmatest.Datagram, receive func(rdmatest.Datagram)) {
	delay := time.Microsecond
	if c.random.Float64() < c.bad {
		delay = 50 * time.Microsecond
	}
	time.AfterFunc(delay, func() { receive(d) })
	if c.random.Float64() < c.bad {
		time.AfterFunc(3*delay, func() { receive(d) })
	}
}

// lay returns two fabrics of one host each, with a cable between them.
func lay(t *testing.T, kind rdmatest.Kind, bad float64) (fabrics [2]*rdmatest.Fabric, c *cable) {
	return layAt(t, kind, bad, [2][]netip.Addr{})
}

// layAt is lay for hosts with these addresses.
func layAt(t *testing.T, kind rdmatest.Kind, bad float64, addrs [2][]netip.Addr) (fabrics [2]*rdmatest.Fabric, c *cable) {
	const seed = 7
	c = &cable{random: rand.New(rand.NewPCG(seed, seed)), bad: bad, to: make(map[netip.Addr]func(rdmatest.Datagram)), members: make(map[netip.Addr][]netip.Addr)}
	for i := range fabrics {
		fabrics[i] = rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{{Addrs: addrs[i]}}}}})
		c.to[fabrics[i].Host(0).Device(0).Addrs()[0]] = fabrics[i].ConnectWire(c.send, c.join)
	}
	return fabrics, c
}

// onWire are the kinds of devices whose packets leave a fabric.
var onWire = []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5}

// overWire runs a test on two fabrics of each kind, on a good cable and on a bad one, each time in a bubble of its own.
func overWire(t *testing.T, test func(t *testing.T, fabrics [2]*rdmatest.Fabric, c *cable)) {
	for _, k := range onWire {
		for name, bad := range map[string]float64{"good": 0, "bad": 0.05} {
			t.Run(k.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fabrics, c := lay(t, k, bad)
					test(t, fabrics, c)
				})
			})
		}
	}
}

// far is a node with more memory.
type far struct {
	*node
	big *uverbs.MR
}

const bigMemory = 1 << 18

func newFar(t *testing.T, f *rdmatest.Fabric, typ verbs.QPType) *far {
	n := &far{node: newNode(t, f.Host(0).Device(0), typ, all)}
	n.big = must(n.pd.AllocMR(bigMemory, all, nil))(t)
	return n
}

func farPair(t *testing.T, fabrics [2]*rdmatest.Fabric, typ verbs.QPType, change func(*verbs.QPAttr)) (a, b *far) {
	a, b = newFar(t, fabrics[0], typ), newFar(t, fabrics[1], typ)
	a.connect(b.node, change)
	b.connect(a.node, change)
	return a, b
}

// fill writes a pattern that depends on a number.
func fill(b []byte, number int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + number*31)
	}
}

var wireSizes = []int{0, 1, 3, 1023, 1024, 1025, 4096, 5000, 33 * 1024, 100_001}

// Data of each operation of a reliable connection arrives whole in another fabric.
func TestWireRC(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, c *cable) {
		a, b := farPair(t, fabrics, verbs.QPTypeRC, func(q *verbs.QPAttr) { q.SQPSN, q.RQPSN, q.PathMTU = 0xfffff0, 0xfffff0, verbs.MTU1024 })
		const half = bigMemory / 2
		for i, size := range wireSizes {
			own, theirs := a.big.Bytes(), b.big.Bytes()
			wr := verbs.SendWR{WRID: uint64(i), SGL: []verbs.SGE{a.big.SGE(0, size/3), a.big.SGE(size/3, size-size/3)}, RemoteAddr: b.big.Addr(), RKey: b.big.RKey()}
			for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpRDMARead} {
				name := fmt.Sprintf("%v of %d bytes", op, size)
				fill(own, i)
				clear(theirs)
				if op == verbs.OpRDMARead {
					fill(theirs, i)
					clear(own)
				}
				wr.Opcode, wr.Imm, wr.Flags = op, uint32(0xabc00+i), 0
				takes := op != verbs.OpRDMAWrite && op != verbs.OpRDMARead
				if takes {
					if _, err := b.qp.PostRecv([]verbs.RecvWR{{WRID: 5, SGL: []verbs.SGE{b.big.SGE(0, size/2), b.big.SGE(size/2, half-size/2)}}}); err != nil {
						t.Fatal(err)
					}
				}
				a.post(wr)
				if wc := a.next(); wc.Status != verbs.StatusSuccess {
					t.Fatal(name, wc)
				}
				if takes {
					wc := b.next()
					if wc.Status != verbs.StatusSuccess || int(wc.ByteLen) != size || op != verbs.OpSend && wc.Imm != wr.Imm {
						t.Fatal(name, wc)
					}
				}
				if !bytes.Equal(own[:size], theirs[:size]) {
					t.Fatal(name, "data differ")
				}
				if i := slices.IndexFunc(theirs[size:half], func(b byte) bool { return b != 0 }); op != verbs.OpRDMARead && i >= 0 {
					t.Fatal(name, "more was written")
				}
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.longest != 12+16+4+1024+4 {
			t.Errorf("the longest packet has %d bytes", c.longest)
		}
	})
}

// A connection takes packets only from its peer's address, and of its own service.
func TestWireStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(addrs ...string) (all []netip.Addr) {
			for _, a := range addrs {
				all = append(all, netip.MustParseAddr(a))
			}
			return all
		}
		fabrics, c := layAt(t, rdmatest.RXE, 0, [2][]netip.Addr{at("192.0.2.1"), at("192.0.2.2", "192.0.2.3")})
		a, b := farPair(t, fabrics, verbs.QPTypeRC, nil)
		if own := must(a.dev.QueryDevice())(t).NodeGUID; own == must(b.dev.QueryDevice())(t).NodeGUID {
			t.Errorf("two devices have the GUID %v", own)
		}
		var sent []rdmatest.Datagram
		c.loses = func(d rdmatest.Datagram) bool {
			sent = append(sent, d)
			return true
		}
		must(b.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{b.big.SGE(0, 100)}}}))(t)
		a.post(a.to(b.node, verbs.OpSend, 8))
		time.Sleep(time.Microsecond) // of the bubble's time
		if len(sent) == 0 {
			t.Fatal("nothing was sent")
		}
		receive := c.to[sent[0].Dst]
		forge := func(src, dst netip.Addr, change func(*roce.Packet)) bool {
			d := sent[0]
			r := roce.Route{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort}
			whole, _ := r.Check(d.Payload)
			p := must(roce.Parse(whole))(t)
			change(&p)
			r.Src, d.Src, r.Dst, d.Dst = src, src, dst, dst
			d.Payload = r.AppendICRC(p.Append(nil))
			receive(d)
			return must(b.cq.Poll(make([]verbs.WC, 1)))(t) == 1
		}
		same := func(*roce.Packet) {}
		peer, own := sent[0].Src, sent[0].Dst
		if forge(netip.MustParseAddr("203.0.113.7"), own, same) || forge(peer, netip.MustParseAddr("192.0.2.3"), same) || forge(peer, own, func(p *roce.Packet) { p.Opcode = roce.ServiceUC<<5 | p.Op() }) || forge(peer, own, func(p *roce.Packet) { p.PKey = 0x1234 }) {
			t.Error("a forged packet was received")
		}
		if !forge(peer, own, func(p *roce.Packet) { p.PKey = 0x7fff }) { // a limited member of the same partition
			t.Error("a genuine packet was not received")
		}
	})
}

// Atomic operations are carried out once each, also if their packets are lost or repeated.
func TestWireAtomics(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, _ *cable) {
		a, b := farPair(t, fabrics, verbs.QPTypeRC, func(q *verbs.QPAttr) { q.MaxRDAtomic, q.MaxDestRDAtomic = 4, 4 })
		counter := b.big.Bytes()[:8]
		binary.NativeEndian.PutUint64(counter, 1<<40)
		const n = 100
		for i := range n {
			a.post(verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{a.big.SGE(0, 8)}, RemoteAddr: b.big.Addr(), RKey: b.big.RKey(), CompareAdd: 3})
			if wc := a.next(); wc.Status != verbs.StatusSuccess {
				t.Fatal(wc)
			}
			if old := binary.NativeEndian.Uint64(a.big.Bytes()); old != 1<<40+3*uint64(i) {
				t.Fatalf("%d: %#x", i, old)
			}
		}
		a.post(verbs.SendWR{Opcode: verbs.OpCompareSwap, SGL: []verbs.SGE{a.big.SGE(0, 8)}, RemoteAddr: b.big.Addr(), RKey: b.big.RKey(), CompareAdd: 1<<40 + 3*n, Swap: 5})
		if wc := a.next(); wc.Status != verbs.StatusSuccess || binary.NativeEndian.Uint64(counter) != 5 {
			t.Error(wc, counter)
		}
	})
}

// Messages of a batch, in both directions at once, complete in order.
func TestWireBatches(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, _ *cable) {
		a, b := farPair(t, fabrics, verbs.QPTypeRC, nil)
		const n, size = 8, 3000
		for _, e := range [][2]*far{{a, b}, {b, a}} {
			from, to := e[0], e[1]
			fill(from.big.Bytes(), int(from.qp.QPN()))
			var wrs []verbs.SendWR
			for i := range n {
				wr := verbs.SendWR{WRID: uint64(i), Flags: verbs.SendSignaled, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.big.SGE(i*size, size)},
					RemoteAddr: to.big.Addr() + uint64(bigMemory/2+i*size), RKey: to.big.RKey()}
				if i%2 == 1 { // what was written before
					wr.Opcode, wr.RemoteAddr = verbs.OpRDMARead, wr.RemoteAddr-size
					wr.SGL = []verbs.SGE{from.big.SGE(n*size+i*size, size)}
				}
				wrs = append(wrs, wr)
			}
			if _, err := from.qp.PostSend(wrs); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range [][2]*far{{a, b}, {b, a}} {
			from, to := e[0], e[1]
			for i := range n {
				if wc := from.next(); wc.Status != verbs.StatusSuccess || wc.WRID != uint64(i) {
					t.Fatal(i, wc)
				}
				at := i * size
				if i%2 == 0 && !bytes.Equal(from.big.Bytes()[at:at+size], to.big.Bytes()[bigMemory/2+at:][:size]) {
					t.Error(i, "data differ")
				}
				if i%2 == 1 && !bytes.Equal(from.big.Bytes()[n*size+at:][:size], from.big.Bytes()[at-size:][:size]) {
					t.Error(i, "data differ")
				}
			}
		}
	})
}

// Mistakes have the results that they have within a fabric.
func TestWireMistakes(t *testing.T) {
	for _, k := range onWire {
		for _, c := range []struct {
			name   string
			post   func(a, b *far)
			status verbs.Status
			change func(*verbs.QPAttr)
			tries  int64 // of a SEND of one packet
		}{
			{"key", func(a, b *far) {
				wr := a.to(b.node, verbs.OpRDMAWrite, 3000)
				wr.RKey ^= 0x100
				a.post(wr)
			}, verbs.StatusRemAccessErr, nil, 0},
			{"length", func(a, b *far) {
				b.receive(1, 0, 10)
				a.post(a.to(b.node, verbs.OpSend, 3000))
			}, 0, nil, 0},
			{"no receive", func(a, b *far) { a.post(a.to(b.node, verbs.OpSend, 8)) }, verbs.StatusRNRRetryExcErr, func(q *verbs.QPAttr) { q.RNRRetry = 2 }, 3},
			{"no answer", func(a, b *far) {
				if err := b.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
					b.t.Fatal(err)
				}
				a.post(a.to(b.node, verbs.OpSend, 8))
			}, verbs.StatusRetryExcErr, func(q *verbs.QPAttr) { q.RetryCnt = 3 }, 4},
		} {
			t.Run(k.String()+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fabrics, wire := lay(t, k, 0)
					var tries atomic.Int64
					wire.loses = func(d rdmatest.Datagram) bool {
						if d.Payload[0] == roce.SendOnly {
							tries.Add(1)
						}
						return false
					}
					a, b := farPair(t, fabrics, verbs.QPTypeRC, c.change)
					want := c.status
					if want == 0 {
						want = map[rdmatest.Kind]verbs.Status{rdmatest.RXE: verbs.StatusRemOpErr, rdmatest.MLX5: verbs.StatusRemInvReqErr}[k]
					}
					c.post(a, b)
					if wc := a.next(); wc.Status != want || tries.Load() != c.tries {
						t.Errorf("%v after %d tries, want %v after %d", wc.Status, tries.Load(), want, c.tries)
					}
				})
			})
		}
	}
}

// A READ of the greatest length at the least path MTU takes half of all packet numbers. It waits until earlier packets are answered, so that each
// answer belongs to one packet.
func TestWireLongest(t *testing.T) {
	for _, k := range onWire {
		t.Run(k.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { longestRead(t, k) }) })
	}
}

func longestRead(t *testing.T, k rdmatest.Kind) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k, Hosts: make([]rdmatest.HostOptions, 1)})
	var sent []roce.Packet
	receive := f.ConnectWire(func(d rdmatest.Datagram) {
		p := must(roce.Parse(d.Payload[:len(d.Payload)-roce.ICRCSize]))(t)
		sent = append(sent, p)
	}, nil)
	n := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all)
	big := must(n.pd.AllocMR(1<<30, verbs.AccessLocalWrite, nil))(t)
	peer := netip.MustParseAddr("203.0.113.9")
	a := &verbs.QPAttr{DestQPN: 5, PathMTU: verbs.MTU256, AH: verbs.AHAttr{Global: true, DGID: verbs.GIDFromAddr(peer), SGIDIndex: n.gid.Index, HopLimit: 64}}
	if err := n.qp.Connect(a); err != nil {
		t.Fatal(err)
	}
	n.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{n.mr.SGE(0, 8)}})
	n.post(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{big.SGE(0, 1<<30), big.SGE(0, 1<<30-1)}})
	if len(sent) != 1 || sent[0].Op() != roce.SendOnly {
		t.Fatalf("%+v", sent)
	}
	r := roce.Route{Src: peer, Dst: f.Host(0).Device(0).Addrs()[0], SrcPort: roce.Port}
	ack := roce.Packet{Opcode: roce.Acknowledge, PKey: 0xffff, DestQPN: n.qp.QPN(), PSN: sent[0].PSN, Syndrome: roce.NoCredits}
	receive(rdmatest.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort, Payload: r.AppendICRC(ack.Append(nil))})
	if wc := n.next(); wc.Status != verbs.StatusSuccess {
		t.Error(wc)
	}
	if len(sent) < 2 || sent[1].Op() != roce.ReadRequest || sent[1].PSN != sent[0].PSN+1 {
		t.Errorf("%+v", sent)
	}
}

// A message waits for a receive, as long as the peer's program takes.
func TestWireNotReady(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, _ *cable) {
		a, b := farPair(t, fabrics, verbs.QPTypeRC, nil)
		for range 5 {
			a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.big.SGE(0, 5000)}})
			time.Sleep(100 * time.Millisecond) // of the bubble's time
			if _, err := b.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{b.big.SGE(0, 5000)}}}); err != nil {
				t.Fatal(err)
			}
			if wc := a.next(); wc.Status != verbs.StatusSuccess {
				t.Fatal(wc)
			}
			if wc := b.next(); wc.Status != verbs.StatusSuccess || wc.ByteLen != 5000 {
				t.Fatal(wc)
			}
		}
	})
}

// Datagrams arrive with the header of IP in front, and with an address to answer to.
func TestWireUD(t *testing.T) {
	for _, k := range onWire {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fabrics, _ := lay(t, k, 0)
				a, b := farPair(t, fabrics, verbs.QPTypeUD, nil)
				b.receive(1, 0, 1000)
				wr := a.to(b.node, verbs.OpSendImm, 100)
				wr.Imm = 0x1234
				fill(a.mr.Bytes()[sendFrom:], 1)
				a.post(wr)
				wc := b.next()
				if wc.Status != verbs.StatusSuccess || wc.ByteLen != uverbs.GRHSize+100 || wc.SrcQPN != a.qp.QPN() || wc.Imm != 0x1234 {
					t.Fatal(wc)
				}
				if !bytes.Equal(b.mr.Bytes()[uverbs.GRHSize:][:100], a.mr.Bytes()[sendFrom:][:100]) {
					t.Error("data differ")
				}
				h, err := uverbs.ParseGRH(b.mr.Bytes()[:uverbs.GRHSize])
				if err != nil || h.SGID != a.gid.GID || h.DGID != b.gid.GID {
					t.Error(h, err)
				}
				const own = 1 << 31 // the bit that makes cards send the queue pair's own Q_Key
				b.receive(1, 0, 1000)
				wr.RemoteQKey = own
				a.post(wr)
				a.next()
				a.next()
				time.Sleep(time.Second) // of the bubble's time
				if got := must(b.cq.Poll(make([]verbs.WC, 1)))(t) == 1; got != (k != rdmatest.RXE) {
					t.Errorf("a Q_Key with the highest bit arrives: %v", got)
				}
			})
		})
	}
}

// Traffic class, hop limit and flow label of an address leave with the packets, and the receiver of a datagram sees those
// with which it arrives. rxe sends no flow label, and IPv4 has none.
func TestWireHeader(t *testing.T) {
	for _, k := range onWire {
		for name, addrs := range map[string][2][]netip.Addr{"IPv4": {}, "IPv6": {{netip.MustParseAddr("2001:db8::1")}, {netip.MustParseAddr("2001:db8::2")}}} {
			t.Run(k.String()+" "+name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { headersCross(t, k, addrs) }) })
		}
	}
}

func headersCross(t *testing.T, k rdmatest.Kind, addrs [2][]netip.Addr) {
	const class, label, hops = 0xb9, 0xfedcb, 64
	fabrics, c := layAt(t, k, 0, addrs)
	wantLabel := uint32(label)
	if k == rdmatest.RXE || addrs[0] == nil {
		wantLabel = 0
	}
	var crossed []rdmatest.Datagram
	c.loses = func(d rdmatest.Datagram) bool {
		crossed = append(crossed, d)
		if d.TrafficClass == class { // through a router
			receive := c.to[d.Dst]
			d.TrafficClass, d.HopLimit = d.TrafficClass&^3|3, d.HopLimit-1
			time.AfterFunc(time.Microsecond, func() { receive(d) })
			return true
		}
		return false
	}
	a, b := farPair(t, fabrics, verbs.QPTypeUD, nil)
	to := verbs.AHAttr{Port: 1, Global: true, DGID: b.gid.GID, SGIDIndex: a.gid.Index, TrafficClass: class, FlowLabel: label, HopLimit: hops}
	b.receive(1, 0, 1000)
	wr := a.to(b.node, verbs.OpSend, 10)
	wr.AH = must(a.pd.CreateAH(&to))(t)
	a.post(wr)
	if wc := b.next(); wc.Status != verbs.StatusSuccess {
		t.Fatal(wc)
	}
	h, err := uverbs.ParseGRH(b.mr.Bytes()[:uverbs.GRHSize])
	if want := (uverbs.GRH{SGID: a.gid.GID, DGID: b.gid.GID, Type: verbs.GIDTypeRoCEv2, TrafficClass: class | 3, FlowLabel: wantLabel, HopLimit: hops - 1}); err != nil || h != want {
		t.Errorf("%+v, want %+v: %v", h, want, err)
	}
	const udpLength = 8 + 12 + 8 + 12 + 4 // the data is padded
	grh := b.mr.Bytes()[:uverbs.GRHSize]
	if length := binary.BigEndian.Uint16(grh[4:]); addrs[0] != nil && length != udpLength {
		t.Errorf("payload length %d", length)
	}
	if length := binary.BigEndian.Uint16(grh[22:]); addrs[0] == nil && length != 20+udpLength {
		t.Errorf("total length %d", length)
	}
	a, b = newFar(t, fabrics[0], verbs.QPTypeRC), newFar(t, fabrics[1], verbs.QPTypeRC)
	a.connect(b.node, func(q *verbs.QPAttr) { q.AH.TrafficClass, q.AH.FlowLabel = class, label })
	b.connect(a.node, nil)
	b.receive(1, 0, 1000)
	start := time.Now()
	a.post(a.to(b.node, verbs.OpSend, 10))
	if wc := a.next(); wc.Status != verbs.StatusSuccess || time.Since(start) > time.Millisecond { // of the bubble's time
		t.Fatalf("%v after %v", wc, time.Since(start))
	}
	if len(crossed) != 3 {
		t.Fatalf("%d packets", len(crossed))
	}
	for i, d := range crossed {
		want := rdmatest.Datagram{TrafficClass: class, FlowLabel: wantLabel}
		if answer := i == 2; answer {
			want = rdmatest.Datagram{}
		}
		if d.TrafficClass != want.TrafficClass || d.FlowLabel != want.FlowLabel || d.HopLimit != hops {
			t.Errorf("%d: %+v", i, d)
		}
	}
}

// Solicited messages raise the event that only they raise.
func TestWireSolicited(t *testing.T) {
	for _, k := range onWire {
		for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
			t.Run(fmt.Sprint(k, " ", typ), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fabrics, _ := lay(t, k, 0)
					a, b := farPair(t, fabrics, typ, nil)
					if err := b.cq.Arm(true); err != nil {
						t.Fatal(err)
					}
					for _, flags := range []verbs.SendFlags{0, verbs.SendSolicited} {
						b.receive(1, 0, 1000)
						wr := a.to(b.node, verbs.OpSend, 8)
						wr.Flags = flags
						a.post(wr)
						ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of the bubble's time
						_, err := b.ch.Get(ctx)
						cancel()
						if (err == nil) != (flags != 0) {
							t.Errorf("flags %v: %v", flags, err)
						}
					}
				})
			})
		}
	}
}

// No more READs and atomic operations are under way than the queue pair may have outstanding.
func TestWireDepth(t *testing.T) {
	for _, k := range onWire {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fabrics, c := lay(t, k, 0)
				const depth = 2
				a, b := farPair(t, fabrics, verbs.QPTypeRC, func(q *verbs.QPAttr) { q.MaxRDAtomic, q.MaxDestRDAtomic = depth, depth })
				var sent atomic.Int64
				c.loses = func(rdmatest.Datagram) bool { sent.Add(1); return false }
				const n = 5
				for range n {
					a.post(verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{a.big.SGE(0, 8)}, RemoteAddr: b.big.Addr(), RKey: b.big.RKey(), CompareAdd: 1})
				}
				synctest.Wait()
				if left := sent.Load(); left != depth {
					t.Errorf("%d requests have left, want %d", left, depth)
				}
				for range n {
					if wc := a.next(); wc.Status != verbs.StatusSuccess {
						t.Fatal(wc)
					}
				}
				if got := binary.NativeEndian.Uint64(b.big.Bytes()); got != n {
					t.Errorf("%d were carried out, want %d", got, n)
				}
			})
		})
	}
}

// settle lets a second of a bubble's time pass.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// strangePeer is a peer of a queue pair whose packets a test makes up.
type strangePeer struct {
	*far
	own     netip.Addr
	receive func(rdmatest.Datagram)
	sent    []roce.Packet // by the queue pair
}

func newStrangePeer(t *testing.T) *strangePeer {
	f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: make([]rdmatest.HostOptions, 1)})
	s := &strangePeer{own: f.Host(0).Device(0).Addrs()[0]}
	s.receive = f.ConnectWire(func(d rdmatest.Datagram) {
		s.sent = append(s.sent, must(roce.Parse(bytes.Clone(d.Payload[:len(d.Payload)-roce.ICRCSize])))(t))
	}, nil)
	s.far = newFar(t, f, verbs.QPTypeRC)
	a := &verbs.QPAttr{DestQPN: 5, PathMTU: verbs.MTU256, AH: verbs.AHAttr{Global: true, DGID: verbs.GIDFromAddr(strangeAddr), SGIDIndex: s.gid.Index, HopLimit: 64}}
	if err := s.qp.Connect(a); err != nil {
		t.Fatal(err)
	}
	return s
}

var strangeAddr = netip.MustParseAddr("203.0.113.9")

// request sends a request to the queue pair, whose buffer is used again then.
func (s *strangePeer) request(p roce.Packet) {
	p.PKey, p.DestQPN = 0xffff, s.qp.QPN()
	if p.RKey == 0 {
		p.RKey = s.big.RKey()
	}
	r := roce.Route{Src: strangeAddr, Dst: s.own, SrcPort: roce.Port}
	b := r.AppendICRC(p.Append(nil))
	s.receive(rdmatest.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort, Payload: b})
	clear(b)
}

// A gap in the numbers of requests is refused once, until the missing one arrives.
func TestWireGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStrangePeer(t)
		for _, psn := range []uint32{0, 2, 3, 4, 1, 3} {
			s.request(roce.Packet{Opcode: roce.WriteOnly, AckRequest: true, PSN: psn})
		}
		settle()
		var got []string
		for _, p := range s.sent {
			got = append(got, fmt.Sprintf("%d %#x %d", p.PSN, p.Syndrome, p.MSN))
		}
		if want := []string{"0 0x1f 1", "1 0x60 1", "1 0x1f 2", "2 0x60 2"}; !slices.Equal(got, want) {
			t.Errorf("answers %q, want %q", got, want)
		}
	})
}

// A request that arrives again is answered again, and an atomic operation is not carried out twice. Another request with its
// number has no answer.
func TestWireRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStrangePeer(t)
		at, b := s.big.Addr(), s.big.Bytes()
		fill(b, 3)
		binary.NativeEndian.PutUint64(b, 5)
		read := roce.Packet{Opcode: roce.ReadRequest, VA: at + 8, Length: 512}
		add := roce.Packet{Opcode: roce.FetchAdd, PSN: 2, VA: at, Swap: 1}
		for i, c := range []struct {
			answers int
			change  func(read, add *roce.Packet)
			p       *roce.Packet
		}{
			{2, nil, &read},
			{1, nil, &add},
			{2, nil, &read},
			{1, nil, &add},
			{1, func(r, _ *roce.Packet) { r.PSN, r.VA, r.Length = 1, r.VA+256, 256 }, &read}, // the second half
			{0, func(r, _ *roce.Packet) { r.VA++ }, &read},
			{0, func(r, _ *roce.Packet) { r.Length++ }, &read},
			{0, func(r, _ *roce.Packet) { r.RKey = s.mr.RKey() }, &read},
			{0, func(r, _ *roce.Packet) { r.PSN = 2 }, &read},
			{0, func(_, a *roce.Packet) { a.PSN = 0 }, &add},
		} {
			before, r, a := len(s.sent), read, add
			if c.change != nil {
				c.change(&read, &add)
			}
			s.request(*c.p)
			settle()
			read, add = r, a
			got := s.sent[before:]
			if len(got) != c.answers {
				t.Fatalf("%d: %d answers, want %d", i, len(got), c.answers)
			}
			for _, p := range got {
				if p.Op() == roce.AtomicAcknowledge && (p.Original != 5 || p.MSN != 2) || p.Op() != roce.AtomicAcknowledge && !bytes.Equal(p.Payload, b[8+256*p.PSN:][:256]) {
					t.Errorf("%d: %+v", i, p)
				}
			}
		}
		if v := binary.NativeEndian.Uint64(b); v != 6 {
			t.Errorf("%d was added", v-5)
		}
	})
}

// An answer to a READ that is too short, or too long, is an error.
func TestWireAnswerLength(t *testing.T) {
	for _, length := range []int{99, 101} {
		synctest.Test(t, func(t *testing.T) {
			s := newStrangePeer(t)
			s.post(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{s.big.SGE(0, 100)}, RemoteAddr: 1, RKey: 1})
			s.request(roce.Packet{Opcode: roce.ReadResponseOnly, PSN: s.sent[0].PSN, Payload: make([]byte, length)})
			if wc := s.next(); wc.Status != verbs.StatusBadRespErr {
				t.Errorf("%d bytes: %v", length, wc)
			}
		})
	}
}

// Requests that arrive during a READ wait, as many as there is room for. The others are missed.
func TestWireWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStrangePeer(t)
		const mtu, reads, writes, room = 256, 100, 200, 128
		s.request(roce.Packet{Opcode: roce.ReadRequest, VA: s.big.Addr(), Length: reads * mtu})
		for i := range writes {
			s.request(roce.Packet{Opcode: roce.WriteOnly, PSN: uint32(reads + i), VA: s.big.Addr() + uint64(i), Length: 1, Payload: []byte{byte(i + 1)}})
		}
		settle()
		for i, v := range s.big.Bytes()[:writes] {
			want := byte(i + 1)
			if i >= room {
				want = 0
			}
			if v != want {
				t.Fatalf("byte %d is %d, want %d", i, v, want)
			}
		}
		if len(s.sent) != reads {
			t.Errorf("%d answers", len(s.sent))
		}
	})
}

// A message whose packets do not fit together is refused, and its queue pair ends.
func TestWireUnfit(t *testing.T) {
	for name, requests := range map[string][]roce.Packet{
		"short first packet":     {{Opcode: roce.WriteFirst, Length: 300, Payload: make([]byte, 255)}},
		"empty last packet":      {{Opcode: roce.SendFirst, Payload: make([]byte, 256)}, {Opcode: roce.SendLast, PSN: 1}},
		"READ within a message":  {{Opcode: roce.WriteFirst, Length: 300, Payload: make([]byte, 256)}, {Opcode: roce.ReadRequest, PSN: 1, Length: 8}},
		"WRITE within a message": {{Opcode: roce.WriteFirst, Length: 300, Payload: make([]byte, 256)}, {Opcode: roce.WriteOnly, PSN: 1}},
		"no first packet":        {{Opcode: roce.WriteLast, Payload: make([]byte, 1)}},
		"shorter than it says":   {{Opcode: roce.WriteOnly, Length: 2, Payload: make([]byte, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStrangePeer(t)
				s.node.receive(1, 0, 1000)
				for _, p := range requests {
					p.VA = s.big.Addr()
					s.request(p)
				}
				settle()
				if len(s.sent) != 1 || s.sent[0].Syndrome != roce.SyndromeNAK|roce.NAKInvalidRequest || must(s.qp.Query())(t).State != verbs.QPStateErr {
					t.Errorf("%+v", s.sent)
				}
			})
		})
	}
}

// The fabric's faults concern what leaves it, and what arrives at a port that is down is dropped.
func TestWireFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		var left atomic.Int64
		c.loses = func(rdmatest.Datagram) bool { left.Add(1); return false }
		a, b := farPair(t, fabrics, verbs.QPTypeUD, nil)
		from, to := fabrics[0].Host(0).Device(0), fabrics[1].Host(0).Device(0)
		b.receive(1, 0, 1000)
		for _, s := range []struct {
			name         string
			change       func()
			leaves, gets bool
		}{
			{"none", func() {}, true, true},
			{"loss", func() { fabrics[0].SetLoss(1) }, false, false},
			{"no loss", func() { fabrics[0].SetLoss(0) }, true, true},
			{"own link down", func() { from.SetLink(false) }, false, false},
			{"own link up", func() { from.SetLink(true) }, true, true},
			{"peer's link down", func() { to.SetLink(false) }, true, false},
			{"peer's link up", func() { to.SetLink(true) }, true, true},
		} {
			s.change()
			before := left.Load()
			a.post(a.to(b.node, verbs.OpSend, 8))
			if wc := a.next(); wc.Status != verbs.StatusSuccess {
				t.Error(wc)
			}
			settle()
			got := must(b.cq.Poll(make([]verbs.WC, 1)))(t) == 1
			if got {
				b.receive(1, 0, 1000)
			}
			if leaves := left.Load() > before; leaves != s.leaves || got != s.gets {
				t.Errorf("%s: left %v, arrived %v", s.name, leaves, got)
			}
		}
		const size = 100_000
		fabrics[0].SetBandwidth(size)
		p, q := farPair(t, fabrics, verbs.QPTypeRC, nil)
		start := time.Now()
		p.post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{p.big.SGE(0, size)}, RemoteAddr: q.big.Addr(), RKey: q.big.RKey()})
		if wc := p.next(); wc.Status != verbs.StatusSuccess || time.Since(start) < time.Second*9/10 {
			t.Errorf("%v after %v", wc, time.Since(start))
		}
	})
}

// An unreliable connection loses messages whole.
func TestWireUC(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, _ *cable) {
		a, b := farPair(t, fabrics, verbs.QPTypeUC, nil)
		const size = 2500
		b.receive(1, 0, size)
		for i := range 100 {
			fill(a.big.Bytes()[:size], i)
			a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{a.big.SGE(0, size)}})
			if wc := a.next(); wc.Status != verbs.StatusSuccess {
				t.Fatal(wc)
			}
			time.Sleep(time.Millisecond) // of the bubble's time
			var wcs [1]verbs.WC
			n, err := b.cq.Poll(wcs[:])
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				continue
			}
			if wcs[0].Status != verbs.StatusSuccess || wcs[0].ByteLen != size || !bytes.Equal(b.mr.Bytes()[:size], a.big.Bytes()[:size]) {
				t.Fatal(i, wcs[0])
			}
			b.receive(1, 0, size)
		}
	})
}

// Hostile packets end at most the queue pair that they are for. Here the peer's own packets are changed at random, with a correct ICRC.
func FuzzWire(f *testing.F) {
	base := rdmatest.NewWith(f, &rdmatest.Options{Hosts: make([]rdmatest.HostOptions, 1), Endless: true})
	receive := base.ConnectWire(func(rdmatest.Datagram) {}, nil)
	dev, err := uverbs.Open(base.Host(0).Device(0).Name())
	if err != nil {
		f.Fatal(err)
	}
	end, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 64})
	if err != nil {
		f.Fatal(err)
	}
	mr, err := end.PD.AllocMR(memory, all, nil)
	if err != nil {
		f.Fatal(err)
	}
	own := base.Host(0).Device(0).Addrs()[0]
	peer := netip.MustParseAddr("203.0.113.9")
	gid, err := dev.ChooseGID(1, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{roce.SendOnly, 0, 4, 'a', 'b', 'c', 'd', roce.SendFirst, 1, 0, roce.ReadRequest, 2, 0, roce.Acknowledge, 0, 0})
	f.Add([]byte{roce.WriteFirst, 0, 0, roce.WriteMiddle, 1, 0, roce.WriteLast, 2, 1, 0xff, roce.FetchAdd, 3, 0, roce.FetchAdd, 3, 0, roce.ReadResponseOnly, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		qp, err := end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRC, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: 2}})
		if err != nil {
			t.Fatal(err)
		}
		defer qp.Close()
		if err := qp.Init(&verbs.QPAttr{Access: all &^ verbs.AccessMWBind}); err != nil {
			t.Fatal(err)
		}
		if err := qp.Connect(&verbs.QPAttr{DestQPN: 5, AH: verbs.AHAttr{Global: true, DGID: verbs.GIDFromAddr(peer), SGIDIndex: gid.Index, HopLimit: 64}}); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if _, err := qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(i*100, 100)}}}); err != nil {
				t.Fatal(err)
			}
		}
		sends := []verbs.SendWR{{Opcode: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, 3000)}}, {Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{mr.SGE(0, 3000)}}, {Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{mr.SGE(0, 8)}}}
		if _, err := qp.PostSend(sends); err != nil {
			t.Fatal(err)
		}
		for len(script) >= 3 {
			op, psn, n := script[0], script[1], int(script[2])
			script = script[3:]
			n = min(n, len(script))
			p := roce.Packet{Opcode: op, PKey: 0xffff, DestQPN: qp.QPN(), PSN: uint32(psn), AckRequest: true, VA: mr.Addr() + uint64(op), RKey: mr.RKey(), Length: uint32(n) << (psn & 15),
				Syndrome: psn, Payload: script[:n]}
			script = script[n:]
			r := roce.Route{Src: peer, Dst: own, SrcPort: 1}
			receive(rdmatest.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort, Payload: r.AppendICRC(p.Append(nil))})
			receive(rdmatest.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort, Payload: script})
		}
	})
}
