//go:build vm

package tool

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// example is one of the programs in examples/.
func example(name string, args ...string) *exec.Cmd {
	kit.CopyToGuest("../../bin/"+name, nearExamples)
	return exec.Command("../../bin/"+name, args...)
}

var nearExamples = make(map[string]bool)

// prints runs a program to its end and checks its output.
func prints(t *testing.T, cmd *exec.Cmd, pattern string) {
	t.Helper()
	end := kit.Launch(t, cmd).End()
	if end.Code != 0 || !regexp.MustCompile("^(?:"+pattern+")$").MatchString(end.Out) {
		t.Errorf("%v: %+v", cmd.Args, end)
	}
}

// stopped ends a server, which must not have failed before.
func stopped(t *testing.T, server *kit.Running) kit.Output {
	t.Helper()
	kit.OK(t, server.Process.Signal(syscall.SIGTERM))
	end := server.End()
	if end.Err != "" {
		t.Errorf("%v: %+v", server.Args, end)
	}
	return end
}

// overBothLinks runs a test on siw and on rxe, at 10.78.0.1.
func overBothLinks(t *testing.T, test func(t *testing.T, typ string)) {
	kit.Only612(t)
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			kit.CMLink(t, typ)
			kit.NoLeak(t)
			test(t, typ)
		})
	}
}

const exampleAt = "10.78.0.1:7471"

func TestExampleKV(t *testing.T) {
	overBothLinks(t, func(t *testing.T, _ string) {
		server := kit.ServeCM(t, example("kv", "-dev", "cmlink", "-listen", exampleAt), "7471")
		prints(t, example("kv", exampleAt, "put", "colour", "red"), "")
		prints(t, example("kv", exampleAt, "put", "size", "17"), "")
		prints(t, example("kv", exampleAt, "get", "colour"), "red\n")
		prints(t, example("kv", exampleAt, "put", "colour", "blue"), "")
		prints(t, example("kv", exampleAt, "get", "colour"), "blue\n")
		prints(t, example("kv", exampleAt, "get", "size"), "17\n")
		end := kit.Launch(t, example("kv", exampleAt, "get", "shape")).End()
		if end.Code == 0 || !strings.Contains(end.Err, `no value for key "shape"`) {
			t.Errorf("%+v", end)
		}
		stopped(t, server)
	})
}

func TestExampleEcho(t *testing.T) {
	overBothLinks(t, func(t *testing.T, typ string) {
		conns := map[string]int{"siw": 10, "rxe": 50}[typ] // a thousand take minutes here
		n := fmt.Sprint(conns)
		few := map[string]string{"siw": "[0-9]+", "rxe": "[1-4]?[0-9]"}[typ] // fewer than connections, if those are many
		server := kit.ServeCM(t, example("echo", "-dev", "cmlink", "-listen", exampleAt, "-conns", n), "7471")
		prints(t, example("echo", "-dev", "cmlink", "-conns", n, "-rounds", "2", exampleAt),
			fmt.Sprintf("%d connections, %s goroutines\n%d of %d messages came back\n", conns, few, 2*conns, 2*conns))
		end := stopped(t, server)
		if last := "50 connections were made; there are "; typ == "rxe" && !strings.Contains(end.Out, last) {
			t.Errorf("%+v", end)
		}
	})
}

func TestExampleExporter(t *testing.T) {
	overBothLinks(t, func(t *testing.T, typ string) {
		server := kit.ServePort(t, example("exporter", "-listen", "127.0.0.1:9879"), 9879)
		resp := kit.Must(http.Get("http://127.0.0.1:9879/metrics"))(t)
		defer http.DefaultClient.CloseIdleConnections()
		page := string(kit.Must(io.ReadAll(resp.Body))(t))
		resp.Body.Close()
		for _, want := range []string{
			`rdma_port_active{device="cmlink",port="1",netdev="cmdummy"} 1`,
			`rdma_objects{device="cmlink",kind="qp"} ` + map[string]string{"siw": "0", "rxe": "1"}[typ],
		} {
			if !strings.Contains(page, want+"\n") {
				t.Errorf("no %s in\n%s", want, page)
			}
		}
		counts := strings.Contains(page, `rdma_port_counter_total{device="cmlink",port="1",counter="sent_pkts"} `)
		if counts != (typ == "rxe") {
			t.Errorf("counters: %v in\n%s", counts, page)
		}
		stopped(t, server)
	})
}

func TestExampleUDPing(t *testing.T) {
	kit.Only612(t)
	kit.CMLink(t, "rxe")
	kit.NoLeak(t)
	server := kit.ServeCM(t, example("udping", "-listen", exampleAt), "7471")
	prints(t, example("udping", "-n", "3", exampleAt), "answer 0 after .*\nanswer 1 after .*\nanswer 2 after .*\n")
	stopped(t, server)
}

func TestExampleWeb(t *testing.T) {
	overBothLinks(t, func(t *testing.T, _ string) {
		dir := t.TempDir()
		kit.OK(t, os.WriteFile(filepath.Join(dir, "page.txt"), []byte("by RDMA\n"), 0o600))
		server := kit.ServeCM(t, example("web", "-listen", exampleAt, "-dir", dir), "7471")
		prints(t, example("web", "http://"+exampleAt+"/page.txt"), "by RDMA\n")
		end := kit.Launch(t, example("web", "http://"+exampleAt+"/nothing")).End()
		if end.Code == 0 || !strings.Contains(end.Err, "404 Not Found") {
			t.Errorf("%+v", end)
		}
		stopped(t, server)
	})
}
