// What a device says to memory of each kind, and what becomes of a region whose memory the program unmaps.
//
//	gcc -o memory memory.c -libverbs
//	rdmalink sandbox -- ./memory rxe /tmp/file
//
// The first argument is the beginning of the device's name, the second a file to create on a disk.
//
// memory.txt is what it says on rxe of Linux 6.12.117: it ran in a guest of bin/vm run, with rxe on a dummy device. Only the
// line "shared file of a disk" is not from there, where it says ok: all of the guest's file systems that can be written are in memory.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)

enum { SIZE = 8192, RW = PROT_READ | PROT_WRITE, WRITE = IBV_ACCESS_LOCAL_WRITE, ALL = WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static int gid_index;

static struct ibv_context *device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(0);

	for (; list && *list; list++)
		if (!strncmp(ibv_get_device_name(*list), name, strlen(name)))
			return ibv_open_device(*list);
	return 0;
}

static void says(const char *what, struct ibv_mr *mr)
{
	printf("%s: %s\n", what, mr ? "ok" : strerrorname_np(errno));
	if (mr)
		CHECK(!ibv_dereg_mr(mr));
}

static char *mapped(int prot, int flags, int fd)
{
	char *p = mmap(0, SIZE, prot, fd < 0 ? flags | MAP_ANONYMOUS : flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void kinds(int disk, int memory)
{
	says("read-only, to read", ibv_reg_mr(pd, mapped(PROT_READ, MAP_PRIVATE, -1), SIZE, IBV_ACCESS_REMOTE_READ));
	says("read-only", ibv_reg_mr(pd, mapped(PROT_READ, MAP_PRIVATE, -1), SIZE, WRITE));
	says("read-only shared", ibv_reg_mr(pd, mapped(PROT_READ, MAP_SHARED, -1), SIZE, WRITE));
	says("no access", ibv_reg_mr(pd, mapped(PROT_NONE, MAP_PRIVATE, -1), SIZE, 0));
	says("shared", ibv_reg_mr(pd, mapped(RW, MAP_SHARED, -1), SIZE, WRITE));
	says("private file", ibv_reg_mr(pd, mapped(RW, MAP_PRIVATE, disk), SIZE, WRITE));
	says("read-only private file", ibv_reg_mr(pd, mapped(PROT_READ, MAP_PRIVATE, disk), SIZE, WRITE));
	says("read-only shared file", ibv_reg_mr(pd, mapped(PROT_READ, MAP_SHARED, disk), SIZE, WRITE));
	says("shared file, to read", ibv_reg_mr(pd, mapped(RW, MAP_SHARED, disk), SIZE, IBV_ACCESS_REMOTE_READ));
	says("shared file of a disk", ibv_reg_mr(pd, mapped(RW, MAP_SHARED, disk), SIZE, WRITE));
	says("shared file in memory", ibv_reg_mr(pd, mapped(RW, MAP_SHARED, memory), SIZE, WRITE));
	says("a constant", ibv_reg_mr(pd, "constant", 8, WRITE));
	says("no memory, no bytes", ibv_reg_mr(pd, 0, 0, WRITE));
	says("all memory", ibv_reg_mr(pd, 0, SIZE_MAX, WRITE));
	says("2^46 bytes", ibv_reg_mr(pd, 0, (size_t)1 << 46, WRITE));
	says("unmapped", ibv_reg_mr(pd, 0, SIZE, WRITE));
	says("another address", ibv_reg_mr_iova(pd, mapped(RW, MAP_PRIVATE, -1), SIZE, (uint64_t)1 << 40, WRITE));
	says("address 0", ibv_reg_mr_iova(pd, mapped(RW, MAP_PRIVATE, -1), SIZE, 0, WRITE));
	says("another offset in the page", ibv_reg_mr_iova(pd, mapped(RW, MAP_PRIVATE, -1), SIZE, 8, WRITE));
}

// join connects the QP to itself.
static void join(struct ibv_context *c)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}}};
	CHECK(!ibv_query_gid(c, 1, gid_index, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static const char *carried(enum ibv_wr_opcode op, struct ibv_mr *from, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from->addr, .length = 8, .lkey = from->lkey};
	struct ibv_send_wr wr = {.opcode = op, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {.remote_addr = to, .rkey = rkey}}, *bad;
	struct ibv_wc wc;
	int n;

	CHECK(!ibv_post_send(qp, &wr, &bad));
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(n == 1);
	return ibv_wc_status_str(wc.status);
}

// unmapped unmaps memory below its region.
static void unmapped(const char *what, char *p, const char *other)
{
	struct ibv_mr *buffer = ibv_reg_mr(pd, mapped(RW, MAP_PRIVATE, -1), SIZE, WRITE), *mr = ibv_reg_mr(pd, p, SIZE, ALL);
	const char *status;

	CHECK(buffer && mr);
	strcpy(p, "before");
	munmap(p, SIZE);
	status = carried(IBV_WR_RDMA_READ, buffer, (uintptr_t)p, mr->rkey);
	if (strcmp(status, "success")) {
		printf("%s, READ: error\n", what); // of one end or the other, as the QP is both
	} else {
		printf("%s, READ: success: %s\n", what, (char *)buffer->addr);
		strcpy(buffer->addr, "after");
		status = carried(IBV_WR_RDMA_WRITE, buffer, (uintptr_t)p, mr->rkey);
		printf("%s, WRITE: %s: %s\n", what, status, other ? other : "unknown");
	}
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(buffer));
}

