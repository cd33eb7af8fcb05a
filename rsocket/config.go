package rsocket

import (
	"fmt"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config describes a connection. [Dialer] and [ListenConfig] embed it. Zeros stand for the
// defaults of librdmacm. The two ends of a connection may differ.
type Config struct {
	// AckTimeout is 1 second by default and RetryCount 6, so a connection survives an outage of up to seven seconds.
	rdmacm.TransportOptions

	// SendBuffer and RecvBuffer are sizes in bytes. Write returns once all data is sent or
	// in the send buffer. The peer may send as much as fits into the receive buffer before
	// the program reads it. Zero stands for 128 KiB. Less than 4096 is an error, and so is
	// more than 1 GiB, or an odd RecvBuffer.
	SendBuffer, RecvBuffer int

	// SendQueue and RecvQueue are how many messages of data may be under way, or may wait
	// to be read. A Write is one message, or one for each 64 KiB. Zero stands for 384. Less
	// than 16 is an error, and so is more than 65534.
	SendQueue, RecvQueue int

	// Mappings is how many regions of its memory the peer may map at a time with Map or
	// riomap, for this end to write to with WriteAt. Zero stands for none. More than 128
	// is an error.
	Mappings int

	// MaxIdleTimeout is how long the peer's machine may be silent. After that, the connection ends with an error that
	// matches syscall.ETIMEDOUT and syscall.ECONNRESET, at most a quarter of MaxIdleTimeout late. A connection without
	// traffic stays open: it probes the peer, whose machine answers without its program. Zero stands for 30 seconds. If
	// MaxIdleTimeout is negative, the connection never probes. An idle connection has a timer for it, but no goroutine.
	//
	// A message for which the peer has posted no receive, because its program has stopped, also counts as unanswered.
	// A network that is down for longer than AckTimeout and RetryCount allow ends the connection sooner, except over
	// iWARP. There, probes are READs. A peer that runs librdmacm and has dialled answers none, so only TCP notices that
	// it has gone.
	MaxIdleTimeout time.Duration

	// Linger is how long Close waits until the peer's machine has all data, as after SetLinger of the connection. Zero
	// stands for no wait: the data is sent in the background, for at most 10 seconds. If Linger is negative, Close
	// discards the data and resets the connection.
	Linger time.Duration
}

const (
	defaultBuffer  = 128 << 10
	defaultQueue   = 384
	defaultMaxIdle = 30 * time.Second
	leastBuffer    = 4096
	leastQueue     = 16
	mostQueue      = 65534
	mostBuffer     = 1 << 30
	mostMappings   = 128 // larger numbers are sent in units of 256
	inlineData     = 64
)

// withDefaults returns a copy in which defaults replace zeros, or an error if a field is
// invalid.
func (cfg *Config) withDefaults() (Config, error) {
	c := *cfg
	for _, o := range []struct {
		name                  string
		field                 *int
		standard, least, most int
	}{
		{"SendBuffer", &c.SendBuffer, defaultBuffer, leastBuffer, mostBuffer},
		{"RecvBuffer", &c.RecvBuffer, defaultBuffer, leastBuffer, mostBuffer},
		{"SendQueue", &c.SendQueue, defaultQueue, leastQueue, mostQueue},
		{"RecvQueue", &c.RecvQueue, defaultQueue, leastQueue, mostQueue},
		{"Mappings", &c.Mappings, 0, 0, mostMappings},
	} {
		if *o.field == 0 {
			*o.field = o.standard
		}
		if *o.field < o.least || *o.field > o.most {
			return c, fmt.Errorf("%s is %d, want %d to %d: %w", "Config."+o.name, *o.field, o.least, o.most, dialer.ErrOption)
		}
	}
	if c.RecvBuffer%2 != 0 {
		return c, fmt.Errorf("%s is %d, want an even number: %w", "Config.RecvBuffer", c.RecvBuffer, dialer.ErrOption)
	}
	c.TransportOptions = netconn.WithDefaults(c.TransportOptions)
	if c.MaxIdleTimeout == 0 {
		c.MaxIdleTimeout = defaultMaxIdle
	}
	return c, nil
}

// rdmacm returns the configuration of the queue pair.
func (cfg *Config) rdmacm() rdmacm.Config {
	return rdmacm.Config{TransportOptions: cfg.TransportOptions, QP: cfg.qpOptions()}
}

// oob returns the configuration of a queue pair that a stream connects. over has the caller's part, and may be nil.
func (cfg *Config) oob(over *oob.Config) *oob.Config {
	var c oob.Config
	if over != nil {
		c = *over
	}
	c.TransportOptions, c.QP = cfg.TransportOptions, cfg.qpOptions()
	c.PrivateData, c.Prepare, c.PrepareQP, c.RecvCQEntries = nil, nil, nil, 0
	return &c
}

func (cfg *Config) qpOptions() uverbs.QPOptions {
	return uverbs.QPOptions{Cap: verbs.QPCap{
		MaxSendWR: uint32(cfg.SendQueue + spareSlots), MaxSendSGE: 2, MaxInline: inlineData,
		MaxRecvWR: uint32(cfg.RecvQueue + spareRecvs), MaxRecvSGE: 1}}
}
