// Queue pairs: each step from state to state with each attribute too few and too many, and values
// that attributes can't have.
#include "ask.h"

static const struct {
	int bit;
	const char *name;
} bits[] = {
	{IBV_QP_CUR_STATE, "CUR_STATE"}, {IBV_QP_EN_SQD_ASYNC_NOTIFY, "NOTIFY"}, {IBV_QP_ACCESS_FLAGS, "ACCESS"},
	{IBV_QP_PKEY_INDEX, "PKEY"}, {IBV_QP_PORT, "PORT"}, {IBV_QP_QKEY, "QKEY"}, {IBV_QP_AV, "AV"}, {IBV_QP_PATH_MTU, "MTU"},
	{IBV_QP_TIMEOUT, "TIMEOUT"}, {IBV_QP_RETRY_CNT, "RETRY"}, {IBV_QP_RNR_RETRY, "RNR_RETRY"}, {IBV_QP_RQ_PSN, "RQ_PSN"},
	{IBV_QP_MAX_QP_RD_ATOMIC, "RD_ATOMIC"}, {IBV_QP_ALT_PATH, "ALT_PATH"}, {IBV_QP_MIN_RNR_TIMER, "RNR_TIMER"},
	{IBV_QP_SQ_PSN, "SQ_PSN"}, {IBV_QP_MAX_DEST_RD_ATOMIC, "DEST_RD_ATOMIC"}, {IBV_QP_PATH_MIG_STATE, "MIGRATION"},
	{IBV_QP_CAP, "CAP"}, {IBV_QP_DEST_QPN, "DEST_QPN"}, {IBV_QP_RATE_LIMIT, "RATE"},
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void open_all(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
}

static const char *type_name(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

// in returns a QP in a state, and makes a new one if the last has left that state.
static struct ibv_qp *in(struct ibv_qp *qp, enum ibv_qp_type type, enum ibv_qp_state state)
{
	if (qp && !strcmp(state_of(qp), state_name(state)))
		return qp;
	if (qp)
		ibv_destroy_qp(qp);
	qp = create_qp(pd, cq, type);
	if (qp && lead(qp, state, qp->qp_num)) {
		ibv_destroy_qp(qp);
		qp = NULL;
	}
	return qp;
}

static const char *step(struct ibv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = attributes(context, to, qp->qp_num);

	attr.cur_qp_state = from;
	return result(ibv_modify_qp(qp, &attr, mask));
}

// steps asks for one step with the attributes that it needs, and then with each one left out or added.
static void steps(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	int mask = required(type, to == from + 1u && to <= IBV_QPS_RTS ? to : IBV_QPS_RESET);
	struct ibv_qp *qp = in(NULL, type, from);
	const char *before = "";

	if (!qp) {
		tell("not reached", "%s %s to %s", type_name(type), state_name(from), state_name(to));
		return;
	}
	before = step(qp, from, to, mask);
	add("%s, then %s;", before, state_of(qp));
	for (int pass = 0; pass < 2; pass++) {
		before = "";
		for (unsigned i = 0; i < LEN(bits); i++) {
			if (!(mask & bits[i].bit) == !pass)
				continue;
			qp = in(qp, type, from);
			const char *r = qp ? step(qp, from, to, mask ^ bits[i].bit) : "no QP";

			if (strcmp(r, before))
				add("%s %s:", pass ? "with" : "without", r);
			before = r;
			add("%s", bits[i].name);
		}
	}
	say("%s %s to %s", type_name(type), state_name(from), state_name(to));
	if (qp)
		ibv_destroy_qp(qp);
}

static void modify(enum ibv_qp_type type)
{
	static const enum ibv_qp_state from[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR};

	open_all();
	for (unsigned i = 0; i < LEN(from); i++)
		for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++)
			steps(type, from[i], to);
}

static void modify_rc(void) { modify(IBV_QPT_RC); }
static void modify_uc(void) { modify(IBV_QPT_UC); }
static void modify_ud(void) { modify(IBV_QPT_UD); }

// SQD drains, so a step right after it may be too early on a kernel: one that is idle is not.
static void drained(void)
{
	open_all();
	for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
		struct ibv_qp *qp = in(NULL, IBV_QPT_RC, IBV_QPS_SQD);

		if (!qp) {
			tell("not reached", "SQD to %s", state_name(to));
			continue;
		}
		struct ibv_qp_attr attr = {.qp_state = to};

		for (long end = now() + 20 * patience; now() < end; usleep(1000)) {
			struct ibv_qp_attr now_attr;
			struct ibv_qp_init_attr init;

			if (ibv_query_qp(qp, &now_attr, IBV_QP_STATE, &init) || !now_attr.sq_draining)
				break;
		}
		add("%s,", result(ibv_modify_qp(qp, &attr, IBV_QP_STATE)));
		tell(state_of(qp), "SQD to %s", state_name(to));
		ibv_destroy_qp(qp);
	}
}

