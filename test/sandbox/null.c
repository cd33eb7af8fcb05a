// Regions of no memory on an mlx5 device: parts of messages come from there as zeros, and go
// there to be dropped. The QP sends to itself.
//
//	gcc -o null null.c -libverbs
//	rdmalink sandbox --device mlx5 -- ./null

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

enum { SIZE = 4096, FROM = SIZE / 2 };

static char memory[SIZE];
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_mr *mr, *none;

static void join(struct ibv_context *c)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}}};
	CHECK(!ibv_query_gid(c, 1, 1, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_sge some(int off, uint32_t n)
{
	return (struct ibv_sge){.addr = (uintptr_t)memory + off, .length = n, .lkey = mr->lkey};
}

static struct ibv_sge nothing(uint64_t off, uint32_t n)
{
	return (struct ibv_sge){.addr = off, .length = n, .lkey = none->lkey};
}

static void receive(struct ibv_sge *sgl, int n)
{
	struct ibv_recv_wr wr = {.sg_list = sgl, .num_sge = n}, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

// sent waits for so many completions, and returns the status of the last.
static enum ibv_wc_status sent(enum ibv_wr_opcode op, struct ibv_sge *sgl, int n, uint32_t rkey, int completions)
{
	struct ibv_send_wr wr = {.opcode = op, .sg_list = sgl, .num_sge = n, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)memory, .rkey = rkey}}, *bad;
	struct ibv_wc wc;

	CHECK(!ibv_post_send(qp, &wr, &bad));
	while (completions > 0) {
		int got = ibv_poll_cq(cq, 1, &wc);

		CHECK(got >= 0);
		completions -= got;
	}
	return wc.status;
}

static void messages(void)
{
	struct ibv_sge tail[] = {nothing(1ull << 40, 4), some(0, 4)}, whole = some(FROM, 8), into = some(0, 8);
	struct ibv_sge head[] = {some(FROM, 4), nothing(0, 4)}, read[] = {nothing(0, 4), some(100, 4)}, four = some(0, 4);

	memcpy(memory + FROM, "headbody", 8);
	receive(tail, 2);
	CHECK(sent(IBV_WR_SEND, &whole, 1, 0, 2) == IBV_WC_SUCCESS);
	CHECK(!memcmp(memory, "body\0\0\0\0", 8));
	memcpy(memory, "........", 8);
	receive(&into, 1);
	CHECK(sent(IBV_WR_SEND, head, 2, 0, 2) == IBV_WC_SUCCESS);
	CHECK(!memcmp(memory, "head\0\0\0\0", 8));
	memcpy(memory + 4, "tail", 4);
	CHECK(sent(IBV_WR_RDMA_READ, read, 2, mr->rkey, 1) == IBV_WC_SUCCESS);
	CHECK(!memcmp(memory + 100, "tail", 4));
	CHECK(sent(IBV_WR_RDMA_WRITE, &four, 1, none->lkey, 1) != IBV_WC_SUCCESS);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *c = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2}};
	struct ibv_pd *pd;

	CHECK(c);
	pd = ibv_alloc_pd(c);
	cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	mr = ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	none = ibv_alloc_null_mr(pd);
	CHECK(mr && none && none->lkey && !none->rkey);
	CHECK(ibv_rereg_mr(none, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) != 0);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	join(c);
	messages();
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(none) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(c));
	puts("all as it should be");
	return 0;
}
