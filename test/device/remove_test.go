//go:build vm

package device

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const goneLink = "gvgone"

// TestRemoved deletes the link of a device that two processes have open, the second one by its node
// or by a descriptor from a Unix socket. Before Linux 7.3 the driver can't revoke contexts, so the kernel
// waits for both processes. Until then each of them uses the device as before, whatever the other one
// does; neither finds it again.
func TestRemoved(t *testing.T) {
	if kit.SinceLinux7() {
		t.Skip("TestRevoked runs here")
	}
	for _, tt := range []struct {
		name   string
		passed bool // the other process gets the descriptor
		killed bool // the other process ends first, without closing anything
	}{
		{"opened", false, false},
		{"passed", true, false},
		{"opened, killed", false, true},
		{"passed, killed", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) { removed(t, tt.passed, tt.killed) })
	}
}

// openGone opens a device that the test will delete.
func openGone(t *testing.T) *uverbs.Device {
	t.Helper()
	kit.Sh(t, `set -e
		ip link add gvgonenet type dummy
		ip addr add 10.87.0.1/24 dev gvgonenet
		ip link set gvgonenet up
		../../bin/rdmalink add gvgone type rxe netdev gvgonenet`)
	t.Cleanup(func() { kit.Sh(t, "ip link del gvgonenet") })
	kit.NoLeak(t)
	dev := kit.Must(uverbs.Open(goneLink))(t)
	kit.Until(t, "with a GID", func() bool { _, err := dev.ChooseGID(1, nil); return err == nil })
	return dev
}

// TestRevoked deletes the link of a device that is in use. Since Linux 7.3 rxe can revoke contexts, so
// the kernel waits for nobody: the program gets an event, and EIO from all but Close.
func TestRevoked(t *testing.T) {
	if !kit.SinceLinux7() {
		t.Skip("TestRemoved runs here")
	}
	dev := openGone(t)
	u := &user{dev: dev}
	kit.OK(t, u.begin())
	if out := kit.Rdmalink(t, "del "+goneLink); out != (kit.Output{}) {
		t.Fatalf("%+v", out)
	}
	if _, err := dev.QueryPort(1); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "the device has been removed") {
		t.Error(err)
	}
	if q, err := newLoopedQP(dev); !errors.Is(err, unix.EIO) {
		t.Error(q, err)
	}
	if err := u.q.Close(); err != nil {
		t.Error(err)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	var ends []string
	for range cap(u.ends) {
		ends = append(ends, fmt.Sprint(<-u.ends))
	}
	if !slices.Contains(ends, verbs.EventDeviceFatal.String()) {
		t.Error(ends)
	}
}

func removed(t *testing.T, passed, killed bool) {
	dev := openGone(t)
	node := dev.Info().Node

	f := kit.Must(os.OpenFile(node, os.O_RDWR, 0))(t)
	ours, theirs := socketPair(t)
	cmd := kit.Child("removed", fmt.Sprint(passed))
	cmd.ExtraFiles = []*os.File{theirs}
	orders := kit.Must(cmd.StdinPipe())(t)
	other := kit.Start(t, cmd)
	kit.OK(t, theirs.Close())
	if passed {
		kit.OK(t, unix.Sendmsg(int(ours.Fd()), []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0))
	}
	kit.OK(t, ours.Close())
	order := func(what string) {
		t.Helper()
		kit.Must(io.WriteString(orders, what+"\n"))(t)
		if line := other.Line(t); line != what {
			t.Fatalf("%q after %q", line, what)
		}
	}
	order("begin")
	if passed {
		if d, err := uverbs.ImportFile(f); !errors.Is(err, verbs.ErrNotSupported) {
			t.Error("the context that the other process has made:", d, err)
		}
	}
	u := &user{dev: dev}
	kit.OK(t, u.begin())

	unregistered := awaitUnregister(t)
	removal := kit.Launch(t, exec.Command(kit.RdmalinkBin, "del", goneLink))
	kit.Until(t, "removed", func() bool {
		var nl netlinkrdma.Client
		listed := slices.ContainsFunc(kit.Must(nl.Devices())(t), func(d netlinkrdma.Device) bool { return d.Name == goneLink })
		return !listed && errors.Is(unix.Access(node, unix.F_OK), unix.ENOENT)
	})
	kit.OK(t, u.goOn(node))
	order("go on")
	for what, use := range map[string]func(*os.File) (*uverbs.Device, error){"open": uverbs.OpenFile, "import": uverbs.ImportFile} {
		if d, err := use(f); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "removed") {
			t.Errorf("%s: %v, %v", what, d, err)
		}
	}

	if killed {
		kit.OK(t, other.Process.Kill())
		if err := other.Wait(); err == nil {
			t.Error("a killed process succeeds")
		}
		kit.OK(t, u.goOn(node))
	}
	if removal.Over() || len(unregistered) > 0 {
		t.Error("the device is removed while it is open")
	}
	kit.OK(t, u.close())
	kit.OK(t, f.Close())
	if !killed {
		order("go on")
		if removal.Over() || len(unregistered) > 0 {
			t.Error("the device is removed while the other process has it open")
		}
		order("close")
		kit.OK(t, orders.Close())
		other.Finish(t)
	}
	if out := removal.End(); out != (kit.Output{}) {
		t.Errorf("%+v", out)
	}
	if err := <-unregistered; err != nil {
		t.Error("no event of the removal:", err)
	}
}

