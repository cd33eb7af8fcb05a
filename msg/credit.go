package msg

// allowance counts the frames that this side may send. All numbers count frames since
// the connection began, modulo 2^16.
type allowance struct {
	window uint16 // the peer's window
	sent   uint16
	limit  uint16 // total number, from the peer's last frame
}

// left returns how many more frames may be sent.
func (a *allowance) left() uint16 { return a.limit - a.sent }

// raise sets the limit to that of a received frame. A repeated limit is harmless. A
// limit that goes back or exceeds the peer's window is a violation.
func (a *allowance) raise(limit uint16) error {
	if int16(limit-a.limit) < 0 || limit-a.sent > a.window {
		return violation("credit limit %d after %d, with %d frames sent and a window of %d", limit, a.limit, a.sent, a.window)
	}
	a.limit = limit
	return nil
}

// mayData reports whether a frame with data may be sent. The last credit is kept for a
// frame that grants credits.
func (a *allowance) mayData() bool { return a.left() >= 2 }

func (a *allowance) mayGrant() bool { return a.left() >= 1 }

// grants counts the frames that the peer may send.
type grants struct {
	window    uint16 // ours
	received  uint16
	freed     uint16 // frames whose receives have been posted again
	announced uint16 // the last limit that was sent to the peer
}

// take counts a received frame. The peer must have had a credit for it.
func (g *grants) take(t frameType) error {
	if g.received == g.announced {
		return violation("%v without a credit", t)
	}
	g.received++
	return nil
}

// announce returns the limit for a frame that is sent now.
func (g *grants) announce() uint16 {
	g.announced = g.limit()
	return g.announced
}

func (g *grants) limit() uint16 { return g.window + g.freed }

// due reports whether a CREDIT frame is due, because half the window is owed. With
// windows of 4 and more, two CREDIT frames cause at most one in return, so the
// exchange ends. If a peer has only its last credit, it has used all others. So half
// the window will be owed if the program keeps less than the other half.
func (g *grants) due() bool { return g.limit()-g.announced >= g.window/2 }
