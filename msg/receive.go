package msg

import "github.com/goverbs/goverbs/verbs"

// receive is one of the receive buffers.
type receive struct {
	wr  [1]verbs.RecvWR
	sge [1]verbs.SGE
	all []byte
	msg Message
}

// newReceives makes n receives, the first of which has a slot. Their buffers begin all, which
// is of mem.
func (c *Conn) newReceives(slot, n int, all []byte, mem memory) []receive {
	stride, size := c.shape.stride(), frameSize+c.shape.eager
	made := make([]receive, n)
	for i := range made {
		r := &made[i]
		r.all, r.sge[0] = all[i*stride:][:size], mem.SGE(i*stride, size)
		r.wr[0] = verbs.RecvWR{WRID: uint64(newWRID(c.id, kindRecv, 0, slot+i)), SGL: r.sge[:]}
	}
	return made
}

// addReceives posts new receives. c is held.
func (c *Conn) addReceives(made []receive) error {
	for i := range made {
		c.receives = append(c.receives, &made[i])
		if err := c.postReceive(len(c.receives) - 1); err != nil {
			return err
		}
	}
	return nil
}

// expectFINs posts the receives of the FINs that answer large messages, before the first
// of these is sent.
func (c *Conn) expectFINs() error {
	c.expecting.Lock()
	defer c.expecting.Unlock()
	if c.expects {
		return nil
	}
	all := make([]byte, rendezvous*c.shape.stride())
	mem, err := c.heap.add(all, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	made := c.newReceives(c.shape.window+1, rendezvous, all, mem)
	c.expects = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.addReceives(made); err != nil {
		c.fail(c.link.explain(err))
		return c.ending.whyDown()
	}
	return nil
}

// arrival is a message that nobody has taken.
type arrival struct {
	slot    int
	large   bool
	payload []byte
	at      rts // of a large one
	cookie  uint64
}

// postReceive posts a receive, unless the connection is ending. c is held.
func (c *Conn) postReceive(slot int) error {
	if c.ending.failing {
		return nil
	}
	if _, err := c.link.PostRecv(c.receives[slot].wr[:]); err != nil {
		return err
	}
	c.outstanding++
	return nil
}

// freeReceive posts the receive of a frame that took a credit, and owes the peer one.
// c is held.
func (c *Conn) freeReceive(slot int) {
	if err := c.postReceive(slot); err != nil {
		c.fail(c.link.explain(err))
		return
	}
	c.grant.freed++
}

// received takes a frame. c is held.
func (c *Conn) received(slot int, n uint32) error {
	if !c.greeted {
		return violation("a frame before the greeting")
	}
	all := c.receives[slot].all
	f, payload, err := parseFrame(all[:min(uint64(n), uint64(len(all)))])
	if err != nil {
		return err
	}
	if err := c.allow.raise(f.limit); err != nil {
		return err
	}
	if f.typ.usesCredit() {
		if err := c.grant.take(f.typ); err != nil {
			return err
		}
	}
	if !c.isOpen {
		c.maySend()
	}
	switch f.typ {
	case typeData, typeRTS:
		err = c.arrive(slot, f, payload)
	case typeFIN:
		if err = c.returned(f.cookie); err == nil {
			err = c.postReceive(slot)
		}
	case typeCredit:
		if f.cookie != 0 {
			return violation("CREDIT with cookie %d", f.cookie)
		}
		c.freeReceive(slot)
	case typeClose:
		err = c.peerCloses(f)
	}
	return err
}

// arrive queues a message, or drops it when the program has closed.
func (c *Conn) arrive(slot int, f frame, payload []byte) error {
	if c.got++; f.cookie != c.got || c.ending.peerClosed {
		return violation("%v with cookie %d as message %d", f.typ, f.cookie, c.got)
	}
	a := arrival{slot: slot, payload: payload, cookie: f.cookie}
	if f.typ == typeRTS {
		var err error
		if a.at, err = parseRTS(payload, c.shape.longest); err != nil {
			return err
		}
		a.large = true
	}
	if c.ending.isShut {
		c.freeReceive(slot)
		return nil
	}
	c.waiting.push(a)
	return nil
}
