package mlx5

import (
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// TestHostileDM checks that memory that would exceed its mapping is refused, and freed.
func TestHostileDM(t *testing.T) {
	w := newWorld(t, nil)
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if start := uint64(3<<12 - 8); call == "DM_ALLOC" {
			ioctl.Answer(r, abi.MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &start)
		}
	}
	if dm, err := w.dev.AllocDM(64, 0); err == nil || !strings.Contains(err.Error(), "at offset 4088 of a page") {
		t.Errorf("%v, %v", dm, err)
	}
	if left := w.k.DMs(); len(left) > 0 {
		t.Errorf("%d DMs are left", len(left))
	}
}
