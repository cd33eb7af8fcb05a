// The script of internal/providertest in C, on libibverbs: all operations, data of all forms,
// events, and queues that go around many times. Both sides are in this process. It exits with 0
// if all data arrived.
//
//	gcc -o script script.c -libverbs -lrdmacm -lefa -lmlx5
//	rdmalink sandbox --device KIND --record c.rec -- ./script NAME [ADDRESS]
//	MLX5_SCATTER_TO_CQE=0 rdmalink sandbox --device mlx5 --record c.rec -- ./script mlx5
//
// NAME is a row of kinds, which says what a device, and rdma-core 44 of Debian 12, has; erdma-65 is for
// rdma-core 65, and so is efa. With an ADDRESS both sides are connected by rdma_cm, else by hand.
//
// Each step does the same, in the same order, as the step of that name in Go, so that what
// crosses the seam to the device can be compared.

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/efadv.h>
#include <infiniband/mlx5dv.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DEPTH = 8, MEMORY = 1 << 16, CQE = 64, TARGET = 0x8000, MAX_SGE = 6, MOST_ENDS = 32, HEADER = 14, QKEY = 0x11111111 };
enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };

struct kind {
	const char *name;
	int operations; // of messages, a bit of each
	int longest_inline, longest; // bytes
	int reads, atomics, windows;
	int resizes; // CQs, and SRQs
	int solicits; // receives are solicited completions
	int srq; // side 1 receives from an SRQ
	int ends; // SEND_WITH_INV ends a region that is made for it, and takes no inline data
	int all; // sends are signaled, whatever their flags
	int ex; // extended CQs, and QPs whose requests are made by ibv_wr_*
	int dc; // DCIs, and DCTs with SRQs
	int efa; // a device of EFA: one GID, sends without flags and with short SGLs, no atomics
	enum ibv_qp_type type;
};

enum { SENDS = 1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_IMM, WRITES = 1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_WRITE_WITH_IMM };

static const struct kind kinds[] = {
	{"efa", SENDS | WRITES, 80, 8928, .reads = 1, .all = 1, .ex = 1, .efa = 1, .type = IBV_QPT_DRIVER},
	{"efa-old", SENDS, 32, 8928, .reads = 1, .all = 1, .ex = 1, .efa = 1, .type = IBV_QPT_DRIVER},
	{"efa-ud", SENDS, 32, 8928, .all = 1, .efa = 1, .type = IBV_QPT_UD},
	{"erdma", SENDS | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .solicits = 1, .type = IBV_QPT_RC},
	{"erdma-65", SENDS | 1 << IBV_WR_SEND_WITH_INV | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .solicits = 1, .type = IBV_QPT_RC},
	{"erdma-old", SENDS | WRITES, 96, MEMORY, .reads = 1, .solicits = 1, .type = IBV_QPT_RC},
	{"mlx5", SENDS | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .windows = 1, .resizes = 1, .solicits = 1, .type = IBV_QPT_RC},
	{"mlx5-all", SENDS | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .windows = 1, .resizes = 1, .solicits = 1, .all = 1, .type = IBV_QPT_RC},
	{"mlx5-ex", SENDS | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .windows = 1, .resizes = 1, .solicits = 1, .ex = 1, .type = IBV_QPT_RC},
	{"mlx5-ex-ud", SENDS, 96, 1024, .resizes = 1, .solicits = 1, .ex = 1, .type = IBV_QPT_UD},
	{"mlx5-dc", SENDS | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .solicits = 1, .ex = 1, .dc = 1, .type = IBV_QPT_DRIVER},
	{"mlx5-raw", 1 << IBV_WR_SEND, 96, 1200, .type = IBV_QPT_RAW_PACKET},
	{"mlx5-srq", SENDS, 96, MEMORY, .solicits = 1, .srq = 1, .type = IBV_QPT_RC},
	{"mlx5-uc", SENDS | WRITES, 96, MEMORY, .resizes = 1, .solicits = 1, .type = IBV_QPT_UC},
	{"mlx5-ud", SENDS, 96, 1024, .resizes = 1, .solicits = 1, .type = IBV_QPT_UD},
	{"mlx5-xrc", SENDS | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .solicits = 1, .type = IBV_QPT_XRC_SEND},
	{"rxe", SENDS | WRITES, 96, MEMORY, .reads = 1, .atomics = 1, .windows = 1, .resizes = 1, .solicits = 1, .srq = 1, .type = IBV_QPT_RC},
	{"rxe-ud", SENDS, 96, 1024, .resizes = 1, .solicits = 1, .srq = 1, .type = IBV_QPT_UD},
	{"siw", 1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_INV | 1 << IBV_WR_RDMA_WRITE, 80, MEMORY, .reads = 1, .srq = 1, .ends = 1, .type = IBV_QPT_RC},
	{0},
};

