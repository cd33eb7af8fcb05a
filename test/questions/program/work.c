// Work requests: what can't be posted, how each fails, and what both ends see of it.
#include "ask.h"

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
	unsigned length;
} operations[] = {
	{"SEND", IBV_WR_SEND, 64}, {"SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM, 64}, {"SEND of nothing", IBV_WR_SEND, 0},
	{"WRITE", IBV_WR_RDMA_WRITE, 64}, {"WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, 64}, {"WRITE of nothing", IBV_WR_RDMA_WRITE, 0},
	{"READ", IBV_WR_RDMA_READ, 64}, {"READ of nothing", IBV_WR_RDMA_READ, 0}, {"CAS", IBV_WR_ATOMIC_CMP_AND_SWP, 8},
	{"FAA", IBV_WR_ATOMIC_FETCH_AND_ADD, 8}, {"FAA of 4 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 4},
	{"FAA of 16 bytes", IBV_WR_ATOMIC_FETCH_AND_ADD, 16}, {"TSO", IBV_WR_TSO, 8}, {"opcode 12", 12, 8}, {"FLUSH", 14, 0}, {"ATOMIC_WRITE", 15, 8},
	{"opcode 99", 99, 8},
};

// drain polls what a former question has left.
static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

// add_qp_events adds the asynchronous events of both ends, which share the context of librdmacm.
static void add_qp_events(struct end *c, struct end *s)
{
	struct ibv_async_event event;
	struct {
		const char *name;
		struct ibv_qp *qp;
	} ends[] = {{"requester", c->qp}, {"responder", s->qp}};
	char seen[LEN(ends)][256] = {};

	while (!ibv_get_async_event(c->id->verbs, &event)) {
		for (unsigned i = 0; i < LEN(ends); i++)
			if (event.element.qp == ends[i].qp && strlen(seen[i]) < sizeof(seen[i]) / 2)
				sprintf(seen[i] + strlen(seen[i]), " {%.60s}", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	for (unsigned i = 0; i < LEN(ends); i++)
		add("%s%s", ends[i].name, seen[i][0] ? seen[i] : " none");
}

// both tells what both ends of a connection see. Over iWARP it does not tell the state of a requester whose
// peer ended the connection: siw has it in RTS or in ERR, from run to run.
static void both(struct end *c, struct end *s, const char *question)
{
	wait_together();
	add_completions(c->send_cq, 1);
	if (add_events(c->channel, 1) && iwarp)
		say("%s: requester", question);
	else
		tell(state_of(c->qp), "%s: requester", question);
	add_completions(s->recv_cq, 2);
	add_events(s->channel, 1);
	tell(state_of(s->qp), "%s: responder", question);
	wait_apart();
	add_qp_events(c, s);
	say("%s: events", question);
}

static void opcodes(void)
{
	static const struct {
		const char *name;
		int flags;
	} flags[] = {{"", 0}, {" solicited", IBV_SEND_SOLICITED}, {" fenced", IBV_SEND_FENCE}, {" inline", IBV_SEND_INLINE}, {" with checksum", IBV_SEND_IP_CSUM}, {" with flag 256", 256}};
	char question[64];

	for (unsigned f = 0; f < LEN(flags); f++)
		for (unsigned i = 0; i < LEN(operations); i++) {
			struct end c, s;

			if (f && operations[i].opcode != IBV_WR_SEND && operations[i].opcode != IBV_WR_RDMA_READ && operations[i].opcode != IBV_WR_RDMA_WRITE)
				continue;
			snprintf(question, sizeof(question), "%s%s", operations[i].name, flags[f].name);
			if (!connected(&c, &s, &usual)) {
				tell("no connection", "%s", question);
				continue;
			}
			post_receive(&s, 10, s.memory, 4096, s.mr->lkey);
			post_receive(&s, 11, s.memory, 4096, s.mr->lkey);
			tell(result(post(&c, 1, operations[i].opcode, c.memory, operations[i].length, c.mr->lkey, (uintptr_t)s.memory + 4096, s.mr->rkey, flags[f].flags)),
			     "%s", question);
			both(&c, &s, question);
			part(&c);
			part(&s);
		}
}

static void by_type(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0), *receives = ibv_create_cq(context, 64, NULL, NULL, 0);
	uint8_t *memory = aligned_alloc(4096, 3 * 4096);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 3 * 4096, usual.access | (iwarp ? 0 : IBV_ACCESS_REMOTE_ATOMIC));
	struct ibv_ah_attr way = attributes(context, IBV_QPS_RTR, 0).ah_attr;
	struct ibv_ah *ah = ibv_create_ah(pd, &way);

	for (int type = IBV_QPT_UC; type <= IBV_QPT_UD; type++)
		for (unsigned i = 0; i < LEN(operations); i++) {
			struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = receives, .cap = {4, 4, 1, 1, 0}, .qp_type = type};
			struct ibv_qp *a = ibv_create_qp(pd, &init), *b = ibv_create_qp(pd, &init);
			const char *name = type == IBV_QPT_UC ? "UC" : "UD";

			if (!a || !b || lead(a, IBV_QPS_RTS, b->qp_num) || lead(b, IBV_QPS_RTS, a->qp_num)) {
				tell("no QPs", "%s %s", name, operations[i].name);
				continue;
			}
			struct end to = {.qp = b};
			struct ibv_sge sge = {(uintptr_t)memory, operations[i].length, mr->lkey};
			struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = operations[i].opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

			post_receive(&to, 10, memory + 4096, 4096, mr->lkey);
			if (type == IBV_QPT_UD) {
				wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = b->qp_num, wr.wr.ud.remote_qkey = 0x11111111;
			} else {
				wr.wr.rdma.remote_addr = (uintptr_t)memory + 2 * 4096, wr.wr.rdma.rkey = mr->rkey;
				if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
					wr.wr.atomic.remote_addr = (uintptr_t)memory + 2 * 4096, wr.wr.atomic.rkey = mr->rkey;
			}
			tell(result(ibv_post_send(a, &wr, &bad)), "%s %s", name, operations[i].name);
			add_completions(cq, 1);
			tell(state_of(a), "%s %s: requester", name, operations[i].name);
			add_completions(receives, 1);
			tell(state_of(b), "%s %s: responder", name, operations[i].name);
			ibv_destroy_qp(a);
			ibv_destroy_qp(b);
			drain(cq);
			drain(receives);
		}
}

static void by_state(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	static uint8_t memory[8192] __attribute__((aligned(4096)));
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), usual.access);
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_ERR};
	struct ibv_ah_attr way = attributes(context, IBV_QPS_RTR, 0).ah_attr;
	struct ibv_ah *ah = ibv_create_ah(pd, &way);

	for (int type = IBV_QPT_RC; type <= IBV_QPT_UD; type++)
		for (unsigned i = 0; i < LEN(states); i++) {
			struct ibv_qp *qp = create_qp(pd, cq, type);
			struct end e = {.qp = qp};
			const char *name = type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";

			if (!qp || lead(qp, states[i], qp->qp_num)) {
				tell("not reached", "%s in %s", name, state_name(states[i]));
				continue;
			}
			tell(result(post_receive(&e, 1, memory, 4096, mr->lkey)), "%s in %s: post_recv", name, state_name(states[i]));
			struct ibv_sge sge = {(uintptr_t)memory, 64, mr->lkey};
			struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

			if (type == IBV_QPT_UD)
				wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = 0xffff0, wr.wr.ud.remote_qkey = 0x11111111;
			tell(result(ibv_post_send(qp, &wr, &bad)), "%s in %s: post_send", name, state_name(states[i]));
			add_completions(cq, 2);
			tell(state_of(qp), "%s in %s: then", name, state_name(states[i]));
			lead(qp, IBV_QPS_ERR, 0);
			add_completions(cq, 2);
			say("%s in %s: flushed by ERR", name, state_name(states[i]));
			ibv_destroy_qp(qp);
			drain(cq);
		}
}

