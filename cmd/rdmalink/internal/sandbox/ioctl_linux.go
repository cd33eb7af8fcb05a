package sandbox

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// eventFDs are the attributes that name a descriptor with events.
var eventFDs = map[[3]uint16]bool{
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL}: true,
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD}:     true,
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, abi.UVERBS_ATTR_CREATE_QP_EVENT_FD}:     true,
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD}:  true,
}

func (c *call) ioctl() result {
	d, ok := find[*device](c, c.fd(0))
	if !ok {
		return goOn
	}
	q, err := parse(c.process, c.Args[2])
	if err != nil {
		return failed(err)
	}
	defer q.Free()
	c.look()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.translate(q); err != nil {
		return failed(err)
	}
	d.made = nil
	if err := q.Do(d.kernel); err != nil {
		return failed(err)
	}
	if d.made != nil {
		if err := c.handOver(d.made, q); err != nil {
			return failed(err)
		}
	}
	return done(0, q.reply(c.process))
}

// translate puts the kernel's numbers for the process's descriptors.
func (c *call) translate(q *request) error {
	for _, a := range q.attrs {
		if !eventFDs[[3]uint16{q.header.ObjectId, q.header.MethodId, a.AttrId}] {
			continue
		}
		e, ok := find[*events](c, int32(a.Data))
		if !ok {
			return syscall.EBADF
		}
		q.SetObject(a.AttrId, uint32(e.fd))
	}
	return nil
}

// handOver passes the events that a call created to the process, under the number in the
// reply.
func (c *call) handOver(e *events, q *request) error {
	fd, err := c.give(int(e.theirs.Fd()), true)
	e.theirs.Close()
	if err != nil {
		return err
	}
	if _, ok := q.Command(); ok { // CREATE_COMP_CHANNEL
		if out, ok := q.Bytes(abi.UVERBS_ATTR_CORE_OUT); ok && len(out) >= 4 {
			binary.NativeEndian.PutUint32(out, uint32(fd))
		}
		return nil
	}
	q.SetObject(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, uint32(fd))
	return nil
}