struct side {
	struct ibv_cq *cq;
	struct ibv_cq_ex *cqx;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_qp *target; // which receives, with XRC and DC
	uint32_t srqn;
	uint8_t *mem;
	struct rdma_cm_id *id;
	int owed;
};

struct payload {
	int inline_bytes; // -1: none
	int count;
	int sges[MAX_SGE];
};

static const struct payload payloads[] = {
	{0}, {1}, {15}, {16}, {17}, {47}, {48}, {49}, {80}, {81}, {96}, // inline
	{-1}, {-1, 1, {1}}, {-1, 1, {4096}}, {-1, 2, {8, 8}}, {-1, 3, {7, 100, 1000}}, {-1, 4, {1, 2, 3, 4}},
	{-1, 5, {300, 200, 100, 50, 25}}, {-1, 6, {1, 20, 300, 4000, 500, 60}},
};

static struct side side[2];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_ah *ah; // with UD, SRD and DC
static const uint64_t dc_key = 0x8182838485868788;
static struct ibv_xrcd *xrcd; // with XRC
static struct ibv_mr *ended[MOST_ENDS]; // which stay, so that no other region has a key of theirs
static int ends;
static uint64_t next_id;
static const struct kind *kind;

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static struct ibv_sge sge(int i, int at, int n)
{
	return (struct ibv_sge){.addr = (uintptr_t)side[i].mem + at, .length = n, .lkey = side[i].mr->lkey};
}

static void fill(int i, int step)
{
	for (int j = 0; j < TARGET; j++)
		side[i].mem[j] = j * 7 + j / 251 + step * 13;
	memset(side[1 - i].mem + TARGET, 0, MEMORY - TARGET);
}

// post_recv leaves room for the header of a datagram before its data.
static void post_recv(int i, int at, int n)
{
	int header = kind->type == IBV_QPT_UD ? 40 : 0;
	struct ibv_sge s = sge(i, at - header, n + header);
	struct ibv_recv_wr wr = {.wr_id = ++next_id, .sg_list = &s, .num_sge = 1}, *bad;

	if (side[i].srq)
		CHECK(!ibv_post_srq_recv(side[i].srq, &wr, &bad));
	else
		CHECK(!ibv_post_recv(side[i].qp, &wr, &bad));
	side[i].owed++;
}

// build makes a request of an extended QP, to a peer.
static void build(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr, const struct side *to)
{
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(qp, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
		break;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(qp, wr->invalidate_rkey);
		return;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return;
	default:
		CHECK(0);
	}
	if (xrcd)
		ibv_wr_set_xrc_srqn(qp, wr->qp_type.xrc.remote_srqn);
	if (kind->dc)
		mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(qp), ah, to->target->qp_num, dc_key);
	else if (ah)
		ibv_wr_set_ud_addr(qp, ah, to->qp->qp_num, QKEY);
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, wr->num_sge ? (void *)(uintptr_t)wr->sg_list->addr : NULL, wr->num_sge ? wr->sg_list->length : 0);
	else
		ibv_wr_set_sge_list(qp, wr->num_sge, wr->sg_list);
}

