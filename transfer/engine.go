package transfer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/topo"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config has the options of an [Engine]. A nil pointer and the zero value stand for the defaults.
type Config struct {
	// SliceSize is the number of bytes that one work request moves at most. Longer operations are cut. Zero stands for
	// 64 KiB. The limit is 1 GiB.
	SliceSize int

	// Dial opens a stream to the address of a peer. Nil stands for TCP. Use it for TLS.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// GID restricts the choice of the devices' GIDs. Nil allows any.
	GID *uverbs.GIDChoice

	// Topology has the distances between devices and memory. Nil stands for this host's.
	Topology *topo.Topology

	// TransportOptions are those of package oob. They decide how long it takes to notice that a rail has failed. A
	// RetryCount of zero stands for 6, because with 7 Linux's soft RoCE never gives up.
	rdmacm.TransportOptions
}

const (
	defaultSlice = 64 << 10
	maxSlice     = 1 << 30
	maxDevices   = 64

	defaultRetries = 6
)

// Engine moves memory over one or several devices. Its methods may be called concurrently.
type Engine struct {
	cfg      Config
	id       [16]byte // random, so a program that was restarted has another one
	pds      []*uverbs.PD
	topology *topo.Topology // never nil
	ctx      context.Context
	stop     context.CancelFunc
	all      sync.WaitGroup // goroutines of Serve's streams

	registering sync.RWMutex // held for writing to forbid more registrations

	mu      sync.Mutex // guards the fields below
	closed  bool
	regions map[*Region]struct{}
	peers   map[*Peer]struct{}
	served  map[net.Listener]struct{}
	pending []net.Conn // streams that are not connected yet, the oldest first
	lanes   map[laneKey]*lane

	counts counts
}

// New returns an engine over devices of this host. The caller closes them after the engine. Queue pairs of iWARP
// devices can only be connected by the connection manager, so New refuses these.
func New(devices []*uverbs.Device, cfg *Config) (*Engine, error) {
	e := &Engine{regions: make(map[*Region]struct{}), peers: make(map[*Peer]struct{}), served: make(map[net.Listener]struct{}),
		lanes: make(map[laneKey]*lane)}
	if cfg != nil {
		e.cfg = *cfg
	}
	e.cfg.SliceSize = cmp.Or(e.cfg.SliceSize, defaultSlice)
	if e.cfg.Dial == nil {
		e.cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}
	if e.cfg.SliceSize < 1 || e.cfg.SliceSize > maxSlice {
		return nil, failed("create", "engine", "", fmt.Errorf("Config.SliceSize %d is not in the range from 1 to %d: %w", e.cfg.SliceSize, maxSlice, syscall.EINVAL))
	}
	if len(devices) == 0 || len(devices) > maxDevices {
		return nil, failed("create", "engine", "", fmt.Errorf("%d devices are not in the range from 1 to %d: %w", len(devices), maxDevices, syscall.EINVAL))
	}
	if e.topology = e.cfg.Topology; e.topology == nil {
		e.topology, _ = topo.Read(os.DirFS("/sys"))
	}
	if e.topology == nil { // this host has no PCI
		e.topology = &topo.Topology{}
	}
	_, _ = rand.Read(e.id[:]) // never fails
	e.counts.arrived = make(map[uint32]int)
	e.ctx, e.stop = context.WithCancel(context.Background())
	for i, dev := range devices {
		if dev == nil {
			return nil, failed("create", "engine", "", errors.Join(fmt.Errorf("device %d of %d is nil: %w", i+1, len(devices), os.ErrInvalid), e.Close()))
		}
		pd, err := dev.AllocPD()
		if err != nil {
			return nil, failed("create", "engine", dev.Info().Name, errors.Join(err, e.Close()))
		}
		e.pds = append(e.pds, pd)
		if err := e.connection(i).Check(); err != nil {
			return nil, failed("create", "engine", dev.Info().Name, errors.Join(err, e.Close()))
		}
	}
	return e, nil
}

// connection returns the options of a connection over a device.
func (e *Engine) connection(device int) *oob.Config {
	o := e.cfg.TransportOptions
	o.RetryCount = cmp.Or(o.RetryCount, defaultRetries)
	c := &oob.Config{PD: e.pds[device], GID: e.cfg.GID, TransportOptions: o}
	if e.pds[device].Device().Info().Driver == verbs.DriverEFA { // has no other reliable queue pairs
		c.QP.Type = verbs.QPTypeSRD
	}
	return c
}

// Close ends all connections and registrations, and the engine's calls of Serve. Batches in progress fail with an error
// that matches net.ErrClosed, and devices do not access memory of the engine once Close has returned. A second Close
// returns an error that matches net.ErrClosed.
func (e *Engine) Close() error {
	if e == nil {
		return failed("close", "engine", "", os.ErrInvalid)
	}
	e.registering.Lock()
	e.mu.Lock()
	closed := e.closed
	e.closed = true
	e.mu.Unlock()
	e.registering.Unlock()
	if closed {
		return failed("close", "engine", "", net.ErrClosed)
	}
	e.stop()
	e.mu.Lock()
	for l := range e.served {
		_ = l.Close()
	}
	for _, s := range e.pending {
		_ = s.Close()
	}
	peers := slices.Collect(maps.Keys(e.peers))
	e.mu.Unlock()
	var errs []error
	for _, p := range peers {
		errs = append(errs, ignoreClosed(p.Close()))
	}
	e.all.Wait()
	e.mu.Lock()
	regions := slices.Collect(maps.Keys(e.regions))
	e.mu.Unlock()
	for _, r := range regions {
		errs = append(errs, ignoreClosed(r.Close()))
	}
	for _, pd := range e.pds {
		errs = append(errs, pd.Close())
	}
	return failed("close", "engine", "", errors.Join(errs...))
}

// Format implements [fmt.Formatter]. It prints the devices.
func (e *Engine) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "transfer engine over")
	for _, pd := range e.pds {
		fmt.Fprintf(f, " %s", pd.Device().Info().Name)
	}
}
