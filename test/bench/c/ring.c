/*
 * What posting, polling and arming cost with rdma-core: the C twin of ../ring,
 * whose package rounds says what is measured and how.
 *
 *	gcc -O2 -Wall -o c-ring ring.c -lrdmacm -libverbs -lmlx5
 *	c-ring -driver siw -dev siw0 -addr 10.0.0.1 -n 100 -clock ns
 *
 * With -still the program runs in the sandbox, which is stopped while something is measured.
 */
#include "clock.h"
#include "pair.h"
#include <sched.h>
#include <signal.h>

static const int lists[] = { 1, 16, 64 };
enum { LISTS = 3, CALLS = 256 };
enum { GRACE = 20 }; /* yields; on siw the peer may have a message before the kernel has noted that it is sent */

static const char *driver, *dev, *addr;
static int rounds = 100, instructions, still, raw, ud, dc;
static double unit; /* of a tick */

static struct pair pair;
enum { SEND, SEND_INLINE, WRITE, WRITE_INLINE, KINDS };
static const char *const measures[KINDS] = { "post_send", "post_send_inline", "post_write", "post_write_inline" };
static const char *const built[KINDS] = { "build_send", "build_send_inline", "build_write", "build_write_inline" };
static struct ibv_send_wr sends[KINDS][DEPTH];
static struct ibv_recv_wr recvs[DEPTH];
static struct ibv_sge from[DEPTH], to[DEPTH];
static struct ibv_wc wcs[DEPTH];

/* A series is the ticks that each round took for one thing. */
struct series {
	uint64_t *ticks;
	int n;
};

static struct series new_series(void)
{
	struct series s = { calloc(2 * rounds, sizeof(*s.ticks)), 0 };

	need(s.ticks != NULL, "calloc");
	return s;
}

static void add(struct series *s, uint64_t ticks) { s->ticks[s->n++] = ticks; }

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* print prints the median for one of the n elements or calls of a round. */
static void print(struct series *s, const char *measure, int list, int n)
{
	char params[32] = "";

	if (s->n == 0 || s->n < rounds / 2) {
		fprintf(stderr, "%s: only %d rounds went well\n", measure, s->n);
		exit(1);
	}
	qsort(s->ticks, s->n, sizeof(*s->ticks), compare);
	if (list)
		snprintf(params, sizeof(params), "list %d", list);
	printf("{\"suite\":\"ring\",\"measure\":\"%s\",\"driver\":\"%s\",\"params\":\"%s\",\"impl\":\"rdma-core\","
	       "\"unit\":\"%s\",\"value\":%.3f}\n", measure, driver, params,
	       instructions ? "instructions" : "ns", s->ticks[s->n / 2] * unit / n);
	free(s->ticks);
}

