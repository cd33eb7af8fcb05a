// Memory regions: each kind of mapping with each right, bad lengths and addresses, and memory that changes below a region.
#include "ask.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

static void try_region(void *memory, size_t length, int access, const char *what)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, access);

	tell(made(mr), "%s, access %#x", what, access);
	if (mr)
		ibv_dereg_mr(mr);
}

static void mappings(void)
{
	static const struct {
		const char *name;
		int protection, flags, file;
	} kinds[] = {
		{"private", PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0}, {"private read-only", PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, 0},
		{"private without rights", PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, 0}, {"private write-only", PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0},
		{"shared", PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, 0}, {"shared read-only", PROT_READ, MAP_SHARED | MAP_ANONYMOUS, 0},
		{"memory file", PROT_READ | PROT_WRITE, MAP_SHARED, 1}, {"memory file, read-only", PROT_READ, MAP_SHARED, 1},
		{"memory file, private", PROT_READ | PROT_WRITE, MAP_PRIVATE, 1}, {"memory file, private read-only", PROT_READ, MAP_PRIVATE, 1},
		{"program, private read-only", PROT_READ, MAP_PRIVATE, 2}, {"program, private", PROT_READ | PROT_WRITE, MAP_PRIVATE, 2},
		{"program, shared read-only", PROT_READ, MAP_SHARED, 2},
	};
	static const int accesses[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 32, 64, 128, 0x100, 0x200, 1 << 20, 1 << 29, 1 << 30};
	int files[] = {-1, memfd_create("m", 0), open("/proc/self/exe", O_RDONLY)};

	context = open_device();
	pd = ibv_alloc_pd(context);
	ftruncate(files[1], 8192);
	for (unsigned i = 0; i < LEN(kinds); i++) {
		uint8_t *memory = mmap(NULL, 8192, kinds[i].protection, kinds[i].flags, files[kinds[i].file], 0);

		for (unsigned j = 0; j < (i ? 8 : LEN(accesses)); j++)
			try_region(memory, 4096, accesses[j], kinds[i].name);
		munmap(memory, 8192);
	}
}

static void lengths(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	uint8_t *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(memory + 2 * 4096, 4096);
	try_region(memory, 0, 1, "no bytes");
	try_region(memory + 100, 1, 1, "a byte");
	try_region(memory + 4000, 4000, 1, "unaligned over a page's border");
	try_region(memory, 2 * 4096 + 1, 1, "a byte into a hole");
	try_region(memory + 2 * 4096, 4096, 1, "a hole");
	try_region(NULL, 4096, 1, "page 0");
	try_region(NULL, 0, 1, "no bytes at 0");
	try_region(NULL, SIZE_MAX, 1, "all of memory");
	try_region(memory, (size_t)1 << 46, 1, "2^46 bytes");
	try_region(memory, SIZE_MAX, 1, "2^64-1 bytes");
	try_region((void *)(UINTPTR_MAX - 4095), 8192, 1, "past the end of the address space");
	for (int distance = -1; distance <= 1; distance++) {
		uint64_t iova = (uintptr_t)memory + distance * (1 << 20);
		struct ibv_mr *mr = ibv_reg_mr_iova(pd, memory, 4096, iova, 7);

		add("%s", made(mr));
		if (mr)
			ibv_dereg_mr(mr);
		say("at an I/O address %d MiB off", distance);
	}
	struct ibv_mr *odd = ibv_reg_mr_iova(pd, memory, 4096, (uintptr_t)memory + 100, 7);

	tell(made(odd), "at an I/O address 100 bytes off");
	struct ibv_mr *zero = ibv_reg_mr_iova(pd, memory, 4096, 0, 7);

	tell(made(zero), "at I/O address 0");
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, 7);

	for (int flags = 0; flags < 16; flags++)
		tell(result(abs(ibv_rereg_mr(mr, flags, pd, memory, 8192, 7)) ? errno : 0), "rereg_mr with flags %d", flags);
	struct ibv_sge sge = {(uintptr_t)memory, 64, mr->lkey};

	tell(result(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1)), "advise_mr");
	struct ibv_mr *null = ibv_alloc_null_mr(pd);

	tell(made(null), "alloc_null_mr");
	int fd = memfd_create("m", 0);

	tell(made(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, fd, 7)), "reg_dmabuf_mr of a memory file");
	tell(made(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 7)), "reg_dmabuf_mr of no file");
}

// moved asks whether a WRITE and a READ by the peer reach memory at an I/O address of its own. Each has a connection
// of its own: siw's ends with the WRITE, and whether a READ is posted before or after that changes from run to run.
static void moved(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} tries[] = {{"WRITE", IBV_WR_RDMA_WRITE}, {"READ", IBV_WR_RDMA_READ}};

	for (unsigned i = 0; i < LEN(tries); i++) {
		struct end c, s;

		if (!connected(&c, &s, &usual))
			continue;
		struct ibv_mr *mr = ibv_reg_mr_iova(s.pd, s.memory + 8192, 4096, 1 << 20, 7);

		if (i == 0)
			tell(made(mr), "region at an I/O address of its own");
		if (mr) {
			memset(i == 0 ? c.memory : s.memory + 8192, 0x42, 128);
			add("%s", result(post(&c, 1, tries[i].opcode, c.memory, 64, c.mr->lkey, (1 << 20) + 8, mr->rkey, 0)));
			add_completions(c.send_cq, 1);
			add("%s", (i == 0 ? s.memory[8192 + 8] : c.memory[0]) == 0x42 ? "arrived" : "not arrived");
			say("%s by that address", tries[i].name);
			ibv_dereg_mr(mr);
		}
		part(&c);
		part(&s);
	}
}

