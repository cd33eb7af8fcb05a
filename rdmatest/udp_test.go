package rdmatest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// datagrams is a datagram Conn with one receive.
func datagrams(t *testing.T) (*rdmacm.Config, **uverbs.MR) {
	var mr *uverbs.MR
	return &rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}, Prepare: func(c *rdmacm.Conn) (err error) {
		if mr, err = c.PD().AllocMR(memory, verbs.AccessLocalWrite, nil); err != nil {
			return err
		}
		c.Own(mr)
		_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, recvSize)}}})
		return err
	}}, &mr
}

// infiniBand is two hosts on InfiniBand, whose addresses have LIDs.
func infiniBand(t *testing.T) *rdmatest.Fabric {
	host := rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.MLX5, InfiniBand: true}}}
	return rdmatest.NewWith(t, &rdmatest.Options{Hosts: []rdmatest.HostOptions{host, host}})
}

// A connection, over which a write arrives.
func TestConnectInfiniBand(t *testing.T) {
	dialled, accepted := meet(t, infiniBand(t), nil)
	mr := region(t, accepted, nil)
	must(dialled.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Inline: []byte("hello"), RemoteAddr: mr.Addr(), RKey: mr.RKey(), Flags: verbs.SendSignaled}}))(t)
	if wc := poll(t, dialled.SendCQ()); wc.Err() != nil || string(mr.Bytes()[:5]) != "hello" {
		t.Errorf("%v, %q", wc, mr.Bytes()[:5])
	}
}

// A datagram service is looked up, and gets a datagram.
func TestDatagramService(t *testing.T) {
	t.Run("Ethernet", func(t *testing.T) { f := rdmatest.New(t); datagramService(t, f.Host(0), f.Host(1), 4) })
	t.Run("InfiniBand", func(t *testing.T) { f := infiniBand(t); datagramService(t, f.Host(0), f.Host(1), 6) })
}

// datagramService wants a header of an IP version: of IPv4, or a GRH, which says 6.
func datagramService(t *testing.T, from, to *rdmatest.Host, version byte) {
	cfg, theirs := datagrams(t)
	service := closed(t, must(rdmacm.OpenUD(netip.MustParseAddr(to.Addr()), cfg))(t))
	l := closed(t, must((&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(t.Context(), to.Addr()+":0"))(t))
	answered := make(chan error, 1)
	go func() {
		r, err := l.Next(context.Background())
		if err == nil {
			err = r.AcceptOn(service, []byte("welcome"))
		}
		answered <- err
	}()
	ours, _ := datagrams(t)
	c := closed(t, must((&rdmacm.Dialer{Config: *ours}).Dial(from.Context(t.Context()), l.Addr().String()))(t))
	if err := <-answered; err != nil {
		t.Error(err)
	}
	_, err := c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: []byte("hello"), AH: c.Peer().AH, RemoteQPN: c.Peer().QPN, RemoteQKey: c.Peer().QKey}})
	if err != nil {
		t.Fatal(err)
	}
	wcs := make([]verbs.WC, 1)
	if _, err := service.RecvCQ().Wait(t.Context(), wcs); err != nil || wcs[0].SrcQPN != c.QP().QPN() {
		t.Fatal(wcs, err)
	}
	if got := string((*theirs).Bytes()[uverbs.GRHSize:][:5]); got != "hello" {
		t.Errorf("%q", got)
	}
	if got := (*theirs).Bytes()[map[byte]int{4: 20, 6: 0}[version]] >> 4; got != version {
		t.Errorf("a header of version %d, want %d", got, version)
	}
	h, err := uverbs.ParseGRH((*theirs).Bytes()[:uverbs.GRHSize])
	if err != nil || h.SGID.String() == h.DGID.String() {
		t.Errorf("%+v, %v", h, err)
	}
}

// Two hosts join a group; one sends to it.
func TestMulticast(t *testing.T) {
	f := rdmatest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ends []*rdmacm.Conn
	var groups []*rdmacm.Group
	for _, h := range f.Hosts() {
		cfg, _ := datagrams(t)
		c := closed(t, must(rdmacm.OpenUD(netip.MustParseAddr(h.Addr()), cfg))(t))
		ends = append(ends, c)
		groups = append(groups, must(c.JoinMulticast(ctx, netip.MustParseAddr("239.1.2.3"), rdmacm.JoinFullMember))(t))
	}
	to := groups[0].Peer
	_, err := ends[0].QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: []byte("all"), AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey}})
	if err != nil {
		t.Fatal(err)
	}
	wcs := make([]verbs.WC, 1)
	if _, err := ends[1].RecvCQ().Wait(ctx, wcs); err != nil || wcs[0].ByteLen != uverbs.GRHSize+3 {
		t.Error(wcs, err)
	}
	for _, g := range groups {
		if err := errors.Join(g.Close()); err != nil {
			t.Error(err)
		}
	}
}

// The address of a group is resolved, as mckey does it, although no host has it.
func TestResolveGroup(t *testing.T) {
	for _, k := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k})
		own := netip.MustParseAddr(f.Host(0).Addr())
		ch := closed(t, must(rdmacm.NewEventChannelFor(own))(t))
		id := closed(t, must(ch.NewID(verbs.PortSpaceUDP, verbs.QPTypeUD))(t))
		group := netip.MustParseAddrPort("239.1.2.3:0")
		if err := id.ResolveAddr(netip.AddrPortFrom(own, 0), group, time.Minute); err != nil {
			t.Fatal(err)
		}
		ev := must(ch.Get(t.Context()))(t)
		ev.Ack()
		if ev.Type != rdmacm.EventAddrResolved {
			t.Error(ev)
		}
	}
}
