//go:build vm

package test

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
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestOpenBy opens the same device by all that it is known by.
func TestOpenBy(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	info := infoOf(t, rxeLink)
	port := must((&netlinkrdma.Client{}).Ports(info.Index))(t)[0]
	other := filepath.Join(t.TempDir(), "a node of another name")
	var st unix.Stat_t
	ok(t, unix.Stat(info.Node, &st))
	ok(t, unix.Mknod(other, unix.S_IFCHR|0o600, int(st.Rdev)))
	for what, open := range map[string]func() (*uverbs.Device, uint32, error){
		"netdev":    func() (*uverbs.Device, uint32, error) { return uverbs.OpenNetdev(port.NetdevName) },
		"IPv4":      func() (*uverbs.Device, uint32, error) { return rdmacm.OpenDevice(netip.MustParseAddr(rxeIPv4)) },
		"IPv6":      func() (*uverbs.Device, uint32, error) { return rdmacm.OpenDevice(netip.MustParseAddr(rxeIPv6)) },
		"node":      func() (*uverbs.Device, uint32, error) { return first(uverbs.OpenNode(info.Node)) },
		"its twin":  func() (*uverbs.Device, uint32, error) { return first(uverbs.OpenNode(other)) },
		"its index": func() (*uverbs.Device, uint32, error) { return first(uverbs.OpenIndex(info.Index, info.NodeGUID)) },
	} {
		d, number, err := open()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if d.Info() != info || number != 1 {
			t.Errorf("%s: %+v, port %d", what, d.Info(), number)
		}
		ok(t, d.Close())
	}
}

func infoOf(t *testing.T, name string) uverbs.DeviceInfo {
	t.Helper()
	for _, info := range must(uverbs.Devices())(t) {
		if info.Name == name {
			return info
		}
	}
	t.Fatal("no " + name)
	return uverbs.DeviceInfo{}
}

func first(d *uverbs.Device, err error) (*uverbs.Device, uint32, error) { return d, 1, err }

// TestOpenNothing: each refusal names what there is.
func TestOpenNothing(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	for want, open := range map[string]func() error{
		" (" + rxeLink + ")":  func() error { _, _, err := uverbs.OpenNetdev("lo"); return err },
		"no PCI function has": func() error { _, err := uverbs.OpenPCI("0000:00:1f.2"); return err },
		"it is no node":       func() error { _, err := uverbs.OpenNode("/dev/null"); return err },
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

// TestImportNothing: rxe shares no context, and a descriptor of something else has none.
func TestImportNothing(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	for path, want := range map[string]error{os.DevNull: verbs.ErrNoDevice, infoOf(t, rxeLink).Node: verbs.ErrNotSupported} {
		f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
		if _, err := uverbs.ImportFile(f); !errors.Is(err, want) || !strings.Contains(err.Error(), "import ") {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		ok(t, f.Close())
	}
}

// TestOpenPassed gives a process the descriptor of a node that it may not open.
func TestOpenPassed(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	path := infoOf(t, rxeLink).Node
	f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	ok(t, os.Chmod(path, 0o600))
	t.Cleanup(func() { ok(t, os.Chmod(path, 0o666)) })
	cmd := nobody(child("rxe passed", path))
	cmd.ExtraFiles = []*os.File{f}
	if out := runCommand(t, cmd); out != (output{}) {
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
	q, err := newTalker(d)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := q.connect(q.String()); err != nil {
		return err
	}
	return errors.Join(q.writeOnce(), q.writeOnce())
}