// refused asks what is left of a send that was refused in INIT when its QP is destroyed.
static void refused(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	static uint8_t memory[8192] __attribute__((aligned(4096)));
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), usual.access);

	for (int type = IBV_QPT_RC; type <= IBV_QPT_UC; type++) {
		struct ibv_qp *qp = create_qp(pd, cq, type);
		struct end e = {.qp = qp};
		const char *name = type == IBV_QPT_RC ? "RC" : "UC";

		if (!qp || lead(qp, IBV_QPS_INIT, 0)) {
			tell("not reached", "%s in INIT", name);
			continue;
		}
		add("%s", result(post_receive(&e, 1, memory, 4096, mr->lkey)));
		tell(result(post(&e, 2, IBV_WR_SEND, memory, 64, mr->lkey, 0, 0, 0)), "%s in INIT: a receive and a SEND", name);
		add("%s", result(ibv_destroy_qp(qp)));
		add_completions(cq, 2);
		say("%s in INIT: destroyed", name);
		drain(cq);
	}
}

// inlined asks for the flag INLINE with no more data than the QP takes inline. A READ has none to send.
static void inlined(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} requests[] = {{"WRITE", IBV_WR_RDMA_WRITE}, {"READ", IBV_WR_RDMA_READ}};

	for (unsigned i = 0; i < LEN(requests); i++) {
		struct end c, s;

		if (!connected(&c, &s, &usual)) {
			tell("no connection", "%s", requests[i].name);
			continue;
		}
		tell(result(post(&c, 1, requests[i].opcode, c.memory, 8, c.mr->lkey, (uintptr_t)s.memory + 4096, s.mr->rkey, IBV_SEND_INLINE)), "%s", requests[i].name);
		both(&c, &s, requests[i].name);
		part(&c);
		part(&s);
	}
}

