// The connection manager: IDs out of order, addresses, backlog, private data of each length, depths, and
// each way for an attempt to fail, as both ends see it.
#include "ask.h"

static struct rdma_event_channel *channel, *served; // of the dialling side, and of the listener

static void open_channels(void)
{
	channel = rdma_create_event_channel();
	served = rdma_create_event_channel();
	struct ibv_context *context = open_device();

	ibv_close_device(context);
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch, enum rdma_port_space space)
{
	struct rdma_cm_id *id = NULL;

	rdma_create_id(ch, &id, NULL, space);
	return id;
}

static struct rdma_cm_id *listening(enum rdma_port_space space, int backlog)
{
	struct rdma_cm_id *id = new_id(served, space);

	if (rdma_bind_addr(id, at(address, 0)) || rdma_listen(id, backlog)) {
		rdma_destroy_id(id);
		return NULL;
	}
	return id;
}

static int port_of(struct rdma_cm_id *id) { return ntohs(rdma_get_src_port(id)); }

static int expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e = next_event(ch, 20000);
	int ok = e && e->event == type;

	if (e)
		rdma_ack_cm_event(e);
	return ok;
}

static void drop(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

// routed is an ID that has resolved a port of the device's address, with a QP if asked.
static struct rdma_cm_id *routed(struct rdma_event_channel *ch, enum rdma_port_space space, int port, int qp)
{
	struct rdma_cm_id *id = new_id(ch, space);
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC};

	if (rdma_resolve_addr(id, NULL, at(address, port), 5000) || !expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 5000) ||
	    !expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED) || (qp && rdma_create_qp(id, NULL, &init))) {
		drop(id);
		return NULL;
	}
	return id;
}

static int give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC};

	return rdma_create_qp(id, NULL, &init);
}

// add_event adds the next event with all that it carries, and returns its ID.
static struct rdma_cm_id *add_event(struct rdma_event_channel *ch, int wait)
{
	struct rdma_cm_event *e = next_event(ch, wait);
	struct rdma_cm_id *id;

	if (!e) {
		add("no event");
		return NULL;
	}
	add("%s %d", rdma_event_str(e->event) + strlen("RDMA_CM_EVENT_"), e->status);
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST: case RDMA_CM_EVENT_CONNECT_RESPONSE: case RDMA_CM_EVENT_REJECTED: case RDMA_CM_EVENT_ESTABLISHED: case RDMA_CM_EVENT_UNREACHABLE: {
		int ud = e->id->ps == RDMA_PS_UDP, length = ud ? e->param.ud.private_data_len : e->param.conn.private_data_len, filled = 0;
		const uint8_t *data = ud ? e->param.ud.private_data : e->param.conn.private_data;

		for (int i = 0; data && i < length; i++)
			if (data[i])
				filled = i + 1;
		add("data %d of %d", filled, length);
		if (!ud)
			add("depths %u %u flow %u retries %u %u SRQ %u QP %s", e->param.conn.responder_resources, e->param.conn.initiator_depth, e->param.conn.flow_control,
			    e->param.conn.retry_count, e->param.conn.rnr_retry_count, e->param.conn.srq, e->param.conn.qp_num ? "known" : "0");
		break;
	}
	default:
		break;
	}
	id = e->id;
	rdma_ack_cm_event(e);
	return id;
}

static void add_depths(struct rdma_cm_id *id)
{
	struct ibv_qp_attr a = {};
	struct ibv_qp_init_attr init;

	if (id && id->qp && !ibv_query_qp(id->qp, &a, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init))
		add("%u %u", a.max_rd_atomic, a.max_dest_rd_atomic);
}

#define LONG_WAIT 20000 // for an event that comes

