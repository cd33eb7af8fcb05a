// questions asks an RDMA device what it does: with Linux below, and with a device in software. Both are
// compared with table.tsv, line by line.
//
//	gcc -O1 -o questions test/questions/program/*.c -lrdmacm -libverbs
//	questions [-w MILLISECONDS] DEVICE ADDRESS [GROUP...]
#include "ask.h"

const char *device, *address;
int patience = 100, iwarp;

static const char *current; // group
static char line[8192];
static size_t used;

const struct shape usual = {.depth = 4, .retry = 3, .rnr = 7, .cqe = 64,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};

static void add_list(const char *format, va_list list)
{
	if (used && used < sizeof(line) - 2)
		line[used++] = ' ';
	int n = vsnprintf(line + used, sizeof(line) - used, format, list);
	used = n < 0 || used + n >= sizeof(line) ? sizeof(line) - 1 : used + n;
}

void add(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	add_list(format, list);
	va_end(list);
}

static void say_list(const char *format, va_list list)
{
	line[used] = 0;
	printf("%s: ", current);
	vprintf(format, list);
	printf("\t%s\n", used ? line : "nothing");
	fflush(stdout);
	used = 0;
}

void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say_list(format, list);
	va_end(list);
}

void tell(const char *answer, const char *format, ...)
{
	va_list list;

	add("%s", answer);
	va_start(list, format);
	say_list(format, list);
	va_end(list);
}

const char *name_of(int error)
{
	const char *name = strerrorname_np(error);

	return name ? name : "an unknown errno";
}

const char *result(int r)
{
	return r == 0 ? "ok" : name_of(r == -1 ? errno : abs(r));
}

const char *made(const void *object)
{
	return object ? "ok" : name_of(errno);
}

long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void unblock(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), device))
			continue;
		struct ibv_context *context = ibv_open_device(list[i]);

		if (context)
			unblock(context->async_fd);
		iwarp = list[i]->transport_type == IBV_TRANSPORT_IWARP;
		return context;
	}
	fprintf(stderr, "no device %s\n", device);
	exit(1);
}

const char *state_name(int state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return state >= 0 && state < (int)LEN(names) ? names[state] : "no state";
}

const char *state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {};
	struct ibv_qp_init_attr init;
	int r = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

	return r ? result(r) : state_name(attr.qp_state);
}

static const char *opcode_name(int opcode)
{
	switch (opcode) {
	case IBV_WC_SEND: return "SEND";
	case IBV_WC_RDMA_WRITE: return "WRITE";
	case IBV_WC_RDMA_READ: return "READ";
	case IBV_WC_COMP_SWAP: return "CAS";
	case IBV_WC_FETCH_ADD: return "FAA";
	case IBV_WC_BIND_MW: return "BIND";
	case IBV_WC_LOCAL_INV: return "INV";
	case IBV_WC_RECV: return "RECV";
	case IBV_WC_RECV_RDMA_WITH_IMM: return "RECV_IMM";
	}
	return "another opcode";
}

static long together; // until when a question waits for all that may not come, or 0

void wait_together(void) { together = now() + patience; }

void wait_apart(void) { together = 0; }

static long end_of_wait(void) { return together ? together : now() + patience; }

int add_completions(struct ibv_cq *cq, int want)
{
	struct ibv_wc wc;
	int got = 0;

	for (long end = end_of_wait(); got < want;) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0) {
			add("poll fails");
			break;
		}
		if (!n) {
			if (now() > end)
				break;
			usleep(200);
			continue;
		}
		got++;
		if (wc.status)
			add("[%d: %s]", (int)wc.wr_id, ibv_wc_status_str(wc.status));
		else if (wc.opcode & IBV_WC_RECV)
			add("[%d: %s %u%s%s%s]", (int)wc.wr_id, opcode_name(wc.opcode), wc.byte_len, wc.wc_flags & IBV_WC_WITH_IMM ? " imm" : "",
			    wc.wc_flags & IBV_WC_WITH_INV ? " inv" : "", wc.wc_flags & IBV_WC_GRH ? " grh" : "");
		else
			add("[%d: %s]", (int)wc.wr_id, opcode_name(wc.opcode));
	}
	if (!got)
		add("none");
	return got;
}

