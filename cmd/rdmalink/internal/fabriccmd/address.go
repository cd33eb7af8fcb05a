package fabriccmd

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

type addressOptions struct {
	common
	byGUID, direct     bool
	gid, lids, decimal bool
}

var address = define(&program{
	name: "address", args: "[OPTIONS] [ADDRESS [PORT]]",
	summary: "print the GID and the LIDs of a port",
	text: `
The default address is this port. PORT is a port of a switch.
`,
}, 2, append(commonRows[addressOptions](),
	cli.NewRow('g', "gid_show", "", "print the GID only", cli.Flag(func(o *addressOptions) *bool { return &o.gid })),
	cli.NewRow('l', "lid_show", "", "print the LIDs only", cli.Flag(func(o *addressOptions) *bool { return &o.lids })),
	cli.NewRow('L', "Lid_show", "", "print the LIDs only, as decimal numbers", cli.Flag(func(o *addressOptions) *bool { return &o.decimal })),
	cli.NewRow('G', "Guid", "", "the address is a port GUID", cli.Flag(func(o *addressOptions) *bool { return &o.byGUID })),
	cli.NewRow('D', "Direct", "", "the address is a directed route: 0,1,3 leaves by port 1, then by port 3", cli.Flag(func(o *addressOptions) *bool { return &o.direct })),
	smRow[addressOptions](),
), showAddress)

func showAddress(ctx context.Context, s *session, o *addressOptions, words []string) error {
	number := uint8(0)
	if len(words) == 2 {
		var err error
		if number, err = portWord(words[1]); err != nil {
			return err
		}
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	to := mad.Route{} // this port
	if len(words) > 0 {
		if to, err = s.route(ctx, c, target{direct: o.direct, byGUID: o.byGUID}, words[0]); err != nil {
			return err
		}
	}
	var node mad.NodeInfo
	var info mad.PortInfo
	if err := c.Get(ctx, to, 0, &node); err != nil {
		return err
	}
	if err := c.Get(ctx, to, uint32(number), &info); err != nil {
		return err
	}
	var gid verbs.GID
	binary.BigEndian.PutUint64(gid[:], info.GIDPrefix)
	binary.BigEndian.PutUint64(gid[8:], uint64(node.PortGUID))
	text, last := netip.AddrFrom16(gid).String(), int(info.LID)+1<<info.LMC-1
	if s.JSON {
		return s.WriteJSON(table.Table{{Key: "gid", Value: text}, {Key: "lid_start", Value: uint32(info.LID)}, {Key: "lid_end", Value: last}})
	}
	lids := ""
	switch {
	case o.decimal:
		lids = fmt.Sprintf("LID start %d end %d", info.LID, last)
	case o.lids || !o.gid:
		lids = fmt.Sprintf("LID start 0x%x end 0x%x", info.LID, last)
	}
	switch {
	case o.gid && lids != "", !o.gid && !o.lids && !o.decimal:
		return s.Printf("GID %s %s\n", text, lids)
	case o.gid:
		return s.Printf("GID %s \n", text)
	}
	return s.Printf("%s\n", lids)
}
