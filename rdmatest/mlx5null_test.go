package rdmatest_test

import (
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestNullMR: parts of messages come from no memory, as zeros, and go to none, whether the
// device or the provider puts them where they belong. test/sandbox/null.c does the same.
func TestNullMR(t *testing.T) {
	for name, short := range map[string]string{"in memory": "0", "in completions": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MLX5_SCATTER_TO_CQE", short)
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
			a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
			a.connect(b, nil)
			b.connect(a, nil)
			from, to := closed(t, must(a.pd.AllocNullMR())(t)), closed(t, must(b.pd.AllocNullMR())(t))
			copy(a.mr.Bytes()[sendFrom:], "headbody")
			copy(b.mr.Bytes(), "........")
			receive := func(sgl ...verbs.SGE) {
				must(b.qp.PostRecv([]verbs.RecvWR{{SGL: sgl}}))(t)
			}
			send := func(n uint32, sgl ...verbs.SGE) {
				a.post(verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl})
				if sent := a.next(); sent.Err() != nil {
					t.Fatal(sent)
				}
				if got := b.next(); got.Err() != nil || got.ByteLen != n {
					t.Error(got)
				}
			}
			want := func(n *node, text string) {
				if got := string(n.mr.Bytes()[:len(text)]); got != text {
					t.Errorf("%q, want %q", got, text)
				}
			}
			receive(to.SGE(1<<40, 4), b.mr.SGE(0, 4))
			send(8, a.mr.SGE(sendFrom, 8))
			want(b, "body....")
			receive(b.mr.SGE(0, 8))
			send(8, a.mr.SGE(sendFrom, 4), from.SGE(0, 4))
			want(b, "head\x00\x00\x00\x00")
			a.post(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{from.SGE(0, 4), a.mr.SGE(0, 4)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			if wc := a.next(); wc.Err() != nil {
				t.Error(wc)
			}
			want(a, "\x00\x00\x00\x00")
			a.post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{a.mr.SGE(0, 4)}, RemoteAddr: b.mr.Addr(), RKey: to.LKey()})
			if wc := a.next(); wc.Status != verbs.StatusRemAccessErr {
				t.Error("a peer writes to no memory:", wc)
			}
		})
	}
}
