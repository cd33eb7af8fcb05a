//go:build vm

package stream

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestValkey has valkey-server serve Go's clients over rxe: values, pipelines, scripts, messages, blocking
// commands and CLIENT KILL.
func TestValkey(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	const port, password = "6379", "secret"
	programs := kit.Must(filepath.Abs("../../bin/valkey"))(t)
	server := kit.ServeCM(t, exec.Command(filepath.Join(programs, "valkey-server"), "--port", "0", "--rdma-bind", kit.RxeIPv4, "--rdma-port", port,
		"--requirepass", password, "--save", "", "--dir", t.TempDir()), port)
	for _, client := range []string{"goredis", "rueidis", "valkeygo", "redigo"} {
		out := kit.Launch(t, exec.Command(filepath.Join(programs, client), "-password", password, kit.HostPort(kit.RxeIPv4, port))).End()
		if out.Code != 0 || !strings.HasSuffix(out.Out, "kill ok\n") {
			t.Errorf("%s: %+v", client, out)
		}
	}
	kit.OK(t, server.Process.Kill())
	_ = server.End()
}
