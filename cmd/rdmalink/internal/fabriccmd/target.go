package fabriccmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// target holds the options that select the kind of an address on the command line. Without them it is
// a LID.
type target struct {
	direct, byGUID bool
}

type targetOptions[T any] interface {
	commandOptions[T]
	targeting() *target
}

func (t *target) targeting() *target { return t }

func targetRows[T any, P targetOptions[T]]() []cli.Row[T] {
	return []cli.Row[T]{
		lidRow[T, P](),
		guidRow[T, P](),
		cli.NewRow('D', "Direct", "", "addresses are directed routes: 0,1,3 leaves by port 1, then by port 3", cli.Flag(func(o *T) *bool { return &P(o).targeting().direct })),
	}
}

func lidRow[T any, P targetOptions[T]]() cli.Row[T] {
	return cli.NewRow('L', "Lid", "", "addresses are LIDs (the default)", func(*T, string) error { return nil })
}

func guidRow[T any, P targetOptions[T]]() cli.Row[T] {
	return cli.NewRow('G', "Guid", "", "addresses are port GUIDs", cli.Flag(func(o *T) *bool { return &P(o).targeting().byGUID }))
}

// route returns the route to an address. It asks subnet administration for the LID of a GUID.
func (s *session) route(ctx context.Context, c *fabric.Client, t target, address string) (mad.Route, error) {
	if t.direct {
		r, err := mad.ParseRoute(address)
		if err != nil {
			return r, cli.UsageError{Text: err.Error()}
		}
		return r, nil
	}
	lid, err := s.lid(ctx, c, t, address)
	return mad.ByLID(lid), err
}

// lid returns the LID of an address, which must not be a directed route.
func (s *session) lid(ctx context.Context, c *fabric.Client, t target, address string) (uint16, error) {
	if t.byGUID {
		g, err := parseGUID(address)
		if err != nil {
			return 0, err
		}
		return c.ResolveLID(ctx, g)
	}
	lid, err := strconv.ParseUint(address, 0, 16)
	if err != nil || lid == 0 || lid >= uint64(mad.MinMulticast) {
		return 0, cli.UsageError{Text: fmt.Sprintf("invalid LID %q: expected 1 to 0xbfff", address)}
	}
	return uint16(lid), nil
}

// parseGUID parses a GUID of the command line.
func parseGUID(word string) (verbs.GUID, error) {
	g, err := strconv.ParseUint(word, 0, 64)
	if err != nil {
		return 0, cli.UsageError{Text: fmt.Sprintf("invalid GUID %q: expected a number such as 0x2c9030000001", word)}
	}
	return verbs.GUID(g), nil
}

// name returns the name of a node in the node name map, or else its description.
func name(names fabric.Names, g verbs.GUID, description string) string {
	if n, ok := names[g]; ok {
		return n
	}
	return mad.Printable(description)
}

// portWord parses the number of a port.
func portWord(word string) (uint8, error) {
	n, err := strconv.ParseUint(word, 0, 8)
	if err != nil {
		return 0, cli.UsageError{Text: fmt.Sprintf("invalid port %q: expected 0 to 255", word)}
	}
	return uint8(n), nil
}