enum wrong {
	NOTHING, RKEY_INDEX, RKEY_BYTE, RKEY_ZERO, RKEY_OTHER_PD, BEYOND, BELOW, DEREGISTERED, EMPTY_WRONG_RKEY, MISALIGNED, LKEY, LKEY_BEYOND, LKEY_OTHER_PD,
	LKEY_READ_ONLY, RECEIVE_SHORT, RECEIVE_LKEY, RECEIVE_READ_ONLY, RECEIVE_BEYOND, RECEIVE_DEREGISTERED, RECEIVE_OTHER_PD, NO_RECEIVE, TOO_LONG, INVALIDATE, INVALIDATE_WRONG
};

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
	int access; // of the remote memory
	enum wrong wrong;
} violations[] = {
	{"WRITE to memory with only local write", IBV_WR_RDMA_WRITE, 1, NOTHING}, {"READ of memory with only local write", IBV_WR_RDMA_READ, 1, NOTHING},
	{"READ of memory without rights", IBV_WR_RDMA_READ, 0, NOTHING}, {"READ of memory with remote read", IBV_WR_RDMA_READ, 4, NOTHING},
	{"WRITE to memory with remote read", IBV_WR_RDMA_WRITE, 4, NOTHING}, {"READ of memory with remote write", IBV_WR_RDMA_READ, 3, NOTHING},
	{"FAA on memory without atomics", IBV_WR_ATOMIC_FETCH_AND_ADD, 7, NOTHING}, {"FAA on memory with only atomics", IBV_WR_ATOMIC_FETCH_AND_ADD, 9, NOTHING},
	{"WRITE by a wrong rkey", IBV_WR_RDMA_WRITE, 7, RKEY_INDEX}, {"WRITE by an rkey of another key byte", IBV_WR_RDMA_WRITE, 7, RKEY_BYTE},
	{"WRITE by rkey 0", IBV_WR_RDMA_WRITE, 7, RKEY_ZERO}, {"WRITE by an rkey of another PD", IBV_WR_RDMA_WRITE, 7, RKEY_OTHER_PD},
	{"READ by an rkey of another PD", IBV_WR_RDMA_READ, 7, RKEY_OTHER_PD}, {"READ by a wrong rkey", IBV_WR_RDMA_READ, 7, RKEY_INDEX},
	{"WRITE beyond by a byte", IBV_WR_RDMA_WRITE, 7, BEYOND}, {"READ beyond by a byte", IBV_WR_RDMA_READ, 7, BEYOND}, {"FAA beyond", IBV_WR_ATOMIC_FETCH_AND_ADD, 15, BEYOND},
	{"WRITE below by a byte", IBV_WR_RDMA_WRITE, 7, BELOW}, {"WRITE to deregistered memory", IBV_WR_RDMA_WRITE, 7, DEREGISTERED},
	{"READ of deregistered memory", IBV_WR_RDMA_READ, 7, DEREGISTERED}, {"WRITE of nothing by a wrong rkey", IBV_WR_RDMA_WRITE, 7, EMPTY_WRONG_RKEY},
	{"READ of nothing by a wrong rkey", IBV_WR_RDMA_READ, 7, EMPTY_WRONG_RKEY}, {"FAA misaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 15, MISALIGNED},
	{"WRITE from a wrong lkey", IBV_WR_RDMA_WRITE, 7, LKEY}, {"WRITE from beyond the region", IBV_WR_RDMA_WRITE, 7, LKEY_BEYOND},
	{"WRITE from an lkey of another PD", IBV_WR_RDMA_WRITE, 7, LKEY_OTHER_PD}, {"READ into memory without local write", IBV_WR_RDMA_READ, 7, LKEY_READ_ONLY},
	{"READ into a wrong lkey", IBV_WR_RDMA_READ, 7, LKEY}, {"READ into an lkey of another PD", IBV_WR_RDMA_READ, 7, LKEY_OTHER_PD},
	{"SEND from a wrong lkey", IBV_WR_SEND, 7, LKEY}, {"SEND from beyond the region", IBV_WR_SEND, 7, LKEY_BEYOND},
	{"SEND too long for the receive", IBV_WR_SEND, 7, RECEIVE_SHORT}, {"SEND into a wrong lkey", IBV_WR_SEND, 7, RECEIVE_LKEY},
	{"SEND into memory without local write", IBV_WR_SEND, 7, RECEIVE_READ_ONLY}, {"SEND into beyond the region", IBV_WR_SEND, 7, RECEIVE_BEYOND},
	{"SEND into deregistered memory", IBV_WR_SEND, 7, RECEIVE_DEREGISTERED}, {"SEND into an lkey of another PD", IBV_WR_SEND, 7, RECEIVE_OTHER_PD},
	{"SEND without a receive, RNR retries 1", IBV_WR_SEND, 7, NO_RECEIVE}, {"WRITE_WITH_IMM without a receive, RNR retries 1", IBV_WR_RDMA_WRITE_WITH_IMM, 7, NO_RECEIVE},
	{"WRITE longer than the region", IBV_WR_RDMA_WRITE, 7, TOO_LONG}, {"READ longer than the region", IBV_WR_RDMA_READ, 7, TOO_LONG},
	{"SEND_WITH_INV of a region", IBV_WR_SEND_WITH_INV, 7, INVALIDATE}, {"SEND_WITH_INV of a wrong rkey", IBV_WR_SEND_WITH_INV, 7, INVALIDATE_WRONG},
	{"LOCAL_INV of a region", IBV_WR_LOCAL_INV, 7, INVALIDATE}, {"LOCAL_INV of a wrong rkey", IBV_WR_LOCAL_INV, 7, INVALIDATE_WRONG},
};

static void violate(unsigned i, struct end *c, struct end *s)
{
	enum wrong wrong = violations[i].wrong;
	uint8_t *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_pd *other = ibv_alloc_pd(s->id->verbs);
	struct ibv_mr *mr = ibv_reg_mr(wrong == RKEY_OTHER_PD || wrong == RECEIVE_OTHER_PD ? other : s->pd, memory, 4096, violations[i].access), *local = NULL;
	unsigned length = violations[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 64;

	if (!mr) {
		tell(name_of(errno), "%s: region", violations[i].name);
		return;
	}
	uint64_t remote = (uintptr_t)memory;
	uint32_t rkey = mr->rkey, lkey = c->mr->lkey;
	uint8_t *from = c->memory;

	switch (wrong) {
	case RKEY_INDEX: case INVALIDATE_WRONG: rkey ^= 0x400000; break;
	case EMPTY_WRONG_RKEY: rkey ^= 0x400000, length = 0; break;
	case RKEY_BYTE: rkey ^= 0x55; break;
	case RKEY_ZERO: rkey = 0; break;
	case BEYOND: remote += 4097 - length; break;
	case BELOW: remote--; break;
	case DEREGISTERED: case RECEIVE_DEREGISTERED: break;
	case MISALIGNED: remote += 4; break;
	case LKEY: lkey ^= 0x400000; break;
	case LKEY_BEYOND: from += MEMORY - 32; break;
	case LKEY_OTHER_PD: local = ibv_reg_mr(other, from, 4096, 7), lkey = local->lkey; break;
	case LKEY_READ_ONLY: local = ibv_reg_mr(c->pd, from, 4096, 0), lkey = local->lkey; break;
	case TOO_LONG: length = MEMORY; break;
	case INVALIDATE: rkey = violations[i].opcode == IBV_WR_LOCAL_INV ? c->mr->rkey : mr->rkey; break;
	default: break;
	}
	switch (wrong) {
	case RECEIVE_SHORT: post_receive(s, 10, s->memory, 63, s->mr->lkey); break;
	case RECEIVE_LKEY: post_receive(s, 10, s->memory, 64, s->mr->lkey ^ 0x400000); break;
	case RECEIVE_READ_ONLY: local = ibv_reg_mr(s->pd, s->memory, 4096, 0); post_receive(s, 10, s->memory, 64, local->lkey); break;
	case RECEIVE_BEYOND: post_receive(s, 10, s->memory + MEMORY - 32, 64, s->mr->lkey); break;
	case RECEIVE_DEREGISTERED: case RECEIVE_OTHER_PD: post_receive(s, 10, memory, 64, mr->lkey); break;
	case NO_RECEIVE: break;
	default: post_receive(s, 10, s->memory, 4096, s->mr->lkey);
	}
	if (wrong == DEREGISTERED || wrong == RECEIVE_DEREGISTERED)
		ibv_dereg_mr(mr), mr = NULL;
	tell(result(post(c, 1, violations[i].opcode, from, length, lkey, remote, rkey, 0)), "%s", violations[i].name);
	if (wrong == NO_RECEIVE && !iwarp)
		usleep(2000000); // two times without a receive of rdma_cm
	both(c, s, violations[i].name);
	add("%s", result(post(c, 2, IBV_WR_RDMA_WRITE, c->memory, 8, c->mr->lkey, (uintptr_t)s->memory, s->mr->rkey, 0)));
	add_completions(c->send_cq, 1);
	tell(state_of(c->qp), "%s: a WRITE then", violations[i].name);
	if (mr)
		ibv_dereg_mr(mr);
	if (local)
		ibv_dereg_mr(local);
	ibv_dealloc_pd(other);
	munmap(memory, 8192);
}

static void access_rights(void)
{
	for (unsigned i = 0; i < LEN(violations); i++) {
		struct shape shape = usual;
		struct end c, s;

		if (iwarp && violations[i].wrong == TOO_LONG && violations[i].opcode == IBV_WR_RDMA_WRITE)
			continue; // the peer ends the connection before all is sent, or after
		shape.rnr = 1;
		shape.access |= IBV_ACCESS_REMOTE_ATOMIC;
		if (iwarp)
			shape.access = usual.access;
		if (!connected(&c, &s, &shape)) {
			shape.access = usual.access;
			if (!connected(&c, &s, &shape)) {
				tell("no connection", "%s", violations[i].name);
				continue;
			}
		}
		violate(i, &c, &s);
		part(&c);
		part(&s);
	}
}

static void lists(void)
{
	for (int n = -1; n < 40; n += n < 3 ? 1 : 12)
		for (int k = 0; k < 3; k++) {
			static const enum ibv_wr_opcode codes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
			static const char *const names[] = {"SEND", "WRITE", "READ"};
			struct ibv_sge sges[40];
			struct ibv_send_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = n, .opcode = codes[k], .send_flags = IBV_SEND_SIGNALED}, *bad;
			struct end c, s;

			if (!connected(&c, &s, &usual))
				continue;
			if (iwarp && (n < 0 || n > 3)) { // libsiw and liberdma copy as many as that
				part(&c);
				part(&s);
				continue;
			}
			for (unsigned i = 0; i < LEN(sges); i++)
				sges[i] = (struct ibv_sge){(uintptr_t)c.memory + 64 * i, 64, c.mr->lkey};
			post_receive(&s, 10, s.memory, 4096, s.mr->lkey);
			wr.wr.rdma.remote_addr = (uintptr_t)s.memory, wr.wr.rdma.rkey = s.mr->rkey;
			add("%s", result(ibv_post_send(c.qp, &wr, &bad)));
			add_completions(c.send_cq, 1);
			tell(state_of(c.qp), "%s of %d SGEs", names[k], n);
			if (k == 0) {
				struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = sges, .num_sge = n}, *bad_receive;

				tell(result(ibv_post_recv(s.qp, &receive, &bad_receive)), "receive of %d SGEs", n);
			}
			part(&c);
			part(&s);
		}
}

