package uverbs

import (
	"fmt"

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
