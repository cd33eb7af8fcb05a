package contract

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
	"github.com/goverbs/goverbs/ib/umad"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/netlinkrdma/softlink"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/redial"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/s3rdma"
	"github.com/goverbs/goverbs/topo"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/transfer/mooncake"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/valkeyrdma"
	"github.com/goverbs/goverbs/verbs"
)

// checkShape fails unless err has a *verbs.Error in it and a text in which nothing piles up.
func checkShape(t *testing.T, name string, err error) {
	t.Helper()
	if !errors.As(err, new(*verbs.Error)) {
		t.Errorf("%s: %v (%T) has no *verbs.Error in it", name, err, err)
		return
	}
	if twice := piled(err); twice != "" {
		t.Errorf("%s: %q stands twice, or is the name of a package, in %q", name, twice, err)
	}
}

// packagePrefix matches the name of a package at the beginning of an error.
var packagePrefix = regexp.MustCompile(`(?:^|[:;(] ?)(fabric|mad|madtest|mmap|mooncake|msg|netlinkrdma|oob|rdmacm|redial|rsocket|s3rdma|softlink|topo|transfer|umad|uverbs|valkeyrdma|verbs): `)

// piled returns an operation, an object or another part of an error's text that it contains twice, or the
// name of a package before a colon. Remedies are not compared, because they may name the object again.
func piled(err error) string {
	var all []*verbs.Error
	var walk func(error)
	walk = func(err error) {
		if e, ok := err.(*verbs.Error); ok {
			all = append(all, e)
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				walk(err)
			}
		}
	}
	if request, ok := err.(*url.Error); ok { // net/http names the address too, as it does over TCP
		err = request.Err
	}
	walk(err)
	text := err.Error()
	for _, e := range all {
		if e.Hint != "" {
			text = strings.Replace(text, ": "+e.Hint, "", 1)
		}
	}
	if m := packagePrefix.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	parts := strings.Split(text, ": ")
	for i, p := range parts {
		if slices.Contains(parts[:i], p) {
			return p
		}
	}
	for _, e := range all {
		begun := 0
		for _, p := range parts {
			if e.Op != "" && strings.HasPrefix(p+" ", e.Op+" ") {
				begun++
			}
		}
		switch {
		case begun > 1:
			return e.Op
		case e.Object != "" && len(regexp.MustCompile(`(?:^|\W)`+regexp.QuoteMeta(e.Object)+`(?:\W|$)`).FindAllString(text, 2)) > 1:
			return e.Object
		}
	}
	return ""
}

// failing is a call that must return an error, and the error that it must match.
type failing struct {
	call  func(w *world) error
	match error
}

