#include "pair.h"
#include "bridge.h"

static struct pair pair;

void bridge_connect(struct bridge *b, const char *dev, const char *addr)
{
	pair_connect(&pair, dev, addr);
	b->active = pair.active->qp;
	b->passive = pair.passive->qp;
	b->send_cq = pair.send_cq;
	b->recv_cq = pair.recv_cq;
	b->lkey = pair.mr->lkey;
	b->rkey = pair.mr->rkey;
	b->memory = (uintptr_t)pair.mr->addr;
}

void bridge_hold(int on) { hold_doorbell = on; }

int bridge_doorbell(void)
{
	return pair_doorbell(&pair) ? errno : 0;
}