static void ids(void)
{
	static const int spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB, 0, 1, 0x1234, 0xffff};
	struct rdma_cm_id *id, *other;

	open_channels();
	for (unsigned i = 0; i < LEN(spaces); i++) {
		int r = rdma_create_id(channel, &id, NULL, spaces[i]);

		tell(result(r), "ID of port space %#x", spaces[i]);
		if (!r)
			rdma_destroy_id(id);
	}
	id = new_id(served, RDMA_PS_TCP);
	add("%s", result(rdma_listen(id, 1)));
	tell(rdma_get_src_port(id) ? "with a port" : "without a port", "listen without bind");
	rdma_destroy_id(id);
	id = new_id(served, RDMA_PS_UDP);
	tell(result(rdma_listen(id, 1)), "listen without bind, datagrams");
	rdma_destroy_id(id);

	id = new_id(served, RDMA_PS_TCP);
	add("%s", result(rdma_bind_addr(id, at(address, 0))));
	tell(id->verbs ? "with a device" : "without a device", "bind");
	tell(result(rdma_bind_addr(id, at(address, 0))), "bind again");
	tell(result(rdma_listen(id, 1)), "listen");
	tell(result(rdma_listen(id, 1)), "listen again");
	tell(result(rdma_bind_addr(id, at(address, 0))), "bind a listener");
	tell(result(rdma_resolve_addr(id, NULL, at(address, 5), 1000)), "resolve_addr of a listener");
	struct rdma_conn_param param = {};

	tell(result(rdma_connect(id, &param)), "connect a listener");
	tell(result(rdma_accept(id, &param)), "accept a listener");
	tell(result(rdma_reject(id, NULL, 0)), "reject a listener");
	tell(result(rdma_disconnect(id)), "disconnect a listener");
	other = new_id(served, RDMA_PS_TCP);
	tell(result(rdma_bind_addr(other, at(address, port_of(id)))), "bind to the port of a listener");
	rdma_destroy_id(other);
	other = new_id(served, RDMA_PS_UDP);
	tell(result(rdma_bind_addr(other, at(address, port_of(id)))), "bind to its number for datagrams");
	rdma_destroy_id(other);
	other = new_id(served, RDMA_PS_TCP);
	int one = 1;

	tell(result(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one))), "option REUSEADDR");
	add("%s", result(rdma_bind_addr(other, at(address, port_of(id)))));
	tell(result(rdma_listen(other, 1)), "bind and listen with REUSEADDR on the port of one without");
	rdma_destroy_id(other);
	other = new_id(served, RDMA_PS_TCP);
	add("%s", result(rdma_bind_addr(other, at("0.0.0.0", port_of(id)))));
	say("bind to the port of a listener, all addresses");
	rdma_destroy_id(other);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	tell(result(bind(fd, at("0.0.0.0", port_of(id)), sizeof(struct sockaddr_in))), "TCP bind to the port of a listener");
	close(fd);
	rdma_destroy_id(id);

	static const char *const elsewhere[] = {"203.0.113.77", "127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.5"};

	for (unsigned i = 0; i < LEN(elsewhere); i++) {
		id = new_id(served, RDMA_PS_TCP);
		add("%s", result(rdma_bind_addr(id, at(elsewhere[i], 0))));
		tell(id->verbs ? "with a device" : "without a device", "bind to %s", elsewhere[i]);
		rdma_destroy_id(id);
	}
}

static void tcp_port(void)
{
	struct sockaddr_in own = *(struct sockaddr_in *)at(address, 0);
	socklen_t length = sizeof(own);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	open_channels();
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) || listen(fd, 1)) { // a sandbox's address is no host's
		own.sin_addr.s_addr = INADDR_ANY;
		bind(fd, (struct sockaddr *)&own, sizeof(own));
		listen(fd, 1);
	}
	getsockname(fd, (struct sockaddr *)&own, &length);
	struct rdma_cm_id *id = new_id(served, RDMA_PS_TCP);

	tell(result(rdma_bind_addr(id, at(address, ntohs(own.sin_port)))), "bind to the port of a TCP listener");
	tell(result(rdma_listen(id, 1)), "listen on the port of a TCP listener");
}

