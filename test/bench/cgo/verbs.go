package main

/*
#cgo CFLAGS: -O2 -I${SRCDIR}/../c
#cgo LDFLAGS: -lrdmacm -libverbs
#cgo noescape post_send
#cgo nocallback post_send
#cgo noescape post_recv
#cgo nocallback post_recv
#cgo noescape poll_cq
#cgo nocallback poll_cq
#cgo noescape arm_cq
#cgo nocallback arm_cq
#include "verbs.h"
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"
)

// This file binds the measured calls as efficiently as cgo allows. A list takes one call into C. No
// memory that is passed to C contains Go pointers, so the runtime need not check it. Work requests are
// in C memory, where their creator links them. Completions contain no pointers, and C writes them to a
// Go slice. The C functions neither keep pointers nor call back, which #cgo directives declare.

// Work requests and completions are C's.
type (
	SendWR = C.struct_ibv_send_wr
	RecvWR = C.struct_ibv_recv_wr
	SGE    = C.struct_ibv_sge
	WC     = C.struct_ibv_wc
)

// QP is a queue pair.
type QP struct{ c *C.struct_ibv_qp }

// CQ is a completion queue.
type CQ struct{ c *C.struct_ibv_cq }

// PostSend posts a list that begins with wr.
func (qp QP) PostSend(wr *SendWR) error { return errno("post send", C.post_send(qp.c, wr)) }

// PostRecv posts a list that begins with wr.
func (qp QP) PostRecv(wr *RecvWR) error { return errno("post receive", C.post_recv(qp.c, wr)) }

// Poll removes completions from the queue.
func (cq CQ) Poll(wcs []WC) (int, error) {
	n := C.poll_cq(cq.c, C.int(len(wcs)), unsafe.SliceData(wcs))
	if n < 0 {
		return 0, errno("poll", -n)
	}
	return int(n), nil
}

// Arm requests an event for the next completion.
func (cq CQ) Arm() error { return errno("arm", C.arm_cq(cq.c)) }

func errno(op string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", op, syscall.Errno(max(code, -code)))
}

// cArray returns a slice of zeroed C memory, which is never freed.
func cArray[T any](n int) []T {
	p := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(*new(T))))
	return unsafe.Slice((*T)(p), n)
}
