package watch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// watchTest is a watch that runs in a bubble, where time passes when nothing else
// can happen.
type watchTest struct {
	t        *testing.T
	kernel   *lockedKernel
	out, err lockedBuffer
	stop     context.CancelFunc
	code     chan int
}

// lockedBuffer is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	full chan struct{} // while it is set and open, Write blocks
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	full := l.full
	l.mu.Unlock()
	if full != nil {
		<-full
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// fill makes Write block until room is called.
func (l *lockedBuffer) fill() (room func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = make(chan struct{})
	return func() { close(l.full) }
}

// take returns the output since the last call.
func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// lockedKernel is changed while it answers.
type lockedKernel struct {
	*nltest.Kernel
	mu sync.Mutex
}

func (k *lockedKernel) Execute(req netlinkrdma.Request) ([][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Kernel.Execute(req)
}

func (w *watchTest) change(f func(k *nltest.Kernel)) {
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	f(w.kernel.Kernel)
}

// watching starts one on a machine with siw0, whose devices can't be opened.
func watching(t *testing.T, events bool, line string) *watchTest {
	t.Helper()
	tool, kernel, _ := clitest.Machine()
	kernel.System.Monitor = events
	kernel.Devices[0].Index, kernel.Ports[0].DeviceIndex = 0, 0 // the first that a kernel gives
	tool.Open = func(string) (*uverbs.Device, error) { return nil, syscall.EACCES }
	w := &watchTest{t: t, kernel: &lockedKernel{Kernel: kernel}, code: make(chan int, 1)}
	tool.RDMA.Kernel = w.kernel
	tool.Stdout, tool.Stderr = &w.out, &w.err
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	go func() { w.code <- tool.Run(ctx, cli.Root(Command()), strings.Fields(line)) }()
	synctest.Wait()
	return w
}

// prints compares the output since the last call, without the times, after a number
// of checks.
func (w *watchTest) prints(looks int, want ...string) {
	w.t.Helper()
	time.Sleep(time.Duration(looks) * checkInterval)
	synctest.Wait()
	var got []string
	for line := range strings.Lines(w.out.take()) {
		at, rest, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			w.t.Error(err)
		}
		got = append(got, strings.Join(strings.Fields(rest), " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("(-want +got):\n%s", diff)
	}
}

func (w *watchTest) ends(code int, stderr string) {
	w.t.Helper()
	w.stop()
	if got, said := <-w.code, w.err.take(); got != code || said != stderr {
		w.t.Errorf("exit code %d, %q", got, said)
	}
}

const unheard = "rdmalink: note: can't receive events of siw0, checking its ports instead: permission denied\n"

// TestWatchLooks checks that every difference is found if netlink sends nothing.
func TestWatchLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, false, "watch")
		w.prints(0, "look PRESENT siw0/1 state ACTIVE netdev dummy0")
		w.prints(2)
		w.change(func(k *nltest.Kernel) {
			k.Ports[0].State = verbs.PortDown
		})
		w.prints(1, "look PORT_ERR siw0/1 state DOWN")
		w.change(func(k *nltest.Kernel) {
			k.Ports[0].State = verbs.PortArmed
		})
		w.prints(1, "look PORT_STATE siw0/1 state ARMED")
		w.change(func(k *nltest.Kernel) {
			k.Ports[0].State = verbs.PortActive
		})
		w.prints(1, "look PORT_ACTIVE siw0/1 state ACTIVE")
		w.change(func(k *nltest.Kernel) {
			k.Devices[0].Name, k.Ports[0].DeviceName = "iwarp", "iwarp"
			k.Ports[0].NetdevName = "eth0"
		})
		w.prints(1, "look RENAME iwarp", "look NETDEV_RENAME iwarp/1 netdev eth0")
		w.change(func(k *nltest.Kernel) {
			k.Ports[0].NetdevName, k.Ports[0].NetdevIndex = "", 0
		})
		w.prints(1, "look NETDEV_DETACH iwarp/1")
		w.change(func(k *nltest.Kernel) {
			k.Devices = append(k.Devices, netlinkrdma.Device{Index: 9, Name: "rxe0", Ports: 1})
			k.Ports = append(k.Ports, netlinkrdma.Port{DeviceIndex: 9, DeviceName: "rxe0", Index: 1, State: verbs.PortActive, NetdevIndex: 4, NetdevName: "eth1"})
		})
		w.prints(1, "look REGISTER rxe0", "look NETDEV_ATTACH rxe0/1 netdev eth1", "look PORT_ACTIVE rxe0/1 state ACTIVE")
		w.change(func(k *nltest.Kernel) {
			k.Devices, k.Ports = k.Devices[1:], k.Ports[1:]
		})
		w.prints(1, "look UNREGISTER iwarp")
		w.ends(0, "rdmalink: note: this kernel sends no events of RDMA devices: checking them every 500ms instead\n"+unheard+
			strings.ReplaceAll(unheard, "siw0", "rxe0"))
	})
}

