/* scale serve ADDRESS:PORT      accept connections, answer each message with a byte; SIGTERM ends it
 * scale dial N C ADDRESS:PORT   connect N times, C at a time, then disconnect; prints rates
 * scale conns N ADDRESS:PORT    hold N idle connections more than one
 *
 * The C side of the suite scale; the Go side, ../scale, says what each is for. */
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include "peer.h"

static int poller;

/* watch is for connections that lie idle: a message or their end is noticed. */
static void watch(struct conn *c)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

	if (ibv_req_notify_cq(c->rcq, 0))
		die("arm a CQ");
	if (epoll_ctl(poller, EPOLL_CTL_ADD, c->channel->fd, &e))
		die("watch a completion channel");
}

static void answer(struct conn *c)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(c->channel, &cq, &context))
		die("get a completion event");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		die("arm a CQ");
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS) /* flushed: the connection is over */
			return;
		if (wc.opcode != IBV_WC_RECV)
			continue;
		post_receive(c);
		post_byte(c);
	}
}

/* A queue of work for a thread of its own. */
struct work {
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct conn *list[65536];
	unsigned in, out;
	void (*carry_out)(struct conn *);
};

static void *worker(void *arg)
{
	struct work *w = arg;

	for (;;) {
		struct conn *c;

		pthread_mutex_lock(&w->lock);
		while (w->in == w->out)
			pthread_cond_wait(&w->some, &w->lock);
		c = w->list[w->out++ % 65536];
		pthread_mutex_unlock(&w->lock);
		w->carry_out(c);
	}
	return NULL;
}

static void hand(struct work *w, struct conn *c)
{
	pthread_mutex_lock(&w->lock);
	if (w->in - w->out == 65536) {
		fprintf(stderr, "65536 connections wait for a thread\n");
		exit(1);
	}
	w->list[w->in++ % 65536] = c;
	pthread_cond_signal(&w->some);
	pthread_mutex_unlock(&w->lock);
}

static void accept_one(struct conn *c)
{
	struct rdma_conn_param param = { .responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH, .rnr_retry_count = 7 };

	make_queues(c);
	watch(c);
	if (rdma_accept(c->id, &param))
		die("accept");
}

static int open_conns;

static void end_one(struct conn *c)
{
	if (epoll_ctl(poller, EPOLL_CTL_DEL, c->channel->fd, NULL))
		die("forget a completion channel");
	rdma_disconnect(c->id);
	free_conn(c);
	__atomic_sub_fetch(&open_conns, 1, __ATOMIC_SEQ_CST);
}

static struct work requests = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, .carry_out = accept_one };
static int ends[2]; /* a pipe of connections that are over */

/* answerer also frees connections, when it has looked at all that they told it. */
static void *answerer(void *unused)
{
	struct epoll_event e[64] = {{ .events = EPOLLIN }};
	struct conn *c;

	if (epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &e[0]))
		die("watch a pipe");
	for (;;) {
		int i, over = 0, n = epoll_wait(poller, e, 64, -1);

		for (i = 0; i < n; i++) {
			if (e[i].data.ptr)
				answer(e[i].data.ptr);
			else
				over = 1;
		}
		if (!over)
			continue;
		if (read(ends[0], &c, sizeof c) != sizeof c)
			die("read a pipe");
		end_one(c);
	}
	return NULL;
}

static void on_event(struct rdma_cm_event *event)
{
	struct conn *c = event->id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!(c = calloc(1, sizeof *c)))
			die("allocate a connection");
		c->id = event->id;
		c->id->context = c;
		__atomic_add_fetch(&open_conns, 1, __ATOMIC_SEQ_CST);
		rdma_ack_cm_event(event);
		hand(&requests, c);
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_ack_cm_event(event);
		if (write(ends[1], &c, sizeof c) != sizeof c)
			die("write a pipe");
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		rdma_ack_cm_event(event);
		return;
	default:
		fprintf(stderr, "serve: %s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
}

/* terminator waits for SIGTERM, and then for the connections to end. */
static void *terminator(void *set)
{
	int i, signal;

	sigwait(set, &signal);
	for (i = 0; i < 1000 && __atomic_load_n(&open_conns, __ATOMIC_SEQ_CST); i++)
		usleep(10000);
	if (open_conns)
		fprintf(stderr, "%d connections are left\n", open_conns);
	_exit(open_conns ? 1 : 0);
}

