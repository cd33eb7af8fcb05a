package fakeverbs

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// channel is an event descriptor.
type channel struct {
	source
	k       *Kernel
	fd      int32
	readers atomic.Int32 // that are in a system call, or parked
}

// source is where a channel's records come from.
type source interface {
	send(record []byte)
	events() (ioctl.EventFile, error) // the reading end
	close()
}

// pipe is the source of a channel, so that the reading end sits in Go's netpoller
// as the real one does.
type pipe struct{ read, write *os.File }

func newPipe() (*pipe, error) {
	r, w, err := os.Pipe()
	return &pipe{r, w}, err
}

func (p *pipe) send(record []byte) { _, _ = p.write.Write(record) } // nobody may listen any more

func (p *pipe) events() (ioctl.EventFile, error) { return ioctl.EventsOf(p.read) }

func (p *pipe) close() {
	_ = p.read.Close()
	_ = p.write.Close()
}

// eventFile is the user's end.
type eventFile struct {
	ioctl.EventFile
	k *Kernel
	c *channel
}

func (f eventFile) Await(limit time.Duration) bool {
	f.c.readers.Add(1)
	defer f.c.readers.Add(-1)
	return f.EventFile.Await(limit)
}

func (f eventFile) Read(b []byte) (int, error) {
	f.c.readers.Add(1)
	defer f.c.readers.Add(-1)
	return f.EventFile.Read(b)
}

func (f eventFile) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	delete(f.k.files, f.c.fd)
	err := f.EventFile.Close() // first, so that a reader sees this and not the end of a pipe
	f.c.source.close()
	return err
}

// firstFD keeps the fake descriptors apart from real ones.
const firstFD = 1 << 20

func (k *Kernel) newChannel() (*channel, error) {
	c := &channel{k: k, fd: firstFD}
	if k.InBubble {
		c.source = newMemoryEvents()
	} else {
		p, err := newPipe()
		if err != nil {
			return nil, err
		}
		c.source = p
	}
	for k.files[c.fd] != nil {
		c.fd++
	}
	k.files[c.fd] = c
	return c, nil
}

func (c *channel) close() {
	delete(c.k.files, c.fd)
	c.source.close()
}

func (c *channel) send(record []byte) {
	if c != nil {
		c.source.send(record)
	}
}

func (k *Kernel) createCompChannel(r *ioctl.Request) error {
	c, err := k.newChannel()
	if err != nil {
		return err
	}
	return respond(r, abi.IbUverbsCreateCompChannelResp{Fd: uint32(c.fd)})
}

func (k *Kernel) asyncEventAlloc(r *ioctl.Request) error {
	c, err := k.newChannel()
	if err != nil {
		return err
	}
	if k.async == nil {
		k.async = c
	}
	r.SetObject(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, uint32(c.fd))
	return nil
}

// Async raises an asynchronous event. Element is an object's cookie or a port.
func (k *Kernel) Async(element uint64, typ uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.raise(element, typ)
}

// AsyncBytes delivers any bytes as an asynchronous event.
func (k *Kernel) AsyncBytes(record []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.async.send(record)
}
