package oob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// devices are those whose queue pairs can be connected without the connection manager.
var devices = map[string]rdmatest.DeviceOptions{
	"rxe":        {Kind: rdmatest.RXE},
	"mlx5":       {Kind: rdmatest.MLX5},
	"InfiniBand": {Kind: rdmatest.MLX5, InfiniBand: true},
	"erdma":      {Kind: rdmatest.ERDMA, RoCE: true},
	"efa":        {Kind: rdmatest.EFA},
}

// types returns the types of queue pair of a device.
func types(device string) []verbs.QPType {
	switch device {
	case "erdma":
		return []verbs.QPType{verbs.QPTypeRC}
	case "efa":
		return []verbs.QPType{verbs.QPTypeUD, verbs.QPTypeSRD}
	}
	return []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD}
}

// world is two hosts, and a protection domain on each. A test that leaves an object open fails.
type world struct {
	t      *testing.T
	fabric *rdmatest.Fabric
	pds    [2]*uverbs.PD
}

func newWorld(t *testing.T, d rdmatest.DeviceOptions) *world {
	t.Helper()
	return newWorldOf(t, new(rdmatest.Options), d)
}

// newWorldOf sets the hosts of the options.
func newWorldOf(t *testing.T, o *rdmatest.Options, d rdmatest.DeviceOptions) *world {
	t.Helper()
	host := rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{d}}
	o.Strict, o.Hosts = true, []rdmatest.HostOptions{host, host}
	w := &world{t: t, fabric: rdmatest.NewWith(t, o)}
	for i := range w.pds {
		w.pds[i] = openPD(t, w.fabric.Host(i))
	}
	return w
}

// inBubble runs a test in a bubble of testing/synctest: no good-bye is late there, however busy the machine is. At the
// end it waits for the streams that are still being closed.
func inBubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(leaveTimeout) })
			test(t)
		})
	}
}

func openPD(t *testing.T, h *rdmatest.Host) *uverbs.PD {
	t.Helper()
	dev, err := uverbs.Open(h.Device(0).Name())
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, dev)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, pd)
	return pd
}

func closeLater(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// config is that of an end that has posted one receive. It is patient, because the machine may be busy.
func (w *world) config(end int, kind verbs.QPType) *Config {
	return &Config{PD: w.pds[end], QP: uverbs.QPOptions{Type: kind}, Prepare: prepare, Timeout: time.Minute}
}

const (
	size  = 1024
	space = uverbs.GRHSize + size
)

// regions has the memory of each connection.
var regions sync.Map

func regionOf(c *Conn) *uverbs.MR {
	mr, _ := regions.Load(c)
	return mr.(*uverbs.MR)
}

// prepare registers memory, announces it, and posts a receive.
func prepare(c *Conn) error {
	mr, err := c.PD().AllocMR(2*space, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead, nil)
	if err != nil {
		return err
	}
	c.Own(mr)
	regions.Store(c, mr)
	c.SetPrivateData([]byte("memory of " + c.Device().Info().Name))
	_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(space, space)}}})
	return err
}

// connect connects both ends over a stream.
func (w *world) connect(a, b *Config) (dialled, accepted *Conn, dialErr, acceptErr error) {
	near, far := net.Pipe()
	return w.over(near, far, func(ctx context.Context) (*Conn, error) { return Dial(ctx, near, a) },
		func(ctx context.Context) (*Conn, error) { return Accept(ctx, far, b) })
}

func (w *world) over(_, _ net.Conn, dial, accept func(context.Context) (*Conn, error)) (dialled, accepted *Conn, dialErr, acceptErr error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		accepted, acceptErr = accept(w.t.Context())
	}()
	dialled, dialErr = dial(w.t.Context())
	<-done
	return
}

// mustConnect fails the test if the ends do not connect, and closes them at its end.
func (w *world) mustConnect(kind verbs.QPType) (dialled, accepted *Conn) {
	w.t.Helper()
	a, b, err1, err2 := w.connect(w.config(0, kind), w.config(1, kind))
	if err := errors.Join(err1, err2); err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, a)
	closeLater(w.t, b)
	return a, b
}

// send sends a message from one end to the other.
func send(t *testing.T, from, to *Conn) {
	t.Helper()
	message := bytes.Repeat([]byte("x"), size)
	post(t, from, message)
	receive(t, to, message)
}

// post sends a message, and waits until it has been delivered.
func post(t *testing.T, from *Conn, message []byte) {
	t.Helper()
	mr := regionOf(from)
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mr.SGE(0, copy(mr.Bytes(), message))}}
	if p := from.Peer(); p != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.AH, p.QPN, p.QKey
	}
	if _, err := from.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	complete(t, from.SendCQ())
}

// receive waits for a message.
func receive(t *testing.T, to *Conn, message []byte) {
	t.Helper()
	front := 0
	if to.Local().Type == verbs.QPTypeUD {
		front = uverbs.GRHSize
	}
	wc := complete(t, to.RecvCQ())
	if got := regionOf(to).Bytes()[space+front:][:len(message)]; int(wc.ByteLen) != front+len(message) || !bytes.Equal(got, message) {
		t.Errorf("%d bytes arrived: %q", wc.ByteLen, got)
	}
}

// complete waits for a completion.
func complete(t *testing.T, cq *uverbs.CQ) verbs.WC {
	t.Helper()
	var wcs [1]verbs.WC
	if _, err := cq.Wait(t.Context(), wcs[:]); err != nil || wcs[0].Err() != nil {
		t.Fatal(err, wcs[0].Err())
	}
	return wcs[0]
}
