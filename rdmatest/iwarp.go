package rdmatest

import (
	"time"
)

// iwarpRules are the rules that all kinds over iWARP share. Connections are TCP
// connections.
type iwarpRules struct{}

// blocked: TCP waits until there is a way.
func (iwarpRules) blocked(p *pair) bool {
	return p.peer != nil && !p.d.fabric.isLinked(p.d, p.peer.d)
}

// ended ends the connection. The peer notices that once it can be reached.
func (iwarpRules) ended(f *Fabric, p *pair) {
	peer := p.peer
	if peer == nil {
		return
	}
	p.hangUp(f)
	f.manager.stream(p.d, peer.d, retransmission, func() bool { return peer.peer == p }, func() {
		p.deliverUnsent(f, peer)
		peer.qp.Break()
		peer.hangUp(f)
	})
}

// sendRest has TCP send what is on its way before the connection is closed.
func (p *pair) sendRest(f *Fabric) {
	f.arriveAll(p)
	p.unsent = p.inFlight[min(p.arrived, len(p.inFlight)):]
}

// unsentServer is implemented by kinds whose closed connections still deliver unsent
// messages.
type unsentServer interface {
	// serveUnsent carries out a message at the peer. If it fails, event is the peer's.
	serveUnsent(f *Fabric, p, peer *pair, k *packet) (event uint32, ok bool)
}

// deliverUnsent delivers the messages that a software driver had passed to TCP when the
// connection was closed. Messages that hardware had not sent are lost.
func (p *pair) deliverUnsent(f *Fabric, peer *pair) {
	server, ok := p.d.rules.(unsentServer)
	for _, k := range p.unsent {
		if !ok || k.local || k.cut >= 0 || fetches(k.w) {
			break
		}
		if event, ok := server.serveUnsent(f, p, peer, k); !ok {
			if event != 0 {
				peer.qp.Raise(event)
			}
			break
		}
	}
	p.unsent = nil
}

// hangUp ends one side of a TCP connection. The queue pair's state has been set.
func (p *pair) hangUp(f *Fabric) {
	p.peer = nil
	p.inFlight, p.arrived, p.fenced = nil, 0, nil
	if p.id != nil {
		f.manager.ended(p.id)
	}
}

// other returns the other end of a TCP connection, or nil if it is gone. In that case it
// ends this side too.
func (p *pair) other(f *Fabric) *pair {
	to := p.peer
	if to != nil && to.peer != p {
		p.qp.Break()
		p.hangUp(f)
		return nil
	}
	if to != nil && p.qp.Kernel().IsHeld() {
		f.hold(to.qp)
	}
	return to
}

// retransmission is how long TCP waits for an acknowledgement.
const retransmission = 200 * time.Millisecond
