// What becomes of users of a device whose link goes down and up, and whose device is removed.
#include "ask.h"
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <sys/ioctl.h>

static int index_of_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int index = -1;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device))
			index = ibv_get_device_index(list[i]);
	if (list)
		ibv_free_device_list(list);
	return index;
}

// del_link is what rdma link del does. Linux waits in it for all users of the device.
static int del_link(uint32_t index)
{
	struct {
		struct nlmsghdr header;
		struct nlattr attr;
		uint32_t index;
	} request = {{sizeof(request), RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_DELLINK), NLM_F_REQUEST | NLM_F_ACK, 1, 0},
		     {sizeof(request.attr) + sizeof(index), RDMA_NLDEV_ATTR_DEV_INDEX}, index};
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} reply;
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	int ok = send(fd, &request, sizeof(request), 0) == sizeof(request) && recv(fd, &reply, sizeof(reply), 0) >= (ssize_t)sizeof(reply.header) + 4;
	int error = ok ? reply.error.error : -errno;

	close(fd);
	return error;
}

// remover starts a process that removes the device and then writes what came of it to the pipe. The process
// is started before the device is opened, because it would otherwise wait for itself.
static int remover(int *start)
{
	int orders[2], reports[2];

	if (pipe(orders) || pipe(reports))
		exit(1);
	if (!fork()) {
		int order, error;

		close(orders[1]);
		close(reports[0]);
		if (read(orders[0], &order, sizeof(order)) == sizeof(order)) {
			error = del_link(order);
			write(reports[1], &error, sizeof(error));
		}
		_exit(0);
	}
	close(orders[0]);
	close(reports[1]);
	*start = orders[1];
	return reports[0];
}

static int comes(int fd, int milliseconds)
{
	struct pollfd p = {fd, POLLIN};

	return poll(&p, 1, milliseconds) > 0;
}

// hand_made are two queue pairs that are connected by hand.
struct hand_made {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	uint8_t *memory;
};

static void hand_make(struct hand_made *h)
{
	h->context = open_device();
	h->pd = ibv_alloc_pd(h->context);
	h->cq = ibv_create_cq(h->context, 64, NULL, NULL, 0);
	h->a = create_qp(h->pd, h->cq, IBV_QPT_RC);
	h->b = create_qp(h->pd, h->cq, IBV_QPT_RC);
	h->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	h->mr = ibv_reg_mr(h->pd, h->memory, MEMORY, usual.access);
	lead(h->a, IBV_QPS_RTS, h->b->qp_num);
	lead(h->b, IBV_QPS_RTS, h->a->qp_num);
}

static void unmake(struct hand_made *h)
{
	ibv_destroy_qp(h->a);
	ibv_destroy_qp(h->b);
	ibv_destroy_cq(h->cq);
	ibv_dereg_mr(h->mr);
	ibv_dealloc_pd(h->pd);
	ibv_close_device(h->context);
	munmap(h->memory, MEMORY);
}

static void transfer(struct hand_made *h, const char *when)
{
	struct end a = {.qp = h->a}, b = {.qp = h->b};

	if (iwarp) // its queue pairs can't be connected by hand
		return;
	add("%s", result(post_receive(&b, 1, h->memory, 64, h->mr->lkey)));
	add("%s", result(post(&a, 2, IBV_WR_SEND, h->memory + 64, 64, h->mr->lkey, 0, 0, 0)));
	add_completions(h->cq, 2);
	add("%s %s", state_of(h->a), state_of(h->b));
	say("%s, a SEND by queue pairs that were connected by hand", when);
}

static void objects(struct ibv_context *context, const char *when)
{
	struct ibv_port_attr port = {};
	struct ibv_device_attr attr;
	union ibv_gid gid;

	add("%s", result(ibv_query_port(context, 1, &port)));
	add("%d %d", port.state, port.phys_state);
	say("%s, query_port", when);
	tell(result(ibv_query_device(context, &attr)), "%s, query_device", when);
	tell(result(ibv_query_gid(context, 1, own_gid(context, &gid), &gid)), "%s, query_gid", when);

	struct ibv_pd *pd = ibv_alloc_pd(context);
	tell(made(pd), "%s, alloc_pd", when);
	if (!pd)
		return;
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	tell(made(cq), "%s, create_cq", when);
	uint8_t *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, MEMORY, usual.access);
	tell(made(mr), "%s, reg_mr", when);
	struct ibv_qp *qp = cq ? create_qp(pd, cq, IBV_QPT_RC) : NULL;
	tell(made(qp), "%s, create_qp", when);
	if (qp) {
		tell(result(lead(qp, IBV_QPS_RTS, qp->qp_num)), "%s, a queue pair by hand to RTS", when);
		ibv_destroy_qp(qp);
	}
	if (mr)
		ibv_dereg_mr(mr);
	if (cq)
		ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	munmap(memory, MEMORY);
}