static void serve(const char *address)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in addr;
	struct rdma_cm_id *id;
	sigset_t set;
	pthread_t t;

	parse_address(address, &addr);
	if (!ch || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) || rdma_bind_addr(id, (struct sockaddr *)&addr) || rdma_listen(id, 1024))
		die("listen on %s", address);
	poller = epoll_create1(0);
	if (poller < 0 || pipe(ends))
		die("make an epoll and a pipe");
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&t, NULL, worker, &requests) || pthread_create(&t, NULL, terminator, &set) || pthread_create(&t, NULL, answerer, NULL))
		die("start a thread");
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct rdma_cm_event *event;

		if (rdma_get_cm_event(ch, &event))
			die("get an event");
		on_event(event);
	}
}

/* A party is the threads that dial and close together, each on a channel of its own. */
static struct {
	struct conn *conns;
	int n, next;
	struct sockaddr_in addr;
	void (*step)(struct conn *, struct rdma_event_channel *);
} party;

static void dial_step(struct conn *c, struct rdma_event_channel *ch) { dial(c, ch, &party.addr); }

static void close_step(struct conn *c, struct rdma_event_channel *ch)
{
	rdma_disconnect(c->id);
	free_conn(c);
}

static void *member(void *ch)
{
	int i;

	while ((i = __atomic_fetch_add(&party.next, 1, __ATOMIC_SEQ_CST)) < party.n)
		party.step(&party.conns[i], ch);
	return NULL;
}

/* all takes a step for all connections and returns the seconds it took. */
static double all(void (*step)(struct conn *, struct rdma_event_channel *), int threads, struct rdma_event_channel **ch)
{
	pthread_t t[threads];
	double start = now();
	int i;

	party.step = step;
	party.next = 0;
	for (i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, member, ch[i]))
			die("start thread %d", i);
	for (i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	return now() - start;
}

static struct rdma_event_channel **make_channels(int n)
{
	struct rdma_event_channel **ch = calloc(n, sizeof *ch);
	int i;

	for (i = 0; i < n; i++)
		if (!(ch[i] = rdma_create_event_channel()))
			die("create an event channel");
	return ch;
}

static void rate(const char *measure, int n, int threads, double seconds)
{
	printf("{\"measure\":\"%s\",\"params\":\"%d at a time, %d connections\",\"unit\":\"connections/s\",\"value\":%.2f}\n", measure, threads, n, n / seconds);
}

static int dial_many(int n, int threads, const char *address)
{
	struct rdma_event_channel **ch = make_channels(threads);
	struct conn warm = {};

	parse_address(address, &party.addr);
	dial(&warm, ch[0], &party.addr);
	party.n = n;
	party.conns = calloc(n, sizeof *party.conns);
	rate("connect rate", n, threads, all(dial_step, threads, ch));
	rate("disconnect rate", n, threads, all(close_step, threads, ch));
	close_step(&warm, ch[0]);
	return 0;
}

/* hold says how many there are and waits for a line. */
static void hold(int n)
{
	printf("%d\n", n);
	fflush(stdout);
	if (getchar() == EOF)
		exit(1);
}

static int hold_conns(int n, const char *address)
{
	struct rdma_event_channel **ch = make_channels(1);
	struct conn *conns = calloc(n + 1, sizeof *conns);
	int i;

	parse_address(address, &party.addr);
	poller = epoll_create1(0);
	for (i = 0; i <= n; i++) {
		dial(&conns[i], ch[0], &party.addr);
		watch(&conns[i]);
		if (i == 0 || i == n)
			hold(i);
	}
	for (i = 0; i <= n; i++)
		close_step(&conns[i], ch[0]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "dial"))
		return dial_many(atoi(argv[2]), atoi(argv[3]), argv[4]);
	if (argc == 4 && !strcmp(argv[1], "conns"))
		return hold_conns(atoi(argv[2]), argv[3]);
	fprintf(stderr, "usage: %s serve|dial N C|conns N ADDRESS:PORT\n", argv[0]);
	return 2;
}
