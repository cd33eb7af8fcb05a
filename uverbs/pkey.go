package uverbs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// QueryPKey returns an entry of a port's partition key table. The kernel shows
// them in sysfs only, so this one query needs /sys. iWARP has no such table.
//
// C: ibv_query_pkey
func (d *Device) QueryPKey(port, index uint32) (uint16, error) {
	op := fmt.Sprintf("query P_Key %d of port %d of", index, port)
	attr, err := d.QueryPort(port)
	if err != nil {
		return 0, err
	}
	if index >= attr.PKeyTableLen {
		return 0, d.fail(op, syscall.EINVAL, fmt.Sprintf("the table has %d entries", attr.PKeyTableLen))
	}
	var sys sysfsReader
	text := sys.text("/sys/class/infiniband", d.info.Name, "ports", strconv.FormatUint(uint64(port), 10),
		filepath.Join("pkeys", strconv.FormatUint(uint64(index), 10)))
	if sys.err != nil {
		return 0, d.fail(op, sys.err, "mount sysfs on /sys")
	}
	key, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 16)
	if err != nil {
		return 0, d.fail(op, err, "")
	}
	return uint16(key), nil
}
