package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/kernel"
)

// cm is an open channel of the connection manager. The file behind it is a pipe that is
// readable while there are events, because processes poll it for events.
type cm struct {
	channel kernel.CM
	addr    netip.Addr // of the machine
	pipe    *os.File
	end     context.CancelFunc // of the waits for events
	life    context.Context

	mu      sync.Mutex
	onlyIP6 map[uint32]bool // the IDs that are to have no IPv4 address
}

func (c *call) openCM(flags int) result {
	own, theirs, err := c.files.pipe()
	if err != nil {
		return failed(err)
	}
	defer theirs.Close()
	if err := unix.SetNonblock(int(theirs.Fd()), flags&unix.O_NONBLOCK != 0); err != nil {
		return failed(err)
	}
	m := &cm{pipe: own, addr: c.machine().addr, onlyIP6: make(map[uint32]bool)}
	m.life, m.end = context.WithCancel(context.Background())
	if m.channel, err = c.machine().OpenCM(); err != nil {
		own.Close()
		return failed(err)
	}
	m.channel.(kernel.Watchable).Watch(c.leader(), m.changed)
	if err := c.files.add(theirs, m); err != nil {
		m.close()
		return failed(err)
	}
	return done(c.giveOurs(int(theirs.Fd()), flags&unix.O_CLOEXEC != 0))
}

func (m *cm) node() node { return cmNode }

func (m *cm) descriptor() *os.File { return m.pipe }

func (m *cm) close() {
	m.end()
	_ = m.channel.Close()
	m.pipe.Close()
}

// changed is called with the number of events.
func (m *cm) changed(waiting int) {
	if waiting > 0 {
		_, _ = unix.Write(int(m.pipe.Fd()), []byte{0})
		return
	}
	for b := make([]byte, 4096); ; {
		if n, err := unix.Read(int(m.pipe.Fd()), b); err != nil || n == 0 {
			return
		}
	}
}

// take carries out a command.
func (m *cm) take(c *call, b []byte) result {
	var h abi.RdmaUcmCmdHdr
	const header = 8
	if copy(abi.Bytes(&h), b) < header || len(b) < header+int(h.In) {
		return result{errno: syscall.EINVAL}
	}
	in := append(b, make([]byte, mostCommand)...)
	if h.Cmd == abi.RDMA_USER_CM_CMD_SET_OPTION {
		return done(len(b), m.option(c.process, in))
	}
	own := m.addr
	if m.wantsIP6(h, in) {
		own = netip.AddrFrom16(own.As16())
	}
	any := isAny(h, in)
	in = localize(h, in, own)
	q := cmCommand{c, len(b), in, make([]byte, h.Out), responseAddress(h, b[header:])}
	switch {
	case h.Cmd == abi.RDMA_USER_CM_CMD_BIND && isAFIB(b):
		return q.done(nil)
	case h.Cmd == abi.RDMA_USER_CM_CMD_GET_EVENT:
		return m.event(q)
	case h.Cmd == abi.RDMA_USER_CM_CMD_LISTEN:
		m.bindFirst(q.in, own)
	}
	err := m.channel.Command(q.in, q.out)
	if any && err == syscall.EADDRINUSE {
		err = syscall.EADDRNOTAVAIL // an ID has the port at one address or at all
	}
	return q.done(err)
}

// bindFirst binds an ID that is to listen. If it is bound already, that fails.
func (m *cm) bindFirst(in []byte, own netip.Addr) {
	var l abi.RdmaUcmListen
	copy(abi.Bytes(&l), in[8:])
	b := abi.RdmaUcmBind{Id: l.Id}
	b.Addr[0] = afInet
	h := abi.RdmaUcmCmdHdr{Cmd: abi.RDMA_USER_CM_CMD_BIND}
	_ = m.channel.Command(localize(h, slices.Concat(abi.Bytes(&h), abi.Bytes(&b)), own), nil)
}

// option passes an option's value on, and takes note of RDMA_OPTION_ID_AFONLY.
func (m *cm) option(p *process, in []byte) error {
	var o abi.RdmaUcmSetOption
	copy(abi.Bytes(&o), in[8:])
	if o.Optlen > mostCommand {
		return syscall.EINVAL
	}
	value := make([]byte, o.Optlen)
	if err := p.read(o.Optval, value); err != nil {
		return err
	}
	err := m.channel.Command(in, value)
	if err == nil && o.Level == abi.RDMA_OPTION_ID && o.Optname == abi.RDMA_OPTION_ID_AFONLY {
		m.mu.Lock()
		defer m.mu.Unlock()
		if slices.ContainsFunc(value, func(b byte) bool { return b != 0 }) {
			m.onlyIP6[o.Id] = true
		} else {
			delete(m.onlyIP6, o.Id)
		}
	}
	return err
}

// wantsIP6 reports whether a command binds an ID to IPv6 addresses only. A machine has none, so such an ID
// gets the machine's address as a mapped one: nobody reaches it, and it may have the port of an ID that
// is bound to IPv4 addresses.
func (m *cm) wantsIP6(h abi.RdmaUcmCmdHdr, in []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch h.Cmd {
	case abi.RDMA_USER_CM_CMD_BIND:
		return in[bindAddr] == afInet6 && m.onlyIP6[binary.NativeEndian.Uint32(in[bindID:])]
	case abi.RDMA_USER_CM_CMD_DESTROY_ID:
		delete(m.onlyIP6, binary.NativeEndian.Uint32(in[destroyID:]))
	}
	return false
}

// cmCommand is a command on its way.
type cmCommand struct {
	c       *call
	size    int // of the bytes written
	in, out []byte
	to      uint64 // where out goes
}

func (q cmCommand) done(err error) result {
	if err == nil && len(q.out) > 0 {
		err = q.c.write(q.to, q.out)
	}
	return done(q.size, err)
}

// responseAddress reads where the answer goes. It is the first field of most commands.
func responseAddress(h abi.RdmaUcmCmdHdr, body []byte) uint64 {
	at := 0
	if h.Cmd == abi.RDMA_USER_CM_CMD_CREATE_ID {
		at = 8
	}
	if h.Out == 0 || len(body) < at+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(body[at:])
}

// event returns the oldest event. If there is none it waits, unless the descriptor is
// nonblocking.
func (m *cm) event(q cmCommand) result {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	err := m.channel.Await(over, q.in, q.out)
	switch {
	case !errors.Is(err, context.Canceled):
		return q.done(err)
	case q.c.nonblocking(q.c.fd(0)):
		return result{errno: syscall.EAGAIN}
	}
	// A thread whose channel another one closes waits until it gets a signal, as in the kernel.
	return q.c.later(m.life, func(ctx context.Context) (result, bool) {
		err := m.channel.Await(ctx, q.in, q.out)
		if errors.Is(err, context.Canceled) {
			return result{}, false
		}
		return q.done(err), true
	})
}

// nonblocking reports whether a descriptor of the process has O_NONBLOCK.
func (p *process) nonblocking(fd int32) bool {
	return descriptorFlags(string(p.readFile(fmt.Sprintf("fdinfo/%d", fd))))&unix.O_NONBLOCK != 0
}

// descriptorFlags reads the flags out of /proc/PID/fdinfo/FD.
func descriptorFlags(info string) (flags int) {
	var pos int
	_, _ = fmt.Sscanf(info, "pos: %d\nflags: %o", &pos, &flags)
	return flags
}