static void full(void)
{
	struct end c, s;
	int n = 0, r = 0;

	if (!connected(&c, &s, &usual))
		return;
	while (n < 4096 && !(r = post_receive(&s, n, s.memory, 64, s.mr->lkey)))
		n++;
	add("%d, then %s", n, result(r));
	say("receives of a QP that was asked for 16");
	part(&c);
	part(&s);

	struct shape shape = usual;

	shape.shared = 1;
	if (!connected(&c, &s, &shape))
		return;
	for (n = 0; n < 4096 && !(r = post_receive(&s, n, s.memory, 64, s.mr->lkey)); n++)
		;
	add("%d, then %s", n, result(r));
	say("receives of an SRQ that was asked for 16");
	struct ibv_recv_wr wr = {.wr_id = 3}, *bad;

	if (!iwarp) // libsiw divides by the length of that queue, which is 0
		tell(result(ibv_post_recv(s.qp, &wr, &bad)), "post_recv of a QP with an SRQ");
	tell(result(ibv_destroy_srq(s.srq)), "destroy_srq in use");
	part(&c);
	part(&s);
}

static void shared_limit(void)
{
	struct shape shape = usual;
	struct end c, s;

	shape.shared = 1;
	if (!connected(&c, &s, &shape)) {
		tell("no connection", "SRQ");
		return;
	}
	struct ibv_srq_attr attr = {.srq_limit = 2};

	for (int i = 0; i < 4; i++)
		post_receive(&s, i, s.memory, 64, s.mr->lkey);
	add("%s", result(ibv_modify_srq(s.srq, &attr, IBV_SRQ_LIMIT)));
	add_async(s.id->verbs);
	say("limit 2 with 4 receives");
	for (int i = 1; i <= 4; i++) {
		post(&c, i, IBV_WR_SEND, c.memory, 8, c.mr->lkey, 0, 0, 0);
		add_completions(c.send_cq, 1);
		add_completions(s.recv_cq, 1);
		add_async(s.id->verbs);
		say("limit 2: message %d", i);
	}
	attr.srq_limit = 9;
	ibv_query_srq(s.srq, &attr);
	add("%u", attr.srq_limit);
	say("limit after its event");
	lead(s.qp, IBV_QPS_ERR, 0);
	add_completions(s.recv_cq, 1);
	add_async(s.id->verbs);
	say("QP with an SRQ to ERR");
	part(&c);
	part(&s);
}

