package perf

import (
	"fmt"
	"math/bits"
	"os"
	"time"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Options describes a measurement. Both ends need the same options, because they
// are not exchanged. A zero field means perftest's default.
type Options struct {
	perftest.Test // Duration and LIDOnly follow from the rest
	Role          perftest.Role

	Type   verbs.QPType // RC (0), UC, UD, SRD or, for DC, DCI
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

	Streams       int // of a DCI; 0: none. A power of two, as is the next
	ActiveStreams int // that messages use in turn; 0: Streams

	Events bool // sleep until a completion, else poll
	NoPeak bool // no time stamp at every message
	WarmUp bool // of WRITE, READ and atomic bandwidth: send some before
	ODP    bool // page the buffer in on demand
	Gbits  bool // bandwidth is reported to the peer in 10⁹ bit/s, otherwise in MiB/s

	CompVector  uint32        // of the CQs' events
	WaitDestroy time.Duration // before all is closed

	Port         int             // of the device, from 1
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
	or(&o.ActiveStreams, o.Streams)
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
	if o.lossy() && o.RxDepth == defaultRxDepth {
		o.RxDepth = mostLossyReceives
	}
	o.RxDepth = min(o.RxDepth, o.Iters)
	if !o.AllSizes {
		o.RxDepth += o.RxDepth % 2
	}
}

// lossy reports whether a message without a receive is lost.
func (o *Options) lossy() bool { return o.Type == verbs.QPTypeUC || o.Type == verbs.QPTypeUD }

// addressed reports whether each work request names the peer.
func (o *Options) addressed() bool {
	return o.Type == verbs.QPTypeUD || o.Type == verbs.QPTypeSRD || o.Type == verbs.QPTypeDCI
}

// TypeName returns perftest's name of a type.
func TypeName(t verbs.QPType) string {
	if t == verbs.QPTypeDCI {
		return "DC"
	}
	return t.String()
}

// hasPairs reports whether an end of DC has both an initiator and a target for each QP of -q. With the tests of one
// direction the client has the initiators and the server the targets.
//
// C: duplex || tst == LAT
func (o *Options) hasPairs() bool {
	return o.Type == verbs.QPTypeDCI && (o.Latency || o.Bidirectional)
}

// initiates reports whether this end has QPs that send.
func (o *Options) initiates() bool { return o.Type != verbs.QPTypeDCI || o.client() || o.hasPairs() }

// answers reports whether this end has targets of DC.
func (o *Options) answers() bool { return o.Type == verbs.QPTypeDCI && (!o.client() || o.hasPairs()) }

// or puts the default in the place of 0.
func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// sizes returns the sizes to measure, one after the other.
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

// cacheLine is how far apart small messages are, in bytes.
const cacheLine = 64

// Fits returns an error for options that exceed the limits of a device.
func Fits(o Options, dev *uverbs.Device) error {
	asked := o.asksSize()
	o.setDefaults()
	_, err := o.fit(dev, asked)
	return err
}

// asksSize reports, before setDefaults, whether the size is not a default.
func (o *Options) asksSize() bool { return o.Size > 0 && !o.AllSizes }

// fit completes the options with the limits of a device and its port, and returns
// an error for options that exceed them. asked says that the user chose the size.
func (o *Options) fit(dev *uverbs.Device, asked bool) (*verbs.PortAttr, error) {
	name := dev.Info().Name
	attr, err := dev.QueryDevice()
	if err != nil {
		return nil, err
	}
	port, err := dev.QueryPort(o.Port)
	if err != nil {
		return nil, fmt.Errorf("-i %d (%s has %d): %w", o.Port, name, attr.PhysPortCnt, err)
	}
	if port.State != verbs.PortActive {
		return nil, fmt.Errorf("port %d of %s is %v: is the link up (ip link set up)?", o.Port, name, port.State)
	}
	if o.Link != 0 && o.Link != port.LinkLayer {
		return nil, fmt.Errorf("--force-link: the port of %s is %v: give another -d or -i", name, port.LinkLayer)
	}
	if o.MTU > port.ActiveMTU {
		return nil, fmt.Errorf("-m %d: the MTU of %s's port is %d", o.MTU.Bytes(), name, port.ActiveMTU.Bytes())
	}
	or(&o.MTU, port.ActiveMTU)
	if dev.Info().Driver == verbs.DriverEFA {
		o.CQMod = 1 // it has no sends without a completion
	}
	if err := o.within(dev, attr); err != nil {
		return nil, err
	}
	return port, o.fitSize(name, attr, port, asked)
}

// fitSize compares the size of a message with the limits of the device. The default of SRD is as long as
// the device's messages, if they are shorter.
//
// C: check_mtu
func (o *Options) fitSize(name string, attr *verbs.DeviceAttr, port *verbs.PortAttr, asked bool) error {
	most := int64(port.MaxMsgSize)
	if o.Type == verbs.QPTypeSRD && o.Verb != perftest.Send {
		most = int64(attr.MaxRDMASize)
	}
	switch {
	case o.Type == verbs.QPTypeUD || int64(o.Size) <= most:
		return nil
	case o.Type == verbs.QPTypeSRD && !asked && most > 0:
		o.Size = int(most)
		return nil
	}
	return fmt.Errorf("-s %d: %s sends %d bytes at most", o.Size, name, most)
}

// within compares with the limits of the device.
func (o *Options) within(dev *uverbs.Device, attr *verbs.DeviceAttr) error {
	name, mostWRs := dev.Info().Name, int(attr.MaxQPWR)-creditRoom
	switch {
	case dev.Info().NodeType == verbs.NodeRNIC && o.Type != verbs.QPTypeRC:
		return fmt.Errorf("-c %v: %s is iWARP, which has RC only: %w", o.Type, name, verbs.ErrNotSupported)
	case o.Verb == perftest.Atomic && attr.AtomicCap == verbs.AtomicNone:
		return fmt.Errorf("%s has no atomics: %w", name, verbs.ErrNotSupported)
	case !dev.Supports(o.Type, o.opcode()):
		return fmt.Errorf("-c %v: %s has no %v of this type: %w", o.Type, name, o.opcode(), verbs.ErrNotSupported)
	case o.Streams > int(attr.DCStreams.Concurrent):
		return fmt.Errorf("--log_dci_streams %d: %s has at most %d streams: %w", bits.Len(uint(o.Streams))-1, name, attr.DCStreams.Concurrent, verbs.ErrNotSupported)
	case o.TxDepth > mostWRs:
		return fmt.Errorf("-t %d: %s takes %d sends of a QP at most", o.TxDepth, name, mostWRs)
	case o.RxDepth > mostWRs && o.lossy():
		o.RxDepth = mostWRs // the default of lossy services, not one that the user chose
	case o.RxDepth > mostWRs:
		return fmt.Errorf("-r %d: %s takes %d receives of a QP at most", o.RxDepth, name, mostWRs)
	}
	most := int(min(attr.MaxQPRDAtom, attr.MaxQPInitRDAtom, 255))
	switch {
	case o.Verb != perftest.Read && o.Verb != perftest.Atomic:
		o.OutReads = 1
	case o.OutReads > most:
		return fmt.Errorf("-o %d: %s has %d READs and atomics in flight at most", o.OutReads, name, most)
	case o.OutReads == 0:
		o.OutReads = most
	}
	return nil
}

// system returns the properties of this host that the peer needs.
func (o *Options) system() perftest.System {
	return perftest.System{CycleBuffer: os.Getpagesize(), CacheLine: cacheLine, MTU: o.MTU}
}

// agree computes the options that both ends support. A datagram is one packet.
//
// C: check_mtu
func (o *Options) agree(sys perftest.System, asked bool) error {
	o.MTU = sys.MTU
	if o.Type != verbs.QPTypeUD || o.Size <= o.MTU.Bytes() {
		return nil
	}
	if asked {
		return fmt.Errorf("-s %d: a datagram holds %d bytes, the smaller MTU of the two ports", o.Size, o.MTU.Bytes())
	}
	o.Size = o.MTU.Bytes()
	return nil
}