/* prepare makes the requests, linked into lists of that length. */
static void prepare(int list)
{
	for (int i = 0; i < DEPTH; i++) {
		int last = i % list == list - 1;
		uint64_t base = (uintptr_t)pair.mr->addr + i * MESSAGE;

		from[i] = (struct ibv_sge){ base, ud ? MESSAGE - GRH : MESSAGE, pair.mr->lkey };
		to[i] = (struct ibv_sge){ base + DEPTH * MESSAGE, MESSAGE, pair.mr->lkey };
		for (int kind = 0; kind < KINDS; kind++) {
			struct ibv_send_wr *wr = &sends[kind][i];

			*wr = (struct ibv_send_wr){ .wr_id = i, .next = last ? NULL : wr + 1,
				.sg_list = &from[i], .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
			if (kind == SEND_INLINE || kind == WRITE_INLINE)
				wr->send_flags |= IBV_SEND_INLINE;
			if (ud) {
				wr->wr.ud.ah = pair.ah;
				wr->wr.ud.remote_qpn = pair.passive->qp->qp_num;
				wr->wr.ud.remote_qkey = QKEY;
			} else if (kind >= WRITE) {
				wr->opcode = IBV_WR_RDMA_WRITE;
				wr->wr.rdma.remote_addr = to[i].addr;
				wr->wr.rdma.rkey = pair.mr->rkey;
			}
		}
		recvs[i] = (struct ibv_recv_wr){ .wr_id = i, .next = last ? NULL : &recvs[i + 1],
			.sg_list = &to[i], .num_sge = 1 };
	}
}

static void yield(void)
{
	for (int i = 0; i < GRACE; i++)
		sched_yield();
}

/* supervisor returns the sandbox's process with the device. The parent is a guard, whose parent is the supervisor. */
static pid_t supervisor(void)
{
	char path[32], stat[256], *end;
	size_t n;
	pid_t pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", getppid());
	need((f = fopen(path, "r")) != NULL, path);
	n = fread(stat, 1, sizeof(stat) - 1, f);
	stat[n] = 0;
	fclose(f);
	need((end = strrchr(stat, ')')) && sscanf(end + 1, " %*c %d", &pid) == 1, "find the guard's parent");
	return pid;
}

/* tell_device gives it the time to obey. */
static void tell_device(int signal)
{
	static pid_t device;

	if (!still)
		return;
	if (!device)
		device = supervisor();
	need(!kill(device, signal), "kill");
	yield();
}

static void release_device(void) { tell_device(SIGCONT); }

static uint64_t time_recv(int list)
{
	struct ibv_qp *qp = pair.passive->qp;
	struct ibv_recv_wr *bad;
	uint64_t start = clock_ticks();

	for (int i = 0; i < DEPTH; i += list)
		if ((errno = dc ? ibv_post_srq_recv(pair.srq, &recvs[i], &bad) : ibv_post_recv(qp, &recvs[i], &bad)))
			die("post a receive");
	return clock_ticks() - start;
}

/* time_build makes requests of DC, each of which takes its target. */
static uint64_t time_build(int kind, int list)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.active->qp);
	struct mlx5dv_qp_ex *dv = mlx5dv_qp_ex_from_ibv_qp_ex(qp);
	struct ibv_ah *ah = pair.ah;
	uint32_t dctn = pair.passive->qp->qp_num, lkey = pair.mr->lkey, rkey = pair.mr->rkey;
	uint64_t base = (uintptr_t)pair.mr->addr, start = clock_ticks();

	for (int i = 0; i < DEPTH; i += list) {
		ibv_wr_start(qp);
		for (int k = i; k < i + list; k++) {
			uint64_t at = base + k * MESSAGE;

			qp->wr_id = k;
			qp->wr_flags = IBV_SEND_SIGNALED;
			if (kind < WRITE)
				ibv_wr_send(qp);
			else
				ibv_wr_rdma_write(qp, rkey, at + DEPTH * MESSAGE);
			mlx5dv_wr_set_dc_addr(dv, ah, dctn, DC_KEY);
			if (kind == SEND_INLINE || kind == WRITE_INLINE)
				ibv_wr_set_inline_data(qp, (void *)(uintptr_t)at, MESSAGE);
			else
				ibv_wr_set_sge(qp, lkey, at, MESSAGE);
		}
		if ((errno = ibv_wr_complete(qp)))
			die("ibv_wr_complete");
	}
	return clock_ticks() - start;
}

static uint64_t time_send(struct ibv_send_wr *wrs, int list)
{
	struct ibv_qp *qp = pair.active->qp;
	struct ibv_send_wr *bad;
	uint64_t start;

	hold_doorbell = 1;
	start = clock_ticks();
	for (int i = 0; i < DEPTH; i += list)
		if ((errno = ibv_post_send(qp, &wrs[i], &bad)))
			die("ibv_post_send");
	start = clock_ticks() - start;
	hold_doorbell = 0;
	return start;
}

/* check looks at completions, outside of the measured time. */
static void check(int n)
{
	for (int i = 0; i < n; i++)
		if (wcs[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wcs[i].status));
			exit(1);
		}
}

/* take waits for n completions. */
static void take(struct ibv_cq *cq, int n)
{
	double end = clock_monotonic_ns() + PATIENCE_MS * 1e6;

	while (n > 0) {
		int got = ibv_poll_cq(cq, n, wcs);

		need(got >= 0, "ibv_poll_cq");
		check(got);
		n -= got;
		if (got == 0)
			sched_yield();
		errno = ETIMEDOUT;
		need(clock_monotonic_ns() < end, "wait for completions");
	}
}

/* time_poll polls in lists; where fewer are there than were sent, the time does not count. */
static void time_poll(struct series *s, struct ibv_cq *cq, int list)
{
	int n = 0, got = list;
	uint64_t start;

	tell_device(SIGSTOP);
	start = clock_ticks();
	while (n < DEPTH && got == list)
		n += got = ibv_poll_cq(cq, list, wcs);
	start = clock_ticks() - start;
	tell_device(SIGCONT);
	need(got >= 0, "ibv_poll_cq");
	check(got);
	if (n == DEPTH)
		add(s, start);
	else
		take(cq, DEPTH - n);
}

struct costs { struct series recv, send[KINDS], poll, poll_recv; };

