// Package perf measures latency and bandwidth of SEND, RDMA WRITE, RDMA READ and
// atomics between two ends. It interoperates with perftest's programs: the protocol
// (internal/perftest), the meaning of each option and the definition of each figure
// are theirs, so that results are comparable.
//
// The package parses no flags and prints nothing. The measured loops allocate
// nothing.
//
// Either end may be a program of perftest, so the order of a run and each loop follow the
// C function that the loop's comment names. Deliberate differences: a completion counts
// exactly the messages that it covers, receives are posted in batches, sends and receives
// share a CQ if their order does not matter, and an end notices a peer that has left or a
// run without progress. iWARP has no receiver-not-ready, so the receiving end writes
// credits, as in perftest.
//
// An end that fails or is interrupted sends its peer the reason (internal/giveup) over
// the connection for control messages, and gives the peer time to read it before it closes
// its QPs. So the peer reports the cause instead of a failed completion. C's programs
// report a give-up message as a message that is too short.
package perf

import (
	"context"
	"errors"
	"time"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Path is a path between the two ends: [OverTCP], [DialCM] or [AcceptCM].
type Path interface {
	// Leave sends the peer the reason why this end fails, while its QPs still exist.
	Leave(why error)

	device() *uverbs.Device
	session(*Options) *perftest.Session
	makePairs(context.Context, *perftest.Session, *end) error
	endpoints(*end) []perftest.Endpoint
	connect(e *end, local, remote []perftest.Endpoint) error
	watch(heard func(error)) (stop func())
}

// Run carries out a whole run of either end, over all sizes. On failure it sends the peer the
// reason before the QPs are closed.
func Run(ctx context.Context, o Options, path Path, reporter Reporter) error {
	c := &measurement{path: path, reporter: reporter}
	err := c.run(ctx, &o)
	if err != nil {
		path.Leave(err)
	}
	if c.end == nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(o.WaitDestroy):
	}
	return errors.Join(err, c.end.Close())
}

// measurement is a run in progress.
type measurement struct {
	*end
	path     Path
	session  *perftest.Session
	reporter Reporter
}

func (c *measurement) run(ctx context.Context, o *Options) error {
	asked := o.asksSize()
	o.setDefaults()
	dev := c.path.device()
	port, err := o.fit(dev, asked)
	if err != nil {
		return err
	}
	c.session = c.path.session(o)
	sys, err := c.session.Greet(ctx, o.system())
	if err != nil {
		return err
	}
	if err := o.agree(sys, asked); err != nil {
		return err
	}
	if c.end, err = newEnd(o, dev, port, sys); err != nil {
		return err
	}
	if err := c.connectQueuePairs(ctx, sys.Version); err != nil {
		return err
	}
	if o.ServerIdle() && !o.client() {
		return c.awaitClient(ctx)
	}
	return c.measureAll(ctx)
}

// connectQueuePairs creates the QPs and connects them to the peer's.
func (c *measurement) connectQueuePairs(ctx context.Context, version string) error {
	if err := c.path.makePairs(ctx, c.session, c.end); err != nil {
		return err
	}
	local := c.path.endpoints(c.end)
	remote, err := c.session.Meet(ctx, local)
	if err != nil {
		return err
	}
	peers := remote[len(remote)-len(c.flows):] // after the initiators, if the peer has both
	for i, f := range c.flows {
		f.peer = peers[i]
	}
	if err := c.path.connect(c.end, local, remote); err != nil {
		return err
	}
	if err := c.session.Ready(ctx); err != nil {
		return err
	}
	for i, f := range c.flows { // a DCT of perftest has a number only now
		f.peer.QPN, f.to.qpn = peers[i].QPN, peers[i].QPN
	}
	info := c.dev.Info()
	return c.reporter.Start(&Setting{Options: *c.Options, Device: info.Name, Driver: info.Driver, Link: c.port.LinkLayer,
		Local: local, Remote: remote, Version: version})
}

