// signals WAY [WHAT] waits for what never comes, and gets a signal meanwhile. WHAT is a message of a netlink
// or umad socket, or the node issm0, or otherwise an event of rdma_cm. It returns 5 if the signal has its
// effect:
//
//	handler	the handler runs, and the call fails with EINTR
//	restart	the handler, with SA_RESTART, runs, and the call goes on
//	default	the process dies
//	stop	the process stops, although its other thread waits; it continues, and dies
//
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t alarms;
static int last = 2, code = 5;

// soon makes alarms go on, because the first may come before the program waits.
static void soon(void)
{
	const struct timeval t = { .tv_usec = 200000 };

	setitimer(ITIMER_REAL, &(struct itimerval){ t, t }, 0);
}

static void count(int s)
{
	if (++alarms == last)
		_exit(code);
}

static const char *what = "rdma_cm";

static int next(void)
{
	struct rdma_cm_event *event;
	char message[1024];
	long got;

	if (!strcmp(what, "netlink")) {
		got = recv(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), message, sizeof(message), 0);
	} else if (!strcmp(what, "umad")) {
		got = read(open("/dev/infiniband/umad0", O_RDWR), message, sizeof(message));
	} else if (!strcmp(what, "issm")) {
		if (open("/dev/infiniband/issm0", O_RDWR) < 0)
			return 0;
		got = open("/dev/infiniband/issm0", O_RDWR);
	} else {
		got = rdma_get_cm_event(rdma_create_event_channel(), &event);
	}
	return got < 0 ? errno : 0;
}

static void *forever(void *unused)
{
	next();
	return 0;
}

int main(int n, char **words)
{
	struct sigaction a = { .sa_handler = count };
	const char *way = words[1];
	pthread_t thread;
	int status;
	pid_t child;

	if (n > 2)
		what = words[2];
	if (!strcmp(way, "handler")) {
		last = 50; // a call that goes on
		code = 1;
		sigaction(SIGALRM, &a, 0);
		soon();
		return next() == EINTR ? 5 : 1;
	}
	if (!strcmp(way, "restart")) { // count ends it
		a.sa_flags = SA_RESTART;
		sigaction(SIGALRM, &a, 0);
		soon();
		next();
		return 1;
	}
	child = fork();
	if (!child) {
		soon();
		if (!strcmp(way, "default"))
			return next();
		setitimer(ITIMER_REAL, &(struct itimerval){ }, 0);
		pthread_create(&thread, 0, forever, 0);
		usleep(300000);
		raise(SIGSTOP);
		pthread_join(thread, 0);
	}
	if (!strcmp(way, "default"))
		return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? 5 : 1;
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		return 1;
	kill(child, SIGCONT);
	kill(child, SIGTERM);
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 5 : 1;
}