// TestWatchNetlink checks that an event is printed once, from netlink or, if netlink
// is silent, from the second check.
func TestWatchNetlink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, true, "watch")
		w.prints(0, "look PRESENT siw0/1 state ACTIVE netdev dummy0")
		rxe0 := netlinkrdma.Event{DeviceIndex: 9, DeviceName: "rxe0"}
		notify := func(typ netlinkrdma.EventType, e netlinkrdma.Event) {
			e.Type = typ
			w.kernel.Notify(e)
			synctest.Wait()
		}
		notify(netlinkrdma.EventRegister, netlinkrdma.Event{DeviceIndex: 0, DeviceName: "siw0"}) // it was present
		w.prints(0)
		w.change(func(k *nltest.Kernel) {
			k.Devices = append(k.Devices, netlinkrdma.Device{Index: 9, Name: "rxe0", Ports: 1})
			k.Ports = append(k.Ports, netlinkrdma.Port{DeviceIndex: 9, DeviceName: "rxe0", Index: 1, NetdevIndex: 4, NetdevName: "eth1"})
		})
		w.prints(1) // the event may come yet
		notify(netlinkrdma.EventRegister, rxe0)
		attached := rxe0
		attached.Port, attached.NetdevIndex, attached.NetdevName = 1, 4, "eth1"
		notify(netlinkrdma.EventNetdevAttach, attached)
		notify(netlinkrdma.EventNetdevAttach, attached)
		w.prints(3, "netlink REGISTER rxe0", "netlink NETDEV_ATTACH rxe0/1 netdev eth1")
		w.change(func(k *nltest.Kernel) {
			k.Ports[1].NetdevName = "eth2"
		})
		notify(netlinkrdma.EventNetdevRename, netlinkrdma.Event{NetdevIndex: 4, NetdevName: "eth2"})
		w.prints(3, "netlink NETDEV_RENAME netdev eth2")
		w.change(func(k *nltest.Kernel) {
			k.Devices[1].Name = "roce" // as 6.12 does, without an event
		})
		w.prints(1)
		w.prints(1, "look RENAME roce")
		notify(netlinkrdma.EventRename, netlinkrdma.Event{DeviceIndex: 9, DeviceName: "roce"})
		w.change(func(k *nltest.Kernel) {
			k.Devices, k.Ports = k.Devices[:1], k.Ports[:1]
		})
		w.prints(1, "look UNREGISTER roce")
		notify(netlinkrdma.EventUnregister, rxe0)
		notify(netlinkrdma.EventType(27), netlinkrdma.Event{})
		notify(netlinkrdma.EventNetdevDetach, netlinkrdma.Event{}) // of a network device in another namespace
		for _, typ := range []netlinkrdma.EventType{netlinkrdma.EventRegister, netlinkrdma.EventUnregister, netlinkrdma.EventRename} {
			notify(typ, netlinkrdma.Event{}) // of no device, which no kernel sends
		}
		w.prints(3, "netlink EventType(27)", "netlink NETDEV_DETACH", "netlink REGISTER", "netlink RENAME")
		// One event that waits to be printed, one that was read after it, and more than the
		// 16 that a subscriber buffers.
		room := w.out.fill()
		for range 2 {
			notify(netlinkrdma.EventType(27), netlinkrdma.Event{})
		}
		for range 20 {
			w.kernel.Notify(netlinkrdma.Event{Type: netlinkrdma.EventType(27)})
		}
		room()
		w.prints(2, slices.Repeat([]string{"netlink EventType(27)"}, 18)...)
		w.ends(0, unheard+strings.ReplaceAll(unheard, "siw0", "rxe0")+
			"rdmalink: note: wait for an event of an RDMA device: events were lost: no buffer space available: list the devices and ports again\n")
	})
}

