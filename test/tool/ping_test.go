//go:build vm

package tool

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func pingHost(words ...string) *exec.Cmd {
	return exec.Command(kit.RdmalinkBin, append([]string{"ping", "-i", "0"}, words...)...)
}

// TestPing checks that rdmalink ping has its answers from C's server and from ours, on both drivers, and says so in
// text and in JSON.
func TestPing(t *testing.T) {
	kit.Only612(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			kit.CMLink(t, typ)
			for _, program := range []string{"C", "Go"} {
				t.Run(program, func(t *testing.T) {
					kit.NoLeak(t)
					server := kit.ServeCM(t, kit.Rping(program, "-s -P -S 65535 -a 10.78.0.1"), "7174")
					text := kit.Launch(t, pingHost("-c", "3", "10.78.0.1")).End()
					if text.Code != 0 || text.Err != "" || strings.Count(text.Out, "64 bytes from 10.78.0.1: seq=") != 3 ||
						!strings.Contains(text.Out, "3 pings, 3 answered, 0% lost") || !strings.HasPrefix(text.Out, "PING 10.78.0.1 (10.78.0.1:7174) over cmlink: 64 bytes") {
						t.Errorf("%+v", text)
					}
					long := kit.Launch(t, pingHost("-c", "2", "-s", "65535", "-j", "10.78.0.1")).End()
					var got struct {
						Device         string
						Sent, Answered int
						P50            float64 `json:"p50_usec"`
					}
					if err := json.Unmarshal([]byte(long.Out), &got); err != nil || long.Code != 0 || got.Sent != 2 || got.Answered != 2 || got.Device != "cmlink" || got.P50 <= 0 {
						t.Errorf("%+v, %v", long, err)
					}
					kit.OK(t, server.Process.Signal(syscall.SIGKILL))
					server.End()
				})
			}
		})
	}
}

// TestPingComesBack checks that pings are lost while no server is there, and answered again when one is; an interrupt
// ends with the summary.
func TestPingComesBack(t *testing.T) {
	kit.CMLink(t, "rxe")
	kit.NoLeak(t)
	alone := kit.Launch(t, pingHost("-c", "1", "10.78.0.1")).End()
	if alone.Code != 1 || !strings.Contains(alone.Err, "no answer from 10.78.0.1: ") || !strings.Contains(alone.Err, "rdmalink rping -s -P") || !strings.Contains(alone.Out, "1 pings, 0 answered, 100% lost") {
		t.Errorf("%+v", alone)
	}
	serve := func() *kit.Running { return kit.ServeCM(t, kit.Rping("Go", "-s -P -a 10.78.0.1"), "7174") }
	until := func(client *kit.Running, what string) {
		t.Helper()
		for {
			line, err := client.Out.ReadString('\n')
			if err != nil {
				t.Fatalf("no line with %q: %v", what, err)
			}
			if strings.Contains(line, what) {
				return
			}
		}
	}
	first := serve()
	client := kit.Launch(t, exec.Command(kit.RdmalinkBin, "ping", "-i", "0.05", "-W", "60", "10.78.0.1"))
	until(client, "bytes from")
	kit.OK(t, first.Process.Signal(syscall.SIGKILL))
	first.End()
	until(client, "lost: seq=")
	second := serve()
	until(client, "PING 10.78.0.1")
	until(client, "bytes from")
	kit.OK(t, client.Process.Signal(syscall.SIGINT))
	if end := client.End(); end.Code != 0 || !strings.Contains(end.Out, "--- 10.78.0.1 RDMA ping statistics ---") {
		t.Errorf("%+v", end)
	}
	kit.OK(t, second.Process.Signal(syscall.SIGTERM))
	second.End()
}
