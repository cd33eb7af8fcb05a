// What libibverbs asks the kernel for, of each verb that both it and package uverbs have: the
// steps of uverbs/requests_test.go, in the same order. Where siw does less, libsiw has no more; and
// librxe of rdma-core 44 can't register again.
//
//	gcc -o requests requests.c -libverbs
//	rdmalink sandbox --device KIND --record c.rec -- ./requests KIND

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static _Alignas(4096) uint8_t memory[2 * 4096];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static int siw, rereg; // what the device's provider has, or has not

static const int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

static void queries(void)
{
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	struct ibv_gid_entry gid, gids[8];

	CHECK(!ibv_query_device_ex(context, NULL, &device));
	CHECK(!ibv_query_port(context, 1, &port));
	CHECK(!ibv_query_gid_ex(context, 1, 0, &gid, 0));
	CHECK(ibv_query_gid_table(context, gids, 8, 0) > 0);
}

// hardware is what libmlx5 alone has.
static void hardware(struct ibv_mr *mr)
{
	struct ibv_mr *implicit = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND), *imported;
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 100};

	CHECK(implicit);
	sge.lkey = implicit->lkey;
	CHECK(!ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	imported = ibv_import_mr(pd, mr->handle);
	CHECK(imported);
	ibv_unimport_mr(imported);
	CHECK(!ibv_dereg_mr(implicit));
}

static void regions(void)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), *far = ibv_reg_mr(pd, memory, 100, all_access);

	CHECK(other && mr && far);
	if (rereg) {
		CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, all_access));
		CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0));
		hardware(far);
	}
	CHECK(!ibv_dereg_mr(far) && !ibv_dereg_mr(mr));
	if (!siw) {
		struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

		CHECK(one && two && !ibv_dealloc_mw(two) && !ibv_dealloc_mw(one));
	}
	CHECK(!ibv_dealloc_pd(other));
}

static void completions(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *few = ibv_create_cq(context, 3, NULL, NULL, 0), *many = ibv_create_cq(context, 100, NULL, channel, 0);

	CHECK(channel && few && many);
	CHECK(siw || !ibv_resize_cq(many, 200));
	CHECK(!ibv_destroy_cq(many) && !ibv_destroy_cq(few) && !ibv_destroy_comp_channel(channel));
}

static struct ibv_srq *shared(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_srq_attr attr = {.srq_limit = 3};

	CHECK(srq && !ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CHECK(siw || !ibv_query_srq(srq, &attr));
	return srq;
}

static struct ibv_qp *pair(enum ibv_qp_type type, struct ibv_srq *srq, int signal_all)
{
	struct ibv_qp_init_attr init = {.qp_type = type, .send_cq = cq, .recv_cq = cq, .srq = srq, .sq_sig_all = signal_all,
		.cap = {.max_send_wr = 8, .max_recv_wr = srq ? 0 : 16, .max_send_sge = 2, .max_recv_sge = srq ? 0 : 1, .max_inline_data = 32}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp);
	return qp;
}

static struct ibv_ah_attr way(void)
{
	return (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .sl = 3, .grh = {.sgid_index = 1, .hop_limit = 64, .traffic_class = 8,
		.flow_label = 0x12345, .dgid = {.raw = {[10] = 0xff, 0xff, 10, 9, 9, 9}}}};
}

static void connected(enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp *qp = pair(type, srq, type == IBV_QPT_UC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int rc = type == IBV_QPT_RC;

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .rq_psn = 77,
		.max_dest_rd_atomic = rc, .min_rnr_timer = rc ? 12 : 0, .ah_attr = way()};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 99};
	if (rc) {
		attr.timeout = 14;
		attr.retry_cnt = 7;
		attr.rnr_retry = 6;
		attr.max_rd_atomic = 1;
	}
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
		(rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)));
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init));
	attr.qp_state = IBV_QPS_ERR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	CHECK(!ibv_destroy_qp(qp));
}

static void datagrams(void)
{
	struct ibv_qp *qp = pair(IBV_QPT_UD, NULL, 0);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111};
	struct ibv_ah_attr to = way();
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 7}};

	CHECK(ah && !ibv_destroy_ah(ah));
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	CHECK(!ibv_attach_mcast(qp, &group, 0xc001) && !ibv_detach_mcast(qp, &group, 0xc001));
	CHECK(!ibv_destroy_qp(qp));
}

int main(int argc, char **argv)
{
	int n;
	struct ibv_device **all = ibv_get_device_list(&n);
	struct ibv_srq *srq;

	CHECK(argc == 2 && n == 1);
	siw = !strcmp(argv[1], "siw");
	rereg = !strcmp(argv[1], "mlx5");
	CHECK((context = ibv_open_device(all[0])));
	CHECK((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	queries();
	regions();
	completions();
	srq = shared();
	if (!siw) {
		connected(IBV_QPT_RC, srq);
		connected(IBV_QPT_RC, NULL);
		connected(IBV_QPT_UC, NULL);
		datagrams();
	} else {
		CHECK(!ibv_destroy_qp(pair(IBV_QPT_RC, srq, 0)) && !ibv_destroy_qp(pair(IBV_QPT_RC, NULL, 1)));
	}
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	if (rereg) {
		struct ibv_context *twin = ibv_import_device(dup(context->cmd_fd));

		CHECK(twin && !ibv_close_device(twin));
	}
	CHECK(!ibv_close_device(context));
	ibv_free_device_list(all);
	puts("asked");
	return 0;
}
