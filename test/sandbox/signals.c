// signals WAY waits for an event of rdma_cm that never comes, and gets a signal meanwhile. It returns 5
// if the signal has its effect:
//
//	handler	the handler runs, and the call fails with EINTR
//	restart	the handler, with SA_RESTART, runs, and the call goes on
//	default	the process dies
//	stop	the process stops, although its other thread waits; it continues, and dies
//
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t alarms;

static void soon(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ .it_value.tv_usec = 200000 }, 0);
}

static void count(int s)
{
	if (++alarms == 2)
		_exit(5);
	soon();
}

static int next(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;

	return rdma_get_cm_event(channel, &event) ? errno : 0;
}

static void *forever(void *unused)
{
	next();
	return 0;
}

int main(int n, char **words)
{
	struct sigaction a = { .sa_handler = count };
	const char *what = words[1];
	pthread_t thread;
	int status;
	pid_t child;

	if (!strcmp(what, "handler")) {
		sigaction(SIGALRM, &a, 0);
		soon();
		return next() == EINTR && alarms == 1 ? 5 : 1;
	}
	if (!strcmp(what, "restart")) { // count ends it
		a.sa_flags = SA_RESTART;
		sigaction(SIGALRM, &a, 0);
		soon();
		next();
		return 1;
	}
	child = fork();
	if (!child) {
		soon();
		if (!strcmp(what, "default"))
			return next();
		setitimer(ITIMER_REAL, &(struct itimerval){ }, 0);
		pthread_create(&thread, 0, forever, 0);
		usleep(300000);
		raise(SIGSTOP);
		pthread_join(thread, 0);
	}
	if (!strcmp(what, "default"))
		return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? 5 : 1;
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		return 1;
	kill(child, SIGCONT);
	kill(child, SIGTERM);
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 5 : 1;
}
