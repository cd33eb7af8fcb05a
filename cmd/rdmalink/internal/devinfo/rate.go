package devinfo

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
)

// rate is the data rate of a port: lanes times speed.
type rate struct {
	lanes int
	speed string // SDR
	mbps  uint64
}

// speeds of a lane by their code, in Mb/s.
//
// C: enum ib_port_speed
var speeds = map[uint32]rate{
	1: {speed: "SDR", mbps: 2500}, 2: {speed: "DDR", mbps: 5000}, 4: {speed: "QDR", mbps: 10000}, 8: {speed: "FDR10", mbps: 10000},
	16: {speed: "FDR", mbps: 14000}, 32: {speed: "EDR", mbps: 25000}, 64: {speed: "HDR", mbps: 50000},
	128: {speed: "NDR", mbps: 100000}, 256: {speed: "XDR", mbps: 200000},
}

// lanes of a port by the code of their number.
//
// C: enum ib_port_width
var lanes = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}

// rateOf decodes the rate; a code of a newer kernel has none.
func rateOf(width uint8, speed uint32) rate {
	r := speeds[speed]
	r.lanes = lanes[width]
	r.mbps *= uint64(r.lanes)
	return r
}

var sysfsRate = regexp.MustCompile(`^([0-9]+)(\.5)? Gb/sec \(([0-9]+)X ?([A-Z0-9]+)\)$`)

// parseRate reads sysfs's "2.5 Gb/sec (1X SDR)".
func parseRate(text string) (r rate) {
	parts := sysfsRate.FindStringSubmatch(text)
	if parts == nil {
		return rate{}
	}
	gbps, _ := strconv.ParseUint(parts[1], 10, 32)
	if r.mbps = 1000 * gbps; parts[2] != "" {
		r.mbps += 500
	}
	r.lanes, _ = strconv.Atoi(parts[3])
	r.speed = parts[4]
	return r
}

func addRate(t *table.Table, r rate) {
	if r.mbps == 0 {
		return
	}
	t.AddUnit("rate", r.mbps, table.Mbps)
	t.Add("active_width", fmt.Sprintf("%dX", r.lanes))
	t.Add("active_speed", r.speed)
}
