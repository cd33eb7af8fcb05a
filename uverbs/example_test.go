package uverbs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"

	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// List the devices, their ports and addresses.
func ExampleDevices() {
	infos, err := uverbs.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		dev, err := info.Open()
		if err != nil {
			log.Fatal(err)
		}
		for port := 1; port <= info.Ports; port++ {
			attr, err := dev.QueryPort(port)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s/%d: %v, %v, MTU %d bytes\n", info.Name, port, attr.State, attr.LinkLayer, attr.ActiveMTU.Bytes())
		}
		gids, err := dev.GIDTable()
		if err != nil {
			log.Fatal(err)
		}
		for _, g := range gids {
			fmt.Println(g.Port, g.Index, g.GID, g.Type)
		}
		if err := dev.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// Create a queue pair with everything that it needs, and close it all in order.
func ExampleDevice_CreateEndpoint() {
	dev, err := uverbs.Open("siw0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	end, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 64, RecvCQEntries: 64})
	if err != nil {
		log.Fatal(err)
	}
	defer end.Close() // and all that is created on it
	mr, err := end.PD.AllocMR(4096, verbs.AccessLocalWrite, nil)
	if err != nil {
		log.Fatal(err)
	}
	qp, err := end.CreateQP(&uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("QP", qp.QPN(), "holds", qp.Cap().MaxSendWR, "sends from", mr.Len(), "bytes")
}

// Read a peer's memory. Package rdmacm makes the connection, and the peer sends its address
// and key.
func ExampleQP_PostSend() {
	var (
		qp         *uverbs.QP
		remoteAddr uint64
		rkey       uint32
	)
	mr, err := qp.PD().AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	_, err = qp.PostSend([]verbs.SendWR{{
		WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{mr.SGE(0, mr.Len())}, RemoteAddr: remoteAddr, RKey: rkey,
	}})
	if err != nil {
		log.Fatal(err)
	}
	var wcs [1]verbs.WC
	if _, err := qp.SendCQ().Wait(context.Background(), wcs[:]); err != nil {
		log.Fatal(err)
	}
	if err := wcs[0].Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%x\n", mr.Bytes())
}

// A program that makes its requests as it goes writes them into the queue.
func ExampleSends() {
	a, b, end := examplePair()
	defer end()
	buffer, err := b.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil)
	if err != nil {
		panic(err)
	}
	defer buffer.Close()
	q := a.qp.Sends()
	q.WriteInline(1, 0, []byte("hello, "), buffer.Addr(), buffer.RKey())
	q.WriteInline(2, verbs.SendSignaled, []byte("RDMA"), buffer.Addr()+7, buffer.RKey())
	if _, err := q.Ring(); err != nil {
		panic(err)
	}
	var wcs [1]verbs.WC
	if _, err := a.cq.Wait(context.Background(), wcs[:]); err != nil {
		panic(err)
	}
	fmt.Printf("%d %v: %s\n", wcs[0].WRID, wcs[0].Status, buffer.Bytes()[:11])
	// Output: 2 success: hello, RDMA
}

// exampleTest implements the part of testing.TB that rdmatest needs.
type exampleTest struct{ ends []func() }

func (e *exampleTest) Helper()                           {}
func (e *exampleTest) Cleanup(f func())                  { e.ends = append(e.ends, f) }
func (e *exampleTest) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// exampleEnd is a queue pair and its parents.
type exampleEnd struct {
	dev *uverbs.Device
	pd  *uverbs.PD
	cq  *uverbs.CQ
	qp  *uverbs.QP
	gid *verbs.GIDEntry
}

// examplePair returns two connected queue pairs, on two hosts with soft RoCE. A real program would
// not panic, and would close its objects.
func examplePair() (a, b exampleEnd, end func()) { return examplePairOf(rdmatest.RXE) }

// examplePairOf is like examplePair, on devices of the given kind.
func examplePairOf(kind rdmatest.Kind) (a, b exampleEnd, end func()) {
	t := new(exampleTest)
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Endless: true})
	ends := [2]exampleEnd{}
	for i := range ends {
		e := &ends[i]
		e.dev = try(uverbs.Open(fabric.Host(i).Device(0).Name()))
		e.gid = try(e.dev.ChooseGID(1, nil))
		own := try(e.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 16}))
		e.pd, e.cq = own.PD, own.SendCQ
		e.qp = try(own.CreateQP(&uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64}}))
		try(0, e.qp.Init(&verbs.QPAttr{Access: verbs.AccessRemoteRead | verbs.AccessRemoteWrite}))
	}
	for i, e := range ends {
		peer := ends[1-i]
		try(0, e.qp.Connect(&verbs.QPAttr{DestQPN: peer.qp.QPN(), AH: verbs.AHAttr{Global: true, DGID: peer.gid.GID, SGIDIndex: e.gid.Index, HopLimit: 64}}))
	}
	return ends[0], ends[1], func() {
		for _, f := range t.ends {
			f()
		}
	}
}

func try[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// carryOut posts a send and waits for its completion.
func carryOut(e exampleEnd, wr verbs.SendWR) verbs.Status {
	wr.Flags |= verbs.SendSignaled
	try(e.qp.PostSend([]verbs.SendWR{wr}))
	var wcs [1]verbs.WC
	try(e.cq.Wait(context.Background(), wcs[:]))
	return wcs[0].Status
}

// One end writes to the other's memory.
func Example() {
	a, b, end := examplePair()
	defer end()
	buffer, err := b.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil)
	if err != nil {
		panic(err)
	}
	defer buffer.Close()
	wr := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		Inline: []byte("hello, RDMA"), RemoteAddr: buffer.Addr(), RKey: buffer.RKey()}
	if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		panic(err)
	}
	var wcs [1]verbs.WC
	if _, err := a.cq.Wait(context.Background(), wcs[:]); err != nil {
		panic(err)
	}
	fmt.Printf("%v: %s\n", wcs[0].Status, buffer.Bytes()[:11])
	// Output: success: hello, RDMA
}

