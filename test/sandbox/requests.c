// What libibverbs asks the kernel for, of each verb that both it and package uverbs have: the
// steps of uverbs/requests_test.go, in the same order. Where siw does less, libsiw has no more; and
// librxe of rdma-core 44 can't register again.
//
//	gcc -o requests requests.c -libverbs
//	rdmalink sandbox --device KIND --record c.rec -- ./requests KIND

#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
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

static void leave(int signal) { _exit(0); }

// join makes a second handle of a target QP. A process of its own does it, since libmlx5 crashes when the handle is
// destroyed, after the kernel's answer.
static void join(struct ibv_xrcd *xrcd, uint32_t num)
{
	struct ibv_qp_open_attr attr = {.qp_num = num, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE};
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		struct ibv_qp *qp = ibv_open_qp(context, &attr);

		CHECK(qp);
		signal(SIGSEGV, leave);
		signal(SIGBUS, leave);
		CHECK(!ibv_destroy_qp(qp));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
}

// domains makes the objects of XRC.
static void domains(void)
{
	struct ibv_xrcd_init_attr alone = {.fd = -1, .oflags = O_CREAT, .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &alone);
	struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 8, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ};
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);
	struct ibv_qp_init_attr_ex hears = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp *target = ibv_create_qp_ex(context, &hears), *initiator;
	struct ibv_qp_init_attr sends = {.qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .cap = {.max_send_wr = 8, .max_send_sge = 2, .max_inline_data = 32}};

	CHECK(xrcd && srq && target);
	join(xrcd, target->qp_num);
	initiator = ibv_create_qp(pd, &sends);
	CHECK(initiator && !ibv_destroy_qp(initiator) && !ibv_destroy_qp(target));
	CHECK(!ibv_destroy_srq(srq) && !ibv_close_xrcd(xrcd));
}

// memory_of_device allocates memory of the device, registers a part, and makes counters.
static void memory_of_device(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096, .log_align_req = 6};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	struct ibv_mr *mr;

	CHECK(dm);
	mr = ibv_reg_dm_mr(pd, dm, 64, 128, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && !ibv_dereg_mr(mr) && !ibv_free_dm(dm));
	struct ibv_counters_init_attr none = {0};
	struct ibv_counters *counters = ibv_create_counters(context, &none);
	CHECK(counters && !ibv_destroy_counters(counters));
}

// dma_buf registers memory of a file, which the device may refuse: the question is what it is asked.
static void dma_buf(void)
{
	int fd = memfd_create("dma-buf", 0);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 4096 + 64, 4096, 0x7000000040, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	CHECK(fd >= 0 && !mr && !close(fd));
}

// extended makes CQs that say when completions were, and moderates one.
static void extended(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 100, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_cq_ex *cqx = ibv_create_cq_ex(context, &init);
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 16, .cq_period = 200}};

	CHECK(cqx && !ibv_modify_cq(ibv_cq_ex_to_cq(cqx), &moderate) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cqx)));
}

struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[512];
};

static void add(struct rule *r, const void *spec, size_t size)
{
	memcpy((uint8_t *)&r->attr + r->attr.size, spec, size);
	r->attr.size += size;
	r->attr.num_of_specs++;
}

#define ADD(rule, ...) add(rule, &(__VA_ARGS__), sizeof(__VA_ARGS__))

static struct rule ethernet(uint16_t type)
{
	struct rule r = {.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(struct ibv_flow_attr), .port = 1}};

	ADD(&r, (struct ibv_flow_spec_eth){.type = IBV_FLOW_SPEC_ETH, .size = sizeof(struct ibv_flow_spec_eth),
		.val = {.dst_mac = {2, 0, 0, 0, 0, 1}, .src_mac = {2, 0, 0, 0, 0, 2}, .ether_type = htobe16(type)},
		.mask = {.dst_mac = {255, 255, 255, 255, 255, 255}, .src_mac = {255}, .ether_type = 0xffff}});
	return r;
}

static void addresses(struct rule *r)
{
	ADD(r, (struct ibv_flow_spec_ipv4_ext){.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(struct ibv_flow_spec_ipv4_ext),
		.val = {.src_ip = htobe32(0x01020304), .dst_ip = htobe32(0x05060708), .proto = 17, .tos = 8},
		.mask = {.src_ip = 0xffffffff, .dst_ip = htobe32(0xffff0000), .proto = 0xff, .tos = 0xfc}});
}

static void ports(struct rule *r, enum ibv_flow_spec_type type)
{
	ADD(r, (struct ibv_flow_spec_tcp_udp){.type = type, .size = sizeof(struct ibv_flow_spec_tcp_udp),
		.val = {.dst_port = htobe16(5678), .src_port = htobe16(1234)}, .mask = {.dst_port = 0xffff, .src_port = 0xffff}});
}

// follow makes a rule, which the device may refuse: the question is what it is asked.
static void follow(struct ibv_qp *qp, struct rule *r)
{
	struct ibv_flow *flow = ibv_create_flow(qp, &r->attr);

	CHECK(flow ? !ibv_destroy_flow(flow) : errno == EOPNOTSUPP);
}