// awaitUnregister returns a channel that gets nil at the event of the removal. Linux sends it at the
// end, so it is no notice to close the device. Linux 6.1 has no such events.
func awaitUnregister(t *testing.T) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	events, err := (&netlinkrdma.Client{}).Subscribe()
	if kit.OnKernel("6.1") && errors.Is(err, verbs.ErrNotSupported) {
		close(done)
		return done
	}
	if err != nil {
		t.Fatal(err)
	}
	kit.CloseLater(t, events)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*kit.Patience)
		defer cancel()
		for {
			e, err := events.Next(ctx)
			if err != nil || e.Type == netlinkrdma.EventUnregister && e.DeviceName == goneLink {
				done <- err
				return
			}
		}
	}()
	return done
}

func socketPair(t *testing.T) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
}

// removedUser opens the device by its name or by a descriptor from socket 3. It carries out the
// orders that it reads, and repeats each when it is done.
func removedUser(args []string) error {
	socket := os.NewFile(3, "socket")
	defer socket.Close()
	u := new(user)
	node := ""
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); fmt.Println(orders.Text()) {
		var err error
		switch orders.Text() {
		case "begin":
			if u.dev, err = openRemoved(args[0] == "true", socket); err == nil {
				node = u.dev.Info().Node
				err = u.begin()
			}
		case "go on":
			err = u.goOn(node)
		case "close":
			if err = u.close(); err == nil {
				err = nothingOpen()
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", orders.Text(), err)
		}
	}
	return nil
}

func openRemoved(passed bool, socket *os.File) (*uverbs.Device, error) {
	if !passed {
		return uverbs.Open(goneLink)
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(socket.Fd()), make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "passed")
	defer f.Close()
	return uverbs.OpenFile(f)
}

// nothingOpen returns an error if the process has a descriptor or a mapping of a device left.
func nothingOpen() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if strings.Contains(to, "uverbs") || strings.Contains(to, "infiniband") {
			return fmt.Errorf("descriptor %s is still %s", e.Name(), to)
		}
	}
	if n := regions.Live(); n > 0 {
		return fmt.Errorf("%d mappings left", n)
	}
	return nil
}

// user is a process's use of the device: a QP that is connected to itself, and a goroutine that waits
// for a completion, and one for asynchronous events.
type user struct {
	dev  *uverbs.Device
	q    *kit.RCQP
	ends chan error // of the waits
}

func (u *user) begin() (err error) {
	if u.q, err = newLoopedQP(u.dev); err != nil {
		return err
	}
	u.ends = make(chan error, 2)
	go func() {
		_, err := u.q.RecvCQ.Wait(context.Background(), make([]verbs.WC, 1))
		u.ends <- err
	}()
	go func() {
		for {
			if e, err := u.dev.AsyncEvent(context.Background()); err != nil || e.Type == verbs.EventDeviceFatal {
				u.ends <- errors.Join(err, fatal(e))
				return
			}
		}
	}()
	return nil
}

func fatal(e uverbs.AsyncEvent) error {
	if e.Type != verbs.EventDeviceFatal {
		return nil
	}
	return errors.New(e.Type.String())
}

// goOn uses what is there, makes new objects, and finds the device nowhere.
func (u *user) goOn(node string) error {
	if p, err := u.dev.QueryPort(1); err != nil || p.State != verbs.PortActive {
		return fmt.Errorf("port: %+v, %w", p, err)
	}
	if err := u.q.WriteOnce(); err != nil {
		return err
	}
	q, err := newLoopedQP(u.dev)
	if err != nil {
		return err
	}
	if err := q.Close(); err != nil {
		return err
	}
	if d, err := uverbs.Open(goneLink); !errors.Is(err, verbs.ErrNoDevice) {
		return fmt.Errorf("its name opens: %v, %w", d, err)
	}
	if d, err := uverbs.OpenNode(node); !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("its node opens: %v, %w", d, err)
	}
	if len(u.ends) > 0 {
		return fmt.Errorf("a wait ended: %w", <-u.ends)
	}
	return nil
}

// close closes everything under the goroutines that wait.
func (u *user) close() error {
	if err := errors.Join(u.q.Close(), u.dev.Close()); err != nil {
		return err
	}
	for range cap(u.ends) {
		if err := <-u.ends; !errors.Is(err, verbs.ErrClosed) {
			return fmt.Errorf("a wait ended with %w", err)
		}
	}
	return nil
}

func newLoopedQP(d *uverbs.Device) (*kit.RCQP, error) {
	q, err := kit.NewRCQP(d)
	if err != nil {
		return nil, err
	}
	return q, errors.Join(q.Connect(q.String()), q.WriteOnce())
}
