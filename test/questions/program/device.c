// Devices and their objects: attributes, what can't be created, and what can't be destroyed yet.
#include "ask.h"

static void attributes_of_device(void)
{
	struct ibv_context *context = open_device();
	struct ibv_device_attr d = {};
	struct ibv_port_attr p = {};

	tell(result(ibv_query_device(context, &d)), "query_device");
#define FIELD(name) add("%lld", (long long)d.name), say("%s", #name)
	FIELD(max_mr_size); FIELD(page_size_cap); FIELD(max_qp); FIELD(max_qp_wr); FIELD(device_cap_flags); FIELD(max_sge); FIELD(max_sge_rd);
	FIELD(max_cq); FIELD(max_cqe); FIELD(max_mr); FIELD(max_pd); FIELD(max_qp_rd_atom); FIELD(max_ee_rd_atom); FIELD(max_res_rd_atom);
	FIELD(max_qp_init_rd_atom); FIELD(max_ee_init_rd_atom); FIELD(atomic_cap); FIELD(max_ee); FIELD(max_rdd); FIELD(max_mw);
	FIELD(max_raw_ipv6_qp); FIELD(max_raw_ethy_qp); FIELD(max_mcast_grp); FIELD(max_mcast_qp_attach); FIELD(max_total_mcast_qp_attach);
	FIELD(max_ah); FIELD(max_fmr); FIELD(max_srq); FIELD(max_srq_wr); FIELD(max_srq_sge); FIELD(max_pkeys); FIELD(local_ca_ack_delay);
	FIELD(phys_port_cnt);
#undef FIELD
	tell(result(ibv_query_port(context, 1, &p)), "query_port 1");
#define FIELD(name) add("%lld", (long long)p.name), say("port: %s", #name)
	FIELD(state); FIELD(max_mtu); FIELD(active_mtu); FIELD(port_cap_flags); FIELD(max_msg_sz); FIELD(bad_pkey_cntr);
	FIELD(qkey_viol_cntr); FIELD(pkey_tbl_len); FIELD(gid_tbl_len); FIELD(lid); FIELD(sm_lid); FIELD(lmc); FIELD(max_vl_num); FIELD(sm_sl);
	FIELD(subnet_timeout); FIELD(init_type_reply); FIELD(phys_state); FIELD(link_layer);
#undef FIELD
	for (int port = 0; port < 256; port += port == 3 ? 252 : 1) {
		struct ibv_gid_entry gid;
		union ibv_gid old;
		uint16_t pkey;

		if (port == 1)
			continue;
		tell(result(ibv_query_port(context, port, &p)), "query_port %d", port);
		tell(result(ibv_query_gid_ex(context, port, 0, &gid, 0)), "query_gid_ex of port %d", port);
		tell(result(ibv_query_gid(context, port, 0, &old)), "query_gid of port %d", port);
		tell(result(ibv_query_pkey(context, port, 0, &pkey)), "query_pkey of port %d", port);
	}
	for (unsigned flags = 1; flags < 4; flags++) {
		struct ibv_gid_entry gid, table[8];

		tell(result(ibv_query_gid_ex(context, 1, 0, &gid, flags)), "query_gid_ex with flags %u", flags);
		tell(ibv_query_gid_table(context, table, 8, flags) < 0 ? name_of(errno) : "some", "query_gid_table with flags %u", flags);
	}
	struct ibv_gid_entry gid;
	uint16_t pkey = 0;

	tell(result(ibv_query_gid_ex(context, 1, 15, &gid, 0)), "query_gid_ex of index 15");
	tell(result(ibv_query_gid_ex(context, 1, 255, &gid, 0)), "query_gid_ex of index 255");
	tell(result(ibv_query_gid_ex(context, 1, 65535, &gid, 0)), "query_gid_ex of index 65535");
	add("%s %#x", result(ibv_query_pkey(context, 1, 0, &pkey)), ntohs(pkey));
	say("query_pkey of index 0");
	tell(result(ibv_query_pkey(context, 1, 64, &pkey)), "query_pkey of index 64");
	add("%d", ibv_is_fork_initialized());
	say("is_fork_initialized");
}

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void try_qp(const struct ibv_qp_init_attr *init, const char *name)
{
	struct ibv_qp_init_attr attr = *init;
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	add("%s", made(qp));
	if (qp) {
		add("with %u %u %u %u %u", attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data);
		ibv_destroy_qp(qp);
	}
	say("QP %s", name);
}

static void create_qps(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_device_attr d;
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &shared);
	const struct ibv_qp_init_attr usual_qp = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	ibv_query_device(context, &d);