// post_send posts a list, of which some are signaled.
static void post_send(int i, struct ibv_send_wr *wrs, int n)
{
	struct ibv_send_wr *bad;

	for (int j = 0; j < n; j++) {
		wrs[j].wr_id = ++next_id;
		wrs[j].next = j + 1 < n ? &wrs[j + 1] : NULL;
		if (wrs[j].send_flags & IBV_SEND_SIGNALED || kind->all)
			side[i].owed++;
		if (xrcd)
			wrs[j].qp_type.xrc.remote_srqn = side[1 - i].srqn;
		if (ah && !kind->ex) {
			wrs[j].wr.ud.ah = ah;
			wrs[j].wr.ud.remote_qpn = side[1 - i].qp->qp_num;
			wrs[j].wr.ud.remote_qkey = QKEY;
		}
	}
	if (kind->ex) {
		struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side[i].qp);

		ibv_wr_start(qp);
		for (int j = 0; j < n; j++)
			build(qp, &wrs[j], &side[1 - i]);
		CHECK(!ibv_wr_complete(qp));
		return;
	}
	CHECK(!ibv_post_send(side[i].qp, wrs, &bad));
}

// poll polls for one completion.
static int poll(struct side *s, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};
	int err;

	if (!s->cqx)
		return ibv_poll_cq(s->cq, 1, wc);
	err = ibv_start_poll(s->cqx, &attr);
	if (err)
		return err == ENOENT ? 0 : -1;
	wc->wr_id = s->cqx->wr_id;
	wc->status = s->cqx->status;
	ibv_end_poll(s->cqx);
	return 1;
}

// reap polls for all that is owed.
static void reap(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		while (side[i].owed > 0) {
			int n = poll(&side[i], &wc);

			CHECK(n >= 0);
			if (n > 0 && wc.status != IBV_WC_SUCCESS) {
				fprintf(stderr, "side %d, WRID %d: %s\n", i, (int)wc.wr_id, ibv_wc_status_str(wc.status));
				exit(1);
			}
			side[i].owed -= n;
		}
	}
}

// message makes the data of a request, in places for its SGEs, and copies to want what the peer must get.
static int message(int i, struct ibv_send_wr *wr, struct ibv_sge *places, const struct payload *p, uint8_t *want)
{
	int at = 0, total = 0;

	if (p->inline_bytes >= 0) {
		places[0] = sge(i, 0, p->inline_bytes);
		wr->send_flags |= IBV_SEND_INLINE;
		wr->sg_list = places;
		wr->num_sge = p->inline_bytes > 0;
		memcpy(want, side[i].mem, p->inline_bytes);
		return p->inline_bytes;
	}
	wr->sg_list = places;
	wr->num_sge = p->count;
	for (int j = 0; j < p->count; j++) {
		places[j] = sge(i, at, p->sges[j]);
		memcpy(want + total, side[i].mem + at, p->sges[j]);
		total += p->sges[j];
		at += p->sges[j] + 64;
	}
	return total;
}

static void one_message(int i, int step, enum ibv_wr_opcode op, const struct payload *p)
{
	struct side *to = &side[1 - i];
	struct ibv_sge places[MAX_SGE];
	struct ibv_send_wr wr = {.opcode = op, .send_flags = IBV_SEND_SIGNALED};
	uint8_t want[MEMORY];
	int n;

	fill(i, step);
	if (step % 3 == 0 && !kind->efa)
		wr.send_flags |= IBV_SEND_FENCE;
	if (step % 4 == 0 && !kind->efa)
		wr.send_flags |= IBV_SEND_SOLICITED;
	if (kind->type == IBV_QPT_RAW_PACKET && step % 5 == 0)
		wr.send_flags |= IBV_SEND_IP_CSUM;
	if (op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr.imm_data = htobe32(0x01020300 + step);
	if (op == IBV_WR_SEND_WITH_INV) {
		struct ibv_mr *mr = ibv_reg_mr(pd, to->mem, 4096, ACCESS);

		CHECK(mr && ends < MOST_ENDS);
		ended[ends++] = mr;
		wr.invalidate_rkey = mr->rkey;
		wr.wr.rdma.rkey = mr->rkey; // which is where libsiw looks
	}
	if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM) {
		wr.wr.rdma.remote_addr = (uintptr_t)to->mem + TARGET;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	n = message(i, &wr, places, p, want);
	if (op != IBV_WR_RDMA_WRITE)
		post_recv(1 - i, TARGET, MEMORY - TARGET);
	post_send(i, &wr, 1);
	reap();
	while (kind->type == IBV_QPT_UC && memcmp(to->mem + TARGET, want, n))
		sched_yield(); // a WRITE is done before it has arrived
	CHECK(!memcmp(to->mem + TARGET, want, n));
	for (int j = TARGET + n; j < MEMORY; j++)
		CHECK(to->mem[j] == 0);
}

static void one_read(int i, int step, int n)
{
	struct side *from = &side[1 - i];
	struct ibv_sge s = sge(i, TARGET, n);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED, .sg_list = &s, .num_sge = 1};

	fill(1 - i, step);
	wr.wr.rdma.remote_addr = (uintptr_t)from->mem;
	wr.wr.rdma.rkey = from->mr->rkey;
	post_send(i, &wr, 1);
	reap();
	CHECK(!memcmp(side[i].mem + TARGET, from->mem, n));
}

