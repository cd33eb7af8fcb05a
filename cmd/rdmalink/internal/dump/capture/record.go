// Package capture reads and writes files of captured packets: pcap and pcapng.
package capture

import (
	"errors"
	"time"
)

// Record is one captured packet.
type Record struct {
	Time time.Time
	Link uint32 // LINKTYPE_…, the type of the first header
	Data []byte // valid until the next is read
	Full int    // how long the packet was; Data may have its beginning only
}

// Source gives packets; the last error is io.EOF.
type Source interface{ Next() (Record, error) }

// Longest is how long a packet in a file may be.
const Longest = 1 << 20

var (
	errUnknown = errors.New("no capture file: it begins like neither pcap nor pcapng")
	errLong    = errors.New("a packet in the file is longer than 1 MiB")
	errCorrupt = errors.New("the capture file is damaged")
)
