package sandbox

import (
	"strings"
	"testing"
)

// TestResources checks that programs see each other's objects by netlink, and that a change which the
// sandbox doesn't make is refused.
func TestResources(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	rdma := rdmalink(t)
	out, err := inside(t, []string{"-d", "mlx5"}, "sh", "-c", strings.ReplaceAll(`ibv_rc_pingpong -g 1 >/dev/null & pid=$!
		until RDMA resource show qp | grep INIT; do kill -0 $pid || exit 1; done
		RDMA resource show; RDMA resource show ctx; RDMA resource show cq; RDMA resource show pd; RDMA resource show mr
		RDMA qp states | grep $pid
		RDMA statistic show || exit 1
		kill $pid; wait $pid
		RDMA resource show
		for change in "dev set mlx5_0 name other" "dev set mlx5_0 netns $$" "link add siw9 type siw netdev lo" "link del mlx5_0" "system set netns exclusive" \
			"statistic qp set link mlx5_0/1 auto type on"; do
			RDMA $change && exit 1
		done
		RDMA dev | grep -c mlx5_0`, "RDMA", rdma))
	if err != nil {
		t.Fatal(err, out)
	}
	for _, want := range []string{"link mlx5_0/1 lqpn 2 ", "pd 1 cq 1 qp 1 cm_id 0 mr 1 ctx 1 srq 0", "pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0",
		"mrlen 4096", "cqn ", "  INIT   mlx5_0 lqpn 2 RC pid "} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing about %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "comm ibv_rc_pingpong"); n != 5 {
		t.Errorf("%d objects have an owner:\n%s", n, out)
	}
	if n := strings.Count(out, "not supported"); n != 5 || !strings.Contains(out, "it belongs to hardware") {
		t.Errorf("%d changes are not supported:\n%s", n, out)
	}
}