static void atomics(void)
{
	static const struct {
		enum ibv_wr_opcode op;
		uint64_t cmp, swp, before, after;
	} steps[] = {
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 0x0102030405060708, 0, 0x1111222233334444, 0x1213252638394b4c},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 1, 2, 0x1213252638394b4c, 0x1213252638394b4c},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 0x1213252638394b4c, 0xa1a2a3a4a5a6a7a8, 0x1213252638394b4c, 0xa1a2a3a4a5a6a7a8},
	};
	volatile uint64_t *word = (uint64_t *)(side[1].mem + 64), *old = (uint64_t *)(side[0].mem + 128);

	*word = 0x1111222233334444;
	for (int j = 0; j < 3; j++) {
		struct ibv_sge s = sge(0, 128, 8);
		struct ibv_send_wr wr = {.opcode = steps[j].op, .send_flags = IBV_SEND_SIGNALED, .sg_list = &s, .num_sge = 1};

		wr.wr.atomic.remote_addr = (uintptr_t)side[1].mem + 64;
		wr.wr.atomic.rkey = side[1].mr->rkey;
		wr.wr.atomic.compare_add = steps[j].cmp;
		wr.wr.atomic.swap = steps[j].swp;
		post_send(0, &wr, 1);
		reap();
		CHECK(*old == steps[j].before);
		CHECK(*word == steps[j].after);
	}
}

static void batches(void)
{
	for (int round = 0; round < 60; round++) {
		int n = round % DEPTH + 1;
		struct ibv_send_wr wrs[DEPTH];
		struct ibv_sge places[DEPTH];
		uint8_t want[MEMORY];

		fill(0, round);
		memset(wrs, 0, sizeof(wrs));
		for (int j = 0; j < n; j++) {
			int size = 16 * (j + 1) % 112;
			struct payload p = {j % 2 == 0 && size <= kind->longest_inline ? size : -1, 1, {size}};

			post_recv(1, TARGET + 256 * j, 256);
			wrs[j].opcode = IBV_WR_SEND;
			message(0, &wrs[j], &places[j], &p, want);
		}
		wrs[n - 1].send_flags |= IBV_SEND_SIGNALED;
		post_send(0, wrs, n);
		reap();
		for (int j = 0; j < n; j++)
			CHECK(!memcmp(side[1].mem + TARGET + 256 * j, side[0].mem, 16 * (j + 1) % 112));
	}
}

static void solicit(void)
{
	for (int round = 0; round < 10; round++) {
		struct ibv_sge s = sge(0, 0, 4);
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &s, .num_sge = 1};
		struct ibv_cq *cq;
		void *context_of_cq;

		CHECK(!ibv_req_notify_cq(side[1].cq, kind->solicits && round % 2));
		post_recv(1, TARGET, 256);
		post_recv(1, TARGET, 256);
		post_send(0, &wr, 1);
		if (!kind->efa)
			wr.send_flags |= IBV_SEND_SOLICITED;
		post_send(0, &wr, 1);
		do { // without --trap a CQ of mlx5 may have one event that nobody asked for
			CHECK(!ibv_get_cq_event(channel, &cq, &context_of_cq));
			ibv_ack_cq_events(cq, 1);
		} while (cq != side[1].cq);
		reap();
	}
}

