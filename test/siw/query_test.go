//go:build vm

package siw

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// objects holds the objects of a test without a connection. They are closed when the test ends.
type objects struct {
	dev     *uverbs.Device
	pd      *uverbs.PD
	mr      *uverbs.MR
	channel *uverbs.CompChannel
	cq      *uverbs.CQ
}

func newObjects(t *testing.T) *objects {
	t.Helper()
	kit.Fabric(t)
	o := &objects{dev: kit.Must(uverbs.Open(kit.DummyLink))(t)}
	kit.CloseLater(t, o.dev)
	end := kit.Must(o.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 64}))(t)
	kit.CloseLater(t, end)
	o.pd, o.cq, o.channel = end.PD, end.SendCQ, end.SendCQ.Channel()
	o.mr = kit.Must(o.pd.AllocMR(kit.MemorySize, kit.AllAccess, nil))(t)
	return o
}

func (o *objects) qp(t *testing.T) *uverbs.QP {
	t.Helper()
	qp := kit.Must(o.pd.CreateQP(&uverbs.QPOptions{SendCQ: o.cq, RecvCQ: o.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	kit.CloseLater(t, qp)
	return qp
}

// TestQueryDevice compares with rdma-core.
func TestQueryDevice(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	attr := kit.Must(k.dev.QueryDevice())(t)
	info := kit.Devinfo(t, kit.DummyLink)
	for name, got := range map[string]uint64{
		"max_qp": uint64(attr.MaxQP), "max_qp_wr": uint64(attr.MaxQPWR), "max_sge": uint64(attr.MaxSGE), "max_sge_rd": uint64(attr.MaxSGERead),
		"max_cq": uint64(attr.MaxCQ), "max_cqe": uint64(attr.MaxCQE), "max_mr": uint64(attr.MaxMR), "max_pd": uint64(attr.MaxPD),
		"max_qp_rd_atom": uint64(attr.MaxQPRDAtom), "max_qp_init_rd_atom": uint64(attr.MaxQPInitRDAtom), "max_mw": uint64(attr.MaxMW),
		"max_srq": uint64(attr.MaxSRQ), "max_srq_wr": uint64(attr.MaxSRQWR), "max_srq_sge": uint64(attr.MaxSRQSGE),
		"max_ah": uint64(attr.MaxAH), "phys_port_cnt": uint64(attr.PhysPortCnt), "vendor_part_id": uint64(attr.VendorPartID),
	} {
		if want, err := strconv.ParseUint(info[name], 0, 64); err != nil || got != want {
			t.Errorf("%s is %d, ibv_devinfo says %q", name, got, info[name])
		}
	}
	if got := attr.NodeGUID.String(); got != info["node_guid"] {
		t.Errorf("node GUID %s, ibv_devinfo says %s", got, info["node_guid"])
	}
}

func TestQueryPort(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	port := kit.Must(k.dev.QueryPort(1))(t)
	got := []any{port.State, port.LinkLayer, port.GIDTableLen, port.PKeyTableLen, port.ActiveMTU.Bytes()}
	if diff := cmp.Diff([]any{verbs.PortActive, verbs.LinkEthernet, uint32(1), uint32(0), 1024}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info := kit.Devinfo(t, kit.DummyLink)
	if want := info["max_msg_sz"]; want != "0x"+strconv.FormatUint(uint64(port.MaxMsgSize), 16) {
		t.Errorf("largest message %d, ibv_devinfo says %s", port.MaxMsgSize, want)
	}
	for _, number := range []int{0, 2, 255} {
		if _, err := k.dev.QueryPort(number); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("port %d: %v", number, err)
		}
	}
}

// TestQueryGID checks that siw's one GID begins with the interface's hardware address.
func TestQueryGID(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	table := kit.Must(k.dev.GIDTable())(t)
	netdev := kit.Must(net.InterfaceByName("gvdummy"))(t)
	var want verbs.GID
	copy(want[:], netdev.HardwareAddr)
	behind := uint32(netdev.Index)
	if kit.OnKernel("6.1") {
		behind = 0 // it reports no interface for iWARP
	}
	if diff := cmp.Diff([]verbs.GIDEntry{{GID: want, Port: 1, NetdevIndex: behind}}, table); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&table[0], kit.Must(k.dev.QueryGID(1, 0))(t)); diff != "" {
		t.Errorf("(-table +entry):\n%s", diff)
	}
	for _, at := range [][2]uint32{{0, 0}, {1, 1}, {2, 0}} {
		if e, err := k.dev.QueryGID(int(at[0]), at[1]); err == nil {
			t.Errorf("port %d index %d: %+v", at[0], at[1], e)
		}
	}
}

func TestQueryPKey(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	if key, err := k.dev.QueryPKey(1, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("iWARP has no P_Keys, got %#x, %v", key, err)
	}
}

// TestQueryQP checks that the state follows the connection on kernels that report it.
func TestQueryQP(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{})
	inState := func(want verbs.QPState) {
		t.Helper()
		if kit.OnKernel("6.1") {
			want = verbs.QPStateReset // 6.1's siw leaves the field alone
		}
		if attr := kit.Must(c.QP().Query())(t); attr.State != want {
			t.Errorf("state %v, want %v", attr.State, want)
		}
	}
	inState(verbs.QPStateRTS)
	if err := s.Disconnect(); err != nil {
		t.Fatal(err)
	}
	c.Ended()
	flushed(c)
	inState(verbs.QPStateErr)
}