// after_unmap asks what a WRITE and a READ do to a region whose memory was unmapped, or discarded.
static void after_unmap(void)
{
	static const char *const names[] = {"unmapped shared memory", "unmapped private memory", "discarded private memory", "private memory mapped anew", "memory made read-only"};

	for (unsigned i = 0; i < LEN(names); i++) {
		struct end c, s;
		int fd = memfd_create("m", 0);

		if (!connected(&c, &s, &usual))
			continue;
		ftruncate(fd, 4096);
		uint8_t *other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		uint8_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, i ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, i ? -1 : fd, 0);

		memset(memory, 0x33, 4096);
		struct ibv_mr *mr = ibv_reg_mr(s.pd, memory, 4096, 7);

		switch (i) {
		case 0: case 1: munmap(memory, 4096); break;
		case 2: madvise(memory, 4096, MADV_DONTNEED); break;
		case 3: mmap(memory, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
		case 4: mprotect(memory, 4096, PROT_READ); break;
		}
		memset(c.memory, 0x42, 64);
		add("%s", result(post(&c, 1, IBV_WR_RDMA_READ, c.memory + 4096, 64, c.mr->lkey, (uintptr_t)memory, mr->rkey, 0)));
		add_completions(c.send_cq, 1);
		add(c.memory[4096] == 0x33 ? "what was there" : c.memory[4096] ? "something else" : "zeros");
		tell(state_of(c.qp), "READ of %s", names[i]);
		add("%s", result(post(&c, 2, IBV_WR_RDMA_WRITE, c.memory, 64, c.mr->lkey, (uintptr_t)memory, mr->rkey, 0)));
		add_completions(c.send_cq, 1);
		if (i == 0)
			add("%s", other[5] == 0x42 ? "seen by the other mapping" : "not seen by the other mapping");
		if (i >= 2)
			add("%s", memory[5] == 0x42 ? "seen" : "not seen");
		tell(state_of(c.qp), "WRITE to %s", names[i]);
		tell(result(ibv_dereg_mr(mr)), "dereg_mr of %s", names[i]);
		part(&c);
		part(&s);
		close(fd);
	}
}

static void limited(void)
{
	struct rlimit limit = {65536, 65536};
	static const int sizes[] = {4096, 61440, 65536, 65537, 1 << 20};

	setrlimit(RLIMIT_MEMLOCK, &limit);
	if (getuid() == 0 && (setgid(65534) || setuid(65534)))
		return;
	context = open_device();
	pd = ibv_alloc_pd(context);
	uint8_t *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; i < LEN(sizes); i++) {
		char name[32];

		snprintf(name, sizeof(name), "%d of 65536 bytes", sizes[i]);
		try_region(memory, sizes[i], 1, name);
	}
	struct ibv_mr *first = ibv_reg_mr(pd, memory, 65536, 1);

	tell(made(first), "all that may be locked");
	tell(made(ibv_reg_mr(pd, memory, 4096, 1)), "a page that is locked already");
	struct ibv_cq *cq = ibv_create_cq(context, 1000, NULL, NULL, 0);

	tell(made(cq), "a CQ of 1000 then");
	tell(made(create_qp(pd, cq, IBV_QPT_RC)), "a QP then");
	ibv_dereg_mr(first);
	tell(made(ibv_reg_mr(pd, memory + 4000, 200, 1)), "200 bytes over a page's border");
}

// forked: memory and queues of a parent.
static void forked(void)
{
	struct end c, s;
	int status;

	if (!connected(&c, &s, &usual))
		return;
	pid_t child = fork();

	if (!child)
		exit(ibv_alloc_pd(c.id->verbs) ? 0 : errno);
	waitpid(child, &status, 0);
	tell(result(WEXITSTATUS(status)), "alloc_pd by a child of the context's process");
	memset(c.memory, 0x42, 64);
	post(&c, 1, IBV_WR_RDMA_WRITE, c.memory, 64, c.mr->lkey, (uintptr_t)s.memory, s.mr->rkey, 0);
	add_completions(c.send_cq, 1);
	add("%s", s.memory[5] == 0x42 ? "arrived" : "not arrived");
	say("a WRITE after a fork");
	part(&c);
	part(&s);
}

const struct group memory_groups[] = {
	{"region", mappings}, {"region length", lengths}, {"region address", moved}, {"unmapped", after_unmap}, {"memlock", limited}, {"fork", forked}, {},
};