static void bind_window(struct ibv_mw *mw, enum ibv_mw_type type, uint32_t key, int length, unsigned access)
{
	struct ibv_mw_bind_info info = {.mr = side[1].mr, .addr = length ? (uintptr_t)side[1].mem + TARGET : 0, .length = length,
		.mw_access_flags = access};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw_bind one = {.wr_id = ++next_id, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};

	if (type == IBV_MW_TYPE_1) {
		side[1].owed++;
		CHECK(!ibv_bind_mw(side[1].qp, mw, &one));
	} else {
		next_id--;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = key;
		wr.bind_mw.bind_info = info;
		post_send(1, &wr, 1);
	}
	reap();
}

static void write_window(int step, uint32_t key)
{
	struct ibv_sge s = sge(0, 0, 100);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &s, .num_sge = 1};

	fill(0, step);
	wr.wr.rdma.remote_addr = (uintptr_t)side[1].mem + TARGET;
	wr.wr.rdma.rkey = key;
	post_send(0, &wr, 1);
	reap();
	CHECK(!memcmp(side[1].mem + TARGET, side[0].mem, 100));
}

static void windows(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	uint32_t key;

	CHECK(mw);
	key = mw->rkey;
	for (int round = 0; round < 6; round++) {
		unsigned access = IBV_ACCESS_REMOTE_WRITE;

		if (round % 3 == 1)
			access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		key = ibv_inc_rkey(key);
		bind_window(mw, IBV_MW_TYPE_2, key, 4096, access);
		mw->rkey = key; // which is the program's business
		write_window(round, key);
		if (round % 2 == 0) {
			struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = key};

			post_send(1, &wr, 1);
		} else {
			struct ibv_sge s = sge(0, 0, 8);
			struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED, .sg_list = &s, .num_sge = 1, .invalidate_rkey = key};

			post_recv(1, TARGET, 256);
			post_send(0, &wr, 1);
		}
		reap();
	}
	CHECK(!ibv_dealloc_mw(mw));
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	CHECK(mw);
	for (int round = 0; round < 3; round++) {
		bind_window(mw, IBV_MW_TYPE_1, 0, 4096, IBV_ACCESS_REMOTE_WRITE);
		write_window(round, mw->rkey);
	}
	bind_window(mw, IBV_MW_TYPE_1, 0, 0, 0);
	CHECK(!ibv_dealloc_mw(mw));
}

// resize gives side 1's CQ, or its SRQ, another size.
static void resize(int cq, int max_wr)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr};

	if (cq)
		CHECK(!ibv_resize_cq(side[1].cq, cq));
	if (max_wr)
		CHECK(!ibv_modify_srq(side[1].srq, &attr, IBV_SRQ_MAX_WR));
}

// to_resize changes the SRQ when it holds receives, and the CQ when it holds completions.
static void to_resize(int n, int cq, int max_wr)
{
	fill(0, n);
	for (int j = 0; j < n; j++)
		post_recv(1, TARGET + 256 * j, 256);
	resize(0, max_wr);
	for (int j = 0; j < n; j++) {
		struct ibv_sge s = sge(0, 8 * j, 4);
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &s, .num_sge = 1};

		post_send(0, &wr, 1);
	}
	resize(cq, 0);
	reap();
	for (int j = 0; j < n; j++)
		CHECK(!memcmp(side[1].mem + TARGET + 256 * j, side[0].mem + 8 * j, 4));
}

static void resizes(void)
{
	static const int cqs[] = {200, 15, 63}, srqs[] = {20, 8, 15};

	for (int round = 0; round < 3; round++)
		to_resize(round + 2, cqs[round], 0);
	for (int round = 0; kind->srq && round < 3; round++)
		to_resize(round + 2, 0, srqs[round]);
}

// length returns the bytes of a payload.
static int length(const struct payload *p)
{
	int total = 0;

	if (p->inline_bytes >= 0)
		return p->inline_bytes;
	for (int j = 0; j < p->count; j++)
		total += p->sges[j];
	return total;
}

