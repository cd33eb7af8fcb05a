// Package selftest tries every operation that a device offers, in loopback on the device, and
// compares the data. Owners of a device can send us its report.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/verbs"
)

// Details is the help text.
const Details = `
With --selftest, doctor tries every operation that DEV supports, between queue pairs of
DEV itself, and compares what comes of it: data, lengths, numbers, statuses, events,
times. It makes mistakes on purpose too, and compares how DEV refuses them. The report
can be pasted into an issue: each line has an operation and "ok", "none" if DEV does not
support it, or "FAILED", and what was compared. The test takes some seconds and a few
MiB of memory, and changes nothing that it did not create. iWARP devices need an IP
address; raw packets, flow rules and RSS need CAP_NET_RAW. The exit code is 1 if an
operation failed.
`

// manyTimes is how often a request is posted alone. A fault of stores may need many posts.
const manyTimes = 20_000

// Run tries the device of this name.
func Run(ctx context.Context, m *host.Machine, out *cli.Output, name string) error {
	return run(ctx, m, out, name, manyTimes)
}

func run(ctx context.Context, m *host.Machine, out *cli.Output, name string, posts int) error {
	dev, err := m.Open(name)
	if err != nil {
		return err
	}
	defer dev.Close() // a test closes its objects
	b, err := newEnvironment(ctx, m, dev)
	if err != nil {
		return err
	}
	b.posts = posts
	r := &report{out: out, count: make(map[result]int)}
	for _, f := range b.facts() {
		r.add(f)
	}
	for _, t := range tests {
		f := b.try(t)
		if ctx.Err() != nil {
			break // whatever came of this test, the interrupt may have caused it
		}
		r.add(f)
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(peer.Interrupted(err), r.end())
	}
	r.add(finding{name: "sum", result: fact, detail: fmt.Sprintf("%d tests: %d ok, %d none, %d FAILED", len(tests), r.count[ok], r.count[notOffered], r.count[failed])})
	if err := r.end(); err != nil {
		return err
	}
	if n := r.count[failed]; n > 0 {
		return fmt.Errorf("%d of %d tests of %s failed", n, len(tests), name)
	}
	return nil
}

// patience is for one test. A device needs microseconds for it, and one in software milliseconds.
const patience = time.Minute

// errNone means that the device does not support the tested operation.
var errNone = errors.New("not offered")

func none(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNone, fmt.Sprintf(format, args...))
}

// try carries out a test.
func (b *environment) try(t test) finding {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	sub := *b
	sub.ctx = ctx
	detail, err := t.run(&sub)
	if closed := sub.close(); err == nil {
		err = closed
	}
	f := finding{name: t.name, compared: t.compares}
	switch {
	case err == nil:
		f.result, f.detail = ok, detail
	case errors.Is(err, errNone), errors.Is(err, verbs.ErrNotSupported):
		f.result, f.detail, f.compared = notOffered, cli.Plain(err), ""
	default:
		if detail != "" {
			err = fmt.Errorf("after %s: %w", detail, err)
		}
		f.result, f.detail = failed, cli.Plain(err)
	}
	return f
}

// result is how a test ended.
type result string

const (
	fact       result = "is"
	ok         result = "ok"
	notOffered result = "none"
	failed     result = "FAILED"
)

// finding is a line of the report.
type finding struct {
	name     string
	result   result
	detail   string
	compared string
}

// report prints findings as they come; of JSON all at the end.
type report struct {
	out    *cli.Output
	tables []table.Table
	count  map[result]int
	err    error
}

func (r *report) add(f finding) {
	r.count[f.result]++
	if r.out.JSON {
		t := table.Table{{Key: "test", Value: f.name}, {Key: "result", Value: string(f.result)}, {Key: "detail", Value: f.detail}}
		t.AddText("compared", f.compared)
		r.tables = append(r.tables, t)
		return
	}
	line := fmt.Sprintf("%-7s %-26s %s", f.result, f.name, cli.Printable(f.detail))
	if f.compared != "" {
		line += " [" + f.compared + "]"
	}
	r.err = errors.Join(r.err, r.out.Printf("%s\n", line))
}