static void ask_value(enum ibv_qp_type type, const char *name, enum ibv_qp_state to, int mask, const struct ibv_qp_attr *attr)
{
	struct ibv_qp *qp = create_qp(pd, cq, type);

	if (!qp || lead(qp, to - 1, qp->qp_num)) {
		tell("not reached", "%s: %s", type_name(type), name);
	} else {
		add("%s,", result(ibv_modify_qp(qp, (struct ibv_qp_attr *)attr, mask | required(type, to))));
		tell(state_of(qp), "%s: %s", type_name(type), name);
	}
	if (qp)
		ibv_destroy_qp(qp);
}

#define ASK_VALUE(type, what, state, more, change) do { \
		struct ibv_qp_attr a = attributes(context, IBV_QPS_##state, 0x11); \
		change; \
		ask_value(type, what, IBV_QPS_##state, more, &a); \
	} while (0)

static void path_values(enum ibv_qp_type type)
{
	ASK_VALUE(type, "path MTU 0", RTR, 0, a.path_mtu = 0);
	ASK_VALUE(type, "path MTU 4096", RTR, 0, a.path_mtu = IBV_MTU_4096);
	ASK_VALUE(type, "path MTU 6", RTR, 0, a.path_mtu = 6);
	ASK_VALUE(type, "destination 2^24", RTR, 0, a.dest_qp_num = 1 << 24);
	ASK_VALUE(type, "PSN 2^24", RTR, 0, a.rq_psn = 1 << 24);
	ASK_VALUE(type, "port 0 of the path", RTR, 0, a.ah_attr.port_num = 0);
	ASK_VALUE(type, "port 2 of the path", RTR, 0, a.ah_attr.port_num = 2);
	ASK_VALUE(type, "no GRH", RTR, 0, a.ah_attr.is_global = 0);
	ASK_VALUE(type, "own GID 255", RTR, 0, a.ah_attr.grh.sgid_index = 255);
	ASK_VALUE(type, "own GID 15, which is empty", RTR, 0, a.ah_attr.grh.sgid_index = 15);
	ASK_VALUE(type, "own GID 0, link-local", RTR, 0, a.ah_attr.grh.sgid_index = 0);
	ASK_VALUE(type, "GID ::", RTR, 0, memset(&a.ah_attr.grh.dgid, 0, 16));
	ASK_VALUE(type, "GID of IPv6 by an own one of IPv4", RTR, 0, memset(&a.ah_attr.grh.dgid, 0xfd, 16));
	ASK_VALUE(type, "GID of a host that can't be reached", RTR, 0, a.ah_attr.grh.dgid.raw[12] = 240);
	ASK_VALUE(type, "GID of a group", RTR, 0, a.ah_attr.grh.dgid.raw[12] = 239);
	ASK_VALUE(type, "hop limit 0", RTR, 0, a.ah_attr.grh.hop_limit = 0);
	ASK_VALUE(type, "flow label 2^20", RTR, 0, a.ah_attr.grh.flow_label = 1 << 20);
	ASK_VALUE(type, "service level 16", RTR, 0, a.ah_attr.sl = 16);
	ASK_VALUE(type, "alternate path", RTR, IBV_QP_ALT_PATH, (void)a);
	ASK_VALUE(type, "alternate path, port 2", RTR, IBV_QP_ALT_PATH, a.alt_port_num = 2);
}

static void values(void)
{
	open_all();
	for (int i = 0; i < 3; i++) {
		static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
		enum ibv_qp_type type = types[i];

		ASK_VALUE(type, "port 0", INIT, 0, a.port_num = 0);
		ASK_VALUE(type, "port 2", INIT, 0, a.port_num = 2);
		ASK_VALUE(type, "P_Key index 1", INIT, 0, a.pkey_index = 1);
		ASK_VALUE(type, "P_Key index 999", INIT, 0, a.pkey_index = 999);
		ASK_VALUE(type, "all access flags", INIT, 0, a.qp_access_flags = 0xffff);
		ASK_VALUE(type, "no access flags", INIT, 0, a.qp_access_flags = 0);
		ASK_VALUE(type, "access flag 2^30", INIT, 0, a.qp_access_flags = 1 << 30);
		ASK_VALUE(type, "Q_Key with the top bit", INIT, 0, a.qkey = 0x80000000);
		ASK_VALUE(type, "state 7", INIT, 0, a.qp_state = 7);
		ASK_VALUE(type, "state 99", INIT, 0, a.qp_state = 99);
		ASK_VALUE(type, "current state wrong", INIT, IBV_QP_CUR_STATE, a.cur_qp_state = IBV_QPS_RTS);
		if (type != IBV_QPT_UD)
			path_values(type);
		ASK_VALUE(type, "own PSN 2^24", RTS, 0, a.sq_psn = 1 << 24);
		ASK_VALUE(type, "current state ERR", RTS, IBV_QP_CUR_STATE, a.cur_qp_state = IBV_QPS_ERR);
	}
	ASK_VALUE(IBV_QPT_RC, "RNR timer 31", RTR, 0, a.min_rnr_timer = 31);
	ASK_VALUE(IBV_QPT_RC, "RNR timer 32", RTR, 0, a.min_rnr_timer = 32);
	ASK_VALUE(IBV_QPT_RC, "RNR timer 255", RTR, 0, a.min_rnr_timer = 255);
	ASK_VALUE(IBV_QPT_RC, "READs served 0", RTR, 0, a.max_dest_rd_atomic = 0);
	ASK_VALUE(IBV_QPT_RC, "READs served 16", RTR, 0, a.max_dest_rd_atomic = 16);
	ASK_VALUE(IBV_QPT_RC, "READs served 129", RTR, 0, a.max_dest_rd_atomic = 129);
	ASK_VALUE(IBV_QPT_RC, "READs served 255", RTR, 0, a.max_dest_rd_atomic = 255);
	ASK_VALUE(IBV_QPT_RC, "READs 0", RTS, 0, a.max_rd_atomic = 0);
	ASK_VALUE(IBV_QPT_RC, "READs 16", RTS, 0, a.max_rd_atomic = 16);
	ASK_VALUE(IBV_QPT_RC, "READs 129", RTS, 0, a.max_rd_atomic = 129);
	ASK_VALUE(IBV_QPT_RC, "READs 255", RTS, 0, a.max_rd_atomic = 255);
	ASK_VALUE(IBV_QPT_RC, "timeout 0", RTS, 0, a.timeout = 0);
	ASK_VALUE(IBV_QPT_RC, "timeout 31", RTS, 0, a.timeout = 31);
	ASK_VALUE(IBV_QPT_RC, "timeout 32", RTS, 0, a.timeout = 32);
	ASK_VALUE(IBV_QPT_RC, "retry count 7", RTS, 0, a.retry_cnt = 7);
	ASK_VALUE(IBV_QPT_RC, "retry count 8", RTS, 0, a.retry_cnt = 8);
	ASK_VALUE(IBV_QPT_RC, "RNR retry count 7", RTS, 0, a.rnr_retry = 7);
	ASK_VALUE(IBV_QPT_RC, "RNR retry count 8", RTS, 0, a.rnr_retry = 8);
	ASK_VALUE(IBV_QPT_RC, "migration state 3", RTS, IBV_QP_PATH_MIG_STATE, a.path_mig_state = 3);
}

static void query_fields(const char *who, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {};
	struct ibv_qp_init_attr init = {};

	tell(result(ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_CAP, &init)), "%s: query_qp", who);
#define FIELD(name, format, value) add(format, value), say("%s: %s", who, name)
	FIELD("state", "%s", state_name(a.qp_state));
	FIELD("max_send_wr", "%u", a.cap.max_send_wr);
	FIELD("max_recv_wr", "%u", a.cap.max_recv_wr);
	FIELD("max_send_sge", "%u", a.cap.max_send_sge);
	FIELD("max_recv_sge", "%u", a.cap.max_recv_sge);
	FIELD("max_inline_data", "%u", a.cap.max_inline_data);
	FIELD("max_inline_data of the init attributes", "%u", init.cap.max_inline_data);
	FIELD("sq_sig_all", "%d", init.sq_sig_all);
	FIELD("access", "%#x", a.qp_access_flags);
	FIELD("path_mtu", "%d", a.path_mtu);
#undef FIELD
	if (iwarp)
		return; // siw leaves the others as they were in memory
#define FIELD(name, format, value) add(format, value), say("%s: %s", who, name)
	FIELD("current state", "%s", state_name(a.cur_qp_state));
	FIELD("destination known", "%d", a.dest_qp_num != 0);
	FIELD("Q_Key", "%#x", a.qkey);
	FIELD("P_Key index", "%u", a.pkey_index);
	FIELD("READs", "%u", a.max_rd_atomic);
	FIELD("READs served", "%u", a.max_dest_rd_atomic);
	FIELD("RNR timer", "%u", a.min_rnr_timer);
	FIELD("timeout", "%u", a.timeout);
	FIELD("retry count", "%u", a.retry_cnt);
	FIELD("RNR retry count", "%u", a.rnr_retry);
	FIELD("port", "%u", a.port_num);
	FIELD("hop limit", "%u", a.ah_attr.grh.hop_limit);
	FIELD("traffic class", "%u", a.ah_attr.grh.traffic_class);
	FIELD("global", "%u", a.ah_attr.is_global);
	FIELD("port of the path", "%u", a.ah_attr.port_num);
	FIELD("alternate port", "%u", a.alt_port_num);
	FIELD("alternate timeout", "%u", a.alt_timeout);
	FIELD("migration state", "%d", a.path_mig_state);
	FIELD("draining", "%u", a.sq_draining);
#undef FIELD
}

