package fabriccmd

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/mad"
)

type smOptions struct {
	common
	target
}

var sm = define(&program{
	name: "sm", args: "[OPTIONS] [ADDRESS]",
	summary: "print the state of the subnet manager",
	text: `
The default address is the subnet manager of the port.
`,
}, 1, append(append(commonRows[smOptions](), targetRows[smOptions]()...), smRow[smOptions]()), showSM)

var smStates = map[mad.SMState]string{0: "SMINFO_NOTACT", 1: "SMINFO_DISCOVER", 2: "SMINFO_STANDBY", mad.SMMaster: "SMINFO_MASTER"}

func showSM(ctx context.Context, s *session, o *smOptions, words []string) error {
	c, err := s.open()
	if err != nil {
		return err
	}
	to := mad.Route{}
	if len(words) == 1 {
		to, err = s.route(ctx, c, o.target, words[0])
	} else {
		addr, smErr := c.SM()
		to, err = mad.ByLID(addr.LID), smErr
	}
	if err != nil {
		return err
	}
	var info mad.SMInfo
	if err := c.Get(ctx, to, 0, &info); err != nil {
		return err
	}
	state, ok := smStates[info.State]
	if !ok {
		state = "INVALID"
	}
	if s.JSON {
		return s.WriteJSON(table.Table{
			{Key: "sm_guid", Value: guid(info.GUID)}, {Key: "lid", Value: uint32(to.LID)}, {Key: "activity_count", Value: info.Activity},
			{Key: "priority", Value: uint32(info.Priority)}, {Key: "state", Value: uint32(info.State)}, {Key: "state_name", Value: state},
		})
	}
	return s.Printf("sminfo: sm lid %d sm guid 0x%x, activity count %d priority %d state %d %s\n", to.LID, uint64(info.GUID), info.Activity, info.Priority, info.State, state)
}
