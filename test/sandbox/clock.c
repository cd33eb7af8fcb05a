// Completions of an mlx5 device that say when they were, and a CQ that raises an event for
// three of them, or for those of a period. The QP sends to itself. It exits with 0 if the
// times lie between those of the host before and after, and the events came.
//
//	gcc -o clock clock.c -libverbs -lmlx5
//	rdmalink sandbox --device mlx5 -- ./clock

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static struct ibv_qp *qp;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void join(struct ibv_context *c)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}}};
	CHECK(!ibv_query_gid(c, 1, 1, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

// arrive has the QP receive a message of no bytes, and its send complete too.
static void arrive(void)
{
	struct ibv_recv_wr r = {0}, *bad_recv;
	struct ibv_send_wr s = {.opcode = IBV_WR_SEND}, *bad_send;

	CHECK(!ibv_post_recv(qp, &r, &bad_recv) && !ibv_post_send(qp, &s, &bad_send));
}

static void stamps(struct ibv_context *c, struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr none = {0};
	struct ibv_device_attr_ex attr;
	uint64_t last = 0;

	CHECK(!ibv_query_device_ex(c, NULL, &attr) && attr.hca_core_clock > 0 && attr.completion_timestamp_mask > 0);
	for (int i = 0; i < 5; i++) {
		uint64_t before = now(), wall, ticks, ns;
		struct mlx5dv_clock_info info;
		int err;

		arrive();
		while ((err = ibv_start_poll(cq, &none)) == ENOENT)
			;
		CHECK(!err && cq->status == IBV_WC_SUCCESS);
		wall = ibv_wc_read_completion_wallclock_ns(cq);
		ticks = ibv_wc_read_completion_ts(cq);
		ibv_end_poll(cq);
		CHECK(!mlx5dv_get_clock_info(c, &info));
		ns = mlx5dv_ts_to_ns(&info, ticks);
		CHECK(wall > before - 1000 && wall < now() + 1000);
		CHECK(ns > before - 1000 && ns < now() + 1000);
		CHECK(ticks > last && ticks <= attr.completion_timestamp_mask);
		last = ticks;
	}
}

static void drain(struct ibv_cq *cq, int n)
{
	struct ibv_wc wc;

	while (n > 0) {
		int got = ibv_poll_cq(cq, 1, &wc);

		CHECK(got >= 0 && (!got || wc.status == IBV_WC_SUCCESS));
		n -= got;
	}
}

static void event(struct ibv_comp_channel *channel, struct ibv_cq *want)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(!ibv_get_cq_event(channel, &cq, &context) && cq == want);
	ibv_ack_cq_events(cq, 1);
}

static void moderation(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 3}};
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	CHECK(!ibv_modify_cq(cq, &attr));
	CHECK(!ibv_req_notify_cq(cq, 0));
	arrive();
	arrive();
	drain(cq, 2);
	CHECK(poll(&fd, 1, 0) == 0);
	arrive();
	event(channel, cq);
	drain(cq, 1);
	attr.moderate.cq_count = 100;
	attr.moderate.cq_period = 100;
	CHECK(!ibv_modify_cq(cq, &attr));
	CHECK(!ibv_req_notify_cq(cq, 0));
	arrive();
	event(channel, cq);
	drain(cq, 1);
	attr.moderate.cq_period = 4096;
	CHECK(ibv_modify_cq(cq, &attr) == EINVAL);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *c = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_cq_init_attr_ex stamped = {.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 8, .max_recv_wr = 8}};
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *sends;
	struct ibv_cq_ex *ex;
	struct ibv_pd *pd;

	CHECK(c);
	pd = ibv_alloc_pd(c);
	channel = ibv_create_comp_channel(c);
	ex = ibv_create_cq_ex(c, &stamped);
	sends = ibv_create_cq(c, 16, NULL, NULL, 0);
	cq = ibv_create_cq(c, 16, NULL, channel, 0);
	CHECK(pd && channel && ex && sends && cq);
	init.send_cq = sends;
	init.recv_cq = ibv_cq_ex_to_cq(ex);
	qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	join(c);
	stamps(c, ex);
	CHECK(!ibv_destroy_qp(qp));
	init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	join(c);
	moderation(channel, cq);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(sends) && !ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd) && !ibv_close_device(c));
	puts("all as it should be");
	return 0;
}
