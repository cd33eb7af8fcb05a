//go:build vm

package test

import "github.com/goverbs/goverbs/uverbs"

// differs says where kernels disagree.
type differs struct {
	requester, responder string           // what Linux 6.1 makes of it, where that is something else
	access               bool             // since Linux 7 the responder has EventQPAccessErr
	needs                uverbs.DeviceCap // without this the work request is refused
}

// What the two ends have of it. A RECV of UD has 40 bytes in front.
const (
	flushedSend = "1 work request flushed; ERR"
	protection  = "1 local protection error; ERR"
	refused     = "1 remote access error; ERR"
	invalid     = "1 remote invalid request; ERR"
	operation   = "1 remote operation error; ERR"
	sentIt      = "1 SEND success; RTS"
	wroteIt     = "1 RDMA_WRITE success; RTS"

	lost      = "1000 work request flushed, 1001 work request flushed; ERR"
	broken    = "1000 local QP operation error, 1001 work request flushed; ERR"
	untouched = "1000 work request flushed, 1001 work request flushed; RTS"
	dropped   = "1000 RECV success 8, 1001 work request flushed; RTS"
	droppedUD = "1000 RECV success 48, 1001 work request flushed; RTS"
)

var (
	localKey   = differs{requester: "1 local QP operation error; ERR"}
	localRange = differs{requester: protection}
	event      = differs{access: true}

	wrongRKey = func(wr *uverbs.SendWR) { wr.RKey ^= 0x5500 }
	staleRKey = func(wr *uverbs.SendWR) { wr.RKey ^= 1 }
	beyond    = func(wr *uverbs.SendWR) { wr.RemoteAddr += memorySize - 4 }
	wrongLKey = func(wr *uverbs.SendWR) { wr.SGL[0].LKey ^= 0x5500 }
	tooFar    = func(wr *uverbs.SendWR) { wr.SGL[0].Addr += memorySize - sendFrom - 4 }
	badInv    = func(wr *uverbs.SendWR) { wr.InvalidateRKey = 0x5500 }
)

// ends are the requester and the responder; alike are two without peculiarities.
type ends [2]rxeSetup

var alike ends

func hisMR(a uverbs.Access) ends { return ends{1: {access: a}} }
func hisQP(a uverbs.Access) ends { return ends{1: {peer: &a}} }