static void query(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR};
	struct end c, s;
	char who[32];

	open_all();
	for (int type = IBV_QPT_RC; type <= IBV_QPT_UD; type++)
		for (unsigned i = 0; i < LEN(states); i++) {
			struct ibv_qp *qp = in(NULL, type, states[i]);

			snprintf(who, sizeof(who), "%s in %s", type_name(type), state_name(states[i]));
			if (qp) {
				query_fields(who, qp);
				ibv_destroy_qp(qp);
			}
		}
	if (connected(&c, &s, &usual)) {
		query_fields("dialling side", c.qp);
		query_fields("accepting side", s.qp);
		part(&c);
		part(&s);
	}
}

// flow_label asks for the flow label that rdma_cm gives a connection.
static void flow_label(void)
{
	struct end ends[2];

	if (!connected(&ends[0], &ends[1], &usual)) {
		tell("no connection", "of a connection");
		return;
	}
	for (unsigned i = 0; i < LEN(ends); i++) {
		struct ibv_qp_attr a = {};
		struct ibv_qp_init_attr init;
		unsigned dialling = ntohs(rdma_get_src_port(ends[0].id)), accepting = ntohs(rdma_get_dst_port(ends[0].id));

		ibv_query_qp(ends[i].qp, &a, IBV_QP_AV, &init);
		tell(iwarp ? "of no meaning" : a.ah_attr.grh.flow_label == (dialling * 31 + accepting) % (1 << 20) ? "made of the ports" : a.ah_attr.grh.flow_label ? "another" : "0",
		     "of the %s side", i ? "accepting" : "dialling");
	}
	part(&ends[0]);
	part(&ends[1]);
}

