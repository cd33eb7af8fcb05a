package netconn

import (
	"fmt"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/verbs"
)

// liveness finds out whether the peer's machine is still there. A connection that has heard nothing between two checks
// probes the peer. If it has still heard nothing mostIdle checks later, the peer is gone.
type liveness struct {
	period time.Duration // between two checks; zero for none
	due    time.Time     // the next check
	heard  bool          // something has come from the peer since the last check
	idle   int           // checks since something came
	// probing means that a send is outstanding which the peer's machine has to answer.
	probing bool
	iwarp   bool
	// deaf means that nothing that this end may send has to be answered. Over iWARP only a READ has.
	deaf bool
}

// mostIdle is how many checks in a row may hear nothing.
const mostIdle = 4

func newLiveness(rc conn.Conn, maxIdle time.Duration) liveness {
	l := liveness{iwarp: rc.Device().Info().NodeType == verbs.NodeRNIC}
	l.deaf = l.iwarp && rc.InitiatorDepth() == 0
	if maxIdle > 0 {
		l.period = max(maxIdle/mostIdle, 1)
		l.due = time.Now().Add(l.period)
	}
	return l
}

// sent handles a send that has completed. Over iWARP the peer's machine has answered only READs: other sends complete
// once this machine's TCP has taken them.
func (l *liveness) sent(wc *verbs.WC) {
	if !l.iwarp || wc.Opcode == verbs.WCRDMARead {
		l.heard = true
	}
}

// next returns the time until the next check, or until tick if that is sooner. Zero stands for never.
func (l *liveness) next(tick time.Duration) time.Duration {
	if l.period == 0 {
		return tick
	}
	if check := max(time.Until(l.due), 1); tick == 0 || check < tick {
		return check
	}
	return tick
}

// check returns an error if the peer is gone.
func (l *liveness) check(p Protocol) error {
	if l.period == 0 || time.Until(l.due) > 0 {
		return nil
	}
	l.due = time.Now().Add(l.period)
	if l.heard {
		l.heard, l.probing, l.idle = false, false, 0
		return nil
	}
	if l.idle++; l.idle >= mostIdle && l.probing {
		return fmt.Errorf("%w: the peer's machine has not answered for %v", syscall.ETIMEDOUT, time.Duration(l.idle)*l.period)
	}
	if !l.probing {
		p.Probe()
		outstanding, _ := p.Sends()
		l.probing = outstanding > 0 && !l.deaf
	}
	return nil
}

// ProbeOpcode returns the operation without data that the peer's machine has to answer, or that at least makes this
// machine's TCP notice that the peer is gone.
func ProbeOpcode(rc conn.Conn) verbs.Opcode {
	if rc.Device().Info().NodeType == verbs.NodeRNIC && rc.InitiatorDepth() > 0 {
		return verbs.OpRDMARead
	}
	return verbs.OpRDMAWrite
}