// awaitClient waits until the client no longer uses the memory of this end.
func (c *measurement) awaitClient(ctx context.Context) error {
	report, err := c.session.Finish(ctx, perftest.Report{})
	if err != nil || report == nil {
		return err
	}
	if err := checkReport(report); err != nil {
		return err
	}
	return c.reporter.Bandwidth(fromReport(report, c.Unit()))
}

func (c *measurement) measureAll(ctx context.Context) error {
	var last perftest.Report
	for _, size := range c.sizes() {
		var err error
		if last, err = c.measureSize(ctx, size); err != nil {
			return err
		}
	}
	_, err := c.session.Finish(ctx, last)
	return err
}

// measureSize measures one size and says so.
func (c *measurement) measureSize(ctx context.Context, size int) (perftest.Report, error) {
	progress := new(Progress)
	r := newRun(ctx, c.end, size, progress)
	defer r.cancel(nil)
	if err := c.prepare(r); err != nil {
		return perftest.Report{}, err
	}
	if err := c.session.Begin(r.ctx); err != nil {
		return perftest.Report{}, err
	}
	for _, f := range c.flows {
		if c.creditMR != nil {
			f.credit.got.Store(0)
		}
	}
	c.reporter.Size(size, int64(c.total()), progress)
	if err := c.guarded(r); err != nil {
		return perftest.Report{}, err
	}
	if c.Latency {
		return perftest.Report{}, c.reportLatency(r)
	}
	return c.reportBandwidth(ctx, r)
}

// prepare posts the receives, and warms up.
func (c *measurement) prepare(r *run) error {
	for _, f := range c.flows {
		f.prepare(c.end, r.size)
		if c.creditMR != nil {
			f.prepareCredit(c.end)
		}
		if c.Verb == perftest.Send && (c.Latency || !c.client() || c.Bidirectional) {
			if err := f.postRecvs(c.RxDepth); err != nil {
				return err
			}
		}
	}
	if c.WarmUp && !c.Latency && c.Verb != perftest.Send {
		return r.warmUp()
	}
	return nil
}

func (c *measurement) reportLatency(r *run) error {
	if err := r.counted(); err != nil {
		return err
	}
	perSample := 2
	if c.Verb == perftest.Read || c.Verb == perftest.Atomic {
		perSample = 1
	}
	if c.Test.Duration {
		return c.reporter.Latency(timedLatency(r.size, r.watch.counted, r.watch.ns(), perSample))
	}
	return c.reporter.Latency(newLatency(r.size, r.stamps, perSample))
}

// reportBandwidth sends the result to the peer if the peer expects it, and adds the
// peer's result.
func (c *measurement) reportBandwidth(ctx context.Context, r *run) (perftest.Report, error) {
	if err := r.counted(); err != nil {
		return perftest.Report{}, err
	}
	b := newBandwidth(r.size, int64(c.total()), r.ended-r.began)
	if c.Test.Duration {
		b = newBandwidth(r.size, r.watch.counted, r.watch.ns())
	}
	if r.completed != nil {
		b.findPeak(r.stamps, r.completed, c.PostList)
	}
	own := b.report(c.Unit())
	peer, err := c.session.End(ctx, own)
	if err != nil {
		return own, err
	}
	if peer != nil {
		if err := checkReport(peer); err != nil {
			return own, err
		}
		b.add(peer, c.Unit())
	}
	return own, c.reporter.Bandwidth(b)
}

// Reporter is notified of the progress of a run.
type Reporter interface {
	// Start comes when both ends are ready.
	Start(*Setting) error
	// Size comes before a size is measured; the messages that this end will
	// count are 0 when the time decides.
	Size(bytes int, messages int64, done *Progress)
	Latency(*Latency) error
	Bandwidth(*Bandwidth) error
}

// Setting is the effective configuration of a run and its two ends.
type Setting struct {
	Options       // completed
	Device        string
	Driver        verbs.DriverID
	Link          verbs.LinkLayer
	Local, Remote []perftest.Endpoint // a QP each
	Version       string              // of the peer's perftest
}
