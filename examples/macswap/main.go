// Macswap sends each Ethernet frame for an address back to where it came from, as testpmd of
// DPDK does with --forward-mode=macswap. It is a loop over a raw packet queue pair to start
// from: receive, change, send, in the same memory. It needs an mlx5 device and CAP_NET_RAW.
//
//	macswap -dev mlx5_0 -mac 02:00:00:00:00:01
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
)

const (
	buffers = 256
	room    = 2048 // bytes of a buffer
	burst   = 32   // completions that are polled at once
	ofSend  = 1 << 63
)

func main() {
	name := flag.String("dev", "", "`device` to use")
	address := flag.String("mac", "", "send back the frames for this `address`")
	flag.Parse()
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
	mac, err := net.ParseMAC(*address)
	if err != nil {
		log.Fatal(err)
	}
	n, err := serve(ctx, *name, [6]byte(mac), func() {})
	log.Println(n, "frames")
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// serve sends frames back until ctx is done. It calls ready when frames are taken.
func serve(ctx context.Context, name string, mac [6]byte, ready func()) (frames uint64, err error) {
	dev, err := uverbs.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	end, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 2 * buffers})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end.Close()) }()
	s := &swapper{cq: end.SendCQ}
	if err := s.open(end, mac); err != nil {
		return 0, err
	}
	ready()
	err = s.run(ctx)
	return s.frames, err
}

// swapper has a queue pair, and requests that run uses again and again. A request's WRID is the
// number of its buffer; that of a send has ofSend, too.
type swapper struct {
	cq     *uverbs.CQ
	qp     *uverbs.QP
	mr     *uverbs.MR
	whole  [buffers]verbs.SGE // to receive into
	frame  [buffers]verbs.SGE // to send
	wcs    [burst]verbs.WC
	recvs  [burst]verbs.RecvWR
	sends  [burst]verbs.SendWR
	frames uint64
}

func (s *swapper) open(end *uverbs.Endpoint, mac [6]byte) (err error) {
	if s.mr, err = end.PD.AllocMR(buffers*room, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	s.qp, err = end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket,
		Cap: verbs.QPCap{MaxSendWR: buffers, MaxRecvWR: buffers, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	if err := errors.Join(s.qp.Init(nil), s.qp.Connect(nil)); err != nil {
		return err
	}
	for i := range s.whole {
		s.whole[i] = s.mr.SGE(i*room, room)
		s.frame[i] = s.whole[i]
		if _, err := s.qp.PostRecv([]verbs.RecvWR{{WRID: uint64(i), SGL: s.whole[i : i+1]}}); err != nil {
			return err
		}
	}
	_, err = s.qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{
		&flow.Eth{Val: flow.EthFields{DstMAC: mac}, Mask: flow.EthFields{DstMAC: [6]byte{255, 255, 255, 255, 255, 255}}}}})
	return err
}

func (s *swapper) run(ctx context.Context) error {
	memory := s.mr.Bytes()
	for {
		n, err := s.cq.Wait(ctx, s.wcs[:])
		if err != nil {
			return err
		}
		sends, recvs := 0, 0
		for i := range s.wcs[:n] {
			wc := &s.wcs[i]
			if wc.Status != verbs.StatusSuccess {
				return wc.Err()
			}
			b := wc.WRID &^ ofSend
			if wc.WRID&ofSend != 0 { // the buffer is free
				s.recvs[recvs] = verbs.RecvWR{WRID: b, SGL: s.whole[b : b+1]}
				recvs++
				continue
			}
			swap((*[12]byte)(memory[b*room:]))
			s.frame[b].Length = wc.ByteLen
			s.sends[sends] = verbs.SendWR{WRID: b | ofSend, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: s.frame[b : b+1]}
			sends++
		}
		_, failed := s.qp.PostRecv(s.recvs[:recvs])
		if _, err := s.qp.PostSend(s.sends[:sends]); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		s.frames += uint64(sends)
	}
}

// swap exchanges the destination and the source of a frame.
func swap(b *[12]byte) {
	dst := [6]byte(b[:6])
	copy(b[:6], b[6:])
	copy(b[6:], dst[:])
}