// A device can be queried without a provider.
func ExampleDevice() {
	t := new(exampleTest)
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW, Endless: true})
	dev, err := uverbs.Open(fabric.Host(0).Device(0).Name())
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	port, err := dev.QueryPort(1)
	if err != nil {
		panic(err)
	}
	fmt.Println(dev.Info().Driver, port.State, dev.Supports(verbs.QPTypeRC, verbs.OpFetchAdd))
	// Output: siw ACTIVE false
}

// A peer reads a registered Go slice. After the region is closed, its key is invalid.
func ExampleMR() {
	a, b, end := examplePair()
	defer end()
	text := []byte("a Go slice")
	mr := try(b.pd.RegMR(text, verbs.AccessRemoteRead))
	into := try(a.pd.AllocMR(len(text), verbs.AccessLocalWrite, nil))
	read := verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{into.SGE(0, len(text))}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}
	fmt.Printf("%v: %s\n", carryOut(a, read), into.Bytes())
	if err := mr.Close(); err != nil {
		panic(err)
	}
	fmt.Println(carryOut(a, read))
	// Output:
	// success: a Go slice
	// remote access error
}

// A window gives a peer access to part of a region, until a work request invalidates it.
func ExampleMW() {
	a, b, end := examplePair()
	defer end()
	mr := try(b.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessMWBind, nil))
	mw := try(b.pd.AllocMW(verbs.MWType2))
	bind := &verbs.BindMW{MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 64, Access: verbs.AccessRemoteWrite}
	fmt.Println("bound:", carryOut(b, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: bind}))
	write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("text"), RemoteAddr: mr.Addr(), RKey: mw.RKey()}
	fmt.Println("written:", carryOut(a, write))
	fmt.Println("ended:", carryOut(b, verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: mw.RKey()}))
	fmt.Println("written again:", carryOut(a, write))
	// Output:
	// bound: success
	// written: success
	// ended: success
	// written again: remote access error
}

// A full queue has room again after its completions are polled.
func ExampleCQ() {
	a, b, end := examplePair()
	defer end()
	mr := try(b.pd.AllocMR(64, verbs.AccessLocalWrite, nil))
	for id := range uint64(2) {
		try(b.qp.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{mr.SGE(int(id)*32, 32)}}}))
		carryOut(a, verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("message")})
	}
	wcs := make([]verbs.WC, 16)
	n, err := b.cq.Poll(wcs)
	if err != nil {
		panic(err)
	}
	for _, wc := range wcs[:n] {
		fmt.Println(wc.WRID, wc.Opcode, wc.Status, wc.ByteLen)
	}
	// Output:
	// 0 RECV success 7
	// 1 RECV success 7
}

// Two queue pairs share receives.
func ExampleSRQ() {
	a, _, end := examplePair()
	defer end()
	srq, err := a.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 8, MaxSGE: 1})
	if err != nil {
		panic(err)
	}
	defer srq.Close()
	mr := try(a.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{mr.SGE(0, 4096)}}}); err != nil {
		panic(err)
	}
	qp, err := a.pd.CreateQP(&uverbs.QPOptions{SendCQ: a.cq, RecvCQ: a.cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if err != nil {
		panic(err)
	}
	defer qp.Close()
	fmt.Println(qp.SRQ() == srq, errors.Is(srq.Close(), verbs.ErrInUse))
	// Output: true true
}

// A receive into a null region discards a message.
func ExamplePD_AllocNullMR() {
	a, b, end := examplePairOf(rdmatest.MLX5)
	defer end()
	nowhere := try(b.pd.AllocNullMR())
	try(b.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{nowhere.SGE(0, 64)}}}))
	try(a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: []byte("unwanted")}}))
	var wcs [1]verbs.WC
	try(b.cq.Wait(context.Background(), wcs[:]))
	fmt.Println(wcs[0].Status, wcs[0].ByteLen, "bytes")
	// Output: success 8 bytes
}

// A datagram's network header precedes it in the receive buffer. This one arrived over RoCE v2 and
// IPv4, whose header fills the second half of the 40 bytes.
func ExampleParseGRH() {
	buffer := make([]byte, uverbs.GRHSize)
	ip := buffer[20:]
	ip[0], ip[8] = 0x45, 63 // version and length; hops that are left
	copy(ip[12:], []byte{192, 0, 2, 1})
	copy(ip[16:], []byte{192, 0, 2, 2})
	ip[10], ip[11] = checksum(ip[:20])
	grh, err := uverbs.ParseGRH(buffer)
	if err != nil {
		panic(err)
	}
	fmt.Println(grh.SGID, grh.DGID, grh.HopLimit)
	// Output: ::ffff:192.0.2.1 ::ffff:192.0.2.2 63
}

// The GID of a port with an IPv4 address.
func Example_gidFromAddr() {
	fmt.Println(verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1")))
	// Output: ::ffff:192.0.2.1
}

func checksum(header []byte) (high, low byte) {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(header[i])<<8 | uint32(header[i+1])
	}
	sum = sum&0xffff + sum>>16
	sum = ^(sum&0xffff + sum>>16)
	return byte(sum >> 8), byte(sum)
}
