//go:build vm

package device

import (
	"context"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/test/kit"
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

// TestDMABuf: a dma-buf that Linux made is registered, and what a peer writes to the region is in the
// memory that was exported. The device is a model of mlx5, because no software driver of Linux takes
// dma-bufs.
func TestDMABuf(t *testing.T) {
	buf, memory := dmaBuf(t)
	dev := kit.Must(uverbs.Open(rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5}).Host(0).Device(0).Name()))(t)
	kit.CloseLater(t, dev)
	pd := kit.Must(dev.AllocPD())(t)
	kit.CloseLater(t, pd)
	page := os.Getpagesize()
	const iova = 1 << 40
	mr, err := pd.RegDMABuf(buf, uint64(page), 2*page, iova, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	kit.CloseLater(t, mr)
	from := kit.Must(pd.AllocMR(page, 0, nil))(t)
	kit.CloseLater(t, from)
	channel := kit.Must(dev.CreateCompChannel())(t)
	kit.CloseLater(t, channel)
	cq := kit.Must(dev.CreateCQ(4, &uverbs.CQOptions{Channel: channel}))(t)
	kit.CloseLater(t, cq)
	qp := kit.Must(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1, MaxRecvWR: 1, MaxRecvSGE: 1}}))(t)
	kit.CloseLater(t, qp)
	gid := kit.Must(dev.ChooseGID(1, nil))(t)
	if err := qp.Init(&verbs.QPAttr{Access: verbs.AccessRemoteWrite}); err != nil {
		t.Fatal(err)
	}
	if err := qp.Connect(&verbs.QPAttr{DestQPN: qp.Num(), AH: verbs.AHAttr{Global: true, DGID: gid.GID, SGIDIndex: gid.Index, HopLimit: 1}}); err != nil {
		t.Fatal(err)
	}
	const text = "written by a device"
	copy(from.Bytes(), text)
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.SGE(0, len(text))}, RemoteAddr: iova + 100, RKey: mr.RKey()}
	kit.Must(qp.PostSend([]verbs.SendWR{wr}))(t)
	wcs := make([]verbs.WC, 1)
	if kit.Must(cq.Wait(context.Background(), wcs))(t); wcs[0].Err() != nil {
		t.Fatal(wcs[0].Err())
	}
	got := make([]byte, len(text))
	if _, err := memory.ReadAt(got, int64(page)+100); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	if mr, err := pd.RegDMABuf(buf, 0, (bufPages+1)*page, 0, verbs.AccessLocalWrite); err == nil {
		t.Error("a region behind the dma-buf's end", mr.Close())
	}
}
