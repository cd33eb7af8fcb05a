// Package test holds the tests that need a kernel with RDMA: end to end,
// against rdma-core's tools, and of what no fake can answer. They have the
// build tag vm and run on stock Debian kernels in QEMU, as `make vm` does:
//
//	make fetch
//	go test -tags vm -exec "$PWD/bin/vm run -kernel 6.12 --" ./test
//
// All are in this one package because each test binary costs a boot.
package test