func (r *report) end() error {
	if r.out.JSON {
		return r.out.WriteJSON(r.tables)
	}
	return r.err
}

// test is a line of the report. run returns a description of the result, or an
// error.
type test struct {
	name     string
	compares string
	run      func(*environment) (string, error)
}

// What the tests of messages compare.
const (
	ofSends    = "data, length and numbers of completions"
	ofImms     = "data, length, immediate data and numbers of completions"
	ofData     = "data, numbers of completions"
	ofAtomics  = "value before, value after"
	ofMistakes = "statuses of the request, of the one behind it, and of the receive"
)

// tests lists all tests. Later tests use operations that earlier ones try.
var tests = []test{
	{"RC SEND", ofSends, messages(verbs.QPTypeRC, verbs.OpSend)},
	{"RC SEND with immediate", ofImms, messages(verbs.QPTypeRC, verbs.OpSendImm)},
	{"RC WRITE", ofData, messages(verbs.QPTypeRC, verbs.OpRDMAWrite)},
	{"RC WRITE with immediate", ofImms, messages(verbs.QPTypeRC, verbs.OpRDMAWriteImm)},
	{"RC READ", ofData, messages(verbs.QPTypeRC, verbs.OpRDMARead)},
	{"RC COMPARE_SWAP", ofAtomics, compareSwap(verbs.QPTypeRC)},
	{"RC FETCH_ADD", ofAtomics, fetchAdd(verbs.QPTypeRC)},
	{"RC lists", ofData, lists},
	{"RC fence", "data that was read and sent on", fence},
	{"RC in both directions", "data", bothWays},
	{"RC single posts", "data of each, order of completions", singlePosts},
	{"RC posts of goroutines", "data of each, order of completions", manyPosts},
	{"RC attributes", "what was set, what the device says", attributes},
	{"UC SEND", ofSends, messages(verbs.QPTypeUC, verbs.OpSend)},
	{"UC SEND with immediate", ofImms, messages(verbs.QPTypeUC, verbs.OpSendImm)},
	{"UC WRITE", ofData, messages(verbs.QPTypeUC, verbs.OpRDMAWrite)},
	{"UC WRITE with immediate", ofImms, messages(verbs.QPTypeUC, verbs.OpRDMAWriteImm)},
	{"UD SEND", ofSends, messages(verbs.QPTypeUD, verbs.OpSend)},
	{"UD SEND with immediate", ofImms, messages(verbs.QPTypeUD, verbs.OpSendImm)},
	{"UD replies", "data, sender's number", replies},
	{"UD wrong Q_Key", "which datagrams arrive", wrongQKey},
	{"SRD SEND", ofSends, messages(verbs.QPTypeSRD, verbs.OpSend)},
	{"SRD SEND with immediate", ofImms, messages(verbs.QPTypeSRD, verbs.OpSendImm)},
	{"SRD WRITE", ofData, messages(verbs.QPTypeSRD, verbs.OpRDMAWrite)},
	{"SRD WRITE with immediate", ofImms, messages(verbs.QPTypeSRD, verbs.OpRDMAWriteImm)},
	{"SRD READ", ofData, messages(verbs.QPTypeSRD, verbs.OpRDMARead)},
	{"XRC SEND", ofSends, messages(verbs.QPTypeXRCInitiator, verbs.OpSend)},
	{"XRC SEND with immediate", ofImms, messages(verbs.QPTypeXRCInitiator, verbs.OpSendImm)},
	{"XRC WRITE", ofData, messages(verbs.QPTypeXRCInitiator, verbs.OpRDMAWrite)},
	{"XRC WRITE with immediate", ofImms, messages(verbs.QPTypeXRCInitiator, verbs.OpRDMAWriteImm)},
	{"XRC READ", ofData, messages(verbs.QPTypeXRCInitiator, verbs.OpRDMARead)},
	{"XRC COMPARE_SWAP", ofAtomics, compareSwap(verbs.QPTypeXRCInitiator)},
	{"XRC FETCH_ADD", ofAtomics, fetchAdd(verbs.QPTypeXRCInitiator)},
	{"DC SEND", ofSends, messages(verbs.QPTypeDCI, verbs.OpSend)},
	{"DC SEND with immediate", ofImms, messages(verbs.QPTypeDCI, verbs.OpSendImm)},
	{"DC WRITE", ofData, messages(verbs.QPTypeDCI, verbs.OpRDMAWrite)},
	{"DC WRITE with immediate", ofImms, messages(verbs.QPTypeDCI, verbs.OpRDMAWriteImm)},
	{"DC READ", ofData, messages(verbs.QPTypeDCI, verbs.OpRDMARead)},
	{"DC COMPARE_SWAP", ofAtomics, compareSwap(verbs.QPTypeDCI)},
	{"DC FETCH_ADD", ofAtomics, fetchAdd(verbs.QPTypeDCI)},
	{"SRQ", ofSends, sharedReceives},
	{"SRQ limit", "the event, the limit that the device says", limitEvent},
	{"SRQ that is resized", "order of receives, the size that the device says", resizeSRQ},
	{"SRQ, last receive", "the event", lastReceive},
	{"events", "the CQ, the number of events", events},
	{"solicited events", "the CQ, the number of events", solicitedEvents},
	{"CQ that is resized", "order of completions", resize},
	{"CQ moderation", "the time of events", moderated},
	{"time stamps", "order of completions and clock", stamps},
	{"wall clock", "the time between completions by two clocks", wallClock},
	{"regions at an address", ofData, otherAddress},
	{"region that is changed", ofData, changedRights},
	{"region of no memory", "data, zeros", noMemory},
	{"windows of type 1", ofData, windows1},
	{"windows of type 2", "data, the key that a peer ends", windows2},
	{"device memory", ofData, deviceMemory},
	{"on-demand paging", ofData, onDemand},
	{"region of all memory", ofData, wholeSpace},
	{"raw frames", "data, length", rawFrames},
	{"raw checksums", "data, the flag of the completion", checksums},
	{"raw segmentation", "data, lengths, sequence numbers, checksums of each packet", segmentation},
	{"VLAN tags", "data, the tag in the frame", vlanTags},
	{"VLAN stripping", "data, the tag in the completion", vlanStripping},
	{"packet fields", "the rule's tag, headers and checksums in the completion", packetFields},
	{"flow rules", "data, which queue gets a frame", flowRules},
	{"flow counters", "the numbers", flowCounters},
	{"RSS", "data, the queue by the frame's hash", spread},
	{"wrong key", ofMistakes, refused(wrongKey)},
	{"write behind a region", ofMistakes, refused(behindRegion)},
	{"write without the right", ofMistakes, refused(writeRefused)},
	{"read without the right", ofMistakes, refused(readRefused)},
	{"wrong local key", ofMistakes, refused(wrongLocalKey)},
	{"send behind a region", ofMistakes, refused(behindLocal)},
	{"receive that is too short", ofMistakes, refused(shortReceive)},
	{"receive without the right", ofMistakes, refused(lockedReceive)},
	{"no receive", ofMistakes, refused(noReceive)},
	{"no answer", ofMistakes, refused(noAnswer)},
	{"atomic at an odd address", ofMistakes, refused(oddAtomic)},
	{"write behind a window", ofMistakes, refused(behindWindow)},
	{"window that was ended", ofMistakes, refused(endedWindow)},
	{"binding without the right", ofMistakes, refused(lockedBinding)},
	{"flush, and a second life", "statuses, data", reuseAfterFlush},
	{"rdma_cm", "the device that an address leads to", byAddress},
}
