//go:build vm

package test

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/verbs"
)

// devinfo is what rdma-core's ibv_devinfo -v says of a device, by field.
func devinfo(t *testing.T, device string) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	for _, line := range strings.Split(sh(t, "ibv_devinfo -v -d "+device), "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// TestQueryDevice compares with rdma-core.
func TestQueryDevice(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	attr := must(k.dev.Query())(t)
	info := devinfo(t, dummyLink)
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
	noLeak(t)
	k := newKit(t)
	port := must(k.dev.QueryPort(1))(t)
	got := []any{port.State, port.LinkLayer, port.GIDTableLen, port.PKeyTableLen, port.ActiveMTU.Bytes()}
	if diff := cmp.Diff([]any{verbs.PortActive, verbs.LinkEthernet, uint32(1), uint32(0), 1024}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info := devinfo(t, dummyLink)
	if want := info["max_msg_sz"]; want != "0x"+strconv.FormatUint(uint64(port.MaxMsgSize), 16) {
		t.Errorf("largest message %d, ibv_devinfo says %s", port.MaxMsgSize, want)
	}
	for _, number := range []uint32{0, 2, 255} {
		if _, err := k.dev.QueryPort(number); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("port %d: %v", number, err)
		}
	}
}

// TestQueryGID: siw's one GID begins with the interface's hardware address.
func TestQueryGID(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	table := must(k.dev.GIDTable())(t)
	netdev := must(net.InterfaceByName("gvdummy"))(t)
	var want verbs.GID
	copy(want[:], netdev.HardwareAddr)
	behind := uint32(netdev.Index)
	if onKernel("6.1") {
		behind = 0 // it reports no interface for iWARP
	}
	if diff := cmp.Diff([]verbs.GIDEntry{{GID: want, Port: 1, NetdevIndex: behind}}, table); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&table[0], must(k.dev.QueryGID(1, 0))(t)); diff != "" {
		t.Errorf("(-table +entry):\n%s", diff)
	}
	for _, at := range [][2]uint32{{0, 0}, {1, 1}, {2, 0}} {
		if e, err := k.dev.QueryGID(at[0], at[1]); err == nil {
			t.Errorf("port %d index %d: %+v", at[0], at[1], e)
		}
	}
}

func TestQueryPKey(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	if key, err := k.dev.QueryPKey(1, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("iWARP has no P_Keys, got %#x, %v", key, err)
	}
}

// TestQueryQP: the state follows the connection on kernels that report it.
func TestQueryQP(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, s := connect(t, setup{}, setup{})
	inState := func(want verbs.QPState) {
		t.Helper()
		if onKernel("6.1") {
			want = verbs.QPStateReset // 6.1's siw leaves the field alone
		}
		if attr := must(c.QP().Query())(t); attr.State != want {
			t.Errorf("state %v, want %v", attr.State, want)
		}
	}
	inState(verbs.QPStateRTS)
	if err := s.Disconnect(); err != nil {
		t.Fatal(err)
	}
	c.ended()
	c.flushed()
	inState(verbs.QPStateErr)
}
