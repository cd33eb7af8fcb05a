/* What cgo can't call as it stands: the calls with a bad_wr, which would be on Go's heap. */
#include <infiniband/verbs.h>
#include <stdlib.h>

static inline int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

static inline int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return ibv_post_recv(qp, wr, &bad);
}

static inline int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs) { return ibv_poll_cq(cq, n, wcs); }

static inline int arm_cq(struct ibv_cq *cq) { return ibv_req_notify_cq(cq, 0); }
