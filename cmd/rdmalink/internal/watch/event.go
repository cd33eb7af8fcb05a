package watch

import (
	"fmt"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/verbs"
)

// event is an event to print. Unknown fields are zero.
type event struct {
	Source, Event string
	Device        string
	Index         uint32 // of the device, if known
	Port          int
	State         string
	Netdev        string
	NetdevIndex   uint32
}

// Sources of events.
const (
	fromNetlink = "netlink"
	fromDevice  = "device"
	fromCheck   = "look"
)

// Events that checks find. An event that netlink also reports has netlink's name. Events of
// ports have the names of C.
const (
	isPresent     = "PRESENT"
	isRegistered  = "REGISTER"
	isGone        = "UNREGISTER"
	isRenamed     = "RENAME"
	isAttached    = "NETDEV_ATTACH"
	isDetached    = "NETDEV_DETACH"
	netdevRenamed = "NETDEV_RENAME"
	portActive    = "PORT_ACTIVE"
	portErr       = "PORT_ERR"
	portState     = "PORT_STATE" // a change between other states, such as armed
)

// reportNames holds the names of asynchronous events in C, without IBV_EVENT_.
//
// C: enum ibv_event_type
var reportNames = [...]string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
	"DEVICE_FATAL", portActive, portErr, "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED",
	"QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL", "DEVICE_SPEED_CHANGE",
}

func reportName(t verbs.EventType) string {
	if int(t) < len(reportNames) {
		return reportNames[t]
	}
	return t.String()
}

// printEvent prints an event with the time, unbuffered.
func printEvent(t *cli.Tool, e event) error {
	now := time.Now().Format("2006-01-02T15:04:05.000000Z07:00")
	if t.JSON {
		return t.WriteJSON(e.table(now))
	}
	return t.Printf("%s %s\n", now, cli.Printable(e.String()))
}

func (e event) table(now string) table.Table {
	t := table.Table{{Key: "time", Value: now}, {Key: "source", Value: e.Source}, {Key: "event", Value: e.Event}}
	if e.Device != "" {
		t.Add("ifname", e.Device)
		t.Add("ifindex", e.Index)
	}
	if e.Port != 0 {
		t.Add("port", e.Port)
	}
	t.AddText("state", e.State)
	if e.NetdevIndex != 0 {
		t.Add("netdev", e.Netdev)
		t.Add("netdev_index", e.NetdevIndex)
	}
	return t
}

func (e event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-7s %-17s", e.Source, e.Event)
	if e.Device != "" {
		b.WriteString(" " + e.Device)
	}
	if e.Port != 0 {
		fmt.Fprintf(&b, "/%d", e.Port)
	}
	if e.State != "" {
		b.WriteString(" state " + e.State)
	}
	if e.Netdev != "" {
		b.WriteString(" netdev " + e.Netdev)
	}
	return b.String()
}
