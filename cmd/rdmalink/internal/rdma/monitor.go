package rdma

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func monitorCommand() cli.Command {
	return cli.Command{
		Names:   []string{"monitor"},
		Leads:   true,
		Summary: "print the events of devices as they occur, until interrupted",
		Details: `
One line for each event: a device is registered, unregistered or renamed, a port
gets or loses its network device, a network device is renamed. Linux 6.12 sends
these events, 6.1 does not; events of renaming need a kernel newer than 6.12. In
shared mode (see system) only the first network namespace receives them; rdmalink
watch works without them. The text is that of iproute2's rdma monitor. JSON is one
object per line.`,
		Sub: []cli.Command{cli.HelpCommand("monitor")},
		Run: monitor,
	}
}

// monitor runs until it is interrupted, which is no error.
func monitor(ctx context.Context, t *cli.Tool, _ *cli.Words) error {
	events, err := t.RDMA.Subscribe()
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		e, err := events.Next(ctx)
		switch {
		case err == nil:
			if err := printEvent(t, e); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, netlinkrdma.ErrEventsLost):
			t.Note("%s", cli.Plain(err))
		default:
			return err
		}
	}
}

// printEvent prints an event, unbuffered.
func printEvent(t *cli.Tool, e netlinkrdma.Event) error {
	if !t.JSON {
		return t.Printf("%s\n", eventLine(e))
	}
	p := printer{out: bufio.NewWriter(t.Stdout), json: true, single: true, pretty: t.Pretty}
	p.begin()
	p.word("event_type", eventName(e.Type))
	if e.DeviceName != "" {
		p.uint("rdma_index", uint64(e.DeviceIndex))
		p.word("rdma_dev", e.DeviceName)
	}
	if e.Port != 0 {
		p.uint("port", uint64(e.Port))
	}
	if e.NetdevIndex != 0 {
		p.uint("netdev_idx", uint64(e.NetdevIndex))
		p.word("netdev_name", e.NetdevName)
	}
	p.end(0)
	p.out.WriteByte('\n')
	return p.out.Flush()
}

func eventLine(e netlinkrdma.Event) string {
	var b strings.Builder
	b.WriteString(eventName(e.Type) + "\t")
	if e.DeviceName != "" {
		fmt.Fprintf(&b, "dev %d %s", e.DeviceIndex, cli.Printable(e.DeviceName))
	}
	if e.Port != 0 {
		fmt.Fprintf(&b, " port %d", e.Port)
	}
	if e.NetdevIndex != 0 {
		fmt.Fprintf(&b, " netdev %d %s", e.NetdevIndex, cli.Printable(e.NetdevName))
	}
	return b.String()
}

func eventName(t netlinkrdma.EventType) string {
	if t > netlinkrdma.EventNetdevRename {
		return fmt.Sprintf("[UNKNOWN 0x%02x]", uint8(t))
	}
	return "[" + t.String() + "]"
}
