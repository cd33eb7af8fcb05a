package mad

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxHops is the maximum number of hops of a directed route.
const MaxHops = 63

// Route is a route from this port to another one. It consists of a LID, of the output ports of all
// nodes on the way (a directed route, which needs no LIDs), or of the LID of a switch and the output
// ports from there.
type Route struct {
	LID   uint16  // 0 for a directed route from this port
	Hops  []uint8 // output ports, that of this node first; without LID and Hops the route leads to this port
	DrLID uint16  // LID of this port, if both LID and Hops are set
}

// ByLID returns the route to a LID.
func ByLID(lid uint16) Route { return Route{LID: lid} }

// Directed returns a directed route from this port.
func Directed(hops ...uint8) Route { return Route{Hops: hops} }

// ParseRoute parses a directed route in the format of C's tools, such as "0,1,3". The leading 0 is
// this port.
func ParseRoute(s string) (Route, error) {
	var r Route
	for i, f := range strings.Split(s, ",") {
		n, err := strconv.ParseUint(f, 0, 8)
		switch {
		case err != nil:
			return Route{}, failed("parse", "directed route", "invalid route %q: expected ports such as 0,1,3", s)
		case i == 0 && n == 0:
			continue
		}
		r.Hops = append(r.Hops, uint8(n))
	}
	if len(r.Hops) > MaxHops {
		return Route{}, failed("parse", "directed route", "%d hops, more than %d", len(r.Hops), MaxHops)
	}
	return r, nil
}

// isDirected reports whether requests with the route are of class ClassDirected.
func (r Route) isDirected() bool { return r.LID == 0 || len(r.Hops) > 0 }

// Append returns a copy of the route with one more output port.
func (r Route) Append(port uint8) Route {
	hops := make([]uint8, len(r.Hops)+1)
	copy(hops, r.Hops)
	hops[len(r.Hops)] = port
	r.Hops = hops
	return r
}

// Path returns the hops in the format of C's tools, such as "0,1,3".
func (r Route) Path() string {
	b := []byte{'0'}
	for _, h := range r.Hops {
		b = append(b, ',')
		b = strconv.AppendUint(b, uint64(h), 10)
	}
	return string(b)
}

// String returns the route in the format of C's tools, such as "Lid 5" or
// "DR path slid 65535; dlid 65535; 0,1,3".
func (r Route) String() string {
	switch {
	case !r.isDirected():
		return fmt.Sprintf("Lid %d", r.LID)
	case r.LID != 0:
		return fmt.Sprintf("Lid %d DR path slid %d; dlid %d; %s", r.LID, r.DrLID, PermissiveLID, r.Path())
	}
	return fmt.Sprintf("DR path slid %d; dlid %d; %s", PermissiveLID, PermissiveLID, r.Path())
}

// SMP returns a request of subnet management with the route. It panics if the route has more than
// MaxHops hops.
func (r Route) SMP(method Method, attr AttrID, modifier uint32, mkey uint64) *Message {
	if len(r.Hops) > MaxHops {
		panic(fmt.Sprintf("mad: a directed route of %d hops", len(r.Hops)))
	}
	m := &Message{Addr: Addr{LID: r.LID}}
	if !r.isDirected() {
		m.Data = New(ClassLID, method, attr, modifier)
		m.Data.SetMKey(mkey)
		return m
	}
	m.Data = New(ClassDirected, method, attr, modifier)
	m.Data.SetMKey(mkey)
	m.Data.SetHopCount(uint8(len(r.Hops)))
	m.Data.SetDrSLID(PermissiveLID)
	m.Data.SetDrDLID(PermissiveLID)
	copy(m.Data.InitialPath()[1:], r.Hops)
	if r.LID == 0 {
		m.Addr.LID = PermissiveLID
	} else {
		m.Data.SetDrSLID(r.DrLID)
	}
	return m
}
