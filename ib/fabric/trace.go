package fabric

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Hop is a node on the route of a packet.
type Hop struct {
	Node        mad.NodeInfo // PortGUID is that of the input port, or of the switch
	Description string       // as received
	In, Out     uint8        // input and output port; In is 0 at the source, Out at the destination
	LID         uint16       // of the input port, or of the switch
	LMC         uint8
}

// TraceError says where and why a route ends before its destination. It is the cause of a *verbs.Error.
type TraceError struct {
	Node   verbs.GUID
	Port   uint8 // the output port, or the port that is down
	Reason error
}

func (e *TraceError) Error() string {
	return fmt.Sprintf("node 0x%016x port %d: %v", uint64(e.Node), e.Port, e.Reason)
}

func (e *TraceError) Unwrap() error { return e.Reason }

// Reasons why a route ends before its destination.
var (
	ErrPortDown  = errors.New("the port is not active")
	ErrNoEntry   = errors.New("the forwarding table has no entry for the LID")
	ErrLoop      = errors.New("no destination after 63 hops")
	ErrDeadEnd   = errors.New("the route ends at another node")
	ErrBadTarget = errors.New("the destination is not a unicast LID")
)

// Trace follows the forwarding tables from the port with one LID to the port with another, and returns the nodes on the
// route. If the route ends early, Trace returns the nodes up to there and an error whose cause is a *TraceError. Trace
// sends its requests along directed routes. It finds the beginning of the route by following the tables from this port.
func (c *Client) Trace(ctx context.Context, from, to uint16) ([]Hop, error) {
	for _, lid := range []uint16{from, to} {
		if lid == 0 || lid >= mad.MinMulticast {
			return nil, traceFailed(lid, ErrBadTarget)
		}
	}
	_, route, err := c.follow(ctx, mad.Directed(), from)
	if err != nil {
		return nil, traceFailed(from, err)
	}
	hops, _, err := c.follow(ctx, route, to)
	if err != nil {
		return hops, traceFailed(to, err)
	}
	return hops, nil
}

func traceFailed(to uint16, err error) error {
	return &verbs.Error{Op: "trace", Object: fmt.Sprintf("route to LID %d", to), Err: err}
}

// follow follows the forwarding tables from the end of a directed route. It also returns the directed
// route to the destination.
func (c *Client) follow(ctx context.Context, route mad.Route, to uint16) (hops []Hop, _ mad.Route, err error) {
	var target mad.NodeInfo
	if err := c.Get(ctx, mad.ByLID(to), 0, &target); err != nil {
		return nil, route, err
	}
	hop, info, err := c.hop(ctx, route)
	if err != nil {
		return nil, route, err
	}
	for range mad.MaxHops + 1 {
		n := &hop.Node
		fail := func(port uint8, reason error) ([]Hop, mad.Route, error) {
			return append(hops, hop), route, &TraceError{n.NodeGUID, port, reason}
		}
		next := route
		switch {
		case n.PortGUID == target.PortGUID:
			return append(hops, hop), route, nil
		case n.Type == mad.NodeSwitch:
			if hop.Out, err = c.forward(ctx, route, to); err != nil {
				return append(hops, hop), route, err
			}
			switch {
			case hop.Out == 0:
				return fail(0, ErrDeadEnd)
			case hop.Out > n.NumPorts:
				return fail(hop.Out, ErrNoEntry)
			}
			if err := c.Get(ctx, route, uint32(hop.Out), &info); err != nil {
				return append(hops, hop), route, err
			}
			next = route.Append(hop.Out)
		case len(hops) > 0:
			return fail(n.LocalPort, ErrDeadEnd)
		case len(route.Hops) > 0:
			// A directed route can't pass through an adapter. It continues from the adapter's switch.
			hop.Out = n.LocalPort
			next.Hops = route.Hops[:len(route.Hops)-1]
		default:
			hop.Out = n.LocalPort
			next = route.Append(hop.Out)
		}
		if info.LinkState != verbs.PortActive {
			return fail(hop.Out, ErrPortDown)
		}
		if len(next.Hops) > mad.MaxHops {
			break
		}
		hops = append(hops, hop)
		if hop, info, err = c.hop(ctx, next); err != nil {
			return hops, route, err
		}
		if hop.In = hop.Node.LocalPort; len(next.Hops) < len(route.Hops) {
			hop.In = route.Hops[len(next.Hops)]
		}
		route = next
	}
	return hops, route, &TraceError{hop.Node.NodeGUID, hop.Out, ErrLoop}
}

// hop returns the node at the end of a route, and the PortInfo of the port that the route enters it
// by, or of port 0 of a switch.
func (c *Client) hop(ctx context.Context, route mad.Route) (h Hop, info mad.PortInfo, err error) {
	var d mad.NodeDescription
	for _, a := range []mad.Attribute{&h.Node, &d, &info} {
		if err := c.Get(ctx, route, 0, a); err != nil {
			return h, info, err
		}
	}
	h.Description, h.LID, h.LMC = d.Text, info.LID, info.LMC
	return h, info, nil
}

// forward returns the output port of a switch for a LID, or 255 if the table has no entry.
func (c *Client) forward(ctx context.Context, route mad.Route, lid uint16) (uint8, error) {
	var s mad.SwitchInfo
	if err := c.Get(ctx, route, 0, &s); err != nil {
		return 0, err
	}
	if lid > s.LinearFDBTop {
		return 255, nil
	}
	var t mad.LinearForwardingTable
	if err := c.Get(ctx, route, uint32(lid/64), &t); err != nil {
		return 0, err
	}
	return t.Ports[lid%64], nil
}
