package siw

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// TestSIWOffsets checks that queues of several pages do not overlap, because a process maps all of
// them from one file. The place of a freed queue is reused.
func TestSIWOffsets(t *testing.T) {
	const siw = abi.RDMA_DRIVER_SIW
	k := fakeverbs.New(siw)
	taken := make(map[int64]bool) // used pages
	var queues [][2]int64         // first page, and first page after the queue
	k.Share = func(key int64, size int) (*mmap.Region, error) {
		queues = append(queues, [2]int64{key, key + int64(size)})
		for page := key; page < key+int64(size); page += int64(fakeverbs.PageSize) {
			if taken[page] {
				t.Errorf("the page at %#x is given twice", page)
			}
			taken[page] = true
		}
		return mmap.Wrap(make([]byte, size))
	}
	context := ioctl.New(siw, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
	context.Driver(nil, make([]byte, 8))
	if err := context.Do(k); err != nil {
		t.Fatal(err)
	}
	create := func(entries uint32) (handle uint32) {
		r := ioctl.New(siw, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
		r.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
		r.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, entries)
		r.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1)
		r.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0)
		ioctl.Out(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, new(uint32))
		r.Driver(nil, make([]byte, 16))
		if err := r.Do(k); err != nil {
			t.Fatal(err)
		}
		return r.Created(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	}
	var all []uint32
	perPage := uint32(fakeverbs.PageSize / cqeSize)
	for _, entries := range []uint32{perPage, perPage / 2, 2 * perPage, perPage} { // 2, 1, 3 and 2 pages
		all = append(all, create(entries))
	}
	r := ioctl.New(siw, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY)
	r.Handle(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, all[2])
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_CQ_RESP, new(abi.IbUverbsDestroyCqResp))
	if err := r.Do(k); err != nil {
		t.Fatal(err)
	}
	for page := queues[2][0]; page < queues[2][1]; page += int64(fakeverbs.PageSize) {
		delete(taken, page)
	}
	create(perPage / 2)
	create(perPage)
	if len(taken) != 8 || queues[4][0] != queues[2][0] {
		t.Errorf("%d pages are taken, want 8: %#x", len(taken), queues)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoReceives creates a queue pair with neither a receive queue nor an SRQ.
func TestNoReceives(t *testing.T) {
	if _, ok := (&QP{qp: new(fakeverbs.QP)}).NextRecv(); ok {
		t.Error("there is a receive")
	}
}