// skipped leaves out a message.
static int skipped(enum ibv_wr_opcode op, const struct payload *p)
{
	int writes = op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (kind->efa && p->inline_bytes < 0 && (writes ? p->count != 1 : p->count > 2))
		return 1;
	return p->inline_bytes > kind->longest_inline || length(p) > kind->longest ||
		(kind->ends && op == IBV_WR_SEND_WITH_INV && p->inline_bytes >= 0);
}

// frames sends Ethernet frames from side 0 to side 1, whose rule takes all.
static void frames(void)
{
	const int count = sizeof(payloads) / sizeof(payloads[0]);
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} all = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(all), .num_of_specs = 1, .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(struct ibv_flow_spec_eth)},
	};
	struct ibv_flow *flow = ibv_create_flow(side[1].qp, &all.attr);

	CHECK(flow);
	for (int step = 1; step <= 4 * count; step++) {
		const struct payload *p = &payloads[step % count];

		if (length(p) > HEADER && length(p) <= kind->longest)
			one_message(0, step, IBV_WR_SEND, p);
	}
	CHECK(!ibv_destroy_flow(flow));
}

static void script(void)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
	static const int reads[] = {1, 8, 4096, 32768};
	int step = 0;

	for (int o = 0; o < 5; o++) {
		if (!(kind->operations & 1 << ops[o]))
			continue;
		for (unsigned p = 0; p < sizeof(payloads) / sizeof(payloads[0]); p++) {
			if (skipped(ops[o], &payloads[p]))
				continue;
			step++;
			one_message(step % 2, step, ops[o], &payloads[p]);
		}
	}
	for (int r = 0; kind->reads && r < 4; r++) {
		step++;
		one_read(step % 2, step, reads[r]);
	}
	if (kind->atomics)
		atomics();
	batches();
	solicit();
	if (kind->windows)
		windows();
	if (kind->resizes)
		resizes();
}

// create_qp makes a QP that sends, extended or not.
static void create_qp(struct side *s, struct ibv_qp_init_attr *attr)
{
	enum { SEND_OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		REMOTE_OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
			IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
			IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW };
	struct ibv_qp_init_attr_ex ex = {.qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
		.srq = attr->srq, .cap = attr->cap, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};

	union {
		struct efadv_qp_init_attr attr;
		struct {
			uint64_t comp_mask;
			uint32_t type;
			uint16_t flags; // which rdma-core 44 has not
		} newest;
	} srd = {.attr = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD}};
	enum { INLINE_WRITES = 2 };

	if (attr->qp_type == IBV_QPT_DRIVER) {
		ex.send_ops_flags = SEND_OPS | IBV_QP_EX_WITH_RDMA_READ;
		if (kind->operations & WRITES) {
			ex.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
			srd.newest.flags = INLINE_WRITES;
		}
		s->qp = efadv_create_qp_ex(context, &ex, &srd.attr, sizeof(srd.attr));
		CHECK(s->qp);
		return;
	}
	ex.send_ops_flags = SEND_OPS | (attr->qp_type == IBV_QPT_UD ? 0 : REMOTE_OPS);
	s->qp = kind->ex ? ibv_create_qp_ex(context, &ex) : ibv_create_qp(pd, attr);
	CHECK(s->qp);
}

// make_xrc makes an SRQ, and a QP that sends to the other side's.
static void make_xrc(struct side *s, struct ibv_qp_init_attr *qp)
{
	struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = DEPTH, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = s->cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ};

	s->srq = ibv_create_srq_ex(context, &srq);
	CHECK(s->srq && !ibv_get_srq_num(s->srq, &s->srqn));
	qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	create_qp(s, qp);
}

// make_dc makes an SRQ, and a DCI.
static void make_dc(struct side *s, struct ibv_qp_init_attr *qp)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_DRIVER, .send_cq = s->cq, .recv_cq = s->cq, .cap = qp->cap, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW}; // which the size of requests depends on
	struct mlx5dv_qp_init_attr dci = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};

	s->srq = ibv_create_srq(pd, &srq);
	ex.cap.max_recv_wr = ex.cap.max_recv_sge = 0;
	s->qp = mlx5dv_create_qp(context, &ex, &dci);
	CHECK(s->srq && s->qp);
}

