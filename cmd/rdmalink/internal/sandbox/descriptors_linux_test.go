package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestDescriptors checks the numbers and the lives of the descriptors that programs get, with and without a tracer.
func TestDescriptors(t *testing.T) {
	source := filepath.Join(t.TempDir(), "descriptors.c")
	if err := os.WriteFile(source, []byte(descriptorsProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	program := compiled(t, source)
	for _, what := range []string{"number", "crowded", "reopen", "inherit", "pass", "many", "low", "again"} {
		for way, options := range ways {
			if out, err := inside(t, options, "timeout", "-s", "KILL", "300", program, what); err != cli.ExitCode(7) {
				t.Errorf("%s, %s: %v\n%s", what, way, err, out)
			}
		}
	}
	for what, options := range map[string][]string{"arguments": {"-d", "mlx5"}, "umad": {"--fabric", "fat-tree:4x2"}, "issm": {"--fabric", "fat-tree:4x2", "--no-sm"}} {
		if out, err := inside(t, options, "timeout", "-s", "KILL", "300", program, what); err != cli.ExitCode(7) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

const descriptorsProgram = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static volatile int over;
static int most;

/* Holds many descriptors for a moment, again and again. None may become another file. */
static void *hold(void *unused)
{
	static int held[4096];
	struct stat want, got;
	int file = open("/proc/self/exe", O_RDONLY);

	CHECK(file >= 0 && !fstat(file, &want));
	while (!over) {
		for (int i = 0; i < most; i++)
			CHECK((held[i] = dup(file)) >= 0);
		for (int i = 0; i < most; i++)
			CHECK(!fstat(held[i], &got) && got.st_ino == want.st_ino);
		for (int i = 0; i < most; i++)
			CHECK(!close(held[i]));
	}
	return 0;
}

/* Opens channels while another thread opens files. */
static void numbers(int descriptors)
{
	pthread_t thread;

	most = descriptors;
	CHECK(!pthread_create(&thread, 0, hold, 0));
	for (int i = 0; i < 300; i++) {
		int fd = open("/dev/infiniband/rdma_cm", O_RDWR), copy;
		struct stat s;

		CHECK(fd >= 900 && !fstat(fd, &s) && S_ISCHR(s.st_mode));
		CHECK((copy = dup(fd)) >= 900 && copy != fd && !fstat(copy, &s) && S_ISCHR(s.st_mode));
		CHECK(!close(fd) && !close(copy));
	}
	over = 1;
	CHECK(!pthread_join(thread, 0));
}

static void reopen(int fd)
{
	char path[64];

	sprintf(path, "/proc/%d/fd/%d", getpid(), fd);
	for (int i = 0; i < 20; i++) {
		int again = open(path, i % 2 ? O_RDONLY : O_RDWR);

		CHECK(again >= 0 && !close(again));
	}
	usleep(100 * 1000); /* time to notice */
}

static void reopened(void)
{
	struct ibv_context *device = ibv_open_device(ibv_get_device_list(0)[0]);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_comp_channel *events = ibv_create_comp_channel(device);
	struct sockaddr_nl name = {}, to = {.nl_family = AF_NETLINK};
	struct { struct nlmsghdr h; } request = {{16, 5 << 10 | 1, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}};
	int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	socklen_t length = sizeof(name);
	struct rdma_cm_id *id;
	struct ibv_pd *pd;

	CHECK(device && channel && events && netlink >= 0);
	reopen(device->cmd_fd);
	CHECK(pd = ibv_alloc_pd(device));
	reopen(channel->fd);
	CHECK(!rdma_create_id(channel, &id, 0, RDMA_PS_TCP));
	reopen(events->fd);
	CHECK(ibv_create_cq(device, 1, 0, events, 0));
	reopen(netlink);
	CHECK(!getsockname(netlink, (void *)&name, &length) && name.nl_family == AF_NETLINK);
	CHECK(sendto(netlink, &request, 16, 0, (void *)&to, sizeof(to)) == 16);
}

/* A device lives until the last of several processes has closed it, and its mappings. */
static void inherited(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR), go[2], back[2], status;
	struct stat s;
	char c;

	CHECK(fd >= 0 && !pipe(go) && !pipe(back));
	if (!vfork())
		_exit(0);
	if (!fork()) {
		close(go[1]);
		CHECK(read(go[0], &c, 1) == 0);
		CHECK(!fstat(fd, &s) && S_ISCHR(s.st_mode));
		exit(3);
	}
	CHECK(!close(fd));
	CHECK(!close(go[1]));
	while (wait(&status) > 0)
		CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 3 || WEXITSTATUS(status) == 0));
}

/* A device lives while it is on the way in a message. */
static void passed(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR), pair[2], got;
	char c = 0, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	struct stat s;

	CHECK(fd >= 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	CHECK(sendmsg(pair[0], &m, 0) == 1 && !close(fd));
	usleep(100 * 1000);
	CHECK(recvmsg(pair[1], &m, 0) == 1);
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	CHECK((fd = fcntl(got, F_DUPFD, 900)) >= 900 && !fstat(fd, &s) && S_ISCHR(s.st_mode));
}

static void many(void)
{
	int first = open("/dev/infiniband/rdma_cm", O_RDWR), last = first;
	struct stat s;

	for (int i = 0; i < 2000; i++)
		CHECK((last = open("/dev/infiniband/rdma_cm", O_RDWR)) >= 900);
	CHECK(!fstat(last, &s) && S_ISCHR(s.st_mode));
}

/* A copy at a number whose calls the sandbox does not see is refused, and does not seem to work. */
static void low(void)
{
	struct ibv_context *device = ibv_open_device(ibv_get_device_list(0)[0]);
	struct ibv_comp_channel *events = ibv_create_comp_channel(device);
	int fds[] = {device->cmd_fd, open("/dev/infiniband/rdma_cm", O_RDWR), socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA)};

	for (int i = 0; i < 3; i++) {
		CHECK(fds[i] >= 900);
		CHECK(dup2(fds[i], 40) < 0 && errno == EOPNOTSUPP);
		CHECK(dup3(fds[i], 40, O_CLOEXEC) < 0 && errno == EOPNOTSUPP);
		CHECK(dup2(fds[i], 1000) == 1000 && dup2(0, 1000) == 1000);
	}
	CHECK(dup2(events->fd, 40) == 40);
}

