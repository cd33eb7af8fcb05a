/* A connection of scale.c with queues, a buffer and a
 * completion channel of its own, as Conn of package rdmacm has. */
#ifndef PEER_H
#define PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 64, BUFFER = 4096, TIMEOUT_MS = 2000, TRIES = 3 };

struct conn {
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *mr;
	char *buffer;
};

static inline void die(const char *format, ...)
{
	int err = errno;
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(err));
	exit(1);
}

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static inline void parse_address(const char *text, struct sockaddr_in *addr)
{
	char host[64];
	int port;

	memset(addr, 0, sizeof *addr);
	addr->sin_family = AF_INET;
	if (sscanf(text, "%63[^:]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &addr->sin_addr) != 1) {
		fprintf(stderr, "%s is not an IPv4 address with a port\n", text);
		exit(2);
	}
	addr->sin_port = htons(port);
}

/* libsiw takes a queue that the kernel offers at offset 0x90000 for a failure,
 * and the kernel offers that offset again and again: so a process comes to
 * its end at 144 pages of queues. A queue that covers this offset avoids it. */
static inline void avoid_bad_offset(struct ibv_context *verbs)
{
	static struct ibv_context *done;

	if (done == verbs || verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		return;
	done = verbs;
	if (!ibv_create_cq(verbs, 0x92000 / 32, NULL, NULL, 0))
		die("create a CQ over the offset that libsiw can't use");
}

static inline void post_receive(struct conn *c)
{
	struct ibv_sge sge = { .addr = (uintptr_t)c->buffer, .length = BUFFER, .lkey = c->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(c->id->qp, &wr, &bad))
		die("post a receive");
}

static inline void post_byte(struct conn *c)
{
	struct ibv_sge sge = { .addr = (uintptr_t)c->buffer, .length = 1, .lkey = c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	if (ibv_post_send(c->id->qp, &wr, &bad))
		die("post a send");
}

/* make_queues is what comes between the address and connect or accept. */
static inline void make_queues(struct conn *c)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	avoid_bad_offset(c->id->verbs);
	if (!(c->channel = ibv_create_comp_channel(c->id->verbs)))
		die("create a completion channel");
	if (!(c->scq = ibv_create_cq(c->id->verbs, DEPTH, c, c->channel, 0)) ||
	    !(c->rcq = ibv_create_cq(c->id->verbs, DEPTH, c, c->channel, 0)))
		die("create a CQ");
	attr.send_cq = c->scq;
	attr.recv_cq = c->rcq;
	if (rdma_create_qp(c->id, NULL, &attr))
		die("create a QP");
	if (posix_memalign((void **)&c->buffer, 4096, BUFFER))
		die("allocate a buffer");
	memset(c->buffer, 0, BUFFER);
	if (!(c->mr = ibv_reg_mr(c->id->pd, c->buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE)))
		die("register a buffer");
	post_receive(c);
}

static inline void free_conn(struct conn *c)
{
	rdma_destroy_qp(c->id);
	if (ibv_dereg_mr(c->mr) || ibv_destroy_cq(c->scq) || ibv_destroy_cq(c->rcq) || ibv_destroy_comp_channel(c->channel))
		die("free a connection's objects");
	if (rdma_destroy_id(c->id))
		die("destroy an ID");
	free(c->buffer);
}

/* expect waits for the outcome of the step under way, 0 or a negative errno. */
static inline int expect(struct rdma_event_channel *ch, enum rdma_cm_event_type want, const char *what)
{
	struct rdma_cm_event *event;
	int status;

	if (rdma_get_cm_event(ch, &event))
		die("%s", what);
	status = event->status;
	if (event->event != want && status != -ETIMEDOUT) {
		fprintf(stderr, "%s: %s, status %d\n", what, rdma_event_str(event->event), status);
		exit(1);
	}
	rdma_ack_cm_event(event);
	return status;
}

/* dial connects with the steps of rdmacm.Dial, one after another. */
static inline void dial(struct conn *c, struct rdma_event_channel *ch, struct sockaddr_in *addr)
{
	struct rdma_conn_param param = { .responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH, .retry_count = 7, .rnr_retry_count = 7 };
	int try;

	if (rdma_create_id(ch, &c->id, c, RDMA_PS_TCP))
		die("create an ID");
	for (try = 1; ; try++) {
		if (rdma_resolve_addr(c->id, NULL, (struct sockaddr *)addr, TIMEOUT_MS))
			die("resolve the address");
		if (!expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, "resolve the address") || try == TRIES)
			break;
	}
	for (try = 1; ; try++) {
		if (rdma_resolve_route(c->id, TIMEOUT_MS))
			die("resolve the route");
		if (!expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, "resolve the route") || try == TRIES)
			break;
	}
	make_queues(c);
	if (rdma_connect(c->id, &param))
		die("connect");
	if (expect(ch, RDMA_CM_EVENT_ESTABLISHED, "connect")) {
		errno = ETIMEDOUT;
		die("connect");
	}
}

/* take waits for one completion, asleep. */
static inline void take(struct conn *c, struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc;
	int n, armed = 0;

	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		struct ibv_cq *which;
		void *context;

		if (!armed) {
			if (ibv_req_notify_cq(cq, 0))
				die("arm a CQ");
			armed = 1;
			continue;
		}
		if (ibv_get_cq_event(c->channel, &which, &context))
			die("%s", what);
		ibv_ack_cq_events(which, 1);
		armed = which != cq;
	}
	if (n < 0 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s: %s\n", what, n < 0 ? "poll failed" : ibv_wc_status_str(wc.status));
		exit(1);
	}
}

#endif
