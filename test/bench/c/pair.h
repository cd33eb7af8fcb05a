/*
 * A device connected to itself through rdma_cm, with memory to send from and to
 * receive into, for programs that measure what its queues cost. A doorbell is a
 * write(2), which these programs can hold back: write below stands in for the C
 * library's, also in libibverbs and in its providers. Included by ring.c and, as C
 * code, by ../cgo.
 */
#ifndef PAIR_H
#define PAIR_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_cma.h>

enum { DEPTH = 256, MESSAGE = 64, GRH = 40, QKEY = 0x11111111, DC_KEY = 0x22222222, PATIENCE_MS = 10000 };

struct pair {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *active, *passive;
	struct ibv_mr *mr; /* DEPTH messages to send from, and as many to receive into */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_ah *ah; /* of the device itself, for datagrams and DC */
	struct ibv_srq *srq; /* of the target of DC */
};

/* With hold_doorbell set a write is not made, only counted. */
static int hold_doorbell;
static unsigned long held_doorbells;

ssize_t write(int fd, const void *buf, size_t n)
{
	if (hold_doorbell) {
		held_doorbells++;
		return n;
	}
	return syscall(SYS_write, fd, buf, n);
}

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* need ends the program when a call failed that sets errno. */
static inline void need(int ok, const char *what)
{
	if (!ok)
		die(what);
}

/* pair_doorbell makes the system call that was held back, if doorbells are system calls. */
static inline int pair_doorbell(struct pair *p)
{
	struct ib_uverbs_post_send_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send body;
	} cmd = {
		.hdr = { IB_USER_VERBS_CMD_POST_SEND, sizeof(cmd) / 4, sizeof(resp) / 4 },
		.body = { .response = (uintptr_t)&resp, .qp_handle = p->active->qp->handle,
			  .wqe_size = sizeof(struct ibv_send_wr) },
	};

	if (!held_doorbells)
		return 0;
	return syscall(SYS_write, p->active->verbs->cmd_fd, &cmd, sizeof(cmd)) == sizeof(cmd) ? 0 : -1;
}

/* pair_event waits for an event, which must be that one, and returns its id. */
static inline struct rdma_cm_id *pair_event(struct pair *p, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	need(!rdma_get_cm_event(p->channel, &event), "rdma_get_cm_event");
	if (event->event != want) {
		fprintf(stderr, "%s (status %d) instead of %s\n", rdma_event_str(event->event),
			event->status, rdma_event_str(want));
		exit(1);
	}
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

/* pair_qp makes one end's queue pair. */
static inline void pair_qp(struct pair *p, struct rdma_cm_id *id, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = MESSAGE },
	};

	need(!rdma_create_qp(id, p->mr->pd, &attr), "rdma_create_qp");
}

/* pair_objects makes what both ends share. */
static inline void pair_objects(struct pair *p, struct ibv_context *verbs, const char *dev)
{
	size_t size = 2 * DEPTH * MESSAGE;
	struct ibv_comp_channel *events;
	struct ibv_pd *pd;
	void *memory;

	if (strcmp(ibv_get_device_name(verbs->device), dev)) {
		fprintf(stderr, "the address belongs to %s, not to %s\n", ibv_get_device_name(verbs->device), dev);
		exit(1);
	}
	need((pd = ibv_alloc_pd(verbs)) != NULL, "ibv_alloc_pd");
	need(!(errno = posix_memalign(&memory, 4096, size)), "posix_memalign");
	memset(memory, 0, size);
	need((p->mr = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) != NULL, "ibv_reg_mr");
	need((events = ibv_create_comp_channel(verbs)) != NULL, "ibv_create_comp_channel");
	need((p->send_cq = ibv_create_cq(verbs, DEPTH, NULL, events, 0)) != NULL, "ibv_create_cq");
	need((p->recv_cq = ibv_create_cq(verbs, DEPTH, NULL, events, 0)) != NULL, "ibv_create_cq");
}

/* pair_connect connects the device of an IPv4 address to itself. */
static inline void pair_connect(struct pair *p, const char *dev, const char *addr)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct timespec settle = { .tv_nsec = 50 * 1000 * 1000 };
	struct rdma_cm_id *listener;

	errno = EINVAL;
	need(inet_pton(AF_INET, addr, &sin.sin_addr) == 1, addr);
	need((p->channel = rdma_create_event_channel()) != NULL, "rdma_create_event_channel");
	need(!rdma_create_id(p->channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_bind_addr(listener, (struct sockaddr *)&sin), "rdma_bind_addr");
	need(!rdma_listen(listener, 1), "rdma_listen");
	sin.sin_port = rdma_get_src_port(listener);

	need(!rdma_create_id(p->channel, &p->active, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_resolve_addr(p->active, NULL, (struct sockaddr *)&sin, PATIENCE_MS), "rdma_resolve_addr");
	pair_event(p, RDMA_CM_EVENT_ADDR_RESOLVED);
	pair_objects(p, p->active->verbs, dev);
	pair_qp(p, p->active, p->send_cq);
	need(!rdma_resolve_route(p->active, PATIENCE_MS), "rdma_resolve_route");
	pair_event(p, RDMA_CM_EVENT_ROUTE_RESOLVED);
	need(!rdma_connect(p->active, &param), "rdma_connect");

	p->passive = pair_event(p, RDMA_CM_EVENT_CONNECT_REQUEST);
	pair_qp(p, p->passive, p->recv_cq);
	need(!rdma_accept(p->passive, &param), "rdma_accept");
	pair_event(p, RDMA_CM_EVENT_ESTABLISHED);
	pair_event(p, RDMA_CM_EVENT_ESTABLISHED);
	nanosleep(&settle, NULL); /* siw can overlook what comes in while it takes over the socket */
}

/* pair_loose makes a raw packet or datagram queue pair that is ready to send. */
static inline struct rdma_cm_id *pair_loose(struct pair *p, struct ibv_cq *cq, enum ibv_qp_type type)
{
	int ud = type == IBV_QPT_UD;
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = ud ? MESSAGE - GRH : MESSAGE },
	};
	struct rdma_cm_id *id = calloc(1, sizeof(*id)); /* only to have the queue pair in the same place */
	struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	need(id != NULL, "calloc");
	id->verbs = p->mr->context;
	need((id->qp = ibv_create_qp(p->mr->pd, &attr)) != NULL, "ibv_create_qp");
	need(!(errno = ibv_modify_qp(id->qp, &to, IBV_QP_STATE | IBV_QP_PORT | (ud ? IBV_QP_PKEY_INDEX | IBV_QP_QKEY : 0))), "ibv_modify_qp to INIT");
	to.qp_state = IBV_QPS_RTR;
	need(!(errno = ibv_modify_qp(id->qp, &to, IBV_QP_STATE)), "ibv_modify_qp to RTR");
	to.qp_state = IBV_QPS_RTS;
	need(!(errno = ibv_modify_qp(id->qp, &to, IBV_QP_STATE | (ud ? IBV_QP_SQ_PSN : 0))), "ibv_modify_qp to RTS");
	return id;
}