// TestWatchNetdevOfTwo checks that the renaming of a network device is printed once,
// also if a check saw the new name at one of its ports.
func TestWatchNetdevOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, true, "watch")
		w.prints(0, "look PRESENT siw0/1 state ACTIVE netdev dummy0")
		notify := func(typ netlinkrdma.EventType, e netlinkrdma.Event) {
			e.Type = typ
			w.kernel.Notify(e)
			synctest.Wait()
		}
		notify(netlinkrdma.EventRegister, netlinkrdma.Event{DeviceIndex: 9, DeviceName: "rxe0"})
		w.prints(0, "netlink REGISTER rxe0")
		for i := range 20 { // the order of two devices is a matter of chance
			name := fmt.Sprint("eth", i)
			port := netlinkrdma.Event{DeviceIndex: 9, DeviceName: "rxe0", Port: 1}
			notify(netlinkrdma.EventNetdevDetach, port)
			port.NetdevIndex, port.NetdevName = 1, name
			notify(netlinkrdma.EventNetdevAttach, port)
			w.out.take()
			for range 2 {
				notify(netlinkrdma.EventNetdevRename, netlinkrdma.Event{NetdevIndex: 1, NetdevName: name})
			}
			w.prints(0, "netlink NETDEV_RENAME netdev "+name)
		}
		w.ends(0, unheard+strings.ReplaceAll(unheard, "siw0", "rxe0"))
	})
	synctest.Test(t, func(t *testing.T) { // a check prints the change for each port
		w := watching(t, false, "watch")
		w.change(func(k *nltest.Kernel) {
			k.Devices = append(k.Devices, netlinkrdma.Device{Index: 9, Name: "rxe0", Ports: 1})
			k.Ports = append(k.Ports, netlinkrdma.Port{DeviceIndex: 9, DeviceName: "rxe0", Index: 1, NetdevIndex: 1, NetdevName: "dummy0"})
		})
		w.prints(1, "look PRESENT siw0/1 state ACTIVE netdev dummy0", "look REGISTER rxe0", "look NETDEV_ATTACH rxe0/1 netdev dummy0")
		w.change(func(k *nltest.Kernel) { k.Ports[0].NetdevName, k.Ports[1].NetdevName = "eth0", "eth0" })
		w.prints(1, "look NETDEV_RENAME siw0/1 netdev eth0", "look NETDEV_RENAME rxe0/1 netdev eth0")
		w.stop()
		<-w.code
	})
}

func TestWatchJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, true, "-j watch")
		w.kernel.Notify(netlinkrdma.Event{Type: netlinkrdma.EventNetdevRename, NetdevIndex: 4, NetdevName: "eth2"})
		synctest.Wait()
		const want = `{"time":"TIME","source":"look","event":"PRESENT","ifname":"siw0","ifindex":0,"port":1,"state":"ACTIVE","netdev":"dummy0","netdev_index":1}
{"time":"TIME","source":"netlink","event":"NETDEV_RENAME","netdev":"eth2","netdev_index":4}
`
		got := strings.ReplaceAll(w.out.take(), time.Now().Format("2006-01-02T15:04:05.000000Z07:00"), "TIME")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.ends(0, unheard)
	})
}

