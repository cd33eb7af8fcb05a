package main

import (
	"os"
	"runtime"
	"syscall"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// memory registers memory of several kinds, and makes a peer write to it.
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

	huge(l)
	notPinned(l)
	e := l.inReset(l.host(rdmatest.RXE, 0), verbs.QPTypeRC)
	l.say("on-demand paging: %v; bytes of device memory: %d", must(e.dev.QueryDevice()).ODP.General&verbs.ODPSupport != 0, must(e.dev.QueryDevice()).MaxDMSize)
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

// huge registers memory in pages of 2 MiB.
func huge(l *lab) {
	const hugePage = 2 << 20
	a, b := l.byHand(verbs.QPTypeRC, nil)
	mr := closing(l, must(b.pd.AllocMR(2*hugePage, everything, &uverbs.MROptions{Align: hugePage})))
	last := len(mr.Bytes()) - 8
	succeed(a.do(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("the end."), RemoteAddr: mr.Addr() + uint64(last), RKey: mr.RKey()}))
	l.say("aligned to 2 MiB, for transparent huge pages: %v; at its end: %q", mr.Addr()%hugePage == 0, mr.Bytes()[last:])
	_, err := b.pd.AllocMR(1<<46, everything, &uverbs.MROptions{Huge: true})
	l.say("more huge pages than the administrator has set aside: refused: %v", err != nil)
	l.closeAll()
}

// notPinned registers memory on mlx5 that the kernel need not pin, or that is not host memory.
func notPinned(l *lab) {
	a, b := l.byHandOn(rdmatest.MLX5, verbs.QPTypeRC, nil)
	can := must(b.dev.QueryDevice())
	l.say("mlx5: on-demand paging: %v; bytes of device memory: %d", can.ODP.General&verbs.ODPSupport != 0, can.MaxDMSize)
	write := func(what string, mr *uverbs.MR) {
		l.say("mlx5: %s: %v", what, a.do(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("data"), RemoteAddr: mr.Addr(), RKey: mr.RKey()}))
	}
	l.network(rdmatest.MLX5).Host(1).SetMemlock(0)
	write("on-demand paging, with leave to pin nothing", b.memory(pageSize, everything|verbs.AccessOnDemand))
	_, err := b.pd.AllocMR(pageSize, everything, nil)
	l.say("mlx5: the same without on-demand paging: %s", sentinel(err, syscall.EPERM))
	l.network(rdmatest.MLX5).Host(1).SetMemlock(-1)

	if runtime.GOOS == "linux" { // the model maps the file
		dmaBuf(l, b, write)
	}
	l.closeAll()
}

// dmaBuf makes a peer write to a file, in place of a dma-buf that the driver of a GPU exports.
func dmaBuf(l *lab, b *end, write func(what string, mr *uverbs.MR)) {
	file := must(os.CreateTemp("", ""))
	defer os.Remove(file.Name())
	closing(l, file)
	check(file.Truncate(pageSize))
	const iova = 0x10000
	write("a dma-buf", closing(l, must(b.pd.RegDMABuf(file, 0, pageSize, iova, verbs.AccessLocalWrite|verbs.AccessRemoteWrite))))
	got := make([]byte, 4)
	must(file.ReadAt(got, 0))
	l.say("mlx5: the dma-buf has %q", got)
}

// deepen makes the goroutine's stack grow.
func deepen(depth int) {
	if depth > 0 {
		deepen(depth - 1)
	}
}
