package main

/*
#include <infiniband/verbs.h>

static void set_send(struct ibv_send_wr *wr, uint64_t id, struct ibv_send_wr *next, struct ibv_sge *sge, int flags)
{
	*wr = (struct ibv_send_wr){ .wr_id = id, .next = next, .sg_list = sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = flags };
}

static void set_write(struct ibv_send_wr *wr, uint64_t addr, uint32_t rkey)
{
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}
*/
import "C"

import "github.com/goverbs/goverbs/test/bench/ring/rounds"

// requests holds the requests that fill both queues, linked into lists of one length.
type requests struct {
	sends [rounds.Kinds][]SendWR
	recvs []RecvWR
}

func newRequests(list int, memory uint64, lkey, rkey uint32) *requests {
	r := &requests{recvs: cArray[RecvWR](rounds.Depth)}
	for kind := range r.sends {
		r.sends[kind] = cArray[SendWR](rounds.Depth)
	}
	sges := cArray[SGE](2 * rounds.Depth)
	for i := range sges {
		sges[i] = SGE{addr: C.uint64_t(memory + uint64(i*rounds.Message)), length: rounds.Message, lkey: C.uint32_t(lkey)}
	}
	for i := range rounds.Depth {
		var recv *RecvWR
		more := (i+1)%list != 0
		if more {
			recv = &r.recvs[i+1]
		}
		for kind, sends := range r.sends {
			var next *SendWR
			if more {
				next = &sends[i+1]
			}
			kind, flags := rounds.Kind(kind), C.int(C.IBV_SEND_SIGNALED)
			if kind == rounds.SendInline || kind == rounds.WriteInline {
				flags |= C.IBV_SEND_INLINE
			}
			C.set_send(&sends[i], C.uint64_t(i), next, &sges[i], flags)
			if kind >= rounds.Write {
				C.set_write(&sends[i], sges[rounds.Depth+i].addr, C.uint32_t(rkey))
			}
		}
		r.recvs[i] = RecvWR{wr_id: C.uint64_t(i), next: recv, sg_list: &sges[rounds.Depth+i], num_sge: 1}
	}
	return r
}
