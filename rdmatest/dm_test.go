package rdmatest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// deviceMemory is a DM of a node's, and a region of it from offset 64 on.
func deviceMemory(t *testing.T, n *node, access verbs.Access) (*uverbs.DM, *uverbs.MR) {
	t.Helper()
	dm := closed(t, must(n.dev.AllocDM(1000, 128))(t))
	return dm, closed(t, must(n.pd.RegDM(dm, 64, 512, access))(t))
}

// holds tells what a DM has at an offset.
func holds(t *testing.T, dm *uverbs.DM, offset int64, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if must(dm.ReadAt(got, offset))(t); string(got) != want {
		t.Errorf("at %d: %q, want %q", offset, got, want)
	}
}

// TestDeviceMemory is what test_mr.DeviceMemoryTest does, and READs and atomics: sends come
// from memory of the device's, and go there.
func TestDeviceMemory(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a, b := two(t, f, verbs.QPTypeRC, all)
	mine, from := deviceMemory(t, a, verbs.AccessLocalWrite)
	his, to := deviceMemory(t, b, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic)
	must(mine.WriteAt([]byte("device memory it is!"), 64))(t)
	good := func(wr verbs.SendWR) {
		t.Helper()
		a.post(wr)
		if wc := a.next(); wc.Err() != nil {
			t.Fatal(wc)
		}
	}
	good(verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{from.SGE(0, 20)}})
	if got := b.mr.Bytes()[:20]; string(got) != "device memory it is!" {
		t.Errorf("received %q", got)
	}
	good(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.SGE(7, 13)}, RemoteAddr: 40, RKey: to.RKey()})
	holds(t, his, 64+40, "memory it is!\x00\x00\x00")
	good(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{from.SGE(100, 13)}, RemoteAddr: 40, RKey: to.RKey()})
	holds(t, mine, 164, "memory it is!\x00\x00\x00")
	word := binary.NativeEndian.AppendUint64(nil, 40)
	must(his.WriteAt(word, 64+8))(t)
	good(verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{from.SGE(200, 8)}, RemoteAddr: 8, RKey: to.RKey(), CompareAdd: 2})
	holds(t, mine, 264, string(word))
	holds(t, his, 64+8, string(binary.NativeEndian.AppendUint64(nil, 42)))
	a.post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.SGE(0, 8)}, RemoteAddr: 505, RKey: to.RKey()})
	if wc := a.next(); wc.Status != verbs.StatusRemAccessErr {
		t.Errorf("behind the end of the region: %v", wc)
	}
}

// TestDeviceMemoryAPI is what test_device.DMTest, test_mr.DeviceMemoryAPITest and
// test_device.SharedDMTest do, but for what needs another process.
func TestDeviceMemoryAPI(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	dev := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
	pd := closed(t, must(dev.AllocPD())(t))
	most := must(dev.Attr())(t).MaxDMSize
	for _, length := range []uint64{4, 100, 4096, most / 4, most / 2} {
		for align := range 7 {
			dm := must(dev.AllocDM(length, 1<<align))(t)
			data := bytes.Repeat([]byte{byte(align + 1)}, int(length))
			must(dm.WriteAt(data, 0))(t)
			holds(t, dm, 0, string(data))
			if err := errors.Join(must(pd.RegDM(dm, 0, int(length), verbs.AccessLocalWrite))(t).Close(), dm.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	dm := closed(t, must(dev.AllocDM(100, 0))(t))
	for name, err := range map[string]error{
		"more than there is":    second(dev.AllocDM(most+1, 0)),
		"an alignment of 1<<40": second(dev.AllocDM(4, 1<<40)),
		"offset 3":              second(dm.WriteAt(make([]byte, 4), 3)),
		"length 3":              second(dm.ReadAt(make([]byte, 3), 4)),
		"a window's right":      second(pd.RegDM(dm, 0, 100, verbs.AccessLocalWrite|verbs.AccessMWBind)),
		"behind the end":        second(pd.RegDM(dm, 0, 104, verbs.AccessLocalWrite)),
	} {
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := closed(t, must(dev.AllocDM(most/2, 0))(t))
	if err := second(dev.AllocDM(most/2, 0)); !errors.Is(err, syscall.ENOMEM) || whole.Len() != most/2 {
		t.Errorf("when too little is left: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestNoDeviceMemory: other drivers have none.
func TestNoDeviceMemory(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.RXE, rdmatest.ERDMA} {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
		dev := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
		if a := must(dev.Attr())(t); a.MaxDMSize != 0 {
			t.Errorf("%v has %d bytes", kind, a.MaxDMSize)
		}
		if err := second(dev.AllocDM(64, 0)); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("AllocDM on %v: %v", kind, err)
		}
		if err := second(dev.ImportDM(0)); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("ImportDM on %v: %v", kind, err)
		}
	}
}
