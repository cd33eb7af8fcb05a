package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
)

type smOptions struct {
	common
	target
	state, priority, activity int
	yes                       bool
}

var sm = define(&program{
	name: "sm", args: "[OPTIONS] [ADDRESS [MODIFIER]]",
	summary: "print the state of the subnet manager",
	text: `
The default address is the subnet manager of the port. A modifier sends a Set, as
subnet managers do to each other: 1 hand over, 2 acknowledge, 3 disable, 4 standby,
5 discover. On a terminal it asks for confirmation; otherwise a Set requires --yes.
`,
}, 2, append(append(commonRows[smOptions](), targetRows[smOptions]()...),
	cli.NewRow('s', "state", "STATE", "state of a Set: 0 not active, 1 discovering, 2 standby (the default), 3 master", smNumber("state", 3, func(o *smOptions) *int { return &o.state })),
	cli.NewRow('p', "priority", "N", "priority of a Set, 0 to 15", smNumber("priority", 15, func(o *smOptions) *int { return &o.priority })),
	cli.NewRow('a', "activity", "N", "activity count of a Set", smNumber("activity count", math.MaxUint32, func(o *smOptions) *int { return &o.activity })),
	cli.NewRow(0, "yes", "", "send a Set without asking", cli.Flag(func(o *smOptions) *bool { return &o.yes })),
), showSM)

// smNumber returns the function that parses a field of a Set. It stores the number plus one, because 0
// means that the option was not given.
func smNumber(name string, most int64, field func(*smOptions) *int) func(*smOptions, string) error {
	read := cli.Number(name, 0, most, field)
	return func(o *smOptions, v string) error {
		err := read(o, v)
		*field(o)++
		return err
	}
}

var smStates = map[mad.SMState]string{0: "SMINFO_NOTACT", 1: "SMINFO_DISCOVER", 2: "SMINFO_STANDBY", mad.SMMaster: "SMINFO_MASTER"}

func showSM(ctx context.Context, s *session, o *smOptions, words []string) error {
	modifier := uint64(0)
	if len(words) == 2 {
		var err error
		if modifier, err = strconv.ParseUint(words[1], 0, 32); err != nil {
			return cli.UsageError{Text: fmt.Sprintf("invalid modifier %q: expected a number", words[1])}
		}
	}
	if modifier == 0 && (o.state > 0 || o.priority > 0 || o.activity > 0) {
		return cli.UsageError{Text: "--state, --priority and --activity need an address and a modifier"}
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	to := mad.Route{}
	if len(words) > 0 {
		to, err = s.route(ctx, c, o.target, words[0])
	} else {
		addr, smErr := c.SM()
		to, err = mad.ByLID(addr.LID), smErr
	}
	if err != nil {
		return err
	}
	var info mad.SMInfo
	if modifier == 0 {
		err = c.Get(ctx, to, 0, &info)
	} else {
		err = s.setSM(ctx, c, to, uint32(modifier), o, &info)
	}
	if err != nil {
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

// setSM sends a Set in the name of a subnet manager at this port, and sets info to the answer.
func (s *session) setSM(ctx context.Context, c *fabric.Client, to mad.Route, modifier uint32, o *smOptions, info *mad.SMInfo) error {
	info.State = mad.SMStandby
	if o.state > 0 {
		info.State = mad.SMState(o.state - 1)
	}
	info.Priority, info.Activity = uint8(max(o.priority-1, 0)), uint32(max(o.activity-1, 0))
	what := fmt.Sprintf("SMInfo modifier %d, state %d, priority %d", modifier, info.State, info.Priority)
	if err := s.confirm(o.yes, errors.New("nothing was sent: "+what+" needs confirmation; use --yes without a terminal"), "%s to %v?", what, to); err != nil {
		return err
	}
	return c.Set(ctx, to, modifier, info)
}
