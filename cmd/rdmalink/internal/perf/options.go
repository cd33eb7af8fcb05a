package perf

import (
	"time"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// Options describes a measurement. Both ends need the same options, because they
// are not exchanged. A zero field means perftest's default.
type Options struct {
	perftest.Test // Duration and LIDOnly follow from the rest
	Role          perftest.Role

	Type   verbs.QPType // RC (0), UC or UD
	Atomic verbs.Opcode // OpFetchAdd (0) or OpCompareSwap

	Size  int           // bytes of a message; AllSizes: from 2 on
	Iters int           // messages of each QP
	Time  time.Duration // how long, instead of Iters
	// Margin is how long of Time doesn't count, at its beginning and at its
	// end: a quarter (0) if it is not given.
	Margin time.Duration

	QPCount  int
	TxDepth  int // sends outstanding, of each QP
	RxDepth  int // receives posted
	PostList int // sends posted at a time
	CQMod    int // one send of CQMod is signaled
	Inline   int // messages up to this size travel in the work request
	OutReads int // outstanding READs and atomics; 0: the device's maximum

	Events bool // sleep until a completion, else poll
	NoPeak bool // no time stamp at every message
	WarmUp bool // of WRITE, READ and atomic bandwidth: send some before
	ODP    bool // page the buffer in on demand
	Gbits  bool // bandwidth is reported to the peer in 10⁹ bit/s, otherwise in MiB/s

	CompVector  uint32        // of the CQs' events
	WaitDestroy time.Duration // before all is closed

	Port         uint32          // of the device, from 1
	Link         verbs.LinkLayer // which the port must have; 0: any
	MTU          verbs.MTU       // of the path; 0: the port's
	SL           uint8
	PKeyIndex    uint32
	DLID         uint16 // replaces the LID that the peer sends
	TrafficClass uint8
	HopLimit     uint8
	QPTimeout    uint8 // of an acknowledgement: 4.096 µs × 2^QPTimeout
	RetryCount   int   // of rdma_cm's QPs; negative is none
}

// perftest's defaults and limits.
const (
	defaultIters      = 1000
	defaultWriteIters = 5000
	defaultRxDepth    = 512
	mostLossyReceives = 16000 // posted where a message without one is lost
	maxSize           = 1 << 23
	peakLimit         = 20000 // messages; more are not all stamped
	moderateUpTo      = 8192  // bytes; longer messages make a completion each
	atomicSize        = 8
)

// setDefaults completes o.
//
// C: init_perftest_params, force_dependecies
func (o *Options) setDefaults() {
	o.Test.Duration = o.Time > 0
	or(&o.Type, verbs.QPTypeRC)
	or(&o.Atomic, verbs.OpFetchAdd)
	or(&o.Port, 1)
	or(&o.QPTimeout, 14)
	or(&o.HopLimit, 64)
	or(&o.Margin, o.Time/4)
	or(&o.QPCount, 1)
	or(&o.PostList, 1)
	if o.Verb == perftest.Read || o.Verb == perftest.Atomic {
		o.Inline = 0 // there is no payload to send inline
	}
	o.setDepths()
	asked := o.CQMod > 0
	or(&o.CQMod, 100)
	switch {
	case !asked && o.PostList > 1:
		o.CQMod = o.PostList
	case !asked && o.Size > moderateUpTo && o.Type != verbs.QPTypeUD && !o.AllSizes && !o.Events:
		o.CQMod = 1
	}
	o.CQMod = min(o.CQMod, o.TxDepth)
	o.NoPeak = o.NoPeak || o.Test.Duration || o.Iters*o.QPCount > peakLimit
}

func (o *Options) setDepths() {
	switch {
	case o.Verb == perftest.Atomic:
		o.Size = atomicSize
	case o.AllSizes:
		o.Size = maxSize
	case o.Latency:
		or(&o.Size, 2)
	default:
		or(&o.Size, 64<<10)
	}
	if o.Verb == perftest.Write && !o.Latency {
		or(&o.Iters, defaultWriteIters)
	}
	or(&o.Iters, defaultIters)
	if o.Latency {
		or(&o.TxDepth, 1)
	}
	or(&o.TxDepth, 128)
	if o.Verb != perftest.Send {
		or(&o.RxDepth, 1)
	}
	or(&o.RxDepth, defaultRxDepth)
	if o.Test.Duration {
		return
	}
	o.TxDepth = min(o.TxDepth, o.Iters)
	if o.Verb != perftest.Send {
		return
	}
	if o.Type != verbs.QPTypeRC && o.RxDepth == defaultRxDepth {
		o.RxDepth = mostLossyReceives
	}
	o.RxDepth = min(o.RxDepth, o.Iters)
	if !o.AllSizes {
		o.RxDepth += o.RxDepth % 2
	}
}

// or puts the default in the place of 0.
func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// sizes are the sizes to measure, one after the other.
func (o *Options) sizes() (all []int) {
	if !o.AllSizes {
		return []int{o.Size}
	}
	for size := 2; size <= o.Size; size *= 2 {
		all = append(all, size)
	}
	return all
}

// client reports whether this end starts the exchange.
func (o *Options) client() bool { return o.Role == perftest.Client }

// Completed returns o with the defaults in place of zeros.
func Completed(o Options) Options {
	o.setDefaults()
	return o
}