/* pair_open opens a device without rdma_cm. */
static inline struct ibv_context *pair_open(const char *dev)
{
	struct ibv_device **all = ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;

	for (; all && *all && !verbs; all++)
		if (!strcmp(ibv_get_device_name(*all), dev))
			verbs = ibv_open_device(*all);
	need(verbs != NULL, "ibv_open_device");
	return verbs;
}

/* pair_datagrams makes two queue pairs for datagrams to the device itself. */
static inline void pair_datagrams(struct pair *p, const char *dev)
{
	struct ibv_context *verbs = pair_open(dev);
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };

	pair_objects(p, verbs, dev);
	need(!ibv_query_gid(verbs, 1, 0, &to.grh.dgid), "ibv_query_gid");
	need((p->ah = ibv_create_ah(p->mr->pd, &to)) != NULL, "ibv_create_ah");
	p->active = pair_loose(p, p->send_cq, IBV_QPT_UD);
	p->passive = pair_loose(p, p->recv_cq, IBV_QPT_UD);
}

/* pair_dc makes an initiator of DC, whose requests are made by ibv_wr_*, and a target. */
static inline void pair_dc(struct pair *p, const char *dev)
{
	struct ibv_context *verbs = pair_open(dev);
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex ex = {
		.qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1, .max_inline_data = MESSAGE },
	};
	struct mlx5dv_qp_init_attr dc = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCI } };
	struct ibv_qp_attr state = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024, .min_rnr_timer = 12, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .ah_attr = to,
	};

	p->active = calloc(1, sizeof(*p->active)); /* only to have the queue pairs in the same place */
	p->passive = calloc(1, sizeof(*p->passive));
	need(p->active && p->passive, "calloc");
	pair_objects(p, verbs, dev);
	need(!ibv_query_gid(verbs, 1, 1, &to.grh.dgid), "ibv_query_gid");
	need((p->ah = ibv_create_ah(p->mr->pd, &to)) != NULL, "ibv_create_ah");
	need((p->srq = ibv_create_srq(p->mr->pd, &srq)) != NULL, "ibv_create_srq");

	ex.pd = p->mr->pd;
	ex.send_cq = ex.recv_cq = p->send_cq;
	need((p->active->qp = mlx5dv_create_qp(verbs, &ex, &dc)) != NULL, "create a DCI");
	need(!(errno = ibv_modify_qp(p->active->qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)), "the DCI to INIT");
	ex = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = ex.pd,
		.send_cq = p->recv_cq, .recv_cq = p->recv_cq, .srq = p->srq };
	dc.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
	dc.dc_init_attr.dct_access_key = DC_KEY;
	need((p->passive->qp = mlx5dv_create_qp(verbs, &ex, &dc)) != NULL, "create a DCT");
	need(!(errno = ibv_modify_qp(p->passive->qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)), "the DCT to INIT");
	state.qp_state = IBV_QPS_RTR;
	need(!(errno = ibv_modify_qp(p->passive->qp, &state, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER)), "the DCT to RTR");
	need(!(errno = ibv_modify_qp(p->active->qp, &state, IBV_QP_STATE | IBV_QP_PATH_MTU)), "the DCI to RTR");
	state.qp_state = IBV_QPS_RTS;
	need(!(errno = ibv_modify_qp(p->active->qp, &state, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN)), "the DCI to RTS");
}

/* pair_frames makes two raw packet queue pairs, the second of which takes the frames of the first. */
static inline void pair_frames(struct pair *p, const char *dev)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} __attribute__((packed, aligned(8))) rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 1, .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(struct ibv_flow_spec_eth) },
	};
	pair_objects(p, pair_open(dev), dev);
	p->active = pair_loose(p, p->send_cq, IBV_QPT_RAW_PACKET);
	p->passive = pair_loose(p, p->recv_cq, IBV_QPT_RAW_PACKET);
	memcpy(rule.eth.val.dst_mac, mac, sizeof(mac));
	memset(rule.eth.mask.dst_mac, 0xff, sizeof(mac));
	need(ibv_create_flow(p->passive->qp, (struct ibv_flow_attr *)&rule) != NULL, "ibv_create_flow");
	for (int i = 0; i < DEPTH; i++) {
		uint8_t *frame = (uint8_t *)p->mr->addr + i * MESSAGE;

		memcpy(frame, mac, sizeof(mac));
		frame[12] = 0x88;
		frame[13] = 0xb5;
	}
}

#endif
