package main

import (
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// keys gives a peer access to memory, and takes it away again in all possible ways.
func keys(l *lab) {
	const write = verbs.OpRDMAWrite
	// attempt makes a new peer write to memory, before and after shut.
	attempt := func(what string, open func(b *end) (addr uint64, rkey uint32), shut func(a, b *end)) {
		a, b := l.byHand(verbs.QPTypeRC, nil)
		source := a.memory(pageSize, local)
		addr, rkey := open(b)
		wr := verbs.SendWR{Opcode: write, SGL: []verbs.SGE{source.SGE(0, 8)}, RemoteAddr: addr, RKey: rkey}
		before := a.do(wr)
		if shut == nil {
			l.say("%s: %v", what, before)
		} else {
			shut(a, b)
			l.say("%s: before: %v, after: %v", what, before, a.do(wr))
		}
		l.closeAll()
	}
	var mr *uverbs.MR
	var mw *uverbs.MW
	region := func(access verbs.Access) func(*end) (uint64, uint32) {
		return func(b *end) (uint64, uint32) {
			mr = b.memory(pageSize, access)
			return mr.Addr(), mr.RKey()
		}
	}
	window := func(b *end) (uint64, uint32) {
		mr = b.memory(pageSize, local|verbs.AccessMWBind)
		mw = closing(l, must(b.pd.AllocMW(verbs.MWType2)))
		rkey := uverbs.IncRKey(mw.RKey())
		succeed(b.do(verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: mw, RKey: rkey, MR: mr,
			Addr: mr.Addr() + 1024, Length: 64, Access: verbs.AccessRemoteWrite}}))
		return mr.Addr() + 1024, mw.RKey()
	}

	attempt("a region with RemoteWrite", region(everything), nil)
	attempt("a region without", region(local), nil)
	attempt("a region of another protection domain", func(b *end) (uint64, uint32) {
		other := closing(l, must(b.dev.AllocPD()))
		mr := closing(l, must(other.AllocMR(pageSize, everything, nil)))
		return mr.Addr(), mr.RKey()
	}, nil)
	attempt("the region is closed", region(everything), func(_, _ *end) { check(mr.Close()) })
	attempt("its rights are taken away", region(everything), func(_, _ *end) {
		none := local
		check(mr.Rereg(&uverbs.ReregOptions{Access: &none}))
	})
	attempt("a window: its 64 bytes", window, nil)
	attempt("a window: the byte before", func(b *end) (uint64, uint32) {
		addr, rkey := window(b)
		return addr - 1, rkey
	}, nil)
	attempt("a window: invalidated by its owner", window, func(_, b *end) {
		succeed(b.do(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: mw.RKey()}))
	})
	attempt("a window: invalidated by the peer's message", window, func(a, b *end) {
		b.receive(1, mr.SGE(0, 64))
		succeed(a.do(verbs.SendWR{Opcode: verbs.OpSendWithInv, Inline: []byte("done"), InvalidateRKey: mw.RKey()}))
		got := wait(b.recvCQ)
		l.say("    the owner learns which key has ended: %v", got.Flags&verbs.WCWithInv != 0 && got.InvalidatedRKey() == mw.RKey())
	})

	e := l.inReset(l.host(rdmatest.RXE, 0), verbs.QPTypeRC)
	e.memory(pageSize, local)
	l.say("a protection domain that has a region and a queue pair is closed: %s", sentinel(e.pd.Close(), verbs.ErrInUse))
}