static void options(void)
{
	static const struct {
		const char *name;
		int level, option;
		size_t length;
	} tries[] = {
		{"TOS", RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1}, {"TOS of 4 bytes", RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4},
		{"REUSEADDR", RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4}, {"REUSEADDR of a byte", RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1},
		{"AFONLY", RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4}, {"AFONLY of a byte", RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1},
		{"ACK_TIMEOUT", RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1}, {"ACK_TIMEOUT of 4 bytes", RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 4},
		{"99", RDMA_OPTION_ID, 99, 4}, {"IB_PATH of 4 bytes", RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 4}, {"IB_PATH of nothing", RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 0},
		{"99 of IB", RDMA_OPTION_IB, 99, 4}, {"0 of level 99", 99, 0, 4}, {"TOS of 5000 bytes", RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 5000},
	};
	static uint8_t value[8192];

	open_channels();
	for (int space = 0; space < 2; space++)
		for (unsigned i = 0; i < LEN(tries); i++) {
			struct rdma_cm_id *id = new_id(channel, space ? RDMA_PS_UDP : RDMA_PS_TCP);

			tell(result(rdma_set_option(id, tries[i].level, tries[i].option, value, tries[i].length)), "option %s%s", tries[i].name, space ? ", datagrams" : "");
			rdma_bind_addr(id, at(address, 0));
			tell(result(rdma_set_option(id, tries[i].level, tries[i].option, value, tries[i].length)), "option %s after bind%s", tries[i].name, space ? ", datagrams" : "");
			rdma_destroy_id(id);
		}
}

static void resolve(void)
{
	static const char *const to[] = {"127.0.0.1", "203.0.113.77", "255.255.255.255", "224.0.0.5", "0.0.0.0"};
	struct rdma_conn_param param = {};
	struct rdma_cm_id *id;

	open_channels();
	for (unsigned i = 0; i < LEN(to); i++) {
		id = new_id(channel, RDMA_PS_TCP);
		int r = rdma_resolve_addr(id, NULL, at(to[i], 1234), 100);

		add("%s", result(r));
		if (!r)
			add_event(channel, LONG_WAIT);
		say("resolve_addr of %s", to[i]);
		rdma_destroy_id(id);
	}
	// librdmacm dereferences the device of an ID in rdma_connect and rdma_resolve_route, and so needs one.
	id = new_id(channel, RDMA_PS_TCP);
	rdma_bind_addr(id, at(address, 0));
	tell(result(rdma_resolve_route(id, 100)), "resolve_route of a bound ID");
	tell(result(rdma_connect(id, &param)), "connect of a bound ID");
	tell(result(rdma_accept(id, &param)), "accept of a bound ID");
	tell(result(rdma_reject(id, NULL, 0)), "reject of a bound ID");
	tell(result(rdma_disconnect(id)), "disconnect of a bound ID");
	tell(result(rdma_notify(id, IBV_EVENT_COMM_EST)), "notify of a bound ID");
	rdma_resolve_addr(id, NULL, at(address, 5), 5000);
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	tell(result(rdma_resolve_addr(id, NULL, at(address, 5), 5000)), "resolve_addr again");
	add_events(channel, 1);
	say("resolve_addr again: event");
	tell(result(rdma_connect(id, &param)), "connect before resolve_route");
	tell(result(rdma_listen(id, 1)), "listen after resolve_addr");
	rdma_destroy_id(id);
	id = routed(channel, RDMA_PS_TCP, 5, 0);
	tell(result(rdma_resolve_route(id, 5000)), "resolve_route again");
	add_events(channel, 1);
	say("resolve_route again: event");
	tell(result(rdma_accept(id, &param)), "accept of an ID that resolved");
	tell(result(rdma_reject(id, NULL, 0)), "reject of an ID that resolved");
	tell(result(rdma_disconnect(id)), "disconnect of an ID that resolved");
	rdma_destroy_id(id);
	id = routed(channel, RDMA_PS_TCP, 5, 0);
	struct rdma_event_channel *third = rdma_create_event_channel();

	tell(result(rdma_migrate_id(id, third)), "migrate");
	rdma_destroy_id(id);
}

