// Package record records everything that crosses the seam between a provider and its driver and
// device: private bytes of calls, entries of queues, doorbells and their records. Tests use it
// to compare a provider in Go with one in C: both run the same script on the same model, and
// the tests compare their recordings.
//
//	r := record.New(w)      // w gets a line for each crossing
//	r.Attach(k)             // for each fakeverbs.Kernel, before it is used
//
//	text, err := record.Masked(f)       // the contents of a golden file
//	diff, err := record.Diff(a, b)      // "" if they are the same
//
// A line has the number of the opening, the stream that it belongs to, what crossed, and
// fields:
//
//	1 qp.send%q7 sqe op=SEND qpn=%q7 blocks=1 next=1 signaled length=64 sge0.addr=@0x7f3a sge0.length=64 sge0.key=#0x100
//
// A request of the core has its attributes in the order of their numbers, with their lengths
// but for those of a handle, and zeros left out. Of a command of INVOKE_WRITE it has the
// fields:
//
//	1 asks.CQ_CREATE request 0=%h1 1:4=16 6:4=0 7:8=out
//	1 asks.REG_MR request in:40 start=@0x7f3a length=64 hca_va=@0x7f3a pd_handle=%h1 access_flags=1 out:12
//
// A value behind @ is an address, one behind # a key, one behind % the number of a QP (%q) or a
// CQ (%c), of an SRQ (%s), or a handle (%h). These differ from run to run, so comparing masks them: an address
// becomes @; keys and numbers become the order in which they first appeared, which has to be
// the same.
//
// Streams are compared one by one, because their order among each other depends on which process was
// scheduled first: all calls of an opening are one, all its requests for one method another,
// and each QP's sends, each QP's receives and each CQ's completions and arms are others.
package record
