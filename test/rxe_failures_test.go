//go:build vm

package test

import (
	"strings"

	"github.com/goverbs/goverbs/test/refusals"
	"github.com/goverbs/goverbs/verbs"
)

// differs says where kernels disagree.
type differs struct {
	requester, responder string          // what Linux 6.1 makes of it, where that is something else
	access               bool            // since Linux 7 the responder has EventQPAccessErr
	needs                verbs.DeviceCap // without this the work request is refused
}

// rxeFailures is the table to which the devices of package rdmatest are held, too.
func rxeFailures() (all []rxeFailure) {
	for _, f := range refusals.Failures(refusals.Layout{Memory: memorySize, Source: sendFrom, Recv: recvSize}) {
		all = append(all, rxeFailure{f, differences(&f)})
	}
	return all
}

func differences(f *refusals.Failure) (d differs) {
	switch {
	case f.Requester == refusals.FlushedSend && strings.HasSuffix(f.Name, "range"):
		d.requester = refusals.Protection
	case f.Requester == refusals.FlushedSend:
		d.requester = "1 local QP operation error; ERR"
	case f.Requester == refusals.Refused && f.Responder == refusals.Lost:
		d.access = true
	case f.Name == "UD SEND, receive too short":
		d.responder = refusals.Broken
	}
	d.needs = map[verbs.Opcode]verbs.DeviceCap{verbs.OpAtomicWrite: verbs.DeviceCapAtomicWrite, verbs.OpFlush: verbs.DeviceCapFlushGlobal}[f.Op]
	return d
}

// request is the request, and the region that it names if that has to be closed.
func (f *rxeFailure) request(a, b *rxeEnd) verbs.SendWR {
	wr := f.Request(a.to(verbs.SendWR{Opcode: f.Op}), a.mr.SGE(sendFrom, f.Size))
	if f.Closed {
		gone := must(b.dev.pd.AllocMR(memorySize, b.dev.access(), nil))(b.t)
		wr.RemoteAddr, wr.RKey = gone.Addr(), gone.RKey()
		if err := gone.Close(); err != nil {
			b.t.Fatal(err)
		}
	}
	return wr
}
