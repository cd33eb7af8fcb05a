// A program that arms a CQ of an eRDMA device by itself. With the word "late" it writes the
// doorbell record after the doorbell, and so breaks the rule that a device may look at the
// record as soon as it is told. rdmalink sandbox --trap notices that.
//
//	gcc -o late late.c -libverbs
//	rdmalink sandbox --device erdma --trap -- ./late [late]
//
// libibverbs does not tell where the record is, so the program looks at the ioctl that makes
// the CQ: its own ioctl stands before libc's.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(2); } } while (0)

static volatile uint64_t *record; // of the CQ
static uint32_t number;           // of the CQ, as the device knows it

static void *bytes(struct ib_uverbs_attr *a)
{
	return a->len > 8 ? (void *)(uintptr_t)a->data : (void *)&a->data;
}

// Request and answer of the driver begin with the record's address and the CQ's number.
static void look(struct ib_uverbs_ioctl_hdr *h)
{
	if (h->object_id != UVERBS_OBJECT_CQ || h->method_id != UVERBS_METHOD_CQ_CREATE)
		return;
	for (int i = 0; i < h->num_attrs; i++) {
		struct ib_uverbs_attr *a = &h->attrs[i];

		if (a->attr_id == UVERBS_ATTR_UHW_IN) {
			uint64_t address;

			memcpy(&address, bytes(a), sizeof(address));
			record = (void *)(uintptr_t)address;
		} else if (a->attr_id == UVERBS_ATTR_UHW_OUT) {
			memcpy(&number, (void *)(uintptr_t)a->data, sizeof(number));
		}
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
	va_list args;
	void *arg;
	int err;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	err = next(fd, request, arg);
	if (!err && request == RDMA_VERBS_IOCTL)
		look(arg);
	return err;
}

int main(int argc, char **argv)
{
	int late = argc > 1 && !strcmp(argv[1], "late");
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	volatile uint64_t *page;
	struct ibv_cq *cq;
	uint64_t arm;

	CHECK(devices && devices[0]);
	context = ibv_open_device(devices[0]);
	CHECK(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	CHECK(cq && record && number);
	page = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, context->cmd_fd, 3 * 4096);
	CHECK(page != MAP_FAILED);
	arm = (uint64_t)number << 32 | 1u << 31;
	if (!late)
		*record = arm;
	page[number % 512] = arm;
	*record = arm;
	CHECK(!ibv_destroy_cq(cq) && !ibv_close_device(context));
	return 0;
}
