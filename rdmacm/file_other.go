//go:build !linux

package rdmacm

import "github.com/goverbs/goverbs/uverbs"

func openFile() (kernelFile, error) {
	return nil, &OpError{Op: "open", Object: "rdma_cm", Err: uverbs.ErrNotSupported,
		Hint: "RDMA connection management exists on Linux only"}
}