// by_hand asks for steps by hand of a QP whose connection rdma_cm has made, and what both ends see of it.
static void by_hand(void)
{
	for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
		struct end c, s;
		struct ibv_qp_attr attr = {.qp_state = to};

		if (!connected(&c, &s, &usual)) {
			tell("no connection", "connected, to %s", state_name(to));
			continue;
		}
		post_receive(&c, 1, c.memory, 64, c.mr->lkey);
		post_receive(&s, 2, s.memory, 64, s.mr->lkey);
		tell(result(ibv_modify_qp(c.qp, &attr, IBV_QP_STATE)), "connected, to %s", state_name(to));
		add_completions(c.recv_cq, 1);
		add_events(c.channel, 1);
		tell(state_of(c.qp), "connected, to %s: own side", state_name(to));
		add_completions(s.recv_cq, 1);
		add_events(s.channel, 1);
		tell(state_of(s.qp), "connected, to %s: other side", state_name(to));
		add("%s", result(post(&c, 3, IBV_WR_SEND, c.memory, 8, c.mr->lkey, 0, 0, 0)));
		add_completions(c.send_cq, 1);
		say("connected, to %s: a SEND then", state_name(to));
		part(&c);
		part(&s);
	}
}

const struct group state_groups[] = {
	{"modify RC", modify_rc}, {"modify UC", modify_uc}, {"modify UD", modify_ud}, {"drained", drained}, {"values", values},
	{"query", query}, {"flow label", flow_label}, {"by hand", by_hand}, {},
};
