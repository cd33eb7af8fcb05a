package sandbox

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/mmap"
)

// insideFabric is set for the process of the test that runs in the sandbox.
const insideFabric = "GOVERBS_INSIDE_FABRIC"

// TestUmadABI checks the system calls of umad and issm nodes, as Linux's user_mad.c answers them.
func TestUmadABI(t *testing.T) {
	if os.Getenv(insideFabric) == "" {
		out, err := inside(t, []string{"--fabric", "fat-tree:4x2"}, "env", insideFabric+"=1", hostVariable+"=h2", os.Args[0], "-test.run", "^TestUmadABI$")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	t.Run("registering", testRegistering)
	t.Run("56 bytes", testOldHeader)
	t.Run("RMPP", testRMPP)
	t.Run("timeout", testTimeout)
	t.Run("issm", testISSM)
}

// openNode opens a node of the sandbox.
func openNode(t *testing.T, name string) int {
	t.Helper()
	fd, err := unix.Open("/dev/infiniband/"+name, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func umadControl(fd int, request uintptr, arg []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(unsafe.SliceData(arg))))
	if errno != 0 {
		return errno
	}
	return nil
}

// wants checks an error.
func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if err != want {
		t.Errorf("%s: %v, not %v", what, err, want)
	}
}

// agent2 returns the argument of REGISTER_AGENT2.
func agent2(class mad.Class, qpn uint32, methods uint64) []byte {
	b := make([]byte, 40)
	binary.NativeEndian.PutUint32(b[4:], qpn)
	b[8], b[9] = byte(class), class.Version()
	binary.NativeEndian.PutUint64(b[16:], methods)
	if class == mad.ClassSA {
		b[36] = 1
	}
	return b
}

func testRegistering(t *testing.T) {
	fd := openNode(t, "umad0")
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(231, 0) {
		t.Errorf("fstat: %v, mode %o, device %x", err, st.Mode, st.Rdev)
	}
	unknown := agent2(mad.ClassSA, 1, 0)
	binary.NativeEndian.PutUint32(unknown[12:], 6)
	wants(t, "unknown flags", umadControl(fd, umadRegister2, unknown), unix.EINVAL)
	if f := binary.NativeEndian.Uint32(unknown[12:]); f != 1 {
		t.Errorf("the supported flags are %d, not 1", f)
	}
	wants(t, "QP 2", umadControl(fd, umadRegister2, agent2(mad.ClassSA, 2, 0)), unix.EINVAL)
	wants(t, "SMP on QP 1", umadControl(fd, umadRegister2, agent2(mad.ClassDirected, 1, 0)), unix.EINVAL)
	wants(t, "enabling P_Keys", umadControl(fd, umadEnablePKey, nil), nil)
	first := agent2(mad.ClassPerf, 1, 2)
	wants(t, "an agent", umadControl(fd, umadRegister2, first), nil)
	wants(t, "enabling P_Keys later", umadControl(fd, umadEnablePKey, nil), unix.EINVAL)
	wants(t, "the same methods", umadControl(fd, umadRegister2, agent2(mad.ClassPerf, 1, 2)), unix.EINVAL)
	wants(t, "other methods", umadControl(fd, umadRegister2, agent2(mad.ClassPerf, 1, 4)), nil)
	wants(t, "unregistering", umadControl(fd, umadUnregister, first[:4]), nil)
	wants(t, "unregistering again", umadControl(fd, umadUnregister, first[:4]), unix.EINVAL)
	wants(t, "the methods that are free again", umadControl(fd, umadRegister2, agent2(mad.ClassPerf, 1, 2)), nil)
	for range umadAgents - 2 {
		wants(t, "a client", umadControl(fd, umadRegister2, agent2(mad.ClassPerf, 1, 0)), nil)
	}
	wants(t, "agent 33", umadControl(fd, umadRegister2, agent2(mad.ClassPerf, 1, 0)), unix.ENOMEM)
	wants(t, "another request", umadControl(fd, 0x1b05, nil), unix.ENOTTY)
}

