package rsocket

import (
	"syscall"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config describes a connection. [Dialer] and [ListenConfig] embed it. Zeros stand for the
// defaults of librdmacm. The two ends of a connection may differ.
type Config struct {
	// SendBuffer and RecvBuffer are sizes in bytes. Write returns once all data is sent or
	// in the send buffer. The peer may send as much as fits into the receive buffer before
	// the program reads it. Zero stands for 128 KiB. Less than 4096 is an error, and so is
	// an odd RecvBuffer.
	SendBuffer, RecvBuffer int

	// SendQueue and RecvQueue are how many messages of data may be under way, or may wait
	// to be read. A Write is one message, or one for each 64 KiB. Zero stands for 384. Less
	// than 16 is an error, and so is more than 65534.
	SendQueue, RecvQueue int

	// Mappings is how many regions of its memory the peer may map at a time with Map or
	// riomap, for this end to write to with WriteAt. Zero stands for none. More than 128
	// is an error.
	Mappings int

	// KeepAlive is how often the connection checks that the peer is still there. Zero stands
	// for 15 seconds. If it is negative, the connection never checks. A check sends an empty
	// message. An idle connection has a timer for it, but no goroutine.
	KeepAlive time.Duration
}

const (
	defaultBuffer    = 128 << 10
	defaultQueue     = 384
	defaultKeepAlive = 15 * time.Second
	leastBuffer      = 4096
	leastQueue       = 16
	mostQueue        = 65534
	mostBuffer       = 1 << 30
	mostMappings     = 128 // larger numbers are sent in units of 256
	inlineData       = 64
)

// withDefaults returns a copy in which defaults replace zeros, or an error if a field is
// invalid.
func (cfg *Config) withDefaults() (Config, error) {
	c := *cfg
	for _, p := range []*int{&c.SendBuffer, &c.RecvBuffer} {
		if *p == 0 {
			*p = defaultBuffer
		}
		if *p < leastBuffer || *p > mostBuffer {
			return c, syscall.EINVAL
		}
	}
	for _, p := range []*int{&c.SendQueue, &c.RecvQueue} {
		if *p == 0 {
			*p = defaultQueue
		}
		if *p < leastQueue || *p > mostQueue {
			return c, syscall.EINVAL
		}
	}
	if c.RecvBuffer%2 != 0 || c.Mappings < 0 || c.Mappings > mostMappings {
		return c, syscall.EINVAL
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = defaultKeepAlive
	}
	return c, nil
}

// retryCount is how often an unacknowledged packet is sent again. librdmacm chooses 7, but
// rxe treats 7 as no limit, so no connection would end if the network failed.
const retryCount = 6

// ackTimeout is how long a packet may stay unacknowledged before it is sent again. With
// retryCount, a connection survives an outage of up to seven seconds.
const ackTimeout = time.Second

// rdmacm returns the configuration of the queue pair.
func (cfg *Config) rdmacm(prepare func(*rdmacm.Conn) error) rdmacm.Config {
	return rdmacm.Config{Prepare: prepare, RetryCount: retryCount, QP: uverbs.QPOptions{Cap: verbs.QPCap{
		MaxSendWR: uint32(cfg.SendQueue + spareSlots), MaxSendSGE: 2, MaxInline: inlineData,
		MaxRecvWR: uint32(cfg.RecvQueue + spareRecvs), MaxRecvSGE: 1}}}
}