#define TRY(name, change) do { struct ibv_qp_init_attr a = usual_qp; change; try_qp(&a, name); } while (0)
	TRY("RC", (void)a);
	TRY("UC", a.qp_type = IBV_QPT_UC);
	TRY("UD", a.qp_type = IBV_QPT_UD);
	TRY("raw packet", a.qp_type = IBV_QPT_RAW_PACKET);
	TRY("XRC initiator", a.qp_type = IBV_QPT_XRC_SEND);
	TRY("of type 0", a.qp_type = 0);
	TRY("of type 1", a.qp_type = 1);
	TRY("of type 99", a.qp_type = 99);
	TRY("with no queue", a.cap.max_send_wr = a.cap.max_recv_wr = 0);
	TRY("with no send queue", a.cap.max_send_wr = 0);
	TRY("with no receive queue", a.cap.max_recv_wr = 0);
	TRY("of 0 send SGEs", a.cap.max_send_sge = 0);
	TRY("of 0 receive SGEs", a.cap.max_recv_sge = 0);
	TRY("of 5 and 9", (a.cap.max_send_wr = 5, a.cap.max_recv_wr = 9));
	TRY("of most sends", a.cap.max_send_wr = d.max_qp_wr);
	TRY("of one send too many", a.cap.max_send_wr = d.max_qp_wr + 1);
	TRY("of one receive too many", a.cap.max_recv_wr = d.max_qp_wr + 1);
	TRY("of 2^32-1 sends", a.cap.max_send_wr = UINT32_MAX);
	TRY("of one send SGE too many", a.cap.max_send_sge = d.max_sge + 1);
	TRY("of one receive SGE too many", a.cap.max_recv_sge = d.max_sge + 1);
	for (int n = 16; n <= 1024; n += n < 128 ? 16 : 128) {
		char name[32];

		snprintf(name, sizeof(name), "of %d bytes inline", n);
		TRY(name, a.cap.max_inline_data = n);
	}
	TRY("of 80 bytes inline and one", a.cap.max_inline_data = 81);
	TRY("of 2^32-1 bytes inline", a.cap.max_inline_data = UINT32_MAX);
	if (srq) {
		TRY("with an SRQ", a.srq = srq);
		TRY("UD with an SRQ", (a.srq = srq, a.qp_type = IBV_QPT_UD));
		TRY("with an SRQ and no receives", (a.srq = srq, a.cap.max_recv_wr = a.cap.max_recv_sge = 0));
	}
}

static void create_others(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	struct ibv_device_attr d;

	ibv_query_device(context, &d);
	const int sizes[] = {-1, 0, 1, 3, 100, 1000, d.max_cqe, d.max_cqe + 1};
	const char *const named[] = {"-1", "0", "1", "3", "100", "1000", "the most", "one too many"};

	for (unsigned i = 0; i < LEN(sizes); i++) {
		if (sizes[i] == d.max_cqe && d.max_cqe > 1 << 20) // memory for that would be too much
			continue;
		cq = ibv_create_cq(context, sizes[i], NULL, NULL, 0);
		add("%s", made(cq));
		if (cq)
			add("with %d", cq->cqe);
		say("CQ of %s", named[i]);
		if (cq && i > 1 && i < 6) {
			for (unsigned j = 0; j < LEN(sizes); j++)
				if (sizes[j] != d.max_cqe || d.max_cqe <= 1 << 20)
					tell(result(ibv_resize_cq(cq, sizes[j])), "CQ of %s resized to %s", named[i], named[j]);
		}
		if (cq)
			ibv_destroy_cq(cq);
	}
	for (int vector = -1; vector < 4; vector++) {
		if (vector >= context->num_comp_vectors)
			continue;
		cq = ibv_create_cq(context, 4, NULL, NULL, vector);
		tell(made(cq), "CQ with vector %d", vector);
		if (cq)
			ibv_destroy_cq(cq);
	}
	cq = ibv_create_cq(context, 4, NULL, NULL, 4096);
	tell(made(cq), "CQ with vector 4096");
	const struct {
		const char *name;
		uint32_t wr, sge, limit;
	} shared[] = {
		{"of 4", 4, 1, 0}, {"of 0", 0, 1, 0}, {"of 0 SGEs", 4, 0, 0}, {"with limit 3", 4, 1, 3}, {"with limit 5", 4, 1, 5},
		{"of most", d.max_srq_wr, 1, 0}, {"of one too many", d.max_srq_wr + 1, 1, 0}, {"of one SGE too many", 4, d.max_srq_sge + 1, 0},
	};

	for (unsigned i = 0; i < LEN(shared); i++) {
		struct ibv_srq_init_attr init = {.attr = {shared[i].wr, shared[i].sge, shared[i].limit}};
		struct ibv_srq *srq = ibv_create_srq(pd, &init);

		add("%s", made(srq));
		if (srq)
			add("with %u %u", init.attr.max_wr, init.attr.max_sge);
		say("SRQ %s", shared[i].name);
		if (srq)
			ibv_destroy_srq(srq);
	}
	struct ibv_srq_init_attr init = {.attr = {4, 1, 0}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	for (unsigned mask = 0; srq && mask < 8; mask++)
		for (unsigned limit = 0; limit < 6; limit += 5) {
			struct ibv_srq_attr attr = {8, 1, limit};

			tell(result(ibv_modify_srq(srq, &attr, mask)), "modify_srq to 8 and limit %u, mask %u", limit, mask);
		}
	struct ibv_srq_attr left = {};

	if (srq) {
		tell(result(ibv_query_srq(srq, &left)), "query_srq");
		add("%u %u %u", left.max_wr, left.max_sge, left.srq_limit);
		say("query_srq answers");
	}
	for (int type = 0; type < 4; type++) {
		struct ibv_mw *mw = ibv_alloc_mw(pd, type);

		tell(made(mw), "window of type %d", type);
		if (mw)
			ibv_dealloc_mw(mw);
	}
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};

	tell(made(ibv_open_xrcd(context, &domain)), "XRC domain");
	struct ibv_alloc_dm_attr dm = {.length = 64};

	tell(made(ibv_alloc_dm(context, &dm)), "device memory");
	struct ibv_td_init_attr td = {};

	tell(made(ibv_alloc_td(context, &td)), "thread domain");
	struct ibv_counters_init_attr counters = {};

	tell(made(ibv_create_counters(context, &counters)), "counters");
}

