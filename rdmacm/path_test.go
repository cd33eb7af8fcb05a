package rdmacm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// pathBytes is a record with each field at the place that the specification gives it.
var pathBytes = [pathSize]byte{
	1, 2, 3, 4, 5, 6, 7, 8, // service ID
	0xfe, 0x80, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, // DGID
	0xfe, 0x81, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, // SGID
	0x12, 0x34, 0x56, 0x78, // DLID, SLID
	0x8a, 0xbc, 0xde, 0x40, // raw traffic, 3 bits of nothing, flow label, hop limit
	0x60, 0x85, 0xff, 0xfe, // traffic class, reversible and number of paths, P_Key
	0x12, 0x37, 0x83, 0xc3, // QoS class and SL, MTU, rate
	0x92, 0x05, // life time, preference
}

var path = Path{
	ServiceID: 0x0102030405060708,
	DGID:      verbs.GID(pathBytes[8:24]), SGID: verbs.GID(pathBytes[24:40]),
	DLID: 0x1234, SLID: 0x5678,
	RawTraffic: true, FlowLabel: 0xabcde, HopLimit: 0x40,
	TrafficClass: 0x60, Reversible: true, NumPaths: 5, PKey: 0xfffe,
	QoSClass: 0x123, SL: 7, MTUSelector: 2, MTU: verbs.MTU1024, RateSelector: 3, Rate: 3,
	LifeTimeSelector: 2, LifeTime: lifeTimeUnit << 18, Preference: 5,
}

// paths is the kernel's answer that n paths, all the same, are there.
func paths(n uint32) []byte {
	b := binary.NativeEndian.AppendUint32(nil, n)
	b = append(b, 0, 0, 0, 0)
	for range min(n, maxPaths) {
		b = append(b, 0x2b, 0, 0, 0, 0, 0, 0, 0)
		b = append(b, pathBytes[:]...)
	}
	return b
}

func TestQueryPaths(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	for _, test := range []struct{ says, has uint32 }{{0, 0}, {1, 1}, {6, 6}, {1 << 31, 6}} {
		k.paths = paths(test.says)
		got, err := id.QueryPaths()
		if err != nil || len(got) != int(test.has) {
			t.Fatalf("%d paths, %v", len(got), err)
		}
		for _, p := range got {
			if diff := cmp.Diff(path, p); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestSetPath(t *testing.T) {
	k := newFake()
	id := newTestID(t, k)
	if err := id.SetPath(&path); err != nil {
		t.Fatal(err)
	}
	o := body[abi.RdmaUcmSetOption](k, abi.RDMA_USER_CM_CMD_SET_OPTION)
	if o.Level != 1 || o.Optname != 1 || o.Optlen != 72 || !bytes.Equal(k.option, paths(1)[8:]) {
		t.Errorf("%+v, % x", o, k.option)
	}
}