// make_dct makes a DCT in RTR.
static void make_dct(struct side *s)
{
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_DRIVER, .send_cq = s->cq, .recv_cq = s->cq, .srq = s->srq, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct mlx5dv_qp_init_attr dct = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = dc_key}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}}};

	s->target = mlx5dv_create_qp(context, &ex, &dct);
	CHECK(s->target);
	CHECK(!ibv_modify_qp(s->target, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_modify_qp(s->target, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER));
	CHECK(s->target->qp_num);
}

// make_target makes a QP that hears of the other side's.
static void make_target(struct side *s)
{
	struct ibv_qp_init_attr_ex target = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD};

	s->target = ibv_create_qp_ex(context, &target);
	CHECK(s->target);
}

static void make(struct side *s)
{
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {.qp_type = kind->type, .sq_sig_all = kind->all,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = MAX_SGE, .max_recv_sge = 1}};
	int access = ACCESS | (kind->windows ? IBV_ACCESS_MW_BIND : 0);

	if (kind->ex) {
		struct ibv_cq_init_attr_ex ex = {.cqe = CQE, .cq_context = s, .channel = channel, .wc_flags = IBV_WC_STANDARD_FLAGS};

		s->cqx = ibv_create_cq_ex(context, &ex);
		CHECK(s->cqx);
		s->cq = ibv_cq_ex_to_cq(s->cqx);
	} else {
		s->cq = ibv_create_cq(context, CQE, s, channel, 0);
	}
	CHECK(s->cq);
	s->mem = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(s->mem != MAP_FAILED);
	if (kind->efa) {
		access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | (kind->operations & WRITES ? IBV_ACCESS_REMOTE_WRITE : 0);
		attr.cap.max_send_sge = 2;
		attr.cap.max_recv_sge = 3;
		attr.cap.max_inline_data = kind->longest_inline;
	}
	s->mr = ibv_reg_mr(pd, s->mem, MEMORY, access);
	CHECK(s->mr);
	if (kind->srq && s == &side[1]) {
		s->srq = ibv_create_srq(pd, &shared);
		CHECK(s->srq);
		attr.srq = s->srq;
	}
	attr.send_cq = attr.recv_cq = s->cq;
	if (xrcd)
		make_xrc(s, &attr);
	else if (kind->dc)
		make_dc(s, &attr);
	else
		create_qp(s, &attr);
}

static struct rdma_cm_event *await(struct rdma_event_channel *events, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	CHECK(!rdma_get_cm_event(events, &e));
	if (e->event != type) {
		fprintf(stderr, "%s, want %s\n", rdma_event_str(e->event), rdma_event_str(type));
		exit(1);
	}
	return e;
}