static void addresses(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	const struct ibv_ah_attr good = attributes(context, IBV_QPS_RTR, 0).ah_attr;

#define TRY_AH(name, change) do { \
		struct ibv_ah_attr a = good; \
		change; \
		struct ibv_ah *ah = ibv_create_ah(pd, &a); \
		tell(made(ah), "AH: %s", name); \
		if (ah) \
			ibv_destroy_ah(ah); \
	} while (0)
	TRY_AH("good", (void)a);
	TRY_AH("no GRH", a.is_global = 0);
	TRY_AH("no GRH, with a LID", (a.is_global = 0, a.dlid = 1));
	TRY_AH("port 0", a.port_num = 0);
	TRY_AH("port 2", a.port_num = 2);
	TRY_AH("own GID 15, which is empty", a.grh.sgid_index = 15);
	TRY_AH("own GID 255", a.grh.sgid_index = 255);
	TRY_AH("own GID 0, link-local", a.grh.sgid_index = 0);
	TRY_AH("GID ::", memset(&a.grh.dgid, 0, 16));
	TRY_AH("GID of IPv6 by an own one of IPv4", memset(&a.grh.dgid, 0xfd, 16));
	TRY_AH("GID of a host that can't be reached", a.grh.dgid.raw[12] = 240);
	TRY_AH("GID of a group", (a.grh.dgid.raw[12] = 239));
	TRY_AH("hop limit 0", a.grh.hop_limit = 0);
	TRY_AH("service level 16", a.sl = 16);
	TRY_AH("static rate 255", a.static_rate = 255);
	TRY_AH("flow label 2^20", a.grh.flow_label = 1 << 20);
}

static void destroy(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	static uint8_t memory[4096];

	cq = ibv_create_cq(context, 16, NULL, channel, 0);
	struct ibv_qp *qp = create_qp(pd, cq, IBV_QPT_RC);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);

	tell(result(ibv_dealloc_pd(pd)), "PD with MR and QP");
	tell(result(ibv_destroy_cq(cq)), "CQ with QP");
	tell(result(ibv_destroy_comp_channel(channel)), "channel with CQ");
	tell(result(ibv_destroy_qp(qp)), "QP");
	tell(result(ibv_dealloc_pd(pd)), "PD with MR");
	tell(result(ibv_dereg_mr(mr)), "MR");
	struct ibv_srq_init_attr init = {.attr = {4, 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	if (srq) {
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

		tell(result(ibv_dealloc_pd(pd)), "PD with SRQ");
		qp = ibv_create_qp(pd, &attr);
		tell(result(ibv_destroy_srq(srq)), "SRQ with QP");
		ibv_destroy_qp(qp);
		tell(result(ibv_destroy_srq(srq)), "SRQ");
	}
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);

	if (mw) {
		tell(result(ibv_dealloc_pd(pd)), "PD with window");
		ibv_dealloc_mw(mw);
	}
	struct ibv_ah_attr way = attributes(context, IBV_QPS_RTR, 0).ah_attr;
	struct ibv_ah *ah = ibv_create_ah(pd, &way);

	if (ah) {
		tell(result(ibv_dealloc_pd(pd)), "PD with AH");
		ibv_destroy_ah(ah);
	}
	tell(result(ibv_destroy_cq(cq)), "CQ");
	tell(result(ibv_destroy_comp_channel(channel)), "channel");
	tell(result(ibv_dealloc_pd(pd)), "PD");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	create_qp(pd, cq, IBV_QPT_RC);
	tell(result(ibv_close_device(context)), "device with objects");
}

const struct group device_groups[] = {
	{"device", attributes_of_device}, {"create QP", create_qps}, {"create", create_others}, {"address", addresses}, {"destroy", destroy}, {},
};
