package uverbs_test

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
)

// An Ethernet frame goes to the QP that a rule gives frames of its type to.
func ExampleQP_CreateFlow() {
	t := new(exampleTest)
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5, Endless: true})
	a, b := rawEnd(fabric.Host(0)), rawEnd(fabric.Host(1))

	mr := try(b.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	try(b.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, 2048)}}}))
	const experimental = 0x88b5
	rule := try(b.qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{
		&flow.Eth{Val: flow.EthFields{EtherType: experimental}, Mask: flow.EthFields{EtherType: 0xffff}},
	}}))
	defer rule.Close()

	frame := []byte{
		0x02, 0, 0, 0, 0, 2, // to
		0x02, 0, 0, 0, 0, 1, // from
		experimental >> 8, experimental & 0xff,
	}
	frame = append(frame, "hello, Ethernet"...)
	try(a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: frame}}))

	var wcs [1]verbs.WC
	try(b.cq.Wait(context.Background(), wcs[:]))
	fmt.Printf("%d bytes: %s\n", wcs[0].ByteLen, mr.Bytes()[14:wcs[0].ByteLen])
	// Output: 29 bytes: hello, Ethernet
}

// rawEnd has a raw packet QP, which is ready at once.
func rawEnd(h *rdmatest.Host) (e exampleEnd) {
	e.dev = try(uverbs.Open(h.Device(0).Name()))
	e.pd = try(e.dev.AllocPD())
	e.cq = try(e.dev.CreateCQ(16, &uverbs.CQOptions{Channel: try(e.dev.CreateCompChannel())}))
	e.qp = try(e.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64}}))
	try(0, e.qp.Init(nil))
	try(0, e.qp.Connect(nil))
	return e
}
