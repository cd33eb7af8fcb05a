package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/netlinkrdma"
)

func showDevicesCommand() command {
	return command{
		names:   []string{"show", "list"},
		leads:   true,
		args:    "[DEV]",
		summary: "show RDMA devices; with -d what they can do",
		details: "Text and JSON are those of iproute2's rdma dev show.",
		run:     showDevices,
	}
}

func showDevices(_ context.Context, t *tool, w *words) error {
	name, err := w.lastValue("DEV")
	if err != nil {
		return err
	}
	p := t.printer()
	err = t.ForDevices(name, func(d netlinkrdma.Device) error {
		p.device(d, t.Details > 0)
		return nil
	})
	return errors.Join(err, p.close())
}

func (p *printer) device(d netlinkrdma.Device, details bool) {
	p.begin()
	if p.json {
		p.uint("ifindex", uint64(d.Index))
		p.word("ifname", d.Name)
	}
	p.text(fmt.Sprintf("%d: %s: ", d.Index, d.Name))
	p.word("node_type", d.NodeType.String())
	p.wordIf("protocol", d.Protocol)
	p.wordIf("fw", d.FWVersion)
	p.word("node_guid", d.NodeGUID.String())
	p.word("sys_image_guid", d.SysImageGUID.String())
	p.wordIf("type", d.Type.String())
	p.wordIf("parent", d.Parent)
	if details {
		if d.AdaptiveModeration.Known {
			p.onOff("adaptive-moderation", d.AdaptiveModeration.Value)
		}
		p.caps(d.CapFlags, deviceCapNames[:])
	}
	p.end(0)
}
