/* setup ADDRESS:PORT
 * From before the device is opened to the first byte received, as a fresh process
 * sees it: the twin of "scale setup". */
#include "peer.h"

int main(int argc, char **argv)
{
	double start = now();
	struct rdma_event_channel *ch;
	struct sockaddr_in addr;
	struct conn c = {};

	if (argc != 2) {
		fprintf(stderr, "usage: %s ADDRESS:PORT\n", argv[0]);
		return 2;
	}
	parse_address(argv[1], &addr);
	if (!(ch = rdma_create_event_channel()))
		die("create an event channel");
	dial(&c, ch, &addr);
	post_byte(&c);
	take(&c, c.rcq, "receive the first byte");
	printf("{\"measure\":\"set-up time\",\"params\":\"open to first byte\",\"unit\":\"ms\",\"value\":%.4f}\n", (now() - start) * 1e3);
	fflush(stdout);
	rdma_disconnect(c.id);
	free_conn(&c);
	rdma_destroy_event_channel(ch);
	return 0;
}