// ids are IDs of rdma_cm that are in use: a connection, a listener, and one with an address.
struct ids {
	struct end client, server;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *bound;
};

static int make_ids(struct ids *i)
{
	i->channel = rdma_create_event_channel();
	return !rdma_create_id(i->channel, &i->listener, NULL, RDMA_PS_TCP) && !rdma_bind_addr(i->listener, at(address, 0)) &&
	       !rdma_listen(i->listener, 5) && !rdma_create_id(i->channel, &i->bound, NULL, RDMA_PS_TCP) &&
	       !rdma_bind_addr(i->bound, at(address, 0)) && connected(&i->client, &i->server, &usual);
}

static void free_ids(struct ids *i)
{
	part(&i->client);
	part(&i->server);
	rdma_destroy_id(i->listener);
	rdma_destroy_id(i->bound);
	rdma_destroy_event_channel(i->channel);
}

// add_last_event leaves out the events before it: the end that is removed second may be disconnected first.
static void add_last_event(struct rdma_event_channel *channel)
{
	const char *last = "no event";

	for (struct rdma_cm_event *e; (e = next_event(channel, patience)); rdma_ack_cm_event(e))
		last = rdma_event_str(e->event);
	add("%s", last);
}

static void connection(struct ids *i, const char *when)
{
	add_last_event(i->client.channel);
	say("%s, the client's last event", when);
	add_last_event(i->server.channel);
	say("%s, the server's last event", when);
	add_events(i->channel, 3);
	say("%s, events of a listener and of an ID with an address", when);
	add_completions(i->server.recv_cq, 1);
	add("%s %s", state_of(i->client.qp), state_of(i->server.qp));
	say("%s, the receive of a connection, and the states of its ends", when);
}

static void transfer_again(struct ids *i, const char *when)
{
	struct end *c = &i->client, *s = &i->server;

	add("%s", result(post_receive(s, 2, s->memory, 64, s->mr->lkey)));
	add("%s", result(post(c, 3, IBV_WR_SEND, c->memory, 64, c->mr->lkey, 0, 0, 0)));
	add_completions(c->send_cq, 1);
	add_completions(s->recv_cq, 1);
	add("%s %s", state_of(c->qp), state_of(s->qp));
	say("%s, a SEND of a connection", when);
}

static void dial(const char *when)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id, *other;

	rdma_create_id(channel, &id, NULL, RDMA_PS_TCP);
	rdma_create_id(channel, &other, NULL, RDMA_PS_TCP);
	tell(result(rdma_bind_addr(id, at(address, 0))), "%s, bind_addr of a new ID", when);
	add("%s", result(rdma_resolve_addr(other, NULL, at(address, 4711), 2000)));
	add_events(channel, 1);
	say("%s, resolve_addr of a new ID", when);
	rdma_destroy_id(id);
	rdma_destroy_id(other);
	rdma_destroy_event_channel(channel);
}

// removal reports whether the removal waits for the users of the device. Once it has taken the device from them, it
// does not, but may not have ended yet.
static const char *removal(struct ibv_context *context, int report)
{
	struct ibv_port_attr port;
	int lost = ibv_query_port(context, 1, &port) == EIO;

	return comes(report, lost ? 20000 : 0) ? "ended" : "waits";
}

static void in_use(struct ibv_context *context, struct hand_made *hand, struct ids *ids, int report)
{
	connection(ids, "in use");
	transfer_again(ids, "in use");
	objects(context, "in use");
	add_async(context);
	say("in use, asynchronous events");
	transfer(hand, "in use");
	tell(result(rdma_disconnect(ids->client.id)), "in use, disconnect");
	tell(result(rdma_listen(ids->bound, 5)), "in use, listen");
	dial("in use");
	tell(removal(context, report), "in use, the removal");
}