// failures holds failing calls of each public package whose functions return errors. A suffix of the name distinguishes two
// packages apart of which one works over the other.
var failures = map[string]map[string]failing{
	"verbs": {"completion": {func(*world) error { return (&verbs.WC{Status: verbs.StatusWRFlushErr}).Err() }, verbs.StatusWRFlushErr}},
	"uverbs": {
		"open":  {func(*world) error { return fail(uverbs.Open("nosuch")) }, verbs.ErrNoDevice},
		"CQ":    {func(w *world) error { return fail(w.dev.CreateCQ(1<<30, nil)) }, nil},
		"QP":    {func(w *world) error { return fail(w.pd.CreateQP(nil)) }, nil},
		"MR":    {func(w *world) error { return fail(w.pd.AllocMR(-1, 0, nil)) }, os.ErrInvalid},
		"PD":    {func(w *world) error { _ = w.qp(); return w.pd.Close() }, verbs.ErrInUse},
		"port":  {func(w *world) error { return fail(w.dev.QueryPort(9)) }, nil},
		"state": {func(w *world) error { return w.qp().Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState) }, nil},
	},
	"rdmacm": {
		"dial":      {func(w *world) error { return fail(rdmacm.Dial(w.near(), w.nobody())) }, syscall.ECONNREFUSED},
		"address":   {func(w *world) error { return fail(rdmacm.Dial(w.near(), "nowhere")) }, nil},
		"listen":    {func(w *world) error { return fail(rdmacm.Listen(w.t.Context(), "192.0.2.200:0")) }, nil},
		"cancelled": {func(w *world) error { return fail(rdmacm.Dial(cancelled(w.near()), w.nobody())) }, context.Canceled},
	},
	"oob": {
		"dial": {func(w *world) error { return fail(oob.Dial(w.t.Context(), broken(), &oob.Config{PD: w.pd})) }, nil},
		"PD":   {func(w *world) error { return fail(oob.Dial(w.t.Context(), broken(), &oob.Config{})) }, nil},
	},
	"msg": {
		"dial":   {func(w *world) error { return fail(msg.Dial(w.near(), w.nobody())) }, syscall.ECONNREFUSED},
		"pool":   {func(w *world) error { return fail(msg.NewPool(w.dev, -1, nil)) }, syscall.EINVAL},
		"region": {func(*world) error { return new(msg.RemoteRegion).UnmarshalBinary(nil) }, syscall.EINVAL},
		"dial over oob": {func(w *world) error {
			return fail(new(msg.Dialer).DialOver(w.t.Context(), broken(), &oob.Config{PD: w.pd}))
		}, nil},
	},
	"rsocket": {
		"dial":    {func(w *world) error { return fail(rsocket.Dial(w.near(), w.nobody())) }, syscall.ECONNREFUSED},
		"read":    {func(w *world) error { a, _ := w.stream(); return late(a) }, os.ErrDeadlineExceeded},
		"address": {func(w *world) error { return fail(rsocket.Listen(w.t.Context(), "nowhere")) }, nil},
		"HTTP over it": {func(w *world) error {
			dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return rsocket.Dial(ctx, addr) }
			return get(w, dial)
		}, syscall.ECONNREFUSED},
	},
	"valkeyrdma": {
		"dial": {func(w *world) error { return fail(valkeyrdma.Dial(w.near(), w.nobody())) }, syscall.ECONNREFUSED},
		"read": {func(w *world) error { a, _ := w.valkey(); return late(a) }, os.ErrDeadlineExceeded},
		"HTTP over it": {func(w *world) error {
			dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return valkeyrdma.Dial(ctx, addr) }
			return get(w, dial)
		}, syscall.ECONNREFUSED},
	},
	"redial": {
		"dial over msg": {func(w *world) error {
			return fail(redial.Dial(w.near(), func(ctx context.Context) (*msg.Conn, error) {
				c, err := msg.Dial(ctx, w.nobody())
				return c, redial.Permanent(err)
			}))
		}, syscall.ECONNREFUSED},
		"dial of a program": {func(w *world) error {
			return fail(redial.Dial(w.near(), func(context.Context) (net.Conn, error) { return nil, redial.Permanent(errOwn) }))
		}, errOwn},
		"do over msg": {func(w *world) error {
			return redial.New(func(ctx context.Context) (*msg.Conn, error) {
				c, err := msg.Dial(ctx, w.nobody())
				return c, redial.Permanent(err)
			}).Do(w.near(), func(*msg.Conn) error { return nil })
		}, syscall.ECONNREFUSED},
		"work": {func(w *world) error {
			a, _ := w.message()
			return redial.New(func(context.Context) (*msg.Conn, error) { return a, nil }).Do(w.near(), func(*msg.Conn) error { return errOwn })
		}, errOwn},
		"second Close": {func(*world) error {
			r := redial.New(func(context.Context) (*msg.Conn, error) { return nil, errOwn })
			return errors.Join(r.Close(), r.Close())
		}, net.ErrClosed},
		"Close of nil": {func(*world) error { return (*redial.Redialer[*msg.Conn])(nil).Close() }, os.ErrInvalid},
	},
	"transfer": {
		"create": {func(*world) error { return fail(transfer.New(nil, nil)) }, syscall.EINVAL},
		"open": {func(w *world) error {
			return fail(own(w, got(transfer.New([]*uverbs.Device{w.dev}, nil))(w.t)).Open(cancelled(w.near()), "127.0.0.1:1"))
		}, context.Canceled},
		"parse": {func(*world) error { return fail(transfer.ParseDescriptor(nil)) }, transfer.ErrProtocol},
	},
	"s3rdma": {
		"server":    {func(*world) error { return fail(s3rdma.NewServer(nil)) }, syscall.EINVAL},
		"transport": {func(*world) error { return fail(s3rdma.NewTransport(nil)) }, syscall.EINVAL},
	},
	"topo": {"read": {func(*world) error { return fail(topo.Read(os.DirFS("/nonexistent"))) }, os.ErrNotExist}},
	"transfer/mooncake": {
		"open": {func(w *world) error {
			return fail(mooncake.Open(cancelled(w.near()), own(w, got(transfer.New([]*uverbs.Device{w.dev}, nil))(w.t)), "127.0.0.1:1", nil))
		}, context.Canceled},
		"node": {func(w *world) error { return fail(mooncake.NewNode(w.near(), w.engine(), "", nil)) }, syscall.EINVAL},
		"withdraw": {func(w *world) error {
			return own(w, got(mooncake.NewNode(w.near(), w.engine(), "node", nil))(w.t)).Withdraw(w.near(), nil)
		}, os.ErrNotExist},
		"at": {func(w *world) error { _, _, err := w.segment().At(1, 1); return err }, transfer.ErrOutOfBounds},
	},
	"netlinkrdma": {
		"find":   {func(*world) error { return fail(netlink(0, 0).DeviceByName("nosuch")) }, verbs.ErrNoDevice},
		"add":    {func(*world) error { return netlink(abi.RDMA_NLDEV_CMD_NEWLINK, syscall.EPERM).AddLink("a", "rxe", "b") }, syscall.EPERM},
		"name":   {func(*world) error { return netlink(0, 0).AddLink("", "rxe", "b") }, netlinkrdma.ErrInvalidName},
		"ports":  {func(*world) error { return fail(netlink(abi.RDMA_NLDEV_CMD_PORT_GET, syscall.EIO).Ports(1)) }, syscall.EIO},
		"move":   {func(*world) error { return netlink(0, 0).MoveDevice(1, nil) }, os.ErrInvalid},
		"key":    {func(*world) error { return fail(netlinkrdma.ParseFRMRPoolKey("x")) }, syscall.EINVAL},
		"owner":  {func(*world) error { return fail(netlinkrdma.Owner{}.PID()) }, netlinkrdma.ErrNoProcess},
		"events": {func(*world) error { return fail(netlink(0, 0).Subscribe()) }, verbs.ErrNotSupported},
		"missing": {func(*world) error {
			return fail(netlink(abi.RDMA_NLDEV_CMD_GET, syscall.EPROTONOSUPPORT).Devices())
		}, verbs.ErrNotSupported},
	},
	"netlinkrdma/softlink": {
		"ensure": {func(*world) error { return fail(softlink.EnsureLink(netlink(0, 0), "a", "siw", "nosuch0")) }, nil},
	},
	"mmap": {
		"allocate": {func(*world) error { return fail(mmap.Anonymous(-1, nil)) }, os.ErrInvalid},
		"map":      {func(*world) error { return fail(mmap.Map(-1, 0, 1, mmap.ProtRead)) }, nil},
		"wrap":     {func(*world) error { return fail(mmap.Wrap(nil)) }, os.ErrInvalid},
		"page":     {func(w *world) error { return fail(mmap.NewPage(memory(w), nil)) }, nil},
		"word":     {func(w *world) error { return fail(memory(w).Word(99)) }, nil},
		"ring":     {func(w *world) error { return fail(mmap.NewFlagProducer[uint64](memory(w), 3, 0)) }, nil},
		"index": {func(w *world) error {
			return fail(mmap.NewIndexedConsumer[uint32](memory(w), mmap.IndexedLayout{Slots: 2, Stride: 4, Data: 8, Producer: 4}))
		}, mmap.ErrIndex},
		"second Close": {func(w *world) error { r := memory(w); return errors.Join(r.Close(), r.Close()) }, net.ErrClosed},
		"Close of nil": {func(*world) error { return (*mmap.Region)(nil).Close() }, os.ErrInvalid},
	},
	"ib/mad": {
		"parse":  {func(*world) error { return fail(mad.Parse(nil)) }, nil},
		"route":  {func(*world) error { return fail(mad.ParseRoute("x")) }, nil},
		"decode": {func(*world) error { return mad.Unmarshal(nil, new(mad.PortInfo)) }, nil},
		"encode": {func(*world) error { return mad.Marshal(nil, new(mad.PortInfo)) }, nil},
		"JSON":   {func(*world) error { return mad.ParseJSON([]byte(`[]`), new(mad.PortInfo)) }, nil},
		"status": {func(*world) error {
			m := mad.New(mad.ClassSA, mad.GetTableResp, mad.AttrNodeRecord, 0)
			m.SetStatus(mad.StatusBadMethodAttr)
			return m.Err()
		}, errors.ErrUnsupported},
	},
	"ib/madtest": {
		"tree":     {func(*world) error { return fail(madtest.FatTree(3, 2)) }, nil},
		"topology": {func(*world) error { return fail(madtest.ParseTopology(strings.NewReader("x"))) }, nil},
		"subnet":   {func(*world) error { return fail(madtest.NewSubnet(new(madtest.Topology))) }, nil},
		"open":     {func(w *world) error { return fail(subnet(w).Open("nosuch", 1)) }, fs.ErrNotExist},
		"start":    {func(w *world) error { return subnet(w).StartSM("nosuch") }, nil},
		"second Close": {func(w *world) error {
			p := port(w)
			return errors.Join(p.Close(), p.Close())
		}, net.ErrClosed},
		"request": {func(w *world) error {
			a := got(port(w).Register(mad.AgentConfig{Class: mad.ClassDirected}))(w.t)
			return fail(a.Do(cancelled(w.t.Context()), mad.Directed(1).SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{}))
		}, context.Canceled},
	},
	"ib/umad": {
		"open":  {func(*world) error { return fail(umad.Open("nosuch", 1)) }, nil},
		"ibsim": {func(*world) error { return fail(umad.OpenIBSim(umad.IBSim{SockName: "nosuch"})) }, nil},
	},
	"ib/fabric": {
		"status":  {func(w *world) error { return client(w).Get(w.t.Context(), mad.Directed(), 9, new(mad.PortInfo)) }, nil},
		"silence": {func(w *world) error { return client(w).Get(w.t.Context(), mad.ByLID(99), 0, new(mad.NodeInfo)) }, mad.ErrTimeout},
		"no SM":   {func(w *world) error { return client(w).QueryOne(w.t.Context(), 0, new(mad.PathRecord)) }, nil},
		"trace":   {func(w *world) error { return fail(client(w).Trace(w.t.Context(), 99, 98)) }, mad.ErrTimeout},
		"LID 0":   {func(w *world) error { return fail(client(w).Trace(w.t.Context(), 0, 1)) }, fabric.ErrBadTarget},
		"discover": {func(w *world) error {
			return fail(client(w).Discover(cancelled(w.t.Context()), nil))
		}, context.Canceled},
		"silent start": {func(w *world) error {
			return fail(client(w).Discover(w.t.Context(), &fabric.DiscoverOptions{From: mad.ByLID(99)}))
		}, mad.ErrTimeout},
		"names": {func(*world) error { return fail(fabric.ReadNames(strings.NewReader("x"))) }, nil},
		"JSON":  {func(*world) error { return json.Unmarshal([]byte(`{"nodes":[{}]}`), new(fabric.Fabric)) }, nil},
		"second Close": {func(w *world) error {
			c := client(w)
			return errors.Join(c.Close(), c.Close())
		}, net.ErrClosed},
	},
}