// awaitMAD waits until the node is readable.
func awaitMAD(t *testing.T, fd int) {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLOUT}}
	for p[0].Revents&unix.POLLIN == 0 {
		if n, err := unix.Poll(p, 60_000); n == 0 || err != nil && err != unix.EINTR {
			t.Fatalf("poll: %d, %v", n, err)
		}
		if p[0].Revents&unix.POLLOUT == 0 {
			t.Fatal("the node isn't writable")
		}
	}
}

func testOldHeader(t *testing.T) {
	fd := openNode(t, "umad0")
	old := make([]byte, 28)
	old[21], old[22] = byte(mad.ClassDirected), 1
	wants(t, "REGISTER_AGENT", umadControl(fd, umadRegister, old), nil)
	b := make([]byte, umadOldHeader+mad.Size)
	binary.NativeEndian.PutUint32(b[8:], 60_000)
	binary.BigEndian.PutUint16(b[28:], mad.PermissiveLID)
	d := mad.MAD(b[umadOldHeader:])
	d.SetTID(0xabcdef0112345678)
	d[0], d[1], d[2], d[3], d[7] = 1, byte(mad.ClassDirected), 1, byte(mad.Get), 1 // one hop
	binary.BigEndian.PutUint16(d[16:], uint16(mad.AttrNodeInfo))
	binary.BigEndian.PutUint32(d[32:], 0xffffffff)
	d[129] = 1 // by port 1

	_, err := unix.Read(fd, b)
	wants(t, "a read without a message", err, unix.EAGAIN)
	_, err = unix.Write(fd, b[:umadOldHeader+rmppHeader-1])
	wants(t, "a short write", err, unix.EINVAL)
	for id, want := range map[uint32]error{32: unix.EINVAL, 7: unix.EIO} {
		binary.NativeEndian.PutUint32(b, id)
		_, err := unix.Write(fd, b)
		wants(t, "an unknown agent", err, want)
	}
	binary.NativeEndian.PutUint32(b, 0)
	_, err = unix.Write(fd, append(b, 0))
	wants(t, "a long MAD without RMPP", err, unix.EINVAL)
	n, err := unix.Write(fd, b)
	if n != len(b) || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
	awaitMAD(t, fd)
	_, err = unix.Read(fd, make([]byte, umadOldHeader+mad.Size-1))
	wants(t, "a short read", err, unix.EINVAL)
	n, err = unix.Read(fd, b)
	if n != umadOldHeader+mad.Size || err != nil || uint32(d.TID()) != 0x12345678 || d.TID()>>32 == 0xabcdef01 || d.Method() != mad.GetResp {
		t.Errorf("read: %d, %v, TID %x, method %v", n, err, d.TID(), d.Method())
	}
	if l := binary.NativeEndian.Uint32(b[16:]); l != uint32(n) || d.Data()[2] != byte(mad.NodeSwitch) {
		t.Errorf("length %d, node type %d", l, d.Data()[2])
	}
}

// newRequest returns a write of an agent.
func newRequest(class mad.Class, method mad.Method, attr mad.AttrID, lid uint16, timeout uint32) ([]byte, mad.MAD) {
	b := make([]byte, umadHeader+mad.Size)
	binary.NativeEndian.PutUint32(b[8:], timeout)
	binary.BigEndian.PutUint32(b[20:], 1)
	binary.BigEndian.PutUint32(b[24:], mad.QKeyGSI)
	binary.BigEndian.PutUint16(b[28:], lid)
	d := mad.MAD(b[umadHeader:])
	d[0], d[1], d[2], d[3] = 1, byte(class), class.Version(), byte(method)
	binary.BigEndian.PutUint16(d[16:], uint16(attr))
	d.SetTID(42)
	return b, d
}