/* A file lives as long as a descriptor that came from opening another one again. */
static void again(void)
{
	struct ibv_context *device = ibv_open_device(ibv_get_device_list(0)[0]);
	char path[64];
	int fd;

	for (int i = 0; i < 3; i++) {
		sprintf(path, (const char *[]){"/proc/self/fd/%d", "/proc/thread-self/fd/%d", "/dev/fd/%d"}[i], device->cmd_fd);
		CHECK((fd = open(path, O_RDWR | O_CLOEXEC)) >= 900 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
		CHECK(!close(device->cmd_fd));
		device->cmd_fd = fd;
		usleep(100 * 1000); /* time to notice */
		CHECK(ibv_alloc_pd(device));
	}
}

/* Linux refuses these arguments. The device has a page of registers, which the sandbox reads. */
static void arguments(void)
{
	struct ibv_context *device = ibv_open_device(ibv_get_device_list(0)[0]);
	int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	const char *link = "/sys/class/infiniband/mlx5_0";
	char buffer[8] = "xxxxxxxx";
	socklen_t length = 1;

	CHECK(device && netlink >= 0);
	for (int size = 0; size > -3; size--)
		CHECK(syscall(SYS_readlinkat, AT_FDCWD, link, buffer, size) < 0 && errno == EINVAL);
	CHECK(syscall(SYS_readlinkat, AT_FDCWD, link, buffer, 2) == 2 && buffer[1] == '.' && buffer[2] == 'x');
	CHECK(!getsockopt(netlink, SOL_SOCKET, SO_TYPE, buffer, &length) && length == 1 && buffer[0] == SOCK_RAW && buffer[1] == '.');
	length = -1;
	CHECK(getsockopt(netlink, SOL_SOCKET, SO_TYPE, buffer, &length) < 0 && errno == EINVAL);
	CHECK(ftruncate(device->cmd_fd, 0) < 0 && errno == EINVAL);
	CHECK(fallocate(device->cmd_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0 && errno == ENODEV);
	usleep(10 * 1000);
	CHECK(ibv_alloc_pd(device));
}

static void node(const char *path)
{
	int fd = open(path, O_RDWR);
	struct stat s;

	CHECK(fd >= 0);
	reopen(fd);
	CHECK(!fstat(fd, &s) && S_ISCHR(s.st_mode));
}

int main(int n, char **words)
{
	(void)n;
	if (!strcmp(words[1], "number"))
		numbers(1500);
	if (!strcmp(words[1], "crowded")) {
		for (int i = 0; i < 890; i++)
			CHECK(dup(0) >= 0);
		numbers(200);
	}
	if (!strcmp(words[1], "reopen"))
		reopened();
	if (!strcmp(words[1], "inherit"))
		inherited();
	if (!strcmp(words[1], "pass"))
		passed();
	if (!strcmp(words[1], "many"))
		many();
	if (!strcmp(words[1], "low"))
		low();
	if (!strcmp(words[1], "again"))
		again();
	if (!strcmp(words[1], "arguments"))
		arguments();
	if (!strcmp(words[1], "umad"))
		node("/dev/infiniband/umad0");
	if (!strcmp(words[1], "issm"))
		node("/dev/infiniband/issm0");
	return 7;
}
`