// use_removed has the device removed while it is in use. rdma_cm's library closes the device when the process ends.
static void use_removed(int order, int report)
{
	int index = index_of_device();
	struct ids ids = {};
	struct hand_made hand = {};
	struct ibv_context *context = open_device();
	char node[256];

	snprintf(node, sizeof(node), "/dev/infiniband/%s", context->device->dev_name);
	hand_make(&hand);
	if (!make_ids(&ids)) {
		tell("fails", "a connection");
		return;
	}
	post_receive(&ids.server, 1, ids.server.memory, 64, ids.server.mr->lkey);
	write(order, &index, sizeof(index));
	for (long end = now() + 20000; (index_of_device() >= 0 || !access(node, F_OK)) && now() < end && !comes(report, 0);)
		usleep(1000);
	tell(index_of_device() < 0 ? "no" : "yes", "in use, is the device listed");
	if (index_of_device() >= 0) // it can't be removed so
		return;
	tell(open(node, O_RDWR) < 0 ? result(-1) : "ok", "in use, open of its node");
	in_use(context, &hand, &ids, report);
	free_ids(&ids);
	unmake(&hand);
	tell(removal(context, report), "the removal while one more context is open");
}

static void removed(void)
{
	int order, report = remover(&order), error;
	pid_t user = fork();

	if (!user) {
		use_removed(order, report);
		exit(0);
	}
	waitpid(user, NULL, 0);
	add("%s", comes(report, 20000) && read(report, &error, sizeof(error)) == sizeof(error) ? result(error) : "waits");
	say("the removal, when its users have ended");
}

// interface_of writes the name of the interface that has the address.
static int interface_of(char *name)
{
	struct ifaddrs *list, *i;
	int found = 0;

	if (getifaddrs(&list))
		return 0;
	for (i = list; i && !found; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr == ((struct sockaddr_in *)at(address, 0))->sin_addr.s_addr) {
			snprintf(name, IFNAMSIZ, "%s", i->ifa_name);
			found = 1;
		}
	freeifaddrs(list);
	return found;
}

static int set_up(const char *interface, int up)
{
	struct ifreq request = {};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), r;

	snprintf(request.ifr_name, IFNAMSIZ, "%s", interface);
	r = ioctl(fd, SIOCGIFFLAGS, &request);
	request.ifr_flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
	r = r ? r : ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return r;
}

static int set_carrier(const char *interface, int on)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/carrier", interface);
	int fd = open(path, O_WRONLY);
	int r = write(fd, on ? "1" : "0", 1) == 1 ? 0 : -1;

	close(fd);
	return r;
}

static void look(struct ibv_context *context, struct ids *ids, struct hand_made *hand, const char *when)
{
	struct ibv_port_attr port = {};

	struct ibv_async_event event;

	for (long end = now() + 10 * patience; comes(context->async_fd, until(end)) && !ibv_get_async_event(context, &event);) {
		ibv_ack_async_event(&event);
		if (event.event_type != IBV_EVENT_GID_CHANGE) { // which comes when the GIDs of IPv6 do
			add("{%s}", ibv_event_type_str(event.event_type));
			break;
		}
	}
	say("%s, asynchronous event", when);
	add("%s", result(ibv_query_port(context, 1, &port)));
	add("%d %d", port.state, port.phys_state);
	say("%s, query_port", when);
	connection(ids, when);
	transfer_again(ids, when);
	transfer(hand, when);
	dial(when);
}

static void link_of(const char *how, int (*set)(const char *, int))
{
	struct ids ids = {};
	struct hand_made hand = {};
	struct ibv_context *context = open_device();
	char interface[IFNAMSIZ], when[64];

	if (!interface_of(interface)) {
		tell("no interface", "%s off", how);
		return;
	}
	hand_make(&hand);
	if (!make_ids(&ids)) {
		tell("fails", "a connection");
		return;
	}
	post_receive(&ids.server, 1, ids.server.memory, 64, ids.server.mr->lkey);
	tell(result(set(interface, 0)), "%s off", how);
	snprintf(when, sizeof(when), "%s off", how);
	look(context, &ids, &hand, when);
	tell(result(set(interface, 1)), "%s on", how);
	snprintf(when, sizeof(when), "%s on again", how);
	look(context, &ids, &hand, when);
	free_ids(&ids);
	unmake(&hand);
	ibv_close_device(context);
}

static void links(void)
{
	link_of("carrier", set_carrier);
	link_of("interface", set_up);
}

const struct group change_groups[] = {
	{"link", links},
	{"removed", removed}, // the last of all
	{},
};