static void private_data(void)
{
	static const int lengths[] = {0, 1, 55, 56, 57, 136, 137, 148, 149, 180, 181, 196, 197, 254, 255};
	char what[64];

	open_channels();
	for (int udp = 0; udp < 2; udp++)
		for (unsigned i = 0; i < LEN(lengths); i++)
			for (int answer = 0; answer < 3; answer++) {
				struct rdma_cm_id *listener = listening(udp ? RDMA_PS_UDP : RDMA_PS_TCP, 5), *child = NULL, *id;
				static uint8_t data[256];
				struct rdma_conn_param param = {.private_data = data, .private_data_len = lengths[i], .responder_resources = 4, .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 7};

				memset(data, 7, sizeof(data));
				if (!listener)
					continue;
				snprintf(what, sizeof(what), "%s%s %d bytes", udp ? "UD " : "", answer == 0 ? "request of" : answer == 1 ? "acceptance of" : "rejection of", lengths[i]);
				id = routed(channel, listener->ps, port_of(listener), 1);
				if (!id) {
					tell("not resolved", "%s", what);
				} else if (answer == 0) {
					int r = rdma_connect(id, &param);

					add("%s", result(r));
					if (!r)
						child = add_event(served, 10 * patience);
					if (!r && !child)
						add_event(channel, 10 * patience);
					say("%s", what);
				} else {
					param.private_data_len = 0;
					if (!rdma_connect(id, &param)) {
						struct rdma_cm_event *e = next_event(served, LONG_WAIT);

						if (e) {
							child = e->id;
							rdma_ack_cm_event(e);
						}
					}
					if (child) {
						param.private_data_len = lengths[i];
						give_qp(child);
						param.qp_num = child->qp ? child->qp->qp_num : 0;
						int r = answer == 1 ? rdma_accept(child, &param) : rdma_reject(child, data, lengths[i]);

						add("%s", result(r));
						add_event(channel, r ? 10 * patience : LONG_WAIT);
						say("%s", what);
					}
				}
				drop(child); // first: siw's rdma_destroy_id waits 10 seconds for an answer
				drop(id);
				drop(listener);
				for (struct rdma_cm_event *e; (e = next_event(channel, 0)) || (e = next_event(served, 0));)
					rdma_ack_cm_event(e);
			}
}

static void depths(void)
{
	static const struct {
		int resources, depth, accepted_resources, accepted_depth;
	} tries[] = {{4, 4, 4, 4}, {0, 0, 0, 0}, {1, 2, 3, 4}, {4, 3, 2, 1}, {16, 16, 1, 1}, {1, 1, 16, 16}, {128, 128, 128, 128}, {255, 255, 255, 255}, {4, 4, 2, 3}};

	open_channels();
	for (unsigned i = 0; i < LEN(tries); i++) {
		struct rdma_cm_id *listener = listening(RDMA_PS_TCP, 5), *child = NULL, *id = routed(channel, RDMA_PS_TCP, port_of(listener), 1);
		struct rdma_conn_param param = {.responder_resources = tries[i].resources, .initiator_depth = tries[i].depth, .retry_count = 5, .rnr_retry_count = 6, .flow_control = 1};
		char what[64];

		snprintf(what, sizeof(what), "%d %d answered by %d %d", tries[i].resources, tries[i].depth, tries[i].accepted_resources, tries[i].accepted_depth);
		int r = rdma_connect(id, &param);

		add("%s", result(r));
		if (!r)
			child = add_event(served, LONG_WAIT);
		say("%s: request", what);
		if (child) {
			give_qp(child);
			param.responder_resources = tries[i].accepted_resources, param.initiator_depth = tries[i].accepted_depth;
			r = rdma_accept(child, &param);
			add("%s", result(r));
			add_event(channel, r ? 10 * patience : LONG_WAIT);
			say("%s: dialling side", what);
			if (!r) {
				add_event(served, LONG_WAIT);
				say("%s: accepting side", what);
			}
			add_depths(id);
			say("%s: depths of the dialling side", what);
			add_depths(child);
			say("%s: depths of the accepting side", what);
		}
		drop(id);
		drop(child);
		drop(listener);
		for (struct rdma_cm_event *e; (e = next_event(channel, 0)) || (e = next_event(served, 0));)
			rdma_ack_cm_event(e);
	}
}

