package transfer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/internal/topotest"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/topo"
	"github.com/goverbs/goverbs/verbs"
)

// twoNICs returns the topology of a host whose first device is on another NUMA node than the second one and a GPU.
func twoNICs(t *testing.T, devices []*rdmatest.Device, node int) *topo.Topology {
	t.Helper()
	top, err := topo.Read(topotest.Parse(t, fmt.Sprintf(`
pci0000:10
  0000:10:00.0 8086:352a 060400 numa=%[3]d
    0000:11:00.0 15b3:1021 020000 numa=%[3]d infiniband=%[1]s
pci0000:20
  0000:20:00.0 8086:352a 060400 numa=%[4]d
    0000:21:00.0 1000:c030 060400 numa=%[4]d
      0000:22:00.0 1000:c030 060400 numa=%[4]d
        0000:23:00.0 15b3:1021 020000 numa=%[4]d infiniband=%[2]s
      0000:22:01.0 1000:c030 060400 numa=%[4]d
        0000:24:00.0 10de:2330 030200 numa=%[4]d
`, devices[0].Name(), devices[1].Name(), node+1, node)))
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// order returns the devices of the rails that n work requests for a region would take, one after the other.
func (p *Peer) order(region *Region, n int) (devices []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var bytes [2]int
	for range n {
		r := p.choose(verbs.OpRDMAWrite, region)
		devices = append(devices, r.device)
		r.bytes++
		bytes[r.number]++
	}
	for i, r := range p.rails {
		r.bytes -= bytes[i]
	}
	return devices
}

// TestNear checks that rails over the device that is near the memory are preferred, as long as they
// are up. Without a topology all are alike.
func TestNear(t *testing.T) {
	buf := make([]byte, 1<<20)
	node, known := nodeOf(buf)
	if !known {
		t.Log("the kernel does not say where memory is")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rdmatest.DeviceOptions{Kind: rdmatest.MLX5}, 2, 2)
		top := twoNICs(t, w.fabric.Host(0).Devices(), max(node, 0))
		client, server := w.engine(0, "", &Config{Topology: top}), w.engine(1, "server", &Config{Topology: &topo.Topology{}})
		theirs := w.register(server, len(buf))
		ours, err := client.Register(buf, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, remote := w.open(client, "server"), w.remote(theirs)
		p.awaitRails(2)
		alike := "[0 1 0 1]"
		near := map[*Region]string{theirs: alike, nil: alike, ours: alike}
		if known {
			near[ours] = "[1 1 1 1]"
		}
		gpu := w.gpuBuffer(client, len(buf), "0000:24:00.0")
		if gpu != nil {
			near[gpu] = "[1 1 1 1]"
			near[w.gpuBuffer(client, len(buf), "")] = alike
			near[w.gpuBuffer(client, len(buf), "0000:11:00.0")] = "[0 0 0 0]"
		}
		for r, want := range near {
			if got := fmt.Sprint(p.order(r, 4)); got != want {
				t.Errorf("%v: devices %s, want %s", r, got, want)
			}
		}
		w.fabric.Host(0).Device(1).SetLink(false)
		fill(buf, 1)
		if err := do(t.Context(), p, Op{Opcode: verbs.OpRDMAWrite, Local: ours.Span(0, len(buf)), Remote: remote}); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(p.order(ours, 2)); got != "[0 0]" || string(theirs.Bytes()) != string(buf) {
			t.Errorf("devices %s without the near link", got)
		}
	})
}

// TestUnknownGPU checks that a GPU that the topology does not have is an error, which names it.
func TestUnknownGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rdmatest.DeviceOptions{Kind: rdmatest.MLX5}, 1)
		e := w.engine(0, "", &Config{Topology: &topo.Topology{}})
		_, err := e.RegisterDMABuf(nil, 0, 1, 0, "0000:99:00.0")
		if want := `register 1 bytes: no PCI function has the address "0000:99:00.0": file does not exist`; !errors.Is(err, os.ErrNotExist) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// gpuBuffer returns a region of a DMA buffer, for which a file stands, or nil on systems where devices in software can't
// map it.
func (w *world) gpuBuffer(e *Engine, n int, gpu string) *Region {
	w.t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	f, err := os.Create(filepath.Join(w.t.TempDir(), "memory"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(n)); err != nil {
		w.t.Fatal(err)
	}
	r, err := e.RegisterDMABuf(f, 0, n, remoteAccess, gpu)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestNoDMABuf checks that a device that takes no DMA buffers says so, and the engine goes on.
func TestNoDMABuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, rdmatest.DeviceOptions{Kind: rdmatest.RXE}, 1)
		e := w.engine(0, "", nil)
		_, err := e.RegisterDMABuf(os.Stdin, 0, 1, 0, "")
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "rxe") {
			t.Error(err)
		}
		w.register(e, 1)
	})
}
