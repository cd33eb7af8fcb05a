package main

import (
	"runtime"
	"syscall"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// memory registers memory of several kinds, and has a peer write to it.
func memory(l *lab) {
	a, b := l.byHand(verbs.QPTypeRC, nil)
	write := func(addr uint64, mr *uverbs.MR, text string) verbs.Status {
		return a.do(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte(text), RemoteAddr: addr, RKey: mr.RKey()})
	}

	mr := b.memory(100, everything)
	succeed(write(mr.Addr(), mr, "mapped"))
	l.say("AllocMR of 100 bytes has %d, outside of Go's heap: %q", len(mr.Bytes()), mr.Bytes()[:6])

	slice := make([]byte, 100)
	mr = closing(l, must(b.pd.RegMR(slice, everything)))
	runtime.GC()
	succeed(write(mr.Addr(), mr, "Go's"))
	l.say("RegMR of a Go slice, after a collection: %q", slice[:4])

	var array [64]byte // the compiler moves it to the heap, because RegMR keeps it
	mr = closing(l, must(b.pd.RegMR(array[:], everything)))
	deepen(1000) // this moves the goroutine's stack
	succeed(write(mr.Addr(), mr, "array"))
	l.say("RegMR of a local array, after the stack has moved: %q", array[:5])

	part := closing(l, must(b.pd.RegMR(slice[50:], everything)))
	l.say("RegMR of the second half: %v; the byte before it, on the same page: %v",
		write(part.Addr(), part, "half"), write(part.Addr()-1, part, "x"))
	l.closeAll()

	e := l.inReset(l.host(rdmatest.RXE, 0), verbs.QPTypeRC)
	l.say("on-demand paging: %v; bytes of device memory: %d", must(e.dev.Query()).ODP.General&verbs.ODPSupport != 0, must(e.dev.Query()).MaxDMSize)
	l.network(rdmatest.RXE).Host(0).SetMemlock(3 * pageSize)
	for n := 0; ; n++ {
		mr, err := e.pd.AllocMR(1, local, nil)
		if err != nil {
			l.say("with room for three pages %d regions of a byte each fit; then %s", n, sentinel(err, syscall.ENOMEM))
			return
		}
		closing(l, mr)
	}
}

// deepen has the goroutine's stack grow.
func deepen(depth int) {
	if depth > 0 {
		deepen(depth - 1)
	}
}