// meet connects both QPs. They belong to a context of ours; rdma_cm knows them by their numbers.
static void meet(struct rdma_event_channel *events, const char *address)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(7471)};
	struct rdma_conn_param param = {.responder_resources = 8, .initiator_depth = 8, .retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *listener;
	struct rdma_cm_event *e;

	CHECK(inet_pton(AF_INET, address, &own.sin_addr) == 1);
	CHECK(!rdma_create_id(events, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&own));
	CHECK(!rdma_listen(listener, 1));
	CHECK(!rdma_create_id(events, &side[0].id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(side[0].id, NULL, (struct sockaddr *)&own, 2000));
	rdma_ack_cm_event(await(events, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK(!rdma_resolve_route(side[0].id, 2000));
	rdma_ack_cm_event(await(events, RDMA_CM_EVENT_ROUTE_RESOLVED));
	param.qp_num = side[0].qp->qp_num;
	CHECK(!rdma_connect(side[0].id, &param));
	e = await(events, RDMA_CM_EVENT_CONNECT_REQUEST);
	side[1].id = e->id;
	rdma_ack_cm_event(e);
	param.qp_num = side[1].qp->qp_num;
	CHECK(!rdma_accept(side[1].id, &param));
	rdma_ack_cm_event(await(events, RDMA_CM_EVENT_ESTABLISHED));
	rdma_ack_cm_event(await(events, RDMA_CM_EVENT_ESTABLISHED));
	CHECK(!rdma_destroy_id(listener));
}

// join connects a side to the other by hand.
static void join(int i)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = side[1 - i].qp->qp_num, .max_dest_rd_atomic = 8,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 8};
	int ud = kind->type == IBV_QPT_UD || kind->type == IBV_QPT_DRIVER, uc = kind->type == IBV_QPT_UC;

	if (kind->type == IBV_QPT_RAW_PACKET) {
		CHECK(!ibv_modify_qp(side[i].qp, &init, IBV_QP_STATE | IBV_QP_PORT));
		CHECK(!ibv_modify_qp(side[i].qp, &rtr, IBV_QP_STATE) && !ibv_modify_qp(side[i].qp, &rts, IBV_QP_STATE));
		return;
	}

	if (xrcd)
		rtr.dest_qp_num = side[1 - i].target->qp_num;
	if (kind->efa)
		rtr.ah_attr.grh.sgid_index = 0;
	CHECK(!ibv_query_gid(context, 1, rtr.ah_attr.grh.sgid_index, &rtr.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(side[i].qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (kind->dc ? 0 : ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	CHECK(!ibv_modify_qp(side[i].qp, &rtr, IBV_QP_STATE | (kind->dc ? IBV_QP_PATH_MTU : ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		(uc ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))));
	CHECK(!ibv_modify_qp(side[i].qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | ((ud && !kind->dc) || uc ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_MAX_QP_RD_ATOMIC)));
	if (xrcd) {
		rtr.dest_qp_num = side[1 - i].qp->qp_num;
		CHECK(!ibv_modify_qp(side[i].target, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		CHECK(!ibv_modify_qp(side[i].target, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
		CHECK(!ibv_modify_qp(side[i].target, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT));
	}
	if (ud && !ah) {
		rtr.ah_attr.sl = 5;
		rtr.ah_attr.grh.flow_label = 0xabcde;
		rtr.ah_attr.grh.traffic_class = 0x68;
		ah = ibv_create_ah(pd, &rtr.ah_attr);
		CHECK(ah);
	}
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *events = NULL;
	struct ibv_device **devices;

	CHECK(argc >= 2);
	for (kind = kinds; kind->name && strcmp(kind->name, argv[1]);)
		kind++;
	CHECK(kind->name);
	devices = ibv_get_device_list(NULL);
	CHECK(devices && devices[0]);
	context = ibv_open_device(devices[0]);
	CHECK(context);
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	CHECK(pd && channel);
	if (kind->type == IBV_QPT_XRC_SEND) {
		struct ibv_xrcd_init_attr alone = {.fd = -1, .oflags = O_CREAT, .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS};

		xrcd = ibv_open_xrcd(context, &alone);
		CHECK(xrcd);
	}
	make(&side[0]);
	make(&side[1]);
	for (int i = 0; (xrcd || kind->dc) && i < 2; i++)
		(xrcd ? make_target : make_dct)(&side[i]);
	if (argc > 2) {
		events = rdma_create_event_channel();
		CHECK(events);
		meet(events, argv[2]);
	} else {
		join(0);
		join(1);
	}
	if (kind->type == IBV_QPT_RAW_PACKET)
		frames();
	else
		script();
	while (ends > 0)
		CHECK(!ibv_dereg_mr(ended[--ends]));
	for (int i = 0; i < 2; i++) {
		CHECK(!side[i].target || !ibv_destroy_qp(side[i].target));
		CHECK(!ibv_destroy_qp(side[i].qp) && !ibv_dereg_mr(side[i].mr));
		CHECK(!side[i].srq || !ibv_destroy_srq(side[i].srq));
	}
	CHECK(!ah || !ibv_destroy_ah(ah));
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_cq(side[i].cq) && (!side[i].id || !rdma_destroy_id(side[i].id)));
	CHECK(!xrcd || !ibv_close_xrcd(xrcd));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	puts("all data arrived");
	return 0;
}
