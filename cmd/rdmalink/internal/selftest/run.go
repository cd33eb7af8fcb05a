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
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/verbs"
)

// Details is the help text.
const Details = `
With --selftest, doctor tries every operation that DEV supports, between queue pairs of
DEV itself, and compares the data: sends, writes, reads, atomics, memory windows, events,
resizing of queues, and failures of queue pairs. The report can be pasted into an issue:
each line has an operation and "ok", "none" if DEV does not support it, or "FAILED". The
test takes some seconds and 1 MiB of memory. iWARP devices need an IP address. The exit
code is 1 if an operation failed.
`

// Run tries the device of this name.
func Run(ctx context.Context, m *host.Machine, out *cli.Output, name string) error {
	dev, err := m.Open(name)
	if err != nil {
		return err
	}
	defer dev.Close() // a test closes its objects
	b, err := newBed(ctx, m, dev)
	if err != nil {
		return err
	}
	r := &report{out: out}
	for _, f := range b.facts() {
		r.add(f)
	}
	for _, t := range tests {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.add(b.try(t))
	}
	if err := r.end(); err != nil {
		return err
	}
	if r.failed > 0 {
		return fmt.Errorf("%d of %d tests of %s failed", r.failed, len(tests), name)
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
func (b *bed) try(t test) finding {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	sub := *b
	sub.ctx = ctx
	detail, err := t.run(&sub)
	if closed := sub.close(); err == nil {
		err = closed
	}
	switch {
	case err == nil:
		return finding{t.name, ok, detail}
	case errors.Is(err, errNone), errors.Is(err, verbs.ErrNotSupported):
		return finding{t.name, notOffered, cli.Plain(err)}
	}
	if detail != "" {
		err = fmt.Errorf("after %s: %w", detail, err)
	}
	return finding{t.name, failed, cli.Plain(err)}
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
	name   string
	result result
	detail string
}

// report prints findings as they come; of JSON all at the end.
type report struct {
	out    *cli.Output
	tables []table.Table
	failed int
	err    error
}

func (r *report) add(f finding) {
	if f.result == failed {
		r.failed++
	}
	if r.out.JSON {
		r.tables = append(r.tables, table.Table{{Key: "test", Value: f.name}, {Key: "result", Value: string(f.result)}, {Key: "detail", Value: f.detail}})
		return
	}
	r.err = errors.Join(r.err, r.out.Printf("%-7s %-26s %s\n", f.result, f.name, cli.Printable(f.detail)))
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
	name string
	run  func(*bed) (string, error)
}

// tests lists all tests. Later tests use operations that earlier ones try.
var tests = []test{
	{"RC SEND", messages(verbs.QPTypeRC, verbs.OpSend)},
	{"RC SEND with immediate", messages(verbs.QPTypeRC, verbs.OpSendImm)},
	{"RC WRITE", messages(verbs.QPTypeRC, verbs.OpRDMAWrite)},
	{"RC WRITE with immediate", messages(verbs.QPTypeRC, verbs.OpRDMAWriteImm)},
	{"RC READ", messages(verbs.QPTypeRC, verbs.OpRDMARead)},
	{"RC COMPARE_SWAP", compareSwap},
	{"RC FETCH_ADD", fetchAdd},
	{"RC lists", lists},
	{"RC fence", fence},
	{"RC in both directions", bothWays},
	{"UC SEND", messages(verbs.QPTypeUC, verbs.OpSend)},
	{"UC SEND with immediate", messages(verbs.QPTypeUC, verbs.OpSendImm)},
	{"UC WRITE", messages(verbs.QPTypeUC, verbs.OpRDMAWrite)},
	{"UC WRITE with immediate", messages(verbs.QPTypeUC, verbs.OpRDMAWriteImm)},
	{"UD SEND", messages(verbs.QPTypeUD, verbs.OpSend)},
	{"UD SEND with immediate", messages(verbs.QPTypeUD, verbs.OpSendImm)},
	{"SRQ", sharedReceives},
	{"events", events},
	{"solicited events", solicitedEvents},
	{"CQ that is resized", resize},
	{"windows of type 1", windows1},
	{"windows of type 2", windows2},
	{"a wrong key", wrongKey},
	{"flush, and a second life", secondLife},
	{"rdma_cm", byAddress},
}