void add_async(struct ibv_context *context)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(context, &event)) {
		add("{%s}", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}

int until(long end)
{
	long left = end - now();

	return left > 0 ? left : 0;
}

struct rdma_cm_event *next_event(struct rdma_event_channel *channel, int milliseconds)
{
	struct pollfd p = {channel->fd, POLLIN};
	struct rdma_cm_event *event;

	return poll(&p, 1, milliseconds) > 0 && !rdma_get_cm_event(channel, &event) ? event : NULL;
}

int add_events(struct rdma_event_channel *channel, int want)
{
	int got = 0;

	for (struct rdma_cm_event *e; got < want && (e = next_event(channel, until(end_of_wait()))); got++) {
		add("<%s %d>", rdma_event_str(e->event) + strlen("RDMA_CM_EVENT_"), e->status);
		rdma_ack_cm_event(e);
	}
	if (!got)
		add("no event");
	return got;
}

struct sockaddr *at(const char *address, int port)
{
	static struct sockaddr_in addr;

	addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	inet_pton(AF_INET, address, &addr.sin_addr);
	return (struct sockaddr *)&addr;
}

int equip(struct end *e, const struct shape *shape)
{
	struct ibv_qp_init_attr init = {.cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 16, .max_sge = 1}};

	unblock(e->id->verbs->async_fd);
	iwarp = e->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	e->pd = ibv_alloc_pd(e->id->verbs);
	e->send_cq = ibv_create_cq(e->id->verbs, shape->cqe, NULL, NULL, 0);
	e->recv_cq = ibv_create_cq(e->id->verbs, shape->cqe, NULL, NULL, 0);
	e->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	e->mr = ibv_reg_mr(e->pd, e->memory, MEMORY, shape->access);
	if (shape->shared)
		init.srq = e->srq = ibv_create_srq(e->pd, &shared);
	init.send_cq = e->send_cq, init.recv_cq = e->recv_cq;
	if (!e->mr || (shape->shared && !e->srq) || rdma_create_qp(e->id, e->pd, &init))
		return 0;
	e->qp = e->id->qp;
	return 1;
}

static int happens(struct rdma_event_channel *channel, enum rdma_cm_event_type type, struct rdma_cm_id **id)
{
	struct rdma_cm_event *e = next_event(channel, 20000);
	int ok = e && e->event == type;

	if (ok && id)
		*id = e->id;
	if (e)
		rdma_ack_cm_event(e);
	return ok;
}

