package rsocket

// ends tells which of the two directions have ended, and how.
type ends struct {
	sentShutdown, sentDisconnect bool
	gotShutdown, gotDisconnect   bool
}

// finished tells that the peer sends nothing more.
func (e *ends) finished() bool { return e.gotShutdown || e.gotDisconnect }

// writable tells that neither side has ended what this side sends.
func (e *ends) writable() bool { return !e.sentShutdown && !e.sentDisconnect && !e.gotDisconnect }

// over tells that nothing is to be sent any more in either direction.
func (e *ends) over() bool { return e.finished() && !e.writable() }

// shut ends this side's sending, and with all also its receiving. It returns the word to
// send, if there is one.
func (e *ends) shut(all bool) (value uint32, ok bool) {
	switch {
	case e.sentDisconnect || e.over():
		return 0, false
	case all || e.gotShutdown:
		e.sentDisconnect = true
		return ctrlDisconnect, true
	case e.sentShutdown:
		return 0, false
	}
	e.sentShutdown = true
	return ctrlShutdown, true
}

// got takes note of the peer's word. Words that rsocket does not know are dropped.
func (e *ends) got(value uint32) {
	switch value {
	case ctrlShutdown:
		e.gotShutdown = true
	case ctrlDisconnect:
		e.gotDisconnect = true
	}
}
