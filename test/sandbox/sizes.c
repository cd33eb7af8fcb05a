// Asks libibverbs for queues of the sizes that a file names, and prints what is granted.
//
//	gcc -o sizes sizes.c -libverbs
//	rdmalink sandbox --device mlx5 --record c.rec -- ./sizes FILE
//
// A line is "CQ entries", "SRQ wr sge" or "QP type send_wr recv_wr send_sge recv_sge inline",
// where type is rc, uc, ud or srq: an rc with an SRQ.

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;

static void make_cq(int entries)
{
	struct ibv_cq *made = ibv_create_cq(context, entries, NULL, NULL, 0);

	if (!made) {
		puts("refused");
		return;
	}
	printf("%d\n", made->cqe);
	CHECK(!ibv_destroy_cq(made));
}

static void make_srq(int wr, int sge)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = wr, .max_sge = sge}};
	struct ibv_srq *made = ibv_create_srq(pd, &attr);

	if (!made) {
		puts("refused");
		return;
	}
	printf("%u %u\n", attr.attr.max_wr, attr.attr.max_sge);
	CHECK(!ibv_destroy_srq(made));
}

static void make_qp(const char *type, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = IBV_QPT_RC};
	struct ibv_qp *made;

	if (!strcmp(type, "uc"))
		attr.qp_type = IBV_QPT_UC;
	if (!strcmp(type, "ud"))
		attr.qp_type = IBV_QPT_UD;
	if (!strcmp(type, "srq"))
		attr.srq = srq;
	made = ibv_create_qp(pd, &attr);
	if (!made) {
		puts("refused");
		return;
	}
	printf("%u %u %u %u %u\n", attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_send_sge, attr.cap.max_recv_sge, attr.cap.max_inline_data);
	CHECK(!ibv_destroy_qp(made));
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	char line[200], type[8];
	FILE *requests;

	CHECK(argc == 2 && devices && devices[0]);
	requests = fopen(argv[1], "r");
	CHECK(requests);
	context = ibv_open_device(devices[0]);
	CHECK(context);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	CHECK(pd && cq);
	srq = ibv_create_srq(pd, &attr);
	CHECK(srq);
	while (fgets(line, sizeof(line), requests)) {
		struct ibv_qp_cap cap;
		int n, sge;

		if (sscanf(line, "CQ %d", &n) == 1) {
			make_cq(n);
		} else if (sscanf(line, "SRQ %d %d", &n, &sge) == 2) {
			make_srq(n, sge);
		} else {
			CHECK(sscanf(line, "QP %7s %u %u %u %u %u", type, &cap.max_send_wr, &cap.max_recv_wr, &cap.max_send_sge, &cap.max_recv_sge,
				&cap.max_inline_data) == 6);
			make_qp(type, cap);
		}
	}
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