static void failures(void)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *listener, *id, *child;
	int r;

	open_channels();
	id = routed(channel, RDMA_PS_TCP, 3, 1);
	r = rdma_connect(id, &param);
	add("%s", result(r));
	add_event(channel, r ? 10 * patience : LONG_WAIT);
	say("no listener");
	if (r)
		tell(result(rdma_connect(id, &param)), "no listener: connect again");
	drop(id);

	listener = listening(RDMA_PS_TCP, 5);
	id = routed(channel, RDMA_PS_TCP, port_of(listener), 1);
	rdma_connect(id, &param);
	tell(result(rdma_connect(id, &param)), "connect twice");
	child = add_event(served, LONG_WAIT);
	say("connect twice: request");
	rdma_destroy_id(child);
	add_event(channel, LONG_WAIT);
	say("request destroyed without an answer: dialling side");
	drop(id);

	id = routed(channel, RDMA_PS_TCP, port_of(listener), 1);
	rdma_connect(id, &param);
	child = add_event(served, LONG_WAIT);
	say("client gives up: request");
	drop(id);
	add_events(served, 1);
	say("client gives up: events of the listener");
	give_qp(child);
	tell(result(rdma_accept(child, &param)), "client gives up: accept");
	tell(result(rdma_reject(child, NULL, 0)), "client gives up: reject after accept");
	drop(child);

	id = routed(channel, RDMA_PS_TCP, port_of(listener), 1);
	rdma_connect(id, &param);
	child = add_event(served, LONG_WAIT);
	say("client gives up before reject: request");
	drop(id);
	add_events(served, 1);
	say("client gives up before reject: events of the listener");
	tell(result(rdma_reject(child, NULL, 0)), "client gives up before reject: reject");
	drop(child);

	id = routed(channel, RDMA_PS_TCP, port_of(listener), 0);
	param.qp_num = 0;
	r = rdma_connect(id, &param);
	add("%s", result(r));
	child = add_event(served, r ? 10 * patience : LONG_WAIT);
	say("connect without QP");
	drop(id);
	if (child)
		rdma_destroy_id(child);

	id = routed(channel, RDMA_PS_TCP, port_of(listener), 1);
	rdma_connect(id, &param);
	child = add_event(served, LONG_WAIT);
	say("listener ends: request");
	rdma_reject(child, NULL, 0);
	add_event(channel, LONG_WAIT);
	say("reject: dialling side");
	tell(result(rdma_reject(child, NULL, 0)), "reject again");
	tell(result(rdma_connect(id, &param)), "connect after a rejection");
	drop(id);
	drop(child);

	id = routed(channel, RDMA_PS_TCP, port_of(listener), 1);
	rdma_connect(id, &param);
	usleep(patience * 1000);
	rdma_destroy_id(listener);
	add_event(channel, LONG_WAIT);
	say("listener destroyed with a request that nobody read: dialling side");
	drop(id);
}

static void backlog(void)
{
	open_channels();
	for (int limit = 0; limit < 4; limit++) {
		struct rdma_cm_id *listener = listening(RDMA_PS_TCP, limit), *ids[6], *children[6];
		struct rdma_event_channel *own[6];
		struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
		int n = 0;

		for (unsigned i = 0; i < LEN(ids); i++) {
			own[i] = rdma_create_event_channel();
			ids[i] = routed(own[i], RDMA_PS_TCP, port_of(listener), 1);
			add("%s", result(rdma_connect(ids[i], &param)));
		}
		say("backlog %d: six connects", limit);
		usleep(4 * patience * 1000);
		for (unsigned i = 0; i < LEN(ids); i++)
			add_events(own[i], 1);
		say("backlog %d: events of the six", limit);
		for (struct rdma_cm_event *e; n < (int)LEN(children) && (e = next_event(served, patience)); n++) {
			children[n] = e->id;
			rdma_ack_cm_event(e);
		}
		add("%d", n);
		say("backlog %d: requests", limit);
		for (int i = 0; i < n; i++)
			rdma_destroy_id(children[i]); // first: siw's rdma_destroy_id waits 10 seconds for an answer
		for (unsigned i = 0; i < LEN(ids); i++)
			drop(ids[i]);
		drop(listener);
		for (struct rdma_cm_event *e; (e = next_event(served, 0));)
			rdma_ack_cm_event(e);
	}
}

