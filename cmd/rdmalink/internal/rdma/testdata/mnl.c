/* What libmnl does with sockets, over a Unix socket: so rdma asks a test in
 * place of the kernel. The messages are left as they are. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct mnl_socket {
	int fd;
};

static struct mnl_socket *connected(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct mnl_socket *nl = malloc(sizeof(*nl));

	strncpy(addr.sun_path, getenv("GOVERBS_NETLINK"), sizeof(addr.sun_path) - 1);
	nl->fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (connect(nl->fd, (struct sockaddr *)&addr, sizeof(addr)))
		abort();
	return nl;
}

struct mnl_socket *mnl_socket_open(int bus)
{
	return connected();
}

int mnl_socket_setsockopt(const struct mnl_socket *nl, int type, void *buf, socklen_t len)
{
	return 0;
}

/* One byte says that the socket joins a group. */
int mnl_socket_bind(struct mnl_socket *nl, unsigned int groups, pid_t pid)
{
	if (groups)
		send(nl->fd, "+", 1, 0);
	return 0;
}

unsigned int mnl_socket_get_portid(const struct mnl_socket *nl)
{
	return 0;
}

ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *req, size_t size)
{
	return send(nl->fd, req, size, 0);
}

ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf, size_t size)
{
	return recv(nl->fd, buf, size, 0);
}

int mnl_socket_close(struct mnl_socket *nl)
{
	close(nl->fd);
	free(nl);
	return 0;
}
