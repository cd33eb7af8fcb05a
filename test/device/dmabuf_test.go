//go:build vm

package device

import (
	"bytes"
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// udmabufCreate is C's struct udmabuf_create.
type udmabufCreate struct {
	memfd, flags uint32
	offset, size uint64
}

const (
	udmabufCreateIoctl = 0x40187542 // C: UDMABUF_CREATE
	bufPages           = 4
)

// dmaBuf returns a dma-buf of the kernel, and the file whose memory it exports.
func dmaBuf(t *testing.T) (buf, memory *os.File) {
	t.Helper()
	driver, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if os.IsNotExist(err) && (kit.OnKernel("6.1") || kit.OnUML()) {
		t.Skip("this kernel has no udmabuf")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	memory = os.NewFile(uintptr(kit.Must(unix.MemfdCreate("dmabuf", unix.MFD_ALLOW_SEALING))(t)), "memfd")
	kit.CloseLater(t, memory)
	size := bufPages * os.Getpagesize()
	if err := memory.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	arg := &udmabufCreate{memfd: uint32(memory.Fd()), size: uint64(size)}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, driver.Fd(), udmabufCreateIoctl, uintptr(unsafe.Pointer(arg)))
	runtime.KeepAlive(arg)
	if errno != 0 {
		t.Fatal(errno)
	}
	buf = os.NewFile(fd, "dma-buf")
	kit.CloseLater(t, buf)
	return buf, memory
}

// TestDMABuf checks that a dma-buf that Linux made is registered, and what a peer writes to the region is in the memory
// that was exported. The device is a model of mlx5, because no software driver of Linux takes dma-bufs.
func TestDMABuf(t *testing.T) {
	buf, memory := dmaBuf(t)
	dev := kit.Must(uverbs.Open(rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5}).Host(0).Device(0).Name()))(t)
	kit.CloseLater(t, dev)
	end := kit.Must(dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 4}))(t)
	kit.CloseLater(t, end)
	page := os.Getpagesize()
	const iova = 1 << 40
	mr, err := end.PD.RegDMABuf(buf, uint64(page), 2*page, iova, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	from := kit.Must(end.PD.AllocMR(page, 0, nil))(t)
	qp := kit.Must(end.CreateQP(&uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1, MaxRecvWR: 1, MaxRecvSGE: 1}}))(t)
	gid := kit.Must(dev.ChooseGID(1, nil))(t)
	if err := qp.Init(&verbs.QPAttr{Access: verbs.AccessRemoteWrite}); err != nil {
		t.Fatal(err)
	}
	if err := qp.Connect(&verbs.QPAttr{DestQPN: qp.QPN(), AH: verbs.AHAttr{Global: true, DGID: gid.GID, SGIDIndex: gid.Index, HopLimit: 1}}); err != nil {
		t.Fatal(err)
	}
	const text = "written by a device"
	copy(from.Bytes(), text)
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.SGE(0, len(text))}, RemoteAddr: iova + 100, RKey: mr.RKey()}
	kit.Must(qp.PostSend([]verbs.SendWR{wr}))(t)
	wcs := make([]verbs.WC, 1)
	if kit.Must(end.SendCQ.Wait(context.Background(), wcs))(t); wcs[0].Err() != nil {
		t.Fatal(wcs[0].Err())
	}
	got := make([]byte, len(text))
	if _, err := memory.ReadAt(got, int64(page)+100); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	if mr, err := end.PD.RegDMABuf(buf, 0, (bufPages+1)*page, 0, verbs.AccessLocalWrite); err == nil {
		t.Error("a region behind the dma-buf's end", mr.Close())
	}
}

// TestTransferDMABuf checks that package transfer moves bytes to and from a dma-buf that Linux made, whose descriptor
// came over a Unix socket.
func TestTransferDMABuf(t *testing.T) {
	buf, memory := dmaBuf(t)
	pair := kit.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(buf.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	messages := kit.Must(unix.ParseSocketControlMessage(control[:n]))(t)
	fds := kit.Must(unix.ParseUnixRights(&messages[0]))(t)
	received := os.NewFile(uintptr(fds[0]), "received")
	kit.CloseLater(t, received)

	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5, Hosts: make([]rdmatest.HostOptions, 2)})
	var engines []*transfer.Engine
	for i := range 2 {
		dev := kit.Must(uverbs.Open(f.Host(i).Device(0).Name()))(t)
		kit.CloseLater(t, dev)
		e := kit.Must(transfer.New([]*uverbs.Device{dev}, nil))(t)
		kit.CloseLater(t, e)
		engines = append(engines, e)
	}
	page := os.Getpagesize()
	gpu := kit.Must(engines[1].RegisterDMABuf(received, uint64(page), 2*page, verbs.AccessRemoteRead|verbs.AccessRemoteWrite, ""))(t)
	l := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go engines[1].Serve(l)
	own := kit.Must(engines[0].Register(make([]byte, 4*page), 0))(t)
	peer := kit.Must(engines[0].Open(t.Context(), l.Addr().String()))(t)
	remote := kit.Must(transfer.ParseDescriptor(gpu.Descriptor()))(t)
	for i := range own.Bytes()[:2*page] {
		own.Bytes()[i] = byte(i*7 + i>>8)
	}
	for _, op := range []transfer.Op{
		{Opcode: verbs.OpRDMAWrite, Local: own.Span(0, 2*page), Remote: remote},
		{Opcode: verbs.OpRDMARead, Local: own.Span(2*page, 2*page), Remote: remote},
	} {
		if err := kit.Must(peer.Submit(t.Context(), []transfer.Op{op}))(t).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 2*page)
	if _, err := memory.ReadAt(got, int64(page)); err != nil || !bytes.Equal(got, own.Bytes()[:2*page]) || !bytes.Equal(got, own.Bytes()[2*page:]) {
		t.Errorf("other bytes, %v", err)
	}
}