static int dial_and_accept(struct end *c, struct end *s, struct rdma_cm_id *listener, const struct shape *shape)
{
	struct rdma_conn_param param = {.responder_resources = shape->depth, .initiator_depth = shape->depth,
		.retry_count = shape->retry, .rnr_retry_count = shape->rnr};

	return !rdma_bind_addr(listener, at(address, 0)) && !rdma_listen(listener, 5) &&
	       !rdma_create_id(c->channel, &c->id, NULL, RDMA_PS_TCP) &&
	       !rdma_resolve_addr(c->id, NULL, at(address, ntohs(rdma_get_src_port(listener))), 5000) &&
	       happens(c->channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) && !rdma_resolve_route(c->id, 5000) &&
	       happens(c->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) && equip(c, shape) && !rdma_connect(c->id, &param) &&
	       happens(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST, &s->id) && equip(s, shape) && !rdma_accept(s->id, &param) &&
	       happens(c->channel, RDMA_CM_EVENT_ESTABLISHED, NULL) && happens(s->channel, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

int connected(struct end *c, struct end *s, const struct shape *shape)
{
	struct rdma_cm_id *listener;

	*c = (struct end){.channel = rdma_create_event_channel()};
	*s = (struct end){.channel = rdma_create_event_channel()};
	rdma_create_id(s->channel, &listener, NULL, RDMA_PS_TCP);
	int ok = dial_and_accept(c, s, listener, shape);

	rdma_destroy_id(listener);
	if (!ok) {
		part(c);
		part(s);
	}
	return ok;
}

void part(struct end *e)
{
	struct rdma_cm_event *event;

	if (e->id && e->qp)
		rdma_destroy_qp(e->id);
	while ((event = next_event(e->channel, 0)))
		rdma_ack_cm_event(event);
	if (e->id)
		rdma_destroy_id(e->id);
	if (e->srq)
		ibv_destroy_srq(e->srq);
	if (e->mr)
		ibv_dereg_mr(e->mr);
	if (e->send_cq)
		ibv_destroy_cq(e->send_cq);
	if (e->recv_cq)
		ibv_destroy_cq(e->recv_cq);
	if (e->pd)
		ibv_dealloc_pd(e->pd);
	if (e->memory)
		munmap(e->memory, MEMORY);
	rdma_destroy_event_channel(e->channel);
	*e = (struct end){};
}

int post_receive(struct end *e, int id, void *memory, unsigned length, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)memory, length, lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

int post(struct end *e, int id, enum ibv_wr_opcode opcode, void *memory, unsigned length, uint32_t lkey, uint64_t remote, uint32_t rkey, int flags)
{
	struct ibv_sge sge = {(uintptr_t)memory, length, lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags}, *bad;

	switch (opcode) {
	case IBV_WR_SEND_WITH_INV:
		wr.invalidate_rkey = rkey;
		break;
	case IBV_WR_LOCAL_INV:
		wr.invalidate_rkey = rkey, wr.num_sge = 0;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = remote, wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1, wr.wr.atomic.swap = 2;
		break;
	default:
		wr.wr.rdma.remote_addr = remote, wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(e->qp, &wr, &bad);
}

struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = type};

	return ibv_create_qp(pd, &init);
}

int own_gid(struct ibv_context *context, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(context, 1, i, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.gid.raw[10] == 0xff) {
			*gid = entry.gid;
			return i;
		}
	ibv_query_gid(context, 1, 0, gid);
	return 0;
}

struct ibv_qp_attr attributes(struct ibv_context *context, enum ibv_qp_state to, uint32_t dest)
{
	union ibv_gid gid;
	int index = own_gid(context, &gid);

	return (struct ibv_qp_attr){.qp_state = to, .cur_qp_state = IBV_QPS_RTS, .port_num = 1, .qkey = 0x11111111,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | (iwarp ? 0 : IBV_ACCESS_REMOTE_ATOMIC),
		.path_mtu = IBV_MTU_1024, .dest_qp_num = dest, .rq_psn = 100, .sq_psn = 100, .max_dest_rd_atomic = 4, .max_rd_atomic = 4,
		.min_rnr_timer = 1, .timeout = 8, .retry_cnt = 3, .rnr_retry = 3, .path_mig_state = IBV_MIG_MIGRATED,
		.alt_port_num = 1, .alt_timeout = 8,
		.alt_ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = index, .hop_limit = 64}},
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = index, .hop_limit = 64}}};
}

int required(enum ibv_qp_type type, enum ibv_qp_state to)
{
	int ud = type == IBV_QPT_UD, rc = type == IBV_QPT_RC;

	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		return IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
		       (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
	default:
		return IBV_QP_STATE;
	}
}

int lead(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t dest)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
	int r = 0;

	if (to == IBV_QPS_ERR) {
		struct ibv_qp_attr attr = {.qp_state = to};

		return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	}
	for (unsigned i = 0; !r && i < LEN(way) && to != IBV_QPS_RESET; i++) {
		struct ibv_qp_attr attr = attributes(qp->context, way[i], dest);

		r = ibv_modify_qp(qp, &attr, required(qp->qp_type, way[i]));
		if (way[i] == to)
			break;
	}
	return r;
}

static int asked(const char *name, char **words, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(words[i], name))
			return 1;
	return n == 0;
}

// Each group is a process of its own, so that one that hangs or crashes leaves the others.
static void ask(const struct group *g)
{
	pid_t pid = fork();
	int status;

	current = g->name;
	if (!pid) {
		alarm(300);
		g->ask();
		exit(0);
	}
	waitpid(pid, &status, 0);
	tell(status == 0 ? "all" : WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "failed", "asked");
}

int main(int argc, char **argv)
{
	const struct group *const groups[] = {device_groups, memory_groups, state_groups, work_groups, cm_groups, change_groups};
	int option;

	while ((option = getopt(argc, argv, "+w:")) == 'w')
		patience = atoi(optarg);
	if (option != -1 || argc - optind < 2) {
		fprintf(stderr, "usage: questions [-w MILLISECONDS] DEVICE ADDRESS [GROUP...]\n");
		return 2;
	}
	device = argv[optind], address = argv[optind + 1];
	for (unsigned i = 0; i < LEN(groups); i++)
		for (const struct group *g = groups[i]; g->name; g++)
			if (asked(g->name, argv + optind + 2, argc - optind - 2))
				ask(g);
	return 0;
}
