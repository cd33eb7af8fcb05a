package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestDirectory checks that processes can go into the directories that the sandbox shows, and out of them, with all
// that is relative to the current directory.
func TestDirectory(t *testing.T) {
	if !canTrap {
		t.Skip("it is made for amd64")
	}
	for line, want := range map[string]string{
		"cd /sys/class/infiniband; echo *; pwd -P; cat rxe0/node_type":                      "rxe0\n/sys/class/infiniband\n1: CA\n",
		"cd /sys/class/infiniband; sh -c 'cd rxe0; ls -d ports; /bin/pwd'":                  "ports\n/sys/class/infiniband/rxe0\n",
		"cd /sys/class/infiniband/rxe0; cat ../../infiniband_verbs/uverbs0/ibdev":           "rxe0\n",
		"cd /sys/class/infiniband/rxe0; cd -P ..; cd -P ..; /bin/pwd":                       "/sys/class\n",
		"cd /sys/class/infiniband; cat ../../../proc/version | wc -l; ls ../../../dev/null": "1\n../../../dev/null\n",
		"cd /dev/infiniband; stat -c %F uverbs0; test -c rdma_cm && echo node":              "character special file\nnode\n",
		"cd /sys/class; cd infiniband && find . -name ibdev; cd infiniband":                 "",
		"cd /sys/class/infiniband_verbs; find . -name ibdev":                                "./uverbs0/ibdev\n",
		"cd /sys/class/infiniband/rxe0/node_type || cd /sys/class/infiniband/rxe9":          "",
		"cd /sys/class/infiniband; cd /; ls -d sys; cd; cd /proc; /bin/pwd":                 "sys\n/proc\n",
	} {
		if out, _ := inside(t, nil, "sh", "-c", "("+line+") 2>/dev/null"); out != want {
			t.Errorf("%s: %q, want %q", line, out, want)
		}
	}
	need(t, "saquery")
	out, err := inside(t, []string{"--fabric", "fat-tree:4x2"}, "env", hostVariable+"=h8", "sh", "-c", `cd /sys/class/infiniband/*/ports/1
		cat phys_state counters/symbol_error; saquery -N > /dev/null; test $(cat counters/port_rcv_packets) -gt 0 && echo received`)
	if want := "5: LinkUp\n0\nreceived\n"; err != nil || out != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// TestIBStatus checks that C's script finds the devices.
func TestIBStatus(t *testing.T) {
	if !canTrap {
		t.Skip("it is made for amd64")
	}
	need(t, "ibstatus")
	out, err := inside(t, []string{"--fabric", "fat-tree:4x2"}, "ibstatus")
	if err != nil || !strings.Contains(out, "Infiniband device 'mlx5_0' port 1 status:") || !strings.Contains(out, "state:\t\t 4: ACTIVE") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDirectorySignals checks that threads that change their directory lose no signal, and stop, go on and end as
// usual.
func TestDirectorySignals(t *testing.T) {
	if !canTrap {
		t.Skip("it is made for amd64")
	}
	source := filepath.Join(t.TempDir(), "directory.c")
	if err := os.WriteFile(source, []byte(directoryProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := inside(t, nil, "timeout", "-s", "KILL", "300", compiled(t, source)); err != cli.ExitCode(7) {
		t.Errorf("%v\n%s", err, out)
	}
}

const directoryProgram = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)
#define ROUNDS 200

static volatile int handled, values;

static void handle(int signal, siginfo_t *info, void *unused)
{
	__sync_fetch_and_add(&values, info->si_value.sival_int);
	__sync_fetch_and_add(&handled, 1);
}

/* Goes in and out, with a descriptor count that does not grow. */
static void *walk(void *unused)
{
	char name[100];

	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!chdir("/sys/class/infiniband"));
		CHECK(getcwd(name, sizeof name) == name);
		CHECK(!chdir("/"));
	}
	return 0;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART };
	int status, first = open("/", O_RDONLY), last;
	pid_t child;

	CHECK(!close(first));
	CHECK(!sigaction(SIGRTMIN, &action, 0));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		pthread_t threads[2];
		for (int i = 0; i < 2; i++)
			CHECK(!pthread_create(&threads[i], 0, walk, 0));
		for (int i = 0; i < 2; i++)
			CHECK(!pthread_join(threads[i], 0));
		last = open("/", O_RDONLY);
		CHECK(last == first);
		while (handled < ROUNDS)
			usleep(1000);
		CHECK(values == ROUNDS * 3);
		exit(0);
	}
	/* Each of these signals counts, because they are queued. */
	for (int i = 0; i < ROUNDS; i++) {
		while (sigqueue(child, SIGRTMIN, (union sigval){ .sival_int = 3 })) {
			CHECK(errno == EAGAIN);
			usleep(1000);
		}
		if (i % 10 == 0) {
			CHECK(!kill(child, SIGSTOP));
			CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
			CHECK(!kill(child, SIGCONT));
		}
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	/* Killed in any state, a child ends at once. */
	for (int i = 0; i < 60; i++) {
		child = fork();
		CHECK(child >= 0);
		while (!child) {
			CHECK(!chdir("/sys/class/infiniband"));
			CHECK(!chdir("/"));
		}
		usleep(1000 + i * 97);
		CHECK(!kill(child, SIGKILL));
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	}
	first = open("/sys/class/infiniband", O_PATH);
	CHECK(first >= 0 && !fchdir(first) && !close(first) && !chdir(".."));
	CHECK(chdir("/sys/class/infiniband/rxe7") && errno == ENOENT);
	CHECK(chdir("/sys/class/infiniband/rxe0/node_type") && errno == ENOTDIR);
	return 7;
}
`