static void overflow(void)
{
	struct shape shape = usual;
	struct end c, s;
	int posted = 0, polled = 0;
	struct ibv_wc wc;

	shape.cqe = 4;
	if (!connected(&c, &s, &shape))
		return;
	int room = c.send_cq->cqe;

	for (int i = 0; i < room + 3; i++) {
		if (!post(&c, i, IBV_WR_RDMA_WRITE, c.memory, 8, c.mr->lkey, (uintptr_t)s.memory, s.mr->rkey, 0))
			posted++;
		usleep(20000); // it has completed then
	}
	usleep(100000);
	add_async(c.id->verbs);
	tell(state_of(c.qp), "a CQ with three completions too many");
	while (polled < 4096 && ibv_poll_cq(c.send_cq, 1, &wc) > 0)
		polled++;
	add("%s", polled == room ? "as many as fit" : polled < room ? "less than fit" : "more than fit");
	say("its completions");
	add("%s", result(post(&c, 99, IBV_WR_RDMA_WRITE, c.memory, 8, c.mr->lkey, (uintptr_t)s.memory, s.mr->rkey, 0)));
	add_completions(c.send_cq, 1);
	say("a WRITE then");
	part(&c);
	part(&s);
}

static void end_of_connection(void)
{
	struct end c, s;

	if (connected(&c, &s, &usual)) {
		post_receive(&c, 1, c.memory, 64, c.mr->lkey);
		post_receive(&s, 2, s.memory, 64, s.mr->lkey);
		tell(result(rdma_disconnect(c.id)), "rdma_disconnect");
		add_events(c.channel, 1);
		add_completions(c.recv_cq, 1);
		tell(state_of(c.qp), "rdma_disconnect: own side");
		add_events(s.channel, 1);
		add_completions(s.recv_cq, 1);
		tell(state_of(s.qp), "rdma_disconnect: other side");
		tell(result(rdma_disconnect(s.id)), "rdma_disconnect of the other side");
		add_completions(s.recv_cq, 1);
		tell(state_of(s.qp), "rdma_disconnect of the other side: then");
		tell(result(rdma_disconnect(c.id)), "rdma_disconnect again");
		tell(result(rdma_disconnect(s.id)), "rdma_disconnect of the other side again");
		add("%s", result(post(&c, 3, IBV_WR_SEND, c.memory, 8, c.mr->lkey, 0, 0, 0)));
		add_completions(c.send_cq, 1);
		say("a SEND after the end");
		add("%s", result(post_receive(&c, 4, c.memory, 8, c.mr->lkey)));
		add_completions(c.recv_cq, 1);
		say("a receive after the end");
		part(&c);
		part(&s);
	}
	if (connected(&c, &s, &usual)) {
		post_receive(&s, 2, s.memory, 64, s.mr->lkey);
		rdma_destroy_qp(c.id);
		c.qp = NULL;
		add_events(s.channel, 1);
		add_completions(s.recv_cq, 1);
		tell(state_of(s.qp), "QP destroyed: other side");
		part(&c);
		add_events(s.channel, 1);
		add_completions(s.recv_cq, 1);
		tell(state_of(s.qp), "ID destroyed: other side");
		part(&s);
	}
	if (connected(&c, &s, &usual)) {
		for (int i = 0; i < 4; i++)
			post(&c, i, IBV_WR_RDMA_WRITE, c.memory, 8, c.mr->lkey, (uintptr_t)s.memory, s.mr->rkey, 0);
		usleep(patience * 1000);
		rdma_destroy_qp(c.id);
		c.qp = NULL;
		add_completions(c.send_cq, 4);
		say("completions of a QP that was destroyed");
		part(&c);
		part(&s);
	}
	if (connected(&c, &s, &usual)) {
		post_receive(&s, 2, s.memory, 64, s.mr->lkey);
		tell(result(ibv_dereg_mr(s.mr)), "dereg_mr of a posted receive");
		s.mr = NULL;
		part(&c);
		part(&s);
	}
}

const struct group work_groups[] = {
	{"opcodes", opcodes}, {"type", by_type}, {"state", by_state}, {"refused", refused}, {"inline", inlined}, {"access", access_rights}, {"lists", lists}, {"full", full}, {"limit", shared_limit},
	{"overflow", overflow}, {"end", end_of_connection}, {},
};
