/* The setting-up that is the same as the C program's, for rings.go. */
#include <infiniband/verbs.h>
#include <stdint.h>

struct bridge {
	struct ibv_qp *active, *passive;
	struct ibv_cq *send_cq, *recv_cq;
	uint32_t lkey, rkey;
	uint64_t memory;
};

void bridge_connect(struct bridge *b, const char *dev, const char *addr); /* exits when it fails */
void bridge_hold(int on);
int bridge_doorbell(void);
