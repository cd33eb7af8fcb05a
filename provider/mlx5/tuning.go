package mlx5

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// tuning holds the settings of the environment, in rdma-core's variables.
type tuning struct {
	cqeSize uint32
	short   bool // short messages come in completions
}

// readTuning reads the environment. Unlike rdma-core, it enables short messages in
// completions only on request.
func readTuning() (t tuning, err error) {
	t.cqeSize = cqeSize
	if v := os.Getenv("MLX5_CQE_SIZE"); v != "" {
		n, _ := strconv.Atoi(v)
		if n != cqeSize && n != longCQESize {
			return t, fmt.Errorf("%w: MLX5_CQE_SIZE is %q in the environment, and completions have %d bytes or %d", syscall.EINVAL, v, cqeSize, longCQESize)
		}
		t.cqeSize = uint32(n)
	}
	v, set := os.LookupEnv("MLX5_SCATTER_TO_CQE")
	t.short = set && v != "0"
	return t, nil
}
