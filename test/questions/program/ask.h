// What the programs of this directory share. Each line of output is "GROUP: QUESTION<tab>ANSWER".
// Answers have no numbers that change from run to run, so that machines can be compared line by line.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof(*(a)))
#define MEMORY 65536

struct group {
	const char *name;
	void (*ask)(void);
};

extern const struct group device_groups[], state_groups[], work_groups[], memory_groups[], cm_groups[], change_groups[];

extern const char *device, *address; // of the command line
extern int patience;                 // milliseconds to wait for something that may not come
extern int iwarp;                    // of the device

// The answer is put together with add. say ends it with the question.
void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// tell is both: the answer, and the question.
void tell(const char *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *name_of(int error);     // of an errno
const char *result(int r);          // of a call that returns 0, -1 with errno set, or an errno
const char *made(const void *object); // of a call that returns NULL with errno set
const char *state_name(int state);
const char *state_of(struct ibv_qp *qp);

struct ibv_context *open_device(void);
long now(void); // in milliseconds
int until(long end);

// add_completions adds the completions of a CQ to the answer, until there are so many or none has
// come for a while.
int add_completions(struct ibv_cq *cq, int want);
void add_async(struct ibv_context *context);
int add_events(struct rdma_event_channel *channel, int want);
// wait_together has all that may not come be waited for at the same time, until wait_apart.
void wait_together(void);
void wait_apart(void);

struct end {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *memory;
};

struct shape {
	int depth, retry, rnr, access, shared, cqe;
};

extern const struct shape usual;

struct sockaddr *at(const char *address, int port);
struct rdma_cm_event *next_event(struct rdma_event_channel *channel, int milliseconds);
// connected makes a connection of this process with itself by rdma_cm. It reports whether that worked.
int connected(struct end *client, struct end *server, const struct shape *shape);
int equip(struct end *end, const struct shape *shape);
void part(struct end *end); // frees all that an end has

int post_receive(struct end *end, int id, void *memory, unsigned length, uint32_t lkey);
int post(struct end *end, int id, enum ibv_wr_opcode opcode, void *memory, unsigned length, uint32_t lkey, uint64_t remote, uint32_t rkey, int flags);

struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type);
// own_gid returns the index of the device's GID for IPv4 and RoCE v2, or of its first one.
int own_gid(struct ibv_context *context, union ibv_gid *gid);
// attributes that lead to a state, towards the QP dest of the same device.
struct ibv_qp_attr attributes(struct ibv_context *context, enum ibv_qp_state to, uint32_t dest);
// required is the mask of the attributes that a type of QP needs for a step from the state before.
int required(enum ibv_qp_type type, enum ibv_qp_state to);
// lead takes a QP by hand to a state.
int lead(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t dest);
