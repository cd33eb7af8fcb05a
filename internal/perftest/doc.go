// Package perftest speaks with the ib_{send,write,read,atomic}_{lat,bw} of
// perftest 4.5 (Debian 12: 4.5+0.17, which calls itself 6.06), as their client
// or server. It has all messages of the two ends but the traffic that they
// measure. It uses no verbs; package perf does.
//
// # Transport
//
// Without -R the ends talk over one TCP connection, IPv4 only, to port 18515
// (-p). With -R there is no TCP: the client connects an RC queue pair to that
// port by rdma_cm, whatever -c says, without private data, and each message is
// a SEND on it (Messenger); on siw that works because the ends take turns. Then
// each QP of the test is another rdma_cm connection to the same port, in the
// TCP port space for RC and in the UDP one for UD. The server listens for these
// only after the first SyncCM, and C's client tries ten times, a tenth of a
// second apart. A UD client that will receive, in lat and in bw -b, then sends
// 4 bytes on each QP with its QP number as immediate data, because the server
// has no other way to learn the destination; the server posts a receive for
// that before it accepts. UC has no -R.
//
// # Messages
//
// Every message goes both ways, the client's first, and both are as long:
//
//	16 bytes     version, text and NULs                   Greet
//	4            page size, network order
//	4            size of a cache line
//	2            MTU's code, a digit and a NUL
//	address      -R: around the connecting, with zeroes   SyncCM, twice
//	address      of QP 1; lat of write, read and atomic   Meet
//	address      of each QP
//	address      of QP 1; send only                       Ready
//	address      of each QP again
//	address      of QP 1; all but send
//	address      of QP 1; send, and bw -b                 Begin, once a size
//	address      of QP 1; write and read bw -b -a         End, once a size
//	5 × 8        report; bw -b, of send not with -D
//	address      of QP 1; send_bw -a
//	address      of QP 1; write, read and atomic bw       Finish, one direction
//	5 × 8        report
//	address      of QP 1; all but write_lat               Finish
//	5            "done" and a NUL, TCP only, unread
//
// An address is 108 bytes of text over TCP, 59 without GID, or a struct of 56 bytes in network order, 64 when the
// peer's version is 6.29 or newer. Each of a report's numbers is answered before the next. The server's report in one
// direction is uninitialized memory of C's stack.
//
// # Options that are exchanged, and options that both must be given
//
// Exchanged: version, page and cache line size (the larger counts), MTU (-m; the
// smaller counts), outstanding reads (-o; a responder's bounds the requester's
// max_rd_atomic), the place and key of the memory, GIDs (-x; both of IPv4 or
// neither).
//
// Not exchanged, so both ends must be given the same: the program, that is verb and
// measure; the connection type (-c); the size or -a; iterations or duration
// (-n, -D); the number of QPs (-q); both directions (-b); -R; -p; on InfiniBand
// whether -x is used at all; the unit of the report (--report_gbits), where it
// is exchanged; on iWARP the receive queue's length of ib_send_bw (-r), because
// the receiver writes its count to the exchanged address after every third of the
// queue, and the sender never has more than its own -r uncounted. A different -q,
// use of -x or kind of program is mostly detected here, at the first address that
// does not fit. A different -n, -s, -c or -b is not detected, and shows as a test
// that does not end, or as a failed completion.
//
// Each end chooses for itself: sleeping or polling (-e), -t, -Q, -I, -l, -N, -F, -u,
// and in one-sided tests the client's requests (-A).
//
// # Incompatibilities
//
// Versions before 5.70. --dont_xchg_versions, -z, multicast (-g), XRC, DC,
// raw Ethernet, dual ports and reports by port: they send more or fewer messages.
// Later perftest (6.29 was tried; 6.10 and 6.27 were read) sends the same messages for the
// options named here, but no "done", and has more options, such as --write_with_imm. From 6.28 on it compares
// the options of both ends, but only with a peer that gives such a version too. The version given here is older,
// because the size of that message depends on how perftest was built.
package perftest
