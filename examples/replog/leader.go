package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// leader writes to the logs of replicas. A record is committed when more than half of them
// have it.
type leader struct {
	epoch    uint64
	log      []byte
	end      int // of the log
	replicas []*remote
	all      int
}

// remote is a replica's log, as its leader sees it.
type remote struct {
	conn *rdmacm.Conn
	mr   *uverbs.MR // ours, of the same size
	addr uint64
	rkey uint32
}

var (
	errNoMajority = errors.New("no majority of the replicas")
	errFull       = errors.New("the log is full")
)

// newLeader takes over: it shuts out the leader before it, takes the newest log that a
// majority has, and writes that to all as its own.
func newLeader(ctx context.Context, addresses []string) (*leader, error) {
	l := &leader{log: make([]byte, logSize), all: len(addresses)}
	var newest []record
	for _, address := range addresses {
		r, err := reach(ctx, address)
		if err != nil {
			continue
		}
		if err := r.do(ctx, verbs.OpRDMARead, 0, logSize); err != nil {
			r.conn.Close()
			continue
		}
		l.replicas = append(l.replicas, r)
		if log := scan(r.mr.Bytes()); newest == nil || newer(log, newest) {
			newest = log
		}
	}
	if n := len(newest); n > 0 {
		l.epoch = newest[n-1].epoch
	}
	l.epoch++
	for _, r := range newest {
		r.epoch = l.epoch
		r.put(l.log[l.end:])
		l.end += r.size()
	}
	if err := l.write(ctx, 0, logSize); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func reach(ctx context.Context, address string) (*remote, error) {
	// A replica that is gone ends its connection after half a second. To rxe 7 retries, the default, are without end.
	conn, err := (&rdmacm.Dialer{Config: rdmacm.Config{TransportOptions: rdmacm.TransportOptions{AckTimeout: 60 * time.Millisecond, RetryCount: 6}}}).Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	where := conn.PrivateData()
	if len(where) < 12 {
		conn.Close()
		return nil, fmt.Errorf("%s is not a replica", address)
	}
	mr, err := conn.PD().AllocMR(logSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.Own(mr)
	return &remote{conn, mr, binary.BigEndian.Uint64(where), binary.BigEndian.Uint32(where[8:])}, nil
}

// append commits a record.
func (l *leader) append(ctx context.Context, data []byte) error {
	r := record{l.epoch, data}
	if len(data) == 0 || l.end+r.size() > logSize {
		return errFull
	}
	r.put(l.log[l.end:])
	from := l.end
	l.end += r.size()
	return l.write(ctx, from, r.size())
}

// write brings a part of the log to all replicas, and waits for each. One that fails is left out from then on.
func (l *leader) write(ctx context.Context, from, n int) error {
	results := make(chan *remote)
	for _, r := range l.replicas {
		go func() {
			copy(r.mr.Bytes()[from:], l.log[from:from+n])
			// Over iWARP a WRITE that completed may not have arrived. A READ behind it proves that it has.
			if r.do(ctx, verbs.OpRDMAWrite, from, n) != nil || r.do(ctx, verbs.OpRDMARead, from, 8) != nil {
				r.conn.Close()
				r = nil
			}
			results <- r
		}()
	}
	var working []*remote
	for range l.replicas {
		if r := <-results; r != nil {
			working = append(working, r)
		}
	}
	if l.replicas = working; 2*len(working) <= l.all {
		return errNoMajority
	}
	return nil
}

// do carries out an operation on the same part of both logs.
func (r *remote) do(ctx context.Context, op verbs.Opcode, from, n int) error {
	_, err := r.conn.QP().PostSend([]verbs.SendWR{{Opcode: op, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{r.mr.SGE(from, n)}, RemoteAddr: r.addr + uint64(from), RKey: r.rkey}})
	if err != nil {
		return err
	}
	var done [1]verbs.WC
	if _, err := r.conn.SendCQ().Wait(ctx, done[:]); err != nil {
		return err
	}
	return done[0].Err()
}

func (l *leader) close() {
	for _, r := range l.replicas {
		r.conn.Close()
	}
}