func testRMPP(t *testing.T) {
	fd := openNode(t, "umad0")
	wants(t, "REGISTER_AGENT2", umadControl(fd, umadRegister2, agent2(mad.ClassSA, 1, 0)), nil)
	b, _ := newRequest(mad.ClassSA, mad.GetTable, mad.AttrNodeRecord, 1, 60_000)
	if _, err := unix.Write(fd, b); err != nil {
		t.Fatal(err)
	}
	awaitMAD(t, fd)
	_, err := unix.Read(fd, b)
	wants(t, "a read of the first segment", err, unix.ENOSPC)
	size := int(binary.NativeEndian.Uint32(b[16:]))
	// 8 hosts and 6 switches with records of 112 bytes.
	if want := umadHeader + 56 + 14*112; size != want {
		t.Fatalf("the message has %d bytes, not %d", size, want)
	}
	whole := make([]byte, size)
	n, err := unix.Read(fd, whole)
	if n != size || err != nil || string(whole[umadHeader:umadHeader+mad.Size]) != string(b[umadHeader:]) {
		t.Errorf("read: %d, %v", n, err)
	}
	if !strings.Contains(string(whole), "spine2") {
		t.Error("the records have no spine2")
	}
	if _, err := unix.Read(fd, whole); err != unix.EAGAIN {
		t.Errorf("the message is there twice: %v", err)
	}
}

// TestUmadUnread checks that messages that nobody reads are bounded, by their number and by their bytes, and that a read
// makes room.
func TestUmadUnread(t *testing.T) {
	f, err := newFiles()
	if err != nil {
		t.Fatal(err)
	}
	defer f.remove()
	for _, size := range []int{1 << 20, 16} {
		own, theirs, err := f.pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		defer theirs.Close()
		memory, err := mmap.Anonymous(umadHeader+size, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		u := &umadFile{pipe: own, pkeys: true, life: t.Context()}
		most, data := min(maxUmadQueue, maxUmadBytes/size), make([]byte, size)
		for range most + 1 {
			u.queue([umadHeader]byte{}, data)
		}
		if len(u.messages) != most {
			t.Errorf("%d messages of %d bytes wait, want %d", len(u.messages), size, most)
		}
		c := &call{process: processOf(t, os.Getpid()), notification: notification{Args: [6]uint64{1: memory.Addr()}}}
		if r := u.deliver(c, uint64(umadHeader+size)); r.errno != 0 {
			t.Fatal(r)
		}
		if u.queue([umadHeader]byte{}, data); len(u.messages) != most {
			t.Errorf("%d messages of %d bytes wait after a read, want %d", len(u.messages), size, most)
		}
	}
}

func testTimeout(t *testing.T) {
	fd := openNode(t, "umad0")
	wants(t, "REGISTER_AGENT2", umadControl(fd, umadRegister2, agent2(mad.ClassPerf, 1, 0)), nil)
	b, d := newRequest(mad.ClassPerf, mad.Get, mad.AttrPortCounters, 0x99, 100)
	if _, err := unix.Write(fd, b); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil { // the read waits
		t.Fatal(err)
	}
	n, err := unix.Read(fd, b)
	if n != umadHeader+madHeader || err != nil || binary.NativeEndian.Uint32(b[4:]) != uint32(unix.ETIMEDOUT) || uint32(d.TID()) != 42 {
		t.Errorf("read: %d, %v, % x", n, err, b[:umadHeader])
	}
	b, _ = newRequest(mad.ClassPerf, mad.Get, mad.AttrPortCounters, 0x99, 60_000)
	if _, err := unix.Write(fd, b); err != nil {
		t.Fatal(err)
	}
	_, err = unix.Write(fd, b)
	wants(t, "the same TID", err, unix.EINVAL)
}

func testISSM(t *testing.T) {
	isSM := func() bool {
		mask, err := os.ReadFile("/sys/class/infiniband/mlx5_0/ports/1/cap_mask")
		if err != nil || len(mask) < 10 {
			t.Fatal(err, string(mask))
		}
		return strings.ContainsRune("2367abef", rune(mask[9]))
	}
	first, err := unix.Open("/dev/infiniband/issm0", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !isSM() {
		t.Error("the port isn't a subnet manager")
	}
	_, err = unix.Open("/dev/infiniband/issm0", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	wants(t, "a second subnet manager", err, unix.EAGAIN)
	second := make(chan error)
	go func() {
		fd, err := unix.Open("/dev/infiniband/issm0", unix.O_RDONLY, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		second <- err
	}()
	if err := unix.Close(first); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
