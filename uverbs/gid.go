package uverbs

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// maxGIDEntries is what fits behind the 16-bit length of a request's attribute.
const maxGIDEntries = (1<<16 - 1) / gidEntrySize

const gidEntrySize = 32

// GIDTable lists the used GIDs of all ports.
//
// C: ibv_query_gid_table
func (d *Device) GIDTable() ([]verbs.GIDEntry, error) {
	var n uint64
	entries := make([]abi.IbUverbsGidEntry, maxGIDEntries)
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, gidEntrySize)
	r.Flags(abi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0)
	ioctl.OutSlice(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n)
	if err := r.Do(d.file); err != nil {
		return nil, d.fail("query the GID table of", err, "")
	}
	table := make([]verbs.GIDEntry, min(n, maxGIDEntries))
	for i := range table {
		table[i] = newGIDEntry(&entries[i])
	}
	return table, nil
}

// QueryGID returns one slot of a port's GID table. An empty slot is ENODATA.
//
// C: ibv_query_gid_ex
func (d *Device) QueryGID(port, index uint32) (*verbs.GIDEntry, error) {
	var entry abi.IbUverbsGidEntry
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint64(port))
	r.Const(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, uint64(index))
	r.Flags(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry)
	if err := r.Do(d.file); err != nil {
		return nil, d.fail(fmt.Sprintf("query GID %d of port %d of", index, port), err, "")
	}
	e := newGIDEntry(&entry)
	return &e, nil
}

func newGIDEntry(e *abi.IbUverbsGidEntry) verbs.GIDEntry {
	return verbs.GIDEntry{GID: gidBytes(&e.Gid), Type: verbs.GIDType(e.GidType), Port: e.PortNum, Index: e.GidIndex, NetdevIndex: e.NetdevIfindex}
}

// GIDChoice says what [Device.ChooseGID] may choose. Nil and the zero value mean
// anything.
type GIDChoice struct {
	Addr netip.Addr    // the own IP address that it must stand for; the zero Addr means any
	Type verbs.GIDType // GIDTypeIB, the zero value, means any
	// IPv4 and IPv6 allow GIDs of that family only; both or none mean either.
	IPv4, IPv6 bool
}

// ChooseGID chooses a GID of a port, counted from 1, whose Index is then the
// SGIDIndex of addresses. RoCE v2 goes before v1, IPv4 before IPv6, and that
// before link-local addresses; among equals, and on InfiniBand, the first is
// taken. Both ends of a connection need GIDs of the same type and family. The
// port must be active.
//
// When there is none the error matches ErrNoGID and lists those there are. On
// RoCE the addresses of the network device make the GIDs; a new address takes a
// moment to become one.
//
// libibverbs leaves the choice to its users.
func (d *Device) ChooseGID(port uint32, choice *GIDChoice) (*verbs.GIDEntry, error) {
	if choice == nil {
		choice = &GIDChoice{}
	}
	attr, err := d.QueryPort(port)
	if err != nil {
		return nil, err
	}
	op := fmt.Sprintf("choose a GID of port %d of", port)
	if attr.State != verbs.PortActive {
		return nil, d.fail(op, verbs.ErrNoGID, fmt.Sprintf("the port is %v: is its network device up, and its cable in?", attr.State))
	}
	table, err := d.GIDTable()
	if err != nil {
		return nil, err
	}
	table = slices.DeleteFunc(table, func(e verbs.GIDEntry) bool { return e.Port != port })
	allowed := slices.DeleteFunc(slices.Clone(table), func(e verbs.GIDEntry) bool { return !choice.allows(&e) })
	if len(allowed) == 0 {
		return nil, d.fail(op, verbs.ErrNoGID, choice.advice(table, attr.LinkLayer))
	}
	best := slices.MinFunc(allowed, func(a, b verbs.GIDEntry) int {
		if attr.LinkLayer != verbs.LinkEthernet {
			return cmp.Compare(a.Index, b.Index)
		}
		return cmp.Or(cmp.Compare(b.Type, a.Type), cmp.Compare(familyRank(a.GID), familyRank(b.GID)), cmp.Compare(a.Index, b.Index))
	})
	return &best, nil
}

func (c *GIDChoice) allows(e *verbs.GIDEntry) bool {
	ip := e.GID.Addr()
	switch {
	case c.Addr.IsValid() && c.Addr.WithZone("").Unmap() != ip:
		return false
	case e.Index > math.MaxUint8: // there is no room for more in an address
		return false
	case c.Type != verbs.GIDTypeIB && c.Type != e.Type:
		return false
	case c.IPv4 == c.IPv6:
		return true
	}
	return c.IPv4 == ip.Is4()
}

// familyRank is lower for an address that reaches further, in a network as most
// are.
func familyRank(g verbs.GID) int {
	switch ip := g.Addr(); {
	case ip.Is4():
		return 0
	case ip.IsLinkLocalUnicast():
		return 2
	}
	return 1
}

// advice tells what a port has, none of which is allowed, and how it gets more.
func (c *GIDChoice) advice(table []verbs.GIDEntry, link verbs.LinkLayer) string {
	have := "the port has none"
	netdev := "the network device"
	if len(table) > 0 {
		have = "the port has " + gidList(table)
		if i, err := net.InterfaceByIndex(int(table[0].NetdevIndex)); err == nil {
			netdev = i.Name
		}
	}
	switch {
	case link != verbs.LinkEthernet:
		return have
	case c.Addr.IsValid():
		return fmt.Sprintf("%s: add %v to %s (`ip addr add`), or choose another address", have, c.Addr, netdev)
	}
	return fmt.Sprintf("%s: add an address to %s (`ip addr add`)", have, netdev)
}

func gidList(table []verbs.GIDEntry) string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = fmt.Sprintf("%d %v (%v)", table[i].Index, table[i].GID.Addr(), table[i].Type)
	}
	return strings.Join(names, ", ")
}
