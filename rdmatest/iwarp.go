package rdmatest

import (
	"time"
)

// iwarpRules are what all kinds over iWARP have in common: connections are TCP's.
type iwarpRules struct{}

// blocked: TCP waits until there is a way.
func (iwarpRules) blocked(p *pair) bool {
	return p.peer != nil && !p.d.fabric.isLinked(p.d, p.peer.d)
}

// ended takes the connection down. The peer learns about it when there is a way.
func (iwarpRules) ended(f *Fabric, p *pair) {
	peer := p.peer
	if peer == nil {
		return
	}
	p.hangUp(f)
	f.manager.stream(p.d, peer.d, retransmission, func() bool { return peer.peer == p }, func() {
		p.deliverUnsent(f, peer)
		peer.hangUp(f)
	})
}

// unsentServer is a kind whose closed connections still deliver their unsent messages.
type unsentServer interface {
	// serveUnsent carries out a message at the peer. If it fails, event is the peer's.
	serveUnsent(f *Fabric, p, peer *pair, k *packet) (event uint32, ok bool)
}

// deliverUnsent delivers the messages that a driver in software had given to TCP when the
// connection was closed. What hardware had not sent is lost.
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

// hangUp ends one side of a connection of TCP.
func (p *pair) hangUp(f *Fabric) {
	p.peer = nil
	p.qp.Break()
	p.way, p.arrived, p.fenced = nil, 0, nil
	if p.id != nil {
		f.manager.ended(p.id)
	}
}

// other returns the other end of a connection of TCP, or nil if it is gone. A message there
// ends this side too.
func (p *pair) other(f *Fabric) *pair {
	to := p.peer
	if to != nil && to.peer != p {
		p.hangUp(f)
		return nil
	}
	return to
}

// retransmission is how long TCP waits for an acknowledgement.
const retransmission = 200 * time.Millisecond
