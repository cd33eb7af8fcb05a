package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/capture"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/decode"
)

// live is a network device that is listened to.
type live struct {
	ctx      context.Context
	file     *os.File
	loopback bool
	buf      []byte
}

// room is the size of the kernel's buffer. A device with segmentation offload passes up to
// 64 KiB at a time.
const room = 32 << 20

// listen opens a packet socket on the device. The packets end when ctx ends. The function
// that closes the socket prints a note with the number of packets that the kernel dropped.
func listen(ctx context.Context, netdev string, note func(string, ...any)) (capture.Source, func() error, error) {
	dev, err := net.InterfaceByName(netdev)
	if err != nil {
		return nil, nil, fmt.Errorf("network device %s: %w", netdev, err)
	}
	everything := int(htons(unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, everything)
	if errors.Is(err, unix.EPERM) {
		return nil, nil, fmt.Errorf("listen to %s: needs CAP_NET_RAW (run as root, or setcap cap_net_raw+ep): %w", netdev, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listen to %s: %w", netdev, err)
	}
	l := &live{ctx: ctx, file: os.NewFile(uintptr(fd), netdev), loopback: dev.Flags&net.FlagLoopback != 0, buf: make([]byte, capture.Longest)}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room) // as much as is allowed
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: dev.Index}); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen to %s: %w", netdev, err), l.file.Close())
	}
	stop := context.AfterFunc(ctx, func() { l.file.SetReadDeadline(time.Unix(1, 0)) })
	return l, func() error {
		stop()
		dropped, err := l.dropped()
		if dropped > 0 {
			note("%d packets were dropped: they arrived faster than they were read", dropped)
		}
		return errors.Join(err, l.file.Close())
	}, nil
}

// dropped returns how many packets the kernel has dropped since the last call.
func (l *live) dropped() (n uint32, err error) {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		var stats *unix.TpacketStats
		if stats, failed = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); failed == nil {
			n = stats.Drops
		}
	})
	return n, errors.Join(err, failed)
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func (l *live) Next() (capture.Record, error) {
	for {
		n, kind, err := l.receive()
		switch {
		case l.ctx.Err() != nil:
			return capture.Record{}, io.EOF
		case err != nil:
			return capture.Record{}, err
		case l.loopback && kind == unix.PACKET_OUTGOING: // lo shows it again as it arrives
		default:
			return capture.Record{Time: time.Now(), Link: decode.LinkEthernet, Data: l.buf[:min(n, len(l.buf))], Full: n}, nil
		}
	}
}

// receive waits for a packet. It returns the length, and whether the packet is incoming or
// outgoing.
func (l *live) receive() (n int, kind uint8, err error) {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		var from unix.Sockaddr
		for failed = unix.EINTR; errors.Is(failed, unix.EINTR); {
			n, from, failed = unix.Recvfrom(int(fd), l.buf, unix.MSG_TRUNC)
		}
		if address, ok := from.(*unix.SockaddrLinklayer); ok {
			kind = address.Pkttype
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	return n, kind, errors.Join(err, failed)
}
