// Package perf measures latency and bandwidth of SEND, RDMA WRITE, RDMA READ and
// atomics between two ends, as perftest's programs do, with which it also talks:
// the exchange is theirs (internal/perftest), and so are the meaning of each
// option and of each figure, so that results stand side by side.
//
// No flags and no printing here. The measured loops allocate nothing.
package perf