func rxeFailures() []rxeFailure {
	const (
		write, send, read = uverbs.OpRDMAWrite, uverbs.OpSend, uverbs.OpRDMARead
		writeImm, sendInv = uverbs.OpRDMAWriteImm, uverbs.OpSendWithInv

		local1, mayRead, mayWrite = uverbs.AccessLocalWrite, uverbs.AccessRemoteRead, uverbs.AccessRemoteWrite
	)
	atomicWrite := differs{access: true, needs: uverbs.DeviceCapAtomicWrite}
	flush := differs{access: true, needs: uverbs.DeviceCapFlushGlobal}
	noFlush := differs{needs: uverbs.DeviceCapFlushGlobal}
	return []rxeFailure{
		{"RC SEND, local key", alike, flawed(send, 8, wrongLKey), flushedSend, untouched, localKey},
		{"RC SEND, local range", alike, flawed(send, 8, tooFar), flushedSend, untouched, localRange},
		{"RC WRITE, local key", alike, flawed(write, 8, wrongLKey), flushedSend, untouched, localKey},
		{"RC WRITE, local range", alike, flawed(write, 8, tooFar), flushedSend, untouched, localRange},
		{"RC READ, local key", alike, flawed(read, 8, wrongLKey), protection, untouched, differs{}},
		{"RC READ, local range", alike, flawed(read, 8, tooFar), protection, untouched, differs{}},
		{"RC READ, local access", ends{{access: mayRead}}, flawed(read, 8, nil), protection, untouched, differs{}},
		{"RC LOCAL_INV, key", alike, flawed(uverbs.OpLocalInv, 0, badInv), flushedSend, untouched, localKey},

		{"RC WRITE, remote key", alike, flawed(write, 8, wrongRKey), refused, lost, event},
		{"RC WRITE, remote key of before", alike, flawed(write, 8, staleRKey), refused, lost, event},
		{"RC WRITE, remote MR closed", alike, toClosed, refused, lost, event},
		{"RC WRITE, remote range", alike, flawed(write, 8, beyond), refused, lost, event},
		{"RC WRITE, access of the MR", hisMR(local1 | mayRead), flawed(write, 8, nil), refused, lost, event},
		{"RC WRITE, access of the QP", hisQP(mayRead), flawed(write, 8, nil), invalid, lost, differs{}},
		{"RC WRITE_WITH_IMM, remote key", alike, flawed(writeImm, 8, wrongRKey), refused,
			"1000 remote access error, 1001 work request flushed; ERR", differs{}},
		{"RC READ, remote key", alike, flawed(read, 8, wrongRKey), refused, lost, event},
		{"RC READ, remote range", alike, flawed(read, 8, beyond), refused, lost, event},
		{"RC READ, access of the MR", hisMR(local1 | mayWrite), flawed(read, 8, nil), refused, lost, event},
		{"RC READ, access of the QP", hisQP(mayWrite), flawed(read, 8, nil), invalid, lost, differs{}},
		{"RC SEND_WITH_INV, key", alike, flawed(sendInv, 8, badInv), sentIt, // acknowledged all the same
			"1000 remote invalid request, 1001 work request flushed; ERR", differs{}},
		{"RC SEND, receive too short", alike, flawed(send, recvSize+1, nil), operation, broken, differs{}},
		{"RC SEND, receive not writable", hisMR(mayRead), flawed(send, 8, nil), operation, broken, differs{}},
		{"RC ATOMIC_WRITE, remote key", alike, flawed(uverbs.OpAtomicWrite, 8, wrongRKey), refused, lost, atomicWrite},
		{"RC FLUSH, remote key", alike, flawed(uverbs.OpFlush, 8, wrongRKey), refused, lost, flush},
		{"RC FLUSH, remote range", alike, flawed(uverbs.OpFlush, 8, beyond), refused, lost, flush},
		{"RC FLUSH, access of the MR", hisMR(local1 | mayWrite), flawed(uverbs.OpFlush, 8, nil), refused, lost, flush},
		{"RC FLUSH, access of the QP", hisQP(mayWrite), flawed(uverbs.OpFlush, 8, nil), invalid, lost, noFlush},

		{"UC SEND, local key", alike, flawed(send, 8, wrongLKey), flushedSend, untouched, localKey},
		{"UC WRITE, local range", alike, flawed(write, 8, tooFar), flushedSend, untouched, localRange},
		{"UC WRITE, remote key", alike, flawed(write, 8, wrongRKey), wroteIt, dropped, differs{}},
		{"UC WRITE, remote range", alike, flawed(write, 8, beyond), wroteIt, dropped, differs{}},
		{"UC WRITE, access of the MR", hisMR(local1), flawed(write, 8, nil), wroteIt, dropped, differs{}},
		{"UC WRITE, access of the QP", hisQP(0), flawed(write, 8, nil), wroteIt, dropped, differs{}},
		{"UC WRITE_WITH_IMM, remote key", alike, flawed(writeImm, 8, wrongRKey), wroteIt, dropped, differs{}},
		{"UC SEND, receive too short", alike, flawed(send, recvSize+1, nil), sentIt, broken, differs{}},
		{"UC SEND, receive not writable", hisMR(mayRead), flawed(send, 8, nil), sentIt, broken, differs{}},

		{"UD SEND, local key", alike, flawed(send, 8, wrongLKey), flushedSend, untouched, localKey},
		{"UD SEND, Q_Key", alike, flawed(send, 8, func(wr *uverbs.SendWR) { wr.RemoteQKey++ }), sentIt, droppedUD, differs{}},
		{"UD SEND, QP number", alike, flawed(send, 8, func(wr *uverbs.SendWR) { wr.RemoteQPN += 1000 }), sentIt, droppedUD, differs{}},
		{"UD SEND, receive too short", alike, flawed(send, recvSize-uverbs.GRHSize+1, nil), sentIt, droppedUD, differs{responder: broken}},
		{"UD SEND, longer than the MTU", alike, flawed(send, 1025, nil), sentIt, droppedUD, differs{}},
		{"UD SEND, receive not writable", hisMR(mayRead), flawed(send, 8, nil), sentIt, broken, differs{}},
	}
}

// flawed is a request of n bytes that is right until change makes it wrong.
func flawed(op uverbs.Opcode, n int, change func(*uverbs.SendWR)) func(a, b *rxeEnd) uverbs.SendWR {
	return func(a, _ *rxeEnd) uverbs.SendWR {
		wr := a.to(uverbs.SendWR{Opcode: op})
		switch op {
		case uverbs.OpAtomicWrite:
			wr.Inline = make([]byte, n)
		case uverbs.OpFlush:
			wr.Flush = uverbs.Flush{Type: uverbs.FlushGlobal, Length: uint32(n)}
		case uverbs.OpLocalInv:
		default:
			wr.SGL = []uverbs.SGE{a.mr.SGE(sendFrom, n)}
		}
		if change != nil {
			change(&wr)
		}
		return wr
	}
}

// toClosed is a write to a region that is there no more.
func toClosed(a, b *rxeEnd) uverbs.SendWR {
	wr := flawed(uverbs.OpRDMAWrite, 8, nil)(a, b)
	gone := must(b.dev.pd.AllocMR(memorySize, b.dev.access(), nil))(b.t)
	wr.RemoteAddr, wr.RKey = gone.Addr(), gone.RKey()
	if err := gone.Close(); err != nil {
		b.t.Fatal(err)
	}
	return wr
}
