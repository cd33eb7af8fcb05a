package uverbs

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/netif"
	"github.com/goverbs/goverbs/verbs"
)

// maxGIDEntries is the number of entries that fit into an attribute, whose length has 16 bits.
const maxGIDEntries = (1<<16 - 1) / gidEntrySize

const gidEntrySize = 32

// GIDTable returns the GIDs of all ports that are in use.
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

// QueryGID returns one slot of a port's GID table. For an empty slot the error is ENODATA.
//
// C: ibv_query_gid_ex
func (d *Device) QueryGID(port int, index uint32) (*verbs.GIDEntry, error) {
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
	return verbs.GIDEntry{GID: gidBytes(&e.Gid), Type: verbs.GIDType(e.GidType), Port: int(e.PortNum), Index: e.GidIndex, NetdevIndex: e.NetdevIfindex}
}

// GIDChoice restricts the GIDs that [Device.ChooseGID] may choose. Nil and the zero value
// allow all GIDs.
type GIDChoice struct {
	// Addr is the local IP address of the GID. The zero Addr allows any. The zone of an IPv6
	// address is an interface of the caller's network namespace, and allows only its GIDs: a
	// VLAN usually has the same link-local address as the device below it.
	Addr netip.Addr
	Type verbs.GIDType // GIDTypeIB, the zero value, allows any
	// IPv4 and IPv6 allow only GIDs of that family; both or none allow either.
	IPv4, IPv6 bool
}

// ChooseGID chooses a GID of a port. Ports count from 1. Use the Index of the result as the
// SGIDIndex of addresses. A device may be shared by several network namespaces, and its table
// then has GIDs of all of them. Therefore ChooseGID prefers GIDs of interfaces in the caller's
// namespace. Then it prefers RoCE v2 to v1, any address to a link-local one (169.254.0.0/16,
// fe80::/10), and IPv4 to IPv6. Among equals, and on InfiniBand, it chooses the first. Both ends
// of a connection need GIDs of the same type and family. The port must be active.
//
// If no GID is allowed, the error matches ErrNoGID and lists the GIDs of the port. On RoCE, the
// kernel derives GIDs from the IP addresses of the network device; after an address is added,
// this takes a moment.
//
// libibverbs leaves the choice to its users.
func (d *Device) ChooseGID(port int, choice *GIDChoice) (*verbs.GIDEntry, error) {
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
	zone, err := netif.ZoneIndex(choice.Addr)
	if err != nil {
		return nil, d.fail(op, verbs.ErrNoGID, err.Error())
	}
	allowed := slices.DeleteFunc(slices.Clone(table), func(e verbs.GIDEntry) bool { return !choice.allows(&e, zone) })
	if len(allowed) == 0 {
		return nil, d.fail(op, verbs.ErrNoGID, choice.advice(table, attr.LinkLayer))
	}
	if attr.LinkLayer != verbs.LinkEthernet {
		best := slices.MinFunc(allowed, func(a, b verbs.GIDEntry) int { return cmp.Compare(a.Index, b.Index) })
		return &best, nil
	}
	return bestGID(allowed, make(namespace)), nil
}

// bestGID returns the GID of a RoCE or iWARP port that ChooseGID prefers.
func bestGID(allowed []verbs.GIDEntry, ns namespace) *verbs.GIDEntry {
	best := slices.MinFunc(allowed, func(a, b verbs.GIDEntry) int {
		return cmp.Or(ns.rank(&a)-ns.rank(&b), cmp.Compare(b.Type, a.Type), familyRank(a.GID)-familyRank(b.GID), cmp.Compare(a.Index, b.Index))
	})
	return &best
}

// namespace holds those interfaces of the caller's network namespace that have been looked up, by index. An index
// without an interface has one that has no GID.
type namespace map[uint32]netif.Interface

// has reports whether the entry's interface is in the namespace. The index alone does not say so: it may be
// that of another namespace.
func (ns namespace) has(e *verbs.GIDEntry) bool {
	i, known := ns[e.NetdevIndex]
	if !known {
		i, _ = netif.ByIndex(e.NetdevIndex)
		ns[e.NetdevIndex] = i
	}
	return i.Has(e.GID)
}

func (ns namespace) rank(e *verbs.GIDEntry) int {
	if ns.has(e) {
		return 0
	}
	return 1
}

// allows reports whether the entry meets the restrictions. zone is the index of the address's zone, or 0.
func (c *GIDChoice) allows(e *verbs.GIDEntry, zone uint32) bool {
	ip := e.GID.Addr()
	switch {
	case c.Addr.IsValid() && c.Addr.WithZone("").Unmap() != ip:
		return false
	case zone != 0 && zone != e.NetdevIndex:
		return false
	case e.Index > math.MaxUint8: // an address has room for 8 bits
		return false
	case c.Type != verbs.GIDTypeIB && c.Type != e.Type:
		return false
	case c.IPv4 == c.IPv6:
		return true
	}
	return c.IPv4 == ip.Is4()
}

// familyRank returns a lower rank for an address that is likely to be reachable from more
// hosts.
func familyRank(g verbs.GID) int {
	ip := g.Addr()
	rank := 0
	if ip.IsLinkLocalUnicast() {
		rank += 2
	}
	if !ip.Is4() {
		rank++
	}
	return rank
}

// advice returns a hint for a port without an allowed GID. It lists the GIDs of the port and
// says how to add one.
func (c *GIDChoice) advice(table []verbs.GIDEntry, link verbs.LinkLayer) string {
	have := "the port has no GIDs"
	netdev := "the network device"
	if len(table) > 0 {
		have = "the port has GIDs " + gidList(table)
		if ns := make(namespace); ns.has(&table[0]) {
			netdev = ns[table[0].NetdevIndex].Name
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
