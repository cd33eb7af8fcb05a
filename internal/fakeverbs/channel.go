package fakeverbs

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/wait"
)

// channel is an event descriptor: a pipe, so that the reading end sits in Go's
// netpoller as the real one does, or in a bubble memory.
type channel struct {
	k           *Kernel
	fd          int32
	sink        Events        // of another process, or
	memory      *memoryEvents // of a bubble, or
	read, write *os.File
	readers     atomic.Int32 // that are in a system call, or parked
}

// eventFile is the user's end.
type eventFile struct {
	wait.Source
	k *Kernel
	c *channel
}

func (f eventFile) Await(limit time.Duration) bool {
	f.c.readers.Add(1)
	defer f.c.readers.Add(-1)
	return f.Source.Await(limit)
}

func (f eventFile) Read(b []byte) (int, error) {
	f.c.readers.Add(1)
	defer f.c.readers.Add(-1)
	return f.Source.Read(b)
}

func (f eventFile) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	delete(f.k.files, f.c.fd)
	err := f.Source.Close() // first, so that a reader sees this and not the end of a pipe
	f.c.closeEnds()
	return err
}

// firstFD keeps the fake descriptors apart from real ones.
const firstFD = 1 << 20

func (k *Kernel) newChannel() (*channel, error) {
	c := &channel{k: k, fd: firstFD}
	for k.files[c.fd] != nil {
		c.fd++
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	k.files[c.fd] = c
	return c, nil
}

func (c *channel) close() {
	delete(c.k.files, c.fd)
	c.closeEnds()
}

func (c *channel) open() (err error) {
	if c.k.Channel != nil {
		c.sink, err = c.k.Channel(c.fd)
		return err
	}
	if c.k.InBubble {
		c.memory = newMemoryEvents()
		return nil
	}
	c.read, c.write, err = os.Pipe()
	return err
}

// events is the reading end.
func (c *channel) events() (wait.Source, error) {
	if c.memory != nil {
		return c.memory, nil
	}
	return wait.OpenFile(c.read)
}

func (c *channel) closeEnds() {
	if c.sink != nil {
		c.sink.Close()
		return
	}
	if c.memory != nil {
		_ = c.memory.Close()
		return
	}
	_ = c.read.Close()
	_ = c.write.Close()
}

// hangUp has readers get an error once they read all that came.
func (c *channel) hangUp(err error) {
	if c.memory != nil {
		c.memory.end(err)
	}
}

// send allocates nothing where there is a pipe.
func (c *channel) send(record []byte) {
	switch {
	case c == nil:
	case c.sink != nil:
		c.sink.Send(append([]byte(nil), record...))
	case c.memory != nil:
		c.memory.send(record)
	default:
		_, _ = c.write.Write(record) // nobody listens any more
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
	k.Raise(element, typ)
}

// AsyncBytes delivers any bytes as an asynchronous event.
func (k *Kernel) AsyncBytes(record []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.async.send(record)
}
