package fakeverbs

// Events is where the events of a completion channel, or asynchronous ones, go when it is
// not a pipe of this process. Its methods are called with the kernel's lock held.
type Events interface {
	Send(record []byte)
	// Reported is told that an object goes. It drops the object's records that nobody has
	// read, and says how many were read. A record has size bytes and begins with the cookie.
	Reported(cookie uint64, size int) uint32
	Close()
}

// CloseChannel closes a descriptor that CREATE_COMP_CHANNEL or ASYNC_EVENT_ALLOC made,
// which Events of the process itself do by themselves.
func (k *Kernel) CloseChannel(fd int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.files[fd]; c != nil {
		c.close()
	}
}

// Sizes of the records.
const (
	compEventSize  = 8
	asyncEventSize = 16
)

// reported is how many events of an object were read, where that is known.
func (c *channel) reported(cookie uint64, size int) uint32 {
	if c == nil || c.sink == nil {
		return 0
	}
	return c.sink.Reported(cookie, size)
}