var errOwn = errors.New("of the program")

// near returns the context of the first host.
func (w *world) near() context.Context { return w.f.Host(0).Context(w.t.Context()) }

// nobody is an address of the second host at which nobody listens.
func (w *world) nobody() string { return w.f.Host(1).Addr() + ":7" }

func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// broken returns a stream whose other end is closed.
func broken() net.Conn {
	near, far := net.Pipe()
	far.Close()
	return near
}

// late reads after the deadline.
func late(c net.Conn) error {
	if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	return fail(c.Read(make([]byte, 1)))
}

// get asks a server of HTTP that does not exist.
func get(w *world, dial func(ctx context.Context, network, address string) (net.Conn, error)) error {
	r := got(http.NewRequestWithContext(w.near(), http.MethodGet, "http://"+w.nobody(), nil))(w.t)
	response, err := (&http.Client{Transport: &http.Transport{DialContext: dial}}).Do(r)
	if err == nil {
		response.Body.Close()
	}
	return err
}

// netlink returns a client of a kernel that refuses one command.
func netlink(command uint16, errno syscall.Errno) *netlinkrdma.Client {
	return &netlinkrdma.Client{Kernel: &nltest.Kernel{Fail: map[uint16]error{command: errno}}}
}

// memory returns a region whose first words are no index of a ring.
func memory(w *world) *mmap.Region {
	b := make([]byte, 16)
	b[0], b[4] = 0xff, 0xff
	return got(mmap.Wrap(b))(w.t)
}

