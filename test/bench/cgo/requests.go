package main

/*
#include <infiniband/verbs.h>

static void set_send(struct ibv_send_wr *wr, uint64_t id, struct ibv_send_wr *next, struct ibv_sge *sge, int flags)
{
	*wr = (struct ibv_send_wr){ .wr_id = id, .next = next, .sg_list = sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = flags };
}
*/
import "C"

import "github.com/goverbs/goverbs/test/bench/ring/rounds"

// requests fill both queues, linked into lists of one length.
type requests struct {
	sends, inlines []SendWR
	recvs          []RecvWR
}

func newRequests(list int, memory uint64, lkey uint32) *requests {
	r := &requests{cArray[SendWR](rounds.Depth), cArray[SendWR](rounds.Depth), cArray[RecvWR](rounds.Depth)}
	sges := cArray[SGE](2 * rounds.Depth)
	for i := range sges {
		sges[i] = SGE{addr: C.uint64_t(memory + uint64(i*rounds.Message)), length: rounds.Message, lkey: C.uint32_t(lkey)}
	}
	for i := range rounds.Depth {
		var send, inline *SendWR
		var recv *RecvWR
		if (i+1)%list != 0 {
			send, inline, recv = &r.sends[i+1], &r.inlines[i+1], &r.recvs[i+1]
		}
		C.set_send(&r.sends[i], C.uint64_t(i), send, &sges[i], C.IBV_SEND_SIGNALED)
		C.set_send(&r.inlines[i], C.uint64_t(i), inline, &sges[i], C.IBV_SEND_SIGNALED|C.IBV_SEND_INLINE)
		r.recvs[i] = RecvWR{wr_id: C.uint64_t(i), next: recv, sg_list: &sges[rounds.Depth+i], num_sge: 1}
	}
	return r
}