func TestWatchFails(t *testing.T) {
	for _, op := range []uint16{abi.RDMA_NLDEV_CMD_SYS_GET, abi.RDMA_NLDEV_CMD_GET, abi.RDMA_NLDEV_CMD_PORT_GET} {
		synctest.Test(t, func(t *testing.T) {
			tool, kernel, nets := clitest.Machine()
			tool.Open = hosttest.Opens()
			kernel.Fail = map[uint16]error{op: syscall.EPROTONOSUPPORT}
			if got := clitest.Run(tool, cli.Root(Command()), "watch", nets); got.Code != 1 || !strings.Contains(got.Err, "modprobe ib_core") {
				t.Errorf("%+v", got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // ib_core is removed meanwhile
		w := watching(t, false, "watch")
		w.change(func(k *nltest.Kernel) { k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_GET: syscall.ECONNREFUSED} })
		time.Sleep(checkInterval)
		if code, said := <-w.code, w.err.take(); code != 1 || !strings.Contains(said, "connection refused") {
			t.Errorf("exit code %d, %s", code, said)
		}
	})
}

// TestWatchWriteFails checks the error if the reader has closed the pipe.
func TestWatchWriteFails(t *testing.T) {
	tool, _, _ := clitest.Machine()
	tool.Open = hosttest.Opens()
	var stderr bytes.Buffer
	tool.Stdout, tool.Stderr = failing{}, &stderr
	if code := tool.Run(t.Context(), cli.Root(Command()), []string{"watch"}); code != 1 || !strings.Contains(stderr.String(), errFull.Error()) {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}

var errFull = errors.New("the disk is full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// TestWatchDevice checks that the events of a device are printed, after the changes
// from before it was opened. The device is closed when it is removed, or when it
// fails; then it is opened again.
func TestWatchDevice(t *testing.T) { synctest.Test(t, testWatchDevice) }

func testWatchDevice(t *testing.T) {
	tool, fake, _ := clitest.Machine()
	fake.System.Monitor = true
	kernel := &lockedKernel{Kernel: fake}
	tool.RDMA.Kernel = kernel
	first, second := fakeverbs.New(uint32(verbs.DriverSIW)), fakeverbs.New(uint32(verbs.DriverSIW))
	first.InBubble, second.InBubble = true, true
	opened, open := make(chan struct{}, 2), hosttest.Opens(first, second)
	tool.Open = func(name string) (*uverbs.Device, error) {
		kernel.mu.Lock()
		fake.Ports[0].State = verbs.PortDown
		kernel.mu.Unlock()
		defer func() { opened <- struct{}{} }()
		return open(name)
	}
	r, out := io.Pipe()
	var stderr bytes.Buffer
	tool.Stdout, tool.Stderr = out, &stderr
	ctx, stop := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- tool.Run(ctx, cli.Root(Command()), []string{"watch"}) }()
	lines := bufio.NewScanner(r)
	wants := func(want string) {
		t.Helper()
		if _, got, _ := strings.Cut(scan(lines), " "); strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	wants("look PRESENT siw0/1 state ACTIVE netdev dummy0")
	<-opened
	wants("look PORT_ERR siw0/1 state DOWN")
	for _, test := range []struct {
		typ  verbs.EventType
		want string
	}{
		{verbs.EventPortActive, "device PORT_ACTIVE siw0/1"}, {verbs.EventPortErr, "device PORT_ERR siw0/1"},
		{verbs.EventGIDChange, "device GID_CHANGE siw0/1"}, {verbs.EventDeviceFatal, "device DEVICE_FATAL siw0"},
		{20, "device DEVICE_SPEED_CHANGE siw0"}, {27, "device EventType(27) siw0"},
	} {
		first.Async(1, uint32(test.typ))
		wants(test.want)
	}
	first.AsyncBytes([]byte{1, 2, 3}) // no event: the device is not to be trusted any more
	<-opened
	if !first.Closed() {
		t.Error("it is opened twice")
	}
	second.Async(1, uint32(verbs.EventLIDChange))
	wants("device LID_CHANGE siw0/1")
	kernel.mu.Lock()
	fake.Devices, fake.Ports = nil, nil
	kernel.mu.Unlock()
	wants("look UNREGISTER siw0")
	time.Sleep(checkInterval)
	if !second.Closed() { // the kernel waits for that
		t.Error("it is open after it has gone")
	}
	stop()
	if got := <-code; got != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, %s", got, &stderr)
	}
	for _, k := range []*fakeverbs.Kernel{first, second} {
		if leaks := k.Leaks(); len(leaks) > 0 {
			t.Errorf("left %v", leaks)
		}
	}
}

func scan(lines *bufio.Scanner) string {
	lines.Scan()
	return lines.Text()
}

// TestHostileEvent checks that names in events are escaped.
func TestHostileEvent(t *testing.T) {
	const name = "x\x1b]0;y\ay\u009b2J\nlink z"
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		tool := &cli.Tool{}
		tool.Stdout, tool.JSON = &out, asJSON
		if err := printEvent(tool, event{Device: name, Netdev: name, NetdevIndex: 1}); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) || strings.Contains(got, "\nlink z") || !strings.Contains(got, "x\\") {
			t.Errorf("%q", got)
		}
	}
}
