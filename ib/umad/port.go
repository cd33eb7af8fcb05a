package umad

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// DefaultMaxMessage is the default of Config.MaxMessage, in bytes. It is enough for the PortInfoRecords
// of 900,000 ports.
const DefaultMaxMessage = 64 << 20

// Config holds the settings of ports. The zero value has the defaults.
type Config struct {
	// MaxMessage is the maximum length of a message in bytes, with the headers of its class. It bounds
	// the memory that a peer can make a port use, because the length of an RMPP message is its sender's
	// choice. 0 means DefaultMaxMessage. Lengths below that of a MAD mean that length.
	//
	// A request with a longer response fails with a *TooLongError. A longer request is dropped, as are
	// requests that an agent would have to queue beyond that length together.
	MaxMessage int
}

func (c Config) maxMessage() int {
	if c.MaxMessage == 0 {
		return DefaultMaxMessage
	}
	return max(c.MaxMessage, mad.Size)
}

// TooLongError is the error of a message that is longer than Config.MaxMessage. It matches EMSGSIZE.
type TooLongError struct {
	Size  int64 // length of the message in bytes
	Limit int   // Config.MaxMessage in bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes exceeds the limit of %d bytes (MaxMessage)", e.Size, e.Limit)
}

// Unwrap returns EMSGSIZE.
func (e *TooLongError) Unwrap() error { return syscall.EMSGSIZE }

// Ports returns the state of all ports of this host that carry management datagrams, sorted by device
// and port. If there are none, the error matches verbs.ErrNoDevice.
func Ports() ([]mad.PortAttr, error) {
	if c, ok := Simulated(); ok {
		p, err := OpenIBSim(c)
		if err != nil {
			return nil, err
		}
		a, err := p.Attr()
		return []mad.PortAttr{a}, errors.Join(err, p.Close())
	}
	return thisHost.ports()
}

// Open opens a port of a device. An empty device matches all devices, and port 0 matches all ports.
// Among several matches Open chooses as the C tools do: it takes the first InfiniBand port that is
// active, else the first one whose link is up, else the first one that isn't disabled.
func (c Config) Open(device string, port uint8) (mad.Port, error) {
	if sim, ok := Simulated(); ok {
		return OpenIBSim(sim)
	}
	return thisHost.open(c, device, port)
}

// Open opens a port of a device with the default Config. See Config.Open.
func Open(device string, port uint8) (mad.Port, error) { return Config{}.Open(device, port) }

func (h host) ports() ([]mad.PortAttr, error) {
	nodes, err := h.nodes()
	if err != nil {
		return nil, err
	}
	var all []mad.PortAttr
	for _, n := range nodes {
		// The device may have been removed meanwhile.
		if a, err := h.attr(n.device, n.port); err == nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil, &verbs.Error{Op: "list ports", Err: errNoPorts, Hint: "InfiniBand and RoCE devices have them, iWARP devices do not"}
	}
	return all, nil
}

func (h host) open(c Config, device string, port uint8) (mad.Port, error) {
	all, err := h.ports()
	if err != nil {
		return nil, err
	}
	a, err := choose(all, device, port)
	if err != nil {
		return nil, err
	}
	return h.openPort(c, a.Device, a.Port)
}

// choose returns the port that Open opens.
func choose(all []mad.PortAttr, device string, port uint8) (mad.PortAttr, error) {
	best, rank := mad.PortAttr{}, 0
	for _, a := range all {
		if device != "" && a.Device != device || port != 0 && a.Port != port {
			continue
		}
		r := 1
		switch ib := a.LinkLayer == "InfiniBand" || a.LinkLayer == "IB"; {
		case !ib:
		case a.State == verbs.PortActive:
			r = 4
		case a.PhysState == verbs.PhysLinkUp:
			r = 3
		case a.PhysState != verbs.PhysDisabled:
			r = 2
		}
		if r > rank {
			best, rank = a, r
		}
	}
	if rank > 0 {
		return best, nil
	}
	return best, failed("open", device, port, fmt.Errorf("%w or port with management datagrams", verbs.ErrNoDevice))
}

var errNoPorts = fmt.Errorf("%w with management datagrams", verbs.ErrNoDevice)

// failed returns the error of an operation on a port. Port 0 is any port.
func failed(op, device string, port uint8, err error) *verbs.Error {
	e := &verbs.Error{Op: op, Object: "any port", Device: device, Err: err}
	if port != 0 {
		e.Object = fmt.Sprintf("port %d", port)
	}
	return e
}
