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

// This file is a binding of the calls that matter, made to be as quick as cgo
// allows: one call into C for a list, and none of the pointers passed has Go
// pointers behind it, so that the runtime has nothing to look through. Work
// requests lie in C's memory and are linked there by their creator;
// completions have no pointers in them and go straight to a Go slice. The C
// functions neither keep pointers nor call back, as #cgo directives declare.

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

// Poll takes completions off the queue.
func (cq CQ) Poll(wcs []WC) (int, error) {
	n := C.poll_cq(cq.c, C.int(len(wcs)), unsafe.SliceData(wcs))
	if n < 0 {
		return 0, errno("poll", -n)
	}
	return int(n), nil
}

// Arm asks for an event at the next completion.
func (cq CQ) Arm() error { return errno("arm", C.arm_cq(cq.c)) }

func errno(op string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", op, syscall.Errno(max(code, -code)))
}

// cArray is zeroed memory of C's, never freed.
func cArray[T any](n int) []T {
	p := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(*new(T))))
	return unsafe.Slice((*T)(p), n)
}