// count makes a rule that counts packets and bytes, and reads the counters.
static void count(struct ibv_qp *qp)
{
	struct ibv_counters_init_attr none = {0};
	struct ibv_counters *counters = ibv_create_counters(context, &none);
	struct ibv_counter_attach_attr packets = {.counter_desc = IBV_COUNTER_PACKETS, .index = 0}, bytes = {.counter_desc = IBV_COUNTER_BYTES, .index = 1};
	struct rule r = ethernet(0x800);
	struct ibv_flow *flow;
	uint64_t values[2];

	CHECK(counters && !ibv_attach_counters_point_flow(counters, &packets, NULL) && !ibv_attach_counters_point_flow(counters, &bytes, NULL));
	ADD(&r, (struct ibv_flow_spec_counter_action){.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(struct ibv_flow_spec_counter_action), .counters = counters});
	flow = ibv_create_flow(qp, &r.attr);
	CHECK(flow && !ibv_read_counters(counters, values, 2, 0));
	CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_counters(counters));
}

// flows makes a rule of each type.
static void flows(struct ibv_qp *qp)
{
	struct rule r = ethernet(0x800);

	addresses(&r);
	ports(&r, IBV_FLOW_SPEC_UDP);
	follow(qp, &r);
	ADD(&r, (struct ibv_flow_spec_action_tag){.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(struct ibv_flow_spec_action_tag), .tag_id = 77});
	follow(qp, &r);
	r = ethernet(0x86dd);
	ADD(&r, (struct ibv_flow_spec_ipv6){.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(struct ibv_flow_spec_ipv6),
		.val = {.src_ip = {0xa1, [15] = 1}, .dst_ip = {0xb2, [15] = 2}, .flow_label = htobe32(0x12345), .next_hdr = 6, .traffic_class = 8, .hop_limit = 9},
		.mask = {.src_ip = {0xff}, .dst_ip = {0xff}, .flow_label = htobe32(0xfffff), .next_hdr = 0xff, .traffic_class = 0xff, .hop_limit = 0xff}});
	ports(&r, IBV_FLOW_SPEC_TCP);
	follow(qp, &r);
	r = ethernet(0x800);
	r.attr.priority = 1;
	ADD(&r, (struct ibv_flow_spec_action_drop){.type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(struct ibv_flow_spec_action_drop)});
	follow(qp, &r);
	r = ethernet(0x800);
	addresses(&r);
	ports(&r, IBV_FLOW_SPEC_UDP);
	ADD(&r, (struct ibv_flow_spec_tunnel){.type = IBV_FLOW_SPEC_VXLAN_TUNNEL, .size = sizeof(struct ibv_flow_spec_tunnel),
		.val = {.tunnel_id = htobe32(0x1234)}, .mask = {.tunnel_id = htobe32(0xffffff)}});
	follow(qp, &r);
	r = ethernet(0x800);
	addresses(&r);
	ADD(&r, (struct ibv_flow_spec_gre){.type = IBV_FLOW_SPEC_GRE, .size = sizeof(struct ibv_flow_spec_gre),
		.val = {.protocol = htobe16(0x6558), .key = htobe32(99)}, .mask = {.protocol = 0xffff, .key = 0xffffffff}});
	follow(qp, &r);
	r = ethernet(0x8847);
	ADD(&r, (struct ibv_flow_spec_mpls){.type = IBV_FLOW_SPEC_MPLS, .size = sizeof(struct ibv_flow_spec_mpls),
		.val = {.label = htobe32(0x12345000)}, .mask = {.label = htobe32(0xfffff000)}});
	follow(qp, &r);
}

// spread makes a QP that deals frames out to two WQs.
static void spread(void)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 2, .pd = pd, .cq = cq};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_wq *wqs[2];
	struct ibv_rwq_ind_table_init_attr places = {.log_ind_tbl_size = 1, .ind_tbl = wqs};
	struct ibv_rwq_ind_table *table;
	uint8_t key[40];
	struct ibv_qp_init_attr_ex deals = {.qp_type = IBV_QPT_RAW_PACKET, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ, .rx_hash_key_len = sizeof(key), .rx_hash_key = key,
			.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP}};
	struct ibv_qp *qp;

	for (unsigned i = 0; i < sizeof(key); i++)
		key[i] = i + 1;
	for (int i = 0; i < 2; i++) {
		wqs[i] = ibv_create_wq(context, &init);
		CHECK(wqs[i] && !ibv_modify_wq(wqs[i], &ready));
	}
	table = ibv_create_rwq_ind_table(context, &places);
	CHECK(table);
	deals.rwq_ind_tbl = table;
	qp = ibv_create_qp_ex(context, &deals);
	CHECK(qp);
	flows(qp);
	count(qp);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_rwq_ind_table(table) && !ibv_destroy_wq(wqs[1]) && !ibv_destroy_wq(wqs[0]));
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
	if (rereg) {
		domains();
		memory_of_device();
		dma_buf();
		extended();
		spread();
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
