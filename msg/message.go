package msg

// Message is a message that came, in the memory that the device put it into. It is lent
// until Release.
type Message struct {
	c     *Conn
	slot  int
	large *Buffer
	data  []byte
}

// Bytes is the message. It must not be used after Release.
func (m *Message) Bytes() []byte { return m.data }

// Release gives the memory back, to be received into again. A program that keeps its
// messages keeps the peer from sending. Call it once; m then belongs to the connection.
func (m *Message) Release() {
	if m == nil || m.c == nil {
		return
	}
	c, large := m.c, m.large
	m.c, m.large, m.data = nil, nil, nil
	if large != nil {
		c.recycle(large)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freeReceive(m.slot)
	c.flush()
}