/* one_round notes no polls of writes: nothing else tells that they are done. */
static void one_round(struct costs *c, int list, int kind)
{
	tell_device(SIGSTOP);
	if (kind < WRITE)
		add(&c->recv, time_recv(list));
	add(&c->send[kind], dc ? time_build(kind, list) : time_send(sends[kind], list));
	tell_device(SIGCONT);
	errno = ENOSYS;
	need(held_doorbells > 0 || still, "hold back the doorbell");
	need(!pair_doorbell(&pair), "doorbell");
	if (kind >= WRITE) {
		take(pair.send_cq, DEPTH);
		return;
	}
	if (raw) {
		for (int i = 0; i < 10; i++) /* nothing shows that all have arrived but polling */
			yield();
		time_poll(&c->poll_recv, pair.recv_cq, list);
	} else {
		take(pair.recv_cq, DEPTH);
	}
	yield();
	time_poll(&c->poll, pair.send_cq, list);
}

static void measure_list(int list)
{
	struct costs c = { .recv = new_series(), .poll = new_series(), .poll_recv = new_series() };

	for (int kind = 0; kind < KINDS; kind++)
		c.send[kind] = new_series();
	prepare(list);
	for (int i = -rounds / 10 - 1; i < rounds; i++) {
		if (i == 0) /* warm now */
			c.recv.n = c.poll.n = c.poll_recv.n = c.send[SEND].n = c.send[SEND_INLINE].n = c.send[WRITE].n = c.send[WRITE_INLINE].n = 0;
		for (int kind = 0; kind < (raw ? WRITE : KINDS); kind++)
			one_round(&c, list, kind);
	}
	print(&c.recv, "post_recv", list, DEPTH);
	for (int kind = 0; kind < (raw ? WRITE : KINDS); kind++)
		print(&c.send[kind], (dc ? built : measures)[kind], list, DEPTH);
	print(&c.poll, "poll_full", list, DEPTH);
	if (raw)
		print(&c.poll_recv, "poll_recv", list, DEPTH);
}

static void measure_empty(void)
{
	struct series s = new_series();

	for (int i = 0; i < rounds; i++) {
		int n = 0;
		uint64_t start = clock_ticks();

		for (int j = 0; j < CALLS; j++)
			n += ibv_poll_cq(pair.send_cq, 16, wcs);
		add(&s, clock_ticks() - start);
		errno = EIO;
		need(n == 0, "poll an empty CQ");
	}
	print(&s, "poll_empty", 0, CALLS);
}

static void measure_arm(void)
{
	struct series s = new_series();

	for (int i = 0; i < rounds; i++) {
		uint64_t start = clock_ticks();

		for (int j = 0; j < CALLS; j++)
			if ((errno = ibv_req_notify_cq(pair.send_cq, 0)))
				die("ibv_req_notify_cq");
		add(&s, clock_ticks() - start);
	}
	print(&s, "arm", 0, CALLS);
}

static int usage(void)
{
	fprintf(stderr, "usage: c-ring -driver siw|rxe|mlx5 -dev NAME -addr IPv4 [-n ROUNDS] [-clock ns|insn] [-still] [-loop]\n");
	return 2;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		if (!strcmp(argv[i], "-still") || !strcmp(argv[i], "-loop")) {
			*(argv[i][1] == 's' ? &still : &raw) = 1;
			i--;
			continue;
		}
		if (i + 1 == argc)
			return usage();
		if (!strcmp(argv[i], "-driver"))
			driver = argv[i + 1];
		else if (!strcmp(argv[i], "-dev"))
			dev = argv[i + 1];
		else if (!strcmp(argv[i], "-addr"))
			addr = argv[i + 1];
		else if (!strcmp(argv[i], "-n"))
			rounds = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "-clock") && !strcmp(argv[i + 1], "insn"))
			instructions = 1;
		else if (!strcmp(argv[i], "-clock") && !strcmp(argv[i + 1], "ns"))
			instructions = 0;
		else
			return usage();
	}
	if (!driver || !dev || !addr || rounds < 1)
		return usage();
	atexit(release_device);
	unit = instructions ? 1 : clock_ns_per_tick();
	ud = raw && !strcmp(driver, "efa");
	dc = raw && !strcmp(driver, "mlx5-dc");
	if (dc) {
		pair_dc(&pair, dev);
		raw = 0; /* it has writes, and its sends arrive in order */
	} else if (ud)
		pair_datagrams(&pair, dev);
	else if (raw)
		pair_frames(&pair, dev);
	else
		pair_connect(&pair, dev, addr);
	for (int i = 0; i < LISTS; i++)
		measure_list(lists[i]);
	tell_device(SIGSTOP);
	measure_empty();
	measure_arm();
	return 0;
}
