package main

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// replica keeps a log that a leader writes to. Its program does nothing when a record comes.
// When it accepts a new leader, it shuts out the old one.
type replica struct {
	ln   *rdmacm.Listener
	done chan struct{}

	mu     sync.Mutex
	log    []byte     // as the last leader left it
	mr     *uverbs.MR // where the leader writes; nil without one
	leader *rdmacm.Conn
}

const logSize = 1 << 16

func newReplica(address string) (*replica, error) {
	r := &replica{log: make([]byte, logSize), done: make(chan struct{})}
	ln, err := rdmacm.Listen(context.Background(), address)
	if err != nil {
		return nil, err
	}
	r.ln = ln
	go r.serve()
	return r, nil
}

func (r *replica) serve() {
	defer close(r.done)
	for {
		request, err := r.ln.Next(context.Background())
		if err != nil {
			return
		}
		r.dismiss() // the old leader must not write once the new one reads
		conn, err := request.Accept(context.Background(), &rdmacm.Config{Prepare: r.open})
		r.mu.Lock()
		if r.leader = conn; err != nil {
			r.mr = nil
		}
		r.mu.Unlock()
	}
}

// open registers the log for a leader, and returns its address and key.
func (r *replica) open(c *rdmacm.Conn) error {
	mr, err := c.PD().AllocMR(logSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead, nil)
	if err != nil {
		return err
	}
	c.Own(mr)
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(mr.Bytes(), r.log)
	r.mr = mr
	c.SetPrivateData(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, mr.Addr()), mr.RKey()))
	return nil
}

// dismiss ends the leader's connection. Its key opens nothing from then on.
func (r *replica) dismiss() {
	r.mu.Lock()
	conn := r.leader
	r.leader = nil
	r.mu.Unlock()
	if conn == nil {
		return
	}
	conn.Disconnect()
	r.mu.Lock()
	copy(r.log, r.mr.Bytes())
	r.mr = nil
	r.mu.Unlock()
	conn.Close()
}

// records returns the complete records.
func (r *replica) records() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mr != nil {
		return scan(slices.Clone(r.mr.Bytes()))
	}
	return scan(r.log)
}

func (r *replica) close() {
	r.ln.Close()
	<-r.done
	r.dismiss()
}