func subnet(w *world) *madtest.Subnet {
	return got(madtest.NewSubnet(got(madtest.FatTree(2, 2))(w.t)))(w.t)
}

func port(w *world) mad.Port { return got(subnet(w).Open("h1", 1))(w.t) }

func client(w *world) *fabric.Client {
	return fabric.NewClient(port(w), &fabric.Config{Retry: mad.Retry{Timeout: time.Millisecond, Tries: 1}})
}

// TestErrors checks that whatever fails, there is a *verbs.Error in the error, which matches its
// cause, and the text repeats no operation and no object, also if one package works over another.
func TestErrors(t *testing.T) {
	w := newWorld(t, rdmatest.RXE)
	for pkg, calls := range failures {
		for name, f := range calls {
			t.Run(pkg+" "+name, func(t *testing.T) {
				err := f.call(&world{t, w.f, w.dev, w.pd})
				checkShape(t, name, err)
				if f.match != nil && !errors.Is(err, f.match) {
					t.Errorf("%v does not match %v", err, f.match)
				}
			})
		}
	}
}

// TestErrorsOfAll checks that TestErrors calls each public package whose functions return errors.
func TestErrorsOfAll(t *testing.T) {
	surface := string(got(os.ReadFile("../house/api.txt"))(t))
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9/]+): (?:func|method) .*\berror\)?$`).FindAllStringSubmatch(surface, -1) {
		// Those of nltest are the kernel's answers, errnos as from a system call.
		if pkg := m[1]; failures[pkg] == nil && pkg != "netlinkrdma/nltest" {
			t.Errorf("no call of package %s: %s", pkg, m[0])
		}
	}
}

// TestPiled checks that piled returns what an error's text repeats: an operation, an object, a cause, or the name of a package.
func TestPiled(t *testing.T) {
	refused := &verbs.Error{Op: "dial", Object: "10.0.0.2:7", Err: syscall.ECONNREFUSED, Hint: "start 10.0.0.2:7"}
	for want, err := range map[string]error{
		"":                   refused,
		"dial":               &verbs.Error{Op: "dial", Object: "storage", Err: refused},
		"10.0.0.2:7":         &verbs.Error{Op: "connect to", Object: "storage", Err: errors.Join(errors.New("10.0.0.2:7"), refused)},
		"msg":                &verbs.Error{Op: "begin", Err: errors.New("msg: no greeting")},
		"connection refused": errors.New("a: connection refused: connection refused"),
	} {
		if got := piled(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
