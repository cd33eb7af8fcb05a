package main

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// networks compares the attributes of four kinds of devices.
func networks(l *lab) {
	ops := []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm,
		verbs.OpRDMARead, verbs.OpReadWithInv, verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpBindMW, verbs.OpLocalInv}
	types := []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD}
	devices := make([]*uverbs.Device, len(rdmatest.Kinds))
	line := []any{""}
	for i, kind := range rdmatest.Kinds {
		devices[i] = closing(l, must(uverbs.Open(l.host(kind, 0).device)))
		line = append(line, kind)
	}
	const columns = "%-20v %-10v %-10v %-10v %-10v"
	row := func(cells ...any) { l.say("%s", strings.TrimRight(fmt.Sprintf(columns, cells...), " ")) }
	row(line...)
	for _, op := range ops {
		cells := []any{op}
		for _, dev := range devices {
			var with []string
			for _, typ := range types {
				if dev.Supports(typ, op) {
					with = append(with, typ.String())
				}
			}
			if with == nil {
				with = []string{"-"}
			}
			cells = append(cells, strings.Join(with, " "))
		}
		row(cells...)
	}
	about := func(property string, of func(*uverbs.Device) any) {
		cells := []any{property}
		for _, dev := range devices {
			cells = append(cells, of(dev))
		}
		row(cells...)
	}
	port := func(d *uverbs.Device) *verbs.PortAttr { return must(d.QueryPort(1)) }
	about("link layer", func(d *uverbs.Device) any { return port(d).LinkLayer })
	about("MTU", func(d *uverbs.Device) any { return 128 << port(d).ActiveMTU })
	about("type of GID 0", func(d *uverbs.Device) any { return must(d.GIDTable())[0].Type })
	about("READs in flight", func(d *uverbs.Device) any { return must(d.QueryDevice()).MaxQPRDAtom })
}