static void elsewhere(void)
{
	struct ibv_mr *buffer = ibv_reg_mr(pd, mapped(RW, MAP_PRIVATE, -1), SIZE, WRITE);
	char *p = mapped(RW, MAP_PRIVATE, -1);
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, p, SIZE, (uint64_t)1 << 40, ALL);

	CHECK(buffer && mr);
	strcpy(buffer->addr, "there");
	printf("another address, WRITE: %s", carried(IBV_WR_RDMA_WRITE, buffer, ((uint64_t)1 << 40) + 4000, mr->rkey));
	printf(": %s\n", p + 4000);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(buffer));
}

// limited registers up to the limit, as a user without rights.
static void limited(struct ibv_context *c)
{
	struct rlimit limit = {65536, 65536};
	char *p = mmap(0, 1 << 20, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit));
	if (!geteuid())
		says("beyond the limit, with CAP_IPC_LOCK", ibv_reg_mr(pd, p, 1 << 20, WRITE));
	CHECK(geteuid() || !setresuid(65534, 65534, 65534));
	says("beyond the limit", ibv_reg_mr(pd, p, 65536 + 1, WRITE));
	CHECK(mr = ibv_reg_mr(pd, p + 1, 32768, WRITE));
	says("beyond the rest", ibv_reg_mr(pd, p, 32768, WRITE));
	says("the rest", ibv_reg_mr(pd, p, 28672, WRITE));
	CHECK(!ibv_dereg_mr(mr));
	says("the limit", ibv_reg_mr(pd, p, 65536, WRITE));
	limit = (struct rlimit){0, 0};
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit));
	says("no limit left", ibv_reg_mr(pd, p, 1, WRITE));
}

int main(int n, char **words)
{
	struct ibv_context *c = n == 3 ? device(words[1]) : 0;
	int disk = open(words[2], O_RDWR | O_CREAT, 0600), memory = memfd_create("memory", 0), shared = memfd_create("shared", 0);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	CHECK(c && disk >= 0 && memory >= 0 && shared >= 0);
	CHECK(!ftruncate(disk, SIZE) && !ftruncate(memory, SIZE) && !ftruncate(shared, SIZE));
	CHECK((pd = ibv_alloc_pd(c)) && (cq = ibv_create_cq(c, 16, 0, 0, 0)));
	kinds(disk, memory);
	if (strcmp(words[1], "siw") && strcmp(words[1], "erdma")) { // which connect by rdma_cm alone
		init.send_cq = init.recv_cq = cq;
		gid_index = 1;
		CHECK(qp = ibv_create_qp(pd, &init));
		join(c);
		elsewhere();
		unmapped("unmapped shared memory", mapped(RW, MAP_SHARED, shared), mapped(PROT_READ, MAP_SHARED, shared));
		unmapped("unmapped private memory", mapped(RW, MAP_PRIVATE, -1), 0);
	}
	limited(c);
	return 0;
}
