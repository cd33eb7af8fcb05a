//go:build vm

package cm

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// cmProgram returns a test program of librdmacm, or the one in Go that stands in for it.
func cmProgram(side, name, line string) *exec.Cmd {
	words := append([]string{name}, strings.Fields(line)...)
	if side == "Go" {
		words = append([]string{kit.CMTestBin}, words...)
	}
	return exec.Command(words[0], words[1:]...)
}

// cmPairs lists the pairs of server and client.
var cmPairs = [][2]string{{"C", "Go"}, {"Go", "C"}, {"Go", "Go"}}

// cmProgrammed checks the output of a program.
func cmProgrammed(t *testing.T, side string, r *kit.Running) (out kit.Output) {
	t.Helper()
	if out = r.End(); out.Code != 0 || side == "Go" && out.Err != "" {
		t.Error(r.Brief(out), out.Out)
	}
	return out
}

// cmExchange runs a server and a client with the same options.
func cmExchange(t *testing.T, pair [2]string, name, port, host, line string) {
	t.Helper()
	kit.NoLeak(t)
	s := kit.ServeCM(t, cmProgram(pair[0], name, "-b "+host+line), port)
	cmProgrammed(t, pair[1], kit.Launch(t, cmProgram(pair[1], name, "-s "+host+line)))
	cmProgrammed(t, pair[0], s)
}

// TestUcmatose runs many connections that migrate, and long messages. The test doesn't use siw, where ucmatose
// sometimes fails, also with C at both ends (README.md, "What siw does").
func TestUcmatose(t *testing.T) {
	kit.CMLink(t, "rxe")
	for _, pair := range cmPairs[:2] {
		for _, line := range kit.FewElsewhere([]string{" -c 100 -m", " -c 2 -C 20 -S 5000"}, 1) {
			t.Run(fmt.Sprint(pair, line), func(t *testing.T) {
				cmExchange(t, pair, "ucmatose", "7471", "10.78.0.1", line)
			})
		}
	}
}

// TestUcmatoseOptions tests IPv6, the other port space, the type of service and the acknowledgement time-out.
func TestUcmatoseOptions(t *testing.T) {
	kit.Only612(t)
	kit.CMLink(t, "rxe")
	for i, pair := range cmPairs {
		t.Run(fmt.Sprint(pair), func(t *testing.T) {
			cmExchange(t, pair, "ucmatose", "7471", "fd78::1", []string{" -f ip -a 14 -t 0x20", " -C 0", " -m -S 1 -C 1"}[i])
		})
	}
	t.Run("port space ib", func(t *testing.T) {
		cmExchange(t, [2]string{"Go", "Go"}, "ucmatose", "7471", "10.78.0.1", " -P ib -c 4 -C 5 -S 64")
	})
}

// TestCmtime runs clients and servers in C and in Go. A server continues after a client.
func TestCmtime(t *testing.T) {
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			kit.CMLink(t, typ)
			for _, side := range []string{"C", "Go"} {
				t.Run(side+" serves", func(t *testing.T) {
					kit.NoLeak(t)
					server := kit.ServeCM(t, cmProgram(side, "cmtime", "-b 10.78.0.1"), "7471")
					listeners := idsCM(t, server.Process.Pid)
					for _, client := range []string{"C", "Go"} {
						if client == side && side == "C" {
							continue
						}
						out := cmProgrammed(t, client, kit.Launch(t, cmProgram(client, "cmtime", "-s 10.78.0.1 -b 10.78.0.1 -c 20")))
						for _, step := range []string{"create id", "bind addr", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"} {
							if !strings.Contains(out.Out, "\n"+step) {
								t.Errorf("no %s in %s", step, out.Out)
							}
						}
					}
					if side == "C" { // it serves until it is killed
						kit.OK(t, server.Process.Kill())
						server.End()
						return
					}
					// An interrupt also ends connections that the client has closed unnoticed by the server.
					kit.Until(t, "served", func() bool { return idsCM(t, server.Process.Pid) == listeners })
					kit.OK(t, server.Process.Signal(syscall.SIGTERM))
					if out := cmProgrammed(t, side, server); out.Out != "cmtime: 40 connections served\n" {
						t.Errorf("%+v", out)
					}
				})
			}
		})
	}
}

// TestRdmaClientServer checks that librdmacm's smallest programs and ours exchange a message of 16 bytes in each
// direction, or send one.
func TestRdmaClientServer(t *testing.T) {
	for _, typ := range []string{"siw", "rxe"} {
		t.Run(typ, func(t *testing.T) {
			kit.CMLink(t, typ)
			for _, pair := range kit.FewElsewhere(cmPairs, 2) {
				for server, client := range map[string]string{"rdma_server -s 10.78.0.1": "rdma_client", "rdma_xserver -c r": "rdma_xclient -c r"} {
					t.Run(fmt.Sprint(pair, server), func(t *testing.T) {
						kit.NoLeak(t)
						name, line, _ := strings.Cut(server, " ")
						s := kit.ServeCM(t, cmProgram(pair[0], name, line+" -p 7472"), "7472")
						name, line, _ = strings.Cut(client, " ")
						c := kit.Launch(t, cmProgram(pair[1], name, line+" -s 10.78.0.1 -p 7472"))
						cmProgrammed(t, pair[1], c)
						cmProgrammed(t, pair[0], s)
					})
				}
			}
		})
	}
}

// TestUdaddy exchanges datagrams in both directions, of one byte and of the maximum length.
func TestUdaddy(t *testing.T) {
	kit.CMLink(t, "rxe")
	for _, pair := range cmPairs[:2] {
		for _, line := range kit.FewElsewhere([]string{"10.78.0.1 -c 3", "10.78.0.1 -C 1 -S 1", "fd78::1 -C 40 -S 1024 -t 8"}, 1) {
			t.Run(fmt.Sprint(pair, line), func(t *testing.T) {
				host, options, _ := strings.Cut(line, " ")
				cmExchange(t, pair, "udaddy", "7174", host, " "+options)
			})
		}
	}
}

// TestCMProgramsRefused checks the messages for impossible requests.
func TestCMProgramsRefused(t *testing.T) {
	kit.Only612(t)
	kit.CMLink(t, "rxe")
	kit.NoLeak(t)
	for line, want := range map[string]string{
		"ucmatose -s 10.78.0.1":                    "no listener on that port",
		"ucmatose -b 192.0.2.77":                   "bind 192.0.2.77:7471",
		"udaddy -s 10.78.0.1":                      "no listener on that port",
		"udaddy -s 10.78.0.1 -S 5000":              "a datagram on cmlink has at most 1024 bytes, -S says 5000",
		"mckey -m 239.83.1.9 -b 10.78.0.1 -S 5000": "a datagram on cmlink has at most 1024 bytes, -S says 5000",
		"mckey -m 239.83.1.9 -b 10.78.0.1 -l":      "create QP on cmlink (driver rxe): operation not supported",
		"mckey -m 10.78.0.9 -b 10.78.0.1":          "not a multicast address",
		"cmtime -c 3 -s 10.78.0.1":                 "connect: connection rejected: no listener on that port",
		"rdma_client -s 10.78.0.1":                 "no listener on that port",
		"rdma_xclient -s 10.78.0.1":                "no listener on that port",
	} {
		out := kit.Launch(t, exec.Command(kit.CMTestBin, strings.Fields(line)...)).End()
		t.Logf("%s: %s%s", line, out.Err, out.Out)
		if out.Code != 1 || !strings.Contains(out.Err, want) {
			t.Errorf("%s: %+v", line, out)
		}
	}
}
