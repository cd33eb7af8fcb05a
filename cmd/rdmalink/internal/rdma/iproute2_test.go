package rdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// iproute2 is C's rdma, which asks a fake kernel: its libmnl has other sockets
// (testdata/mnl.c).
type iproute2 struct {
	library, socket string
	version         version

	mu     sync.Mutex
	kernel *nltest.Kernel
}

type version struct{ major, minor int }

func (v version) before(major, minor int) bool {
	return v.major < major || v.major == major && v.minor < minor
}

// newIproute2 needs rdma and a C compiler.
func newIproute2(t *testing.T) *iproute2 {
	t.Helper()
	dir := t.TempDir()
	r := &iproute2{library: filepath.Join(dir, "mnl.so"), socket: filepath.Join(dir, "socket")}
	out, err := exec.Command("rdma", "-V").Output()
	if err == nil {
		_, err = fmt.Sscanf(string(out), "rdma utility, iproute2-%d.%d", &r.version.major, &r.version.minor)
	}
	if err != nil || r.version.before(6, 1) {
		lacks(t, "rdma of iproute2 6.1 or newer")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		lacks(t, "a C compiler")
	}
	// Read here, so that go test, which caches results, notices that it has changed.
	source, err := os.ReadFile("testdata/mnl.c")
	if err != nil {
		t.Fatal(err)
	}
	cc := exec.Command("cc", "-shared", "-fPIC", "-o", r.library, "-x", "c", "-")
	cc.Stdin = bytes.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: r.socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c) // rdma leaves sockets open
		}
	}()
	return r
}

// lacks skips the test on a developer's machine and fails it in CI.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("in CI, and missing: ", what)
	}
	t.Skip("missing: ", what)
}

// run returns the output of rdma on this kernel, and whether rdma failed. Text is
// normalized to that of newer versions, which 6.1 prints with -p; JSON to that of
// 6.1, without the line breaks of newer versions.
func (r *iproute2) run(t *testing.T, kernel *nltest.Kernel, line string) (out string, failed bool) {
	t.Helper()
	if !strings.Contains(line, "-j") {
		line = "-p " + line
	}
	r.ask(kernel)
	defer r.ask(nil)
	cmd := exec.Command("rdma", strings.Fields(line)...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+r.library, "GOVERBS_NETLINK="+r.socket)
	stdout, err := cmd.Output()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return strings.NewReplacer("}\n,", "},", "}\n]", "}]", "}\n ]", "} ]").Replace(string(stdout)), err != nil
}

func (r *iproute2) ask(kernel *nltest.Kernel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kernel = kernel
}

// serve answers one socket's requests, one after the other.
func (r *iproute2) serve(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		switch {
		case err != nil || n == 0:
			return
		case n == 1:
			for _, e := range monitorEvents {
				c.Write(message(nldevType|abi.RDMA_NLDEV_CMD_MONITOR, 0, 0, nltest.EncodeEvent(e)))
			}
			return
		}
		r.answer(c, buf[:n])
	}
}

const (
	nldevType   = abi.RDMA_NL_NLDEV << 10
	headerSize  = 16
	messageFail = 2 // NLMSG_ERROR, also the type of acknowledgements
	messageDone = 3
	flagMulti   = 2
	flagDump    = 0x300
)

func (r *iproute2) answer(c net.Conn, m []byte) {
	typ, seq := binary.NativeEndian.Uint16(m[4:]), binary.NativeEndian.Uint32(m[8:])
	req := netlinkrdma.Request{Op: typ & 0x3ff, Dump: binary.NativeEndian.Uint16(m[6:])&flagDump == flagDump}
	for rest := m[headerSize:]; len(rest) > 0; {
		size := binary.NativeEndian.Uint16(rest)
		req.Attrs = append(req.Attrs, netlinkrdma.Attr{Type: binary.NativeEndian.Uint16(rest[2:]), Value: bytes.Clone(rest[4:size])})
		rest = rest[(size+3)&^3:]
	}
	r.mu.Lock()
	replies, err := r.kernel.Execute(req)
	r.mu.Unlock()
	flags, end := uint16(0), uint16(messageFail)
	if req.Dump {
		flags, end = flagMulti, messageDone
	}
	for _, reply := range replies {
		c.Write(message(typ, flags, seq, reply))
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		flags, end = 0, messageFail
	}
	code := binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	c.Write(message(end, flags, seq, append(code, m[:headerSize]...)))
}

func message(typ, flags uint16, seq uint32, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(headerSize+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, body...)
}
