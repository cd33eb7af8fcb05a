package sandbox

import "sync"

// callers keeps the open files of threads that have made calls for their next ones. Each is taken out while its thread
// is in a call.
type callers struct {
	mu sync.Mutex
	by map[int]*process // by the number of the thread
}

// mostCallers is the number of threads that are kept.
const mostCallers = 64

// take returns the caller of a thread's number, or nil.
func (c *callers) take(thread int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.by[thread]
	delete(c.by, thread)
	return p
}

func (c *callers) keep(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[int]*process)
	}
	for thread, other := range c.by {
		if len(c.by) < mostCallers {
			break
		}
		delete(c.by, thread)
		other.close()
	}
	c.by[p.id] = p
}

func (c *callers) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for thread, p := range c.by {
		delete(c.by, thread)
		p.close()
	}
}

// exec forgets the memory of all programs. That of the one that ends here may live on in another process, after
// vfork(2).
func (c *call) exec() result {
	c.callers.forget()
	c.process.close()
	c.process = nil
	return resume
}
