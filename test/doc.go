// Package test describes the tests that need a kernel with RDMA: end to end, against
// rdma-core's tools, and of answers that no fake can give. The directories siw, rxe,
// device, cm, stream, msg, netlink, tool and perf hold them, one package each, and kit
// has their common functions. They have the build tag vm and run on stock Debian
// kernels in QEMU, as `make vm` does:
//
//	make fetch build grpc valkey
//	bin/vm test -kernel 6.12 ./test/rxe
//
// The tests of this package itself run on the host and check tables of those tests.
package test
