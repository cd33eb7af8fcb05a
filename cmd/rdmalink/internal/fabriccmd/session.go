package fabriccmd

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/umad"
	"github.com/goverbs/goverbs/verbs"
)

// common holds the options that most commands have. Their letters are those of C's programs.
type common struct {
	json     bool
	device   string
	port     int
	timeout  int // in milliseconds; 0 means mad.DefaultTimeout
	smLID    int
	mkey     uint64
	smKey    uint64
	ccKey    uint64
	showKeys bool
	longest  int    // message to accept, in MiB; 0 means umad.DefaultMaxMessage
	names    string // path of a node name map
}

func (c *common) base() *common { return c }

// commonRows returns the options of commands that send requests.
func commonRows[T any, P commandOptions[T]]() []cli.Row[T] {
	return []cli.Row[T]{
		cli.NewRow('C', "Ca", "DEV", "RDMA device (default: that of the first active InfiniBand port)", func(o *T, v string) error { P(o).base().device = v; return nil }),
		cli.NewRow('P', "Port", "PORT", "port of the device (default: the first active one)", cli.Number("port", 1, math.MaxUint8, func(o *T) *int { return &P(o).base().port })),
		cli.NewRow('t', "timeout", "MS", "timeout of each request, in milliseconds (default 1000)", cli.Number("timeout", 1, math.MaxInt32, func(o *T) *int { return &P(o).base().timeout })),
		cli.NewRow('y', "m_key", "KEY", "M_Key of requests of subnet management", func(o *T, v string) error {
			n, err := strconv.ParseUint(v, 0, 64)
			if err != nil {
				return cli.UsageError{Text: fmt.Sprintf("invalid M_Key %q: expected a 64-bit number", v)}
			}
			P(o).base().mkey = n
			return nil
		}),
		jsonRow[T, P](),
	}
}

func jsonRow[T any, P commandOptions[T]]() cli.Row[T] {
	return cli.NewRow('j', "json", "", "print JSON", cli.Flag(func(o *T) *bool { return &P(o).base().json }))
}

func namesRow[T any, P commandOptions[T]]() cli.Row[T] {
	return cli.NewRow(0, "node-name-map", "FILE", "names that replace the descriptions of nodes, as lines of 0xGUID \"NAME\"", func(o *T, v string) error { P(o).base().names = v; return nil })
}

// smRow returns the option of commands that query subnet administration.
func smRow[T any, P commandOptions[T]]() cli.Row[T] {
	return cli.NewRow('s', "sm_port", "LID", "LID of the subnet manager (default: that of the port)", cli.Number("LID", 1, math.MaxUint16, func(o *T) *int { return &P(o).base().smLID }))
}

// session is the state of a command: its options, its output, and the open port.
type session struct {
	cli.Output
	*common
	stdin  io.Reader
	port   mad.Port
	client *fabric.Client
}

// open opens the port that the options name, and returns a client that uses it.
func (s *session) open() (*fabric.Client, error) {
	if s.client != nil {
		return s.client, nil
	}
	port, err := umad.Config{MaxMessage: s.longest << 20}.Open(s.common.device, uint8(s.common.port))
	if err != nil {
		return nil, err
	}
	s.port = port
	s.client = fabric.NewClient(port, &fabric.Config{
		MKey: s.mkey, SMKey: s.smKey, CCKey: s.ccKey, SMLID: uint16(s.smLID), Retry: mad.Retry{Timeout: time.Duration(s.timeout) * time.Millisecond},
	})
	return s.client, nil
}

func (s *session) close() {
	if s.client != nil {
		s.client.Close()
		s.port.Close()
	}
}

// defaultNames is the default node name map of C's programs.
const defaultNames = "/etc/rdma/ib-node-name-map"

// nodeNames reads the node name map.
func (s *session) nodeNames() (fabric.Names, error) {
	path := s.names
	if path == "" {
		path = defaultNames
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && s.names == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := fabric.ReadNames(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
}

// problems prints the problems of a discovery. If there are any, it returns the exit code 1.
func (s *session) problems(f *fabric.Fabric) error {
	for _, p := range f.Problems {
		s.Note("%s", cli.PlainLine(p))
	}
	if len(f.Problems) > 0 {
		return cli.ExitCode(cli.ExitFailed)
	}
	return nil
}

// guid returns a GUID in the format of C's programs.
func guid(g verbs.GUID) string { return fmt.Sprintf("0x%016x", uint64(g)) }