static void datagrams(void)
{
	struct rdma_conn_param param = {};
	struct rdma_cm_id *listener, *id, *child;

	open_channels();
	id = new_id(served, RDMA_PS_UDP);
	add("%s", result(rdma_bind_addr(id, at(address, 0))));
	tell(result(rdma_listen(id, 1)), "bind and listen");
	drop(id);
	if (!(listener = listening(RDMA_PS_UDP, 5)))
		return;
	for (int answer = 0; answer < 3; answer++) {
		static const char *const names[] = {"accepted", "rejected", "destroyed"};

		id = routed(channel, RDMA_PS_UDP, port_of(listener), 1);
		if (!id) {
			tell("not resolved", "%s", names[answer]);
			continue;
		}
		add("%s", result(rdma_connect(id, &param)));
		child = add_event(served, LONG_WAIT);
		say("%s: request", names[answer]);
		if (!child)
			continue;
		give_qp(child);
		param.qp_num = child->qp ? child->qp->qp_num : 0;
		if (answer == 0)
			add("%s", result(rdma_accept(child, &param)));
		else if (answer == 1)
			add("%s", result(rdma_reject(child, "nothing", 7)));
		else
			drop(child);
		add_event(channel, LONG_WAIT);
		say("%s: asking side", names[answer]);
		add_events(served, 1);
		say("%s: answering side", names[answer]);
		drop(id);
		if (answer < 2)
			drop(child);
	}
	id = routed(channel, RDMA_PS_UDP, 3, 1);
	if (id) {
		add("%s", result(rdma_connect(id, &param)));
		add_event(channel, LONG_WAIT);
		say("no listener");
		drop(id);
	}
	drop(listener);
	id = new_id(channel, RDMA_PS_UDP);
	tell(result(rdma_join_multicast(id, at("239.0.0.9", 0), NULL)), "join without bind");
	rdma_bind_addr(id, at(address, 0));
	add("%s", result(rdma_join_multicast(id, at("239.0.0.9", 0), NULL)));
	add_events(channel, 1);
	say("join without QP");
	drop(id);
	id = new_id(channel, RDMA_PS_UDP);
	rdma_bind_addr(id, at(address, 0));
	give_qp(id);
	add("%s", result(rdma_join_multicast(id, at("239.0.0.9", 0), NULL)));
	add_events(channel, 1);
	say("join");
	add("%s", result(rdma_join_multicast(id, at(address, 0), NULL)));
	add_events(channel, 1);
	say("join an address that is no group");
	tell(result(rdma_leave_multicast(id, at("239.0.0.9", 0))), "leave");
	tell(result(rdma_leave_multicast(id, at("239.0.0.9", 0))), "leave again");
	drop(id);
}

static void file(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK);
	struct {
		uint32_t command;
		uint16_t in, out;
		uint8_t body[512];
	} request = {};

	tell(fd < 0 ? name_of(errno) : "ok", "open");
	for (int command = 0; command < 30; command++) {
		request.command = command;
		tell(write(fd, &request, 8) < 0 ? name_of(errno) : "ok", "command %d of no bytes", command);
		request.in = 512;
		if (command != 7 && command != 12) // they may wait
			tell(write(fd, &request, 8 + 512) < 0 ? name_of(errno) : "ok", "command %d of 512 zeros", command);
		request.in = 600;
		tell(write(fd, &request, 8) < 0 ? name_of(errno) : "ok", "command %d that is longer than it says", command);
		request.in = 0;
	}
	request.command = 99;
	tell(write(fd, &request, 8) < 0 ? name_of(errno) : "ok", "command 99");
	tell(write(fd, &request, 4) < 0 ? name_of(errno) : "ok", "4 bytes");
	tell(write(fd, &request, 0) < 0 ? name_of(errno) : "ok", "no bytes");
	tell(read(fd, &request, 8) < 0 ? name_of(errno) : "ok", "read");
	struct pollfd p = {fd, POLLIN | POLLOUT};

	add("%d", poll(&p, 1, 0));
	add("%#x", p.revents);
	say("poll");
}

const struct group cm_groups[] = {
	{"id", ids}, {"TCP port", tcp_port}, {"option", options}, {"resolve", resolve}, {"private data", private_data}, {"depth", depths}, {"failure", failures},
	{"backlog", backlog}, {"datagram", datagrams}, {"file", file}, {},
};
