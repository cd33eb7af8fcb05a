package msg

// allowance counts the frames that this side may send. All numbers are counts of
// frames since the connection began, modulo 2^16.
type allowance struct {
	window uint16 // the peer's
	sent   uint16
	limit  uint16 // absolute, of the peer's last frame
}

// left is how many more frames may be sent.
func (a *allowance) left() uint16 { return a.limit - a.sent }

// raise takes the limit of a frame that came. Repeating a limit does no harm. A limit
// that goes back or exceeds the peer's window is refused.
func (a *allowance) raise(limit uint16) error {
	if int16(limit-a.limit) < 0 || limit-a.sent > a.window {
		return violation("credit limit %d after %d, with %d frames sent and a window of %d", limit, a.limit, a.sent, a.window)
	}
	a.limit = limit
	return nil
}

// mayData leaves the last credit to a frame that grants some.
func (a *allowance) mayData() bool { return a.left() >= 2 }

func (a *allowance) mayGrant() bool { return a.left() >= 1 }

// grants counts the frames that the peer may send.
type grants struct {
	window   uint16 // ours
	received uint16
	freed    uint16 // whose receives have been posted again
	told     uint16 // the last limit that the peer was told
}

// take counts a frame that came. The peer must have had a credit for it.
func (g *grants) take(t frameType) error {
	if g.received == g.told {
		return violation("%v without a credit", t)
	}
	g.received++
	return nil
}

// tell returns the limit for a frame that is sent now.
func (g *grants) tell() uint16 {
	g.told = g.limit()
	return g.told
}

func (g *grants) limit() uint16 { return g.window + g.freed }

// due tells that a frame of its own is worth its credit: half the window is owed. With
// windows of 4 and more, of which half is 2, two frames that only grant lead to one at
// most, so that they die out. A peer that has only its last credit has sent all others, so
// half the window comes to be owed if the program keeps less than the other half.
func (g *grants) due() bool { return g.limit()-g.told >= g.window/2 }
