//go:build vm

package device

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestDevices checks that rdma-core's list is ours, and each device opens by name and by index.
func TestDevices(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	infos := kit.Must(uverbs.Devices())(t)
	theirs := kit.Sh(t, "ibv_devices")
	if n := strings.Count(theirs, "gv"); n < 3 || len(infos) != n {
		t.Errorf("%+v\n%s", infos, theirs)
	}
	for _, info := range infos {
		siw := strings.HasPrefix(info.Name, "gvsiw")
		if !strings.Contains(theirs, info.Name) || siw != (info.Driver == verbs.DriverSIW) {
			t.Errorf("%+v\n%s", info, theirs)
		}
		for _, dev := range []*uverbs.Device{kit.Must(uverbs.Open(info.Name))(t), kit.Must(uverbs.OpenIndex(info.Index, info.NodeGUID))(t)} {
			if dev.Info() != info {
				t.Errorf("%+v, listed as %+v", dev.Info(), info)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := uverbs.Open("nosuch"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), kit.DummyLink+" (siw, index ") {
		t.Error(err)
	}
}

// TestOpenBy opens the same device by all that it is known by.
func TestOpenBy(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	info := kit.InfoOf(t, kit.RxeLink)
	port := kit.Must((&netlinkrdma.Client{}).Ports(info.Index))(t)[0]
	other := filepath.Join(t.TempDir(), "a node of another name")
	var st unix.Stat_t
	kit.OK(t, unix.Stat(info.Node, &st))
	kit.OK(t, unix.Mknod(other, unix.S_IFCHR|0o600, int(st.Rdev)))
	for what, open := range map[string]func() (*uverbs.Device, int, error){
		"netdev":    func() (*uverbs.Device, int, error) { return uverbs.OpenNetdev(port.NetdevName) },
		"IPv4":      func() (*uverbs.Device, int, error) { return rdmacm.OpenDevice(netip.MustParseAddr(kit.RxeIPv4)) },
		"IPv6":      func() (*uverbs.Device, int, error) { return rdmacm.OpenDevice(netip.MustParseAddr(kit.RxeIPv6)) },
		"node":      func() (*uverbs.Device, int, error) { return first(uverbs.OpenNode(info.Node)) },
		"its twin":  func() (*uverbs.Device, int, error) { return first(uverbs.OpenNode(other)) },
		"its index": func() (*uverbs.Device, int, error) { return first(uverbs.OpenIndex(info.Index, info.NodeGUID)) },
	} {
		d, number, err := open()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if d.Info() != info || number != 1 {
			t.Errorf("%s: %+v, port %d", what, d.Info(), number)
		}
		kit.OK(t, d.Close())
	}
}

func first(d *uverbs.Device, err error) (*uverbs.Device, int, error) { return d, 1, err }

// TestOpenNothing checks that each refusal names what there is.
func TestOpenNothing(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for want, open := range map[string]func() error{
		" (" + kit.RxeLink + ")": func() error { _, _, err := uverbs.OpenNetdev("lo"); return err },
		"no PCI function has":    func() error { _, err := uverbs.OpenPCI("0000:00:1f.2"); return err },
		"it is not the node":     func() error { _, err := uverbs.OpenNode("/dev/null"); return err },
	} {
		if err := open(); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, _, err := rdmacm.OpenDevice(netip.MustParseAddr("192.0.2.99")); !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Error("an address that nobody has:", err)
	}
	if _, _, err := rdmacm.OpenDevice(netip.IPv4Unspecified()); !errors.Is(err, unix.EINVAL) {
		t.Error("any address:", err)
	}
}

// TestImportNothing checks that rxe shares no context, and a descriptor of something else has none.
func TestImportNothing(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for path, want := range map[string]error{os.DevNull: verbs.ErrNoDevice, kit.InfoOf(t, kit.RxeLink).Node: verbs.ErrNotSupported} {
		f := kit.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
		if _, err := uverbs.ImportFile(f); !errors.Is(err, want) || !strings.Contains(err.Error(), "import ") {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		kit.OK(t, f.Close())
	}
}

// TestOpenPassed gives a process the descriptor of a node that it may not open.
func TestOpenPassed(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	path := kit.InfoOf(t, kit.RxeLink).Node
	f := kit.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	kit.OK(t, os.Chmod(path, 0o600))
	t.Cleanup(func() { kit.OK(t, os.Chmod(path, 0o666)) })
	cmd := kit.Nobody(kit.Child("rxe passed", path))
	cmd.ExtraFiles = []*os.File{f}
	if out := kit.RunCommand(t, cmd); out != (kit.Output{}) {
		t.Errorf("%+v", out)
	}
}

// rxePassed uses descriptor 3, as another user than the one who opened it.
func rxePassed(args []string) error {
	if _, err := uverbs.OpenNode(args[0]); !errors.Is(err, unix.EACCES) {
		return errors.Join(errors.New("the node opens"), err)
	}
	f := os.NewFile(3, "passed")
	d, err := uverbs.OpenFile(f)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := f.Close(); err != nil {
		return err
	}
	q, err := kit.NewRCQP(d)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := q.Connect(q.String()); err != nil {
		return err
	}
	return errors.Join(q.WriteOnce(), q.WriteOnce())
}
