package main

import (
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// completions stops the network between the post and the arrival.
func completions(l *lab) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW} {
		var buffer *uverbs.MR
		client, server := l.connect(kind, rdmacm.Config{}, func(server *end) {
			buffer = server.memory(pageSize, everything)
			server.receive(1, buffer.SGE(0, 64))
		})
		source := client.memory(pageSize, local)

		copy(source.Bytes(), "first")
		stuck, resume := l.network(kind).Pause()
		client.post(verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, SGL: []verbs.SGE{source.SGE(0, 5)}})
		<-stuck
		l.say("%v: nothing has arrived yet: the sender has %d completions, the receiver %d", kind, waiting(client.sendCQ), waiting(server.recvCQ))
		resume()
		got := wait(server.recvCQ)
		l.say("%v: the message has arrived: %v of %d bytes, %q", kind, got.Opcode, got.ByteLen, buffer.Bytes()[:got.ByteLen])
		if kind == rdmatest.RXE { // over siw it has completed already
			l.say("%v: its acknowledgement: %v", kind, wait(client.sendCQ).Status)
		}

		copy(source.Bytes(), "second")
		l.say("%v: a WRITE: %v", kind, client.do(verbs.SendWR{Opcode: verbs.OpRDMAWrite,
			SGL: []verbs.SGE{source.SGE(0, 6)}, RemoteAddr: buffer.Addr() + 100, RKey: buffer.RKey()}))
		l.say("%v: a READ behind it: %v", kind, client.do(verbs.SendWR{Opcode: verbs.OpRDMARead,
			SGL: []verbs.SGE{source.SGE(100, 6)}, RemoteAddr: buffer.Addr() + 100, RKey: buffer.RKey()}))
		l.say("%v: the READ found %q; the receiver has %d completions", kind, source.Bytes()[100:106], waiting(server.recvCQ))

		note := []byte("third")
		server.receive(3, buffer.SGE(0, 64))
		client.post(verbs.SendWR{Opcode: verbs.OpSend, Inline: note})
		copy(note, "XXXXX") // the device has copied the inline data
		l.say("%v: sent inline, and overwritten: %q", kind, buffer.Bytes()[:wait(server.recvCQ).ByteLen])

		server.receive(4, buffer.SGE(0, 64))
		succeed(client.do(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("fourth")}))
		check(source.Close())
		check(client.conn.Close()) // the end of a program does the same
		last := wait(server.recvCQ)
		l.say("%v: the sender has closed; the receiver: %v, %q", kind, last.Status, buffer.Bytes()[:last.ByteLen])
		l.closeAll()
	}
}

// waiting polls a CQ once and returns the number of completions.
func waiting(cq *uverbs.CQ) int {
	var wcs [8]verbs.WC
	return must(cq.Poll(wcs[:]))
}
