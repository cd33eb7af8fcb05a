//go:build vm

package tool

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// TestGuestPeers proves the guest before anything of ours does: rdma-core's own
// rping moves verified data over a siw link, and the kernel loaded the driver by
// itself when iproute2 asked for the link.
func TestGuestPeers(t *testing.T) {
	kit.NeedSiw(t)
	if os.Getenv("GOVERBS_VM") == "" {
		t.Fatal("this is not the test machine: run it with go test -exec 'bin/vm run --'")
	}
	kit.Sh(t, "ip link add rigdummy type dummy")
	t.Cleanup(func() { kit.Sh(t, "ip link del rigdummy") })
	kit.Sh(t, "ip addr add 10.77.0.1/24 dev rigdummy && ip link set rigdummy up")
	kit.Sh(t, "rdma link add rigsiw type siw netdev rigdummy")
	t.Cleanup(func() { kit.Sh(t, "rdma link del rigsiw") })
	if links := kit.Sh(t, "rdma link show rigsiw/1"); !strings.Contains(links, "state ACTIVE") {
		t.Errorf("link: %s", links)
	}
	rpingOver(t, "10.77.0.1")
}

// rpingOver runs rdma-core's rping with itself over an address of siw.
func rpingOver(t *testing.T, addr string) {
	t.Helper()
	text := kit.RpingText(t, serveRping, "C", "C", "-C 10 -v", addr)
	if n := strings.Count(text[1], "ping data: rdma-ping-"); n != 10 {
		t.Errorf("%d pings, want 10\n%s", n, text)
	}
}

// TestRpingOwnQP checks that -q makes no difference to the peer, one client or many. C's has it on RoCE only: its queue
// pair asks for a P_Key.
func TestRpingOwnQP(t *testing.T) {
	kit.Only612(t)
	for typ, pairs := range map[string][][2]string{
		"siw": {{"C", "Go -q"}, {"Go -q", "C"}, {"Go -q", "Go -q"}},
		"rxe": {{"C -q", "Go -q"}, {"Go -q", "C -q"}, {"Go", "Go -q"}, {"Go -q", "Go"}},
	} {
		t.Run(typ, func(t *testing.T) {
			kit.CMLink(t, typ)
			run := func(who, line string) (string, string) {
				program, q, _ := strings.Cut(who, " ")
				return program, line + " " + q
			}
			for _, pair := range pairs {
				t.Run(fmt.Sprint(pair), func(t *testing.T) {
					kit.NoLeak(t)
					server := kit.ServeCM(t, kit.Rping(run(pair[0], "-s -S 3000 -a 10.78.0.1")), "7174")
					kit.Pinged(t, server, kit.Launch(t, kit.Rping(run(pair[1], "-c -V -C 10 -S 3000 -a 10.78.0.1"))))
				})
			}
			t.Run("many", func(t *testing.T) {
				kit.NoLeak(t)
				server := kit.ServeCM(t, kit.Rping("Go", "-s -P -q -d"), "7174")
				var clients []*kit.Running
				for _, addr := range []string{"10.78.0.1", "fd78::1"} {
					for _, who := range []string{"C", "Go", "Go -q"} {
						clients = append(clients, kit.Launch(t, kit.Rping(run(who, "-c -V -C 5 -a "+addr))))
					}
				}
				for _, c := range clients {
					if out, _ := kit.RpingEnd(c); out.Code != 0 {
						t.Error(c.Brief(out))
					}
				}
				kit.OK(t, server.Process.Signal(syscall.SIGTERM))
				out := server.End()
				if n := strings.Count(out.Err, "RDMA_WRITE of 64 bytes is done"); out.Code != 0 || out.Out != "" || n != 30 || strings.Count(out.Err, "connected: ") != 6 {
					t.Errorf("%d writes, %+v", n, out)
				}
			})
		})
	}
}

// offer is a message of rping's: 16 bytes that say where size bytes are. They
// begin at kit.SendFrom+64 of the end's memory.
func offer(e *kit.End, rkey uint32, size int) []byte {
	b := binary.BigEndian.AppendUint64(nil, e.MR.Addr()+kit.SendFrom+64)
	b = binary.BigEndian.AppendUint32(b, rkey)
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

func announce(e *kit.End, message []byte) {
	e.T.Helper()
	copy(e.MR.Bytes()[kit.SendFrom:], message)
	e.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.MR.SGE(kit.SendFrom, len(message))}})
	e.Sent("0 SEND success")
}

// offered waits for message i and returns a request for the peer's buffer.
func offered(e *kit.End, i int) verbs.SendWR {
	e.T.Helper()
	if wc := e.Next(e.RecvCQ()); wc.Status != verbs.StatusSuccess || wc.ByteLen != 16 {
		e.T.Fatalf("message %d: %+v", i, wc)
	}
	b := e.MR.Bytes()[i*kit.RecvSize:]
	return verbs.SendWR{RemoteAddr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:])}
}

// TestRpingBadServer checks that the client detects the fault and names it.
func TestRpingBadServer(t *testing.T) {
	kit.Fabric(t)
	for _, test := range []struct {
		name  string
		serve func(e *kit.End)
		want  string
	}{
		{"leaves", func(e *kit.End) { offered(e, 0) },
			"ping 0: waiting for the server to read the data: peer disconnected"},
		{"leaves half-way", func(e *kit.End) { offered(e, 0); announce(e, make([]byte, 16)); offered(e, 1) },
			"ping 0: waiting for the server to write the data back: peer disconnected"},
		{"short message", func(e *kit.End) { offered(e, 0); announce(e, make([]byte, 8)); e.Ended() },
			"ping 0: waiting for the server to read the data: the peer is not rping: a message of 8 bytes, not rping's 16"},
		{"long message", func(e *kit.End) { offered(e, 0); announce(e, make([]byte, 17)); e.Ended() },
			"ping 0: waiting for the server to read the data: complete work request "},
		{"writes something else", func(e *kit.End) {
			offered(e, 0)
			announce(e, make([]byte, 16))
			wr := offered(e, 1)
			wr.Opcode, wr.Flags, wr.SGL = verbs.OpRDMAWrite, verbs.SendSignaled, []verbs.SGE{e.MR.SGE(kit.SendFrom, 64)}
			e.Post(wr)
			e.Sent("0 RDMA_WRITE success")
			announce(e, make([]byte, 16))
			e.Ended()
		}, "ping 0: data mismatch: what came back is not what was sent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit.NoLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
			defer cancel()
			ln := kit.Must(rdmacm.Listen(t.Context(), kit.DummyIPv4+":7174"))(t)
			defer ln.Close()
			client := kit.Launch(t, kit.Rping("Go", "-c -V -C 2 -a "+kit.DummyIPv4))
			e := &kit.End{T: t}
			e.Conn = kit.Must(kit.Must(ln.Next(ctx))(t).Accept(ctx, e.Config(kit.Setup{Recvs: 4})))(t)
			test.serve(e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if out := client.End(); out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: "+test.want) {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestRpingBadClient checks that the server detects the fault and names it. A text without a NUL is not bad: as much as
// was read is written back.
func TestRpingBadClient(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	for _, test := range []struct {
		name string
		ping func(e *kit.End)
		want string
	}{
		{"leaves", func(e *kit.End) { announce(e, offer(e, e.MR.RKey(), 30)); offered(e, 0) },
			"ping 0: waiting for the address to write to: peer disconnected"},
		{"too much", func(e *kit.End) { announce(e, offer(e, e.MR.RKey(), 65536)); e.Ended() },
			"ping 0: the client offers 65536 bytes, the limit is 65535"},
		{"short message", func(e *kit.End) { announce(e, []byte("hello")); e.Ended() },
			"ping 0: the peer is not rping: a message of 5 bytes, not rping's 16"},
		{"long message", func(e *kit.End) { announce(e, make([]byte, 17)); e.Ended() },
			"ping 0: "},
		{"wrong key to read", func(e *kit.End) { announce(e, offer(e, ^e.MR.RKey(), 30)); e.Ended() },
			"ping 0: RDMA READ of 30 bytes: "},
		{"nothing", func(e *kit.End) {}, ""},
		{"no NUL", func(e *kit.End) {
			memory := e.MR.Bytes()[kit.SendFrom+64:]
			copy(memory, "thirty bytes and no NUL at all")
			announce(e, offer(e, e.MR.RKey(), 30))
			offered(e, 0)
			copy(memory, make([]byte, 31))
			announce(e, offer(e, e.MR.RKey(), 31))
			offered(e, 1)
			if got := string(memory[:31]); got != "thirty bytes and no NUL at all\x00" {
				t.Errorf("%q came back", got)
			}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit.NoLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
			defer cancel()
			server := serveRping(t, kit.Rping("Go", "-s"))
			e := &kit.End{T: t}
			e.Conn = kit.Must((&rdmacm.Dialer{Config: *e.Config(kit.Setup{Recvs: 4})}).Dial(ctx, kit.DummyIPv4+":7174"))(t)
			test.ping(e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			out := server.End()
			t.Logf("%s", out.Err)
			if want := test.want; want == "" && out.Code != 0 || want != "" && (out.Code != 1 || !strings.HasPrefix(out.Err, "rdmalink: "+want)) {
				t.Errorf("%+v", out)
			}
		})
	}
}

// serveRping starts a server and waits until its port listens, in its network
// namespace: siw listens with TCP. A client that comes too early is refused, and
// C's then never ends.
func serveRping(t *testing.T, cmd *exec.Cmd) *kit.Running { return kit.ServePort(t, cmd, 7174) }

// TestRping is every pair of programs over every kind of link, long enough on one
// of them for every wrap of the queues. Four connections go on side by side
// unless they poll: there is one CPU, and two links are enough then.
func TestRping(t *testing.T) {
	kit.Fabric(t)
	most := 100
	if !kit.OnKernel("6.12") {
		most = 40
	}
	type pair struct {
		server, client string
		sideBySide     bool
	}
	for _, pair := range kit.FewElsewhere([]pair{
		{"C", "Go", true}, {"Go", "C", true}, {"Go", "Go", true},
		{"C", "Go poll", false}, {"Go poll", "C", false}, {"Go poll", "Go poll", false},
	}, 2) {
		t.Run(fmt.Sprintf("%s serves %s", pair.server, pair.client), func(t *testing.T) {
			kit.NoLeak(t)
			var ends [][2]*kit.Running
			addrs := kit.FewElsewhere([]string{kit.DummyIPv4, kit.FarIPv6, kit.FarIPv4, kit.DummyIPv6}, 2)
			if !pair.sideBySide {
				addrs = addrs[:2]
			}
			for i, addr := range addrs {
				port := 7174 + i
				line := fmt.Sprintf(" -p %d -a %s", port, addr)
				cmd := kit.Rping(pair.server, "-s"+line)
				if addr == kit.FarIPv4 || addr == kit.FarIPv6 {
					cmd = kit.InFarSpace(cmd)
				}
				server := kit.ServePort(t, cmd, port)
				count := 20
				if addr == kit.DummyIPv4 {
					count = most
				}
				client := kit.Launch(t, kit.Rping(pair.client, fmt.Sprintf("-c -V -C %d", count)+line))
				if ends = append(ends, [2]*kit.Running{server, client}); !pair.sideBySide {
					kit.Pinged(t, server, client)
				}
			}
			for _, end := range ends {
				if pair.sideBySide {
					kit.Pinged(t, end[0], end[1])
				}
			}
		})
	}
}

// TestRpingText checks that both programs print the same with -v, for each size at and between the limits.
func TestRpingText(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	for _, line := range kit.FewElsewhere([]string{"-C 60 -S 64", "-C 3 -S 23", "-C 4 -S 4096", "-C 4 -S 65535"}, 1) {
		var want [2]string
		for _, pair := range []struct{ server, client string }{
			{"C", "Go"}, {"Go", "C"}, {"Go", "Go"},
		} {
			t.Run(fmt.Sprintf("%s serves %s %s", pair.server, pair.client, line), func(t *testing.T) {
				kit.NoLeak(t)
				got := kit.RpingText(t, serveRping, pair.server, pair.client, "-v "+line, kit.DummyIPv4)
				if want[0] == "" {
					want = got
				}
				if got[0] == "" || got != want {
					t.Errorf("not the same:\n%.400q\n%.400q", got, want)
				}
			})
		}
	}
}

// TestRpingWildcard checks that a server on all addresses serves either family, and a client may choose where it comes
// from.
func TestRpingWildcard(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	for _, test := range []struct{ server, listen, client, dial string }{
		{"Go", "", "C", kit.DummyIPv4},
		{"Go", "", "C", kit.DummyIPv6},
		{"Go", "-a 0.0.0.0", "Go", kit.DummyIPv4},
		{"Go", "-a ::", "Go", kit.DummyIPv6},
		{"C", "", "Go", kit.VethIPv4 + " -I " + kit.VethIPv4},
		{"C", "-a ::0", "Go", kit.DummyIPv6 + " -I " + kit.DummyIPv6},
	} {
		t.Run(strings.Join([]string{test.server, test.listen, test.client, test.dial}, " "), func(t *testing.T) {
			kit.NoLeak(t)
			server := serveRping(t, kit.Rping(test.server, "-s "+test.listen))
			kit.Pinged(t, server, kit.Launch(t, kit.Rping(test.client, "-c -V -C 20 -a "+test.dial)))
		})
	}
}

// TestRpingJSON holds the report of either end.
func TestRpingJSON(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	began := time.Now()
	server := serveRping(t, kit.Rping("Go", "-s -j"))
	client := kit.Launch(t, kit.Rping("Go", "-c -j -v -C 7 -S 100 -I "+kit.DummyIPv4+" -a "+kit.DummyIPv4))
	serverOut, clientOut := kit.Pinged(t, server, client)
	type report struct {
		Role, Local, Peer, Device string
		Pings, Bytes              int
		Seconds                   float64
	}
	read := func(text string) (r report) {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil || r.Seconds <= 0 || r.Seconds > time.Since(began).Seconds() || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: %s", err, text)
		}
		r.Seconds = 0
		return r
	}
	gotServer, gotClient := read(serverOut.Out), read(clientOut.Out)
	here := gotClient.Local // a port of the kernel's choice
	want := report{Role: "client", Local: here, Peer: kit.DummyIPv4 + ":7174", Device: kit.DummyLink, Pings: 7, Bytes: 1400}
	if diff := cmp.Diff(want, gotClient); diff != "" || !strings.HasPrefix(here, kit.DummyIPv4+":") {
		t.Error(diff)
	}
	want.Role, want.Local, want.Peer = "server", want.Peer, want.Local
	if diff := cmp.Diff(want, gotServer); diff != "" {
		t.Error(diff)
	}
}

// TestRpingPersistent runs clients side by side, one that breaks off, and an interrupt at the end.
func TestRpingPersistent(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	kit.NoLeak(t)
	server := serveRping(t, kit.Rping("Go", "-s -P"))
	var clients []*kit.Running
	for _, program := range []string{"C", "Go", "Go poll"} {
		clients = append(clients, kit.Launch(t, kit.Rping(program, "-c -V -C 50 -S 1000 -a "+kit.DummyIPv4)))
	}
	for _, c := range clients {
		if out, _ := kit.RpingEnd(c); out.Code != 0 {
			t.Error(c.Brief(out))
		}
	}
	breaks := kit.Launch(t, kit.Rping("Go", "-c -v -a "+kit.DummyIPv4))
	breaks.Until("ping data: rdma-ping-5:")
	breaks.Process.Kill()
	breaks.End()
	if out := kit.Launch(t, kit.Rping("Go", "-c -V -C 5 -a "+kit.DummyIPv4)).End(); out.Code != 0 {
		t.Errorf("after a client was killed: %+v", out)
	}
	server.Process.Signal(syscall.SIGTERM)
	if out := server.End(); out.Code != 0 || out.Out != "" {
		t.Errorf("%+v", out)
	}
}

// TestRpingInterrupt checks that a client without a count ends well, and so does its server; one with a count has
// failed.
func TestRpingInterrupt(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	for _, test := range []struct {
		server, client, line, want string
	}{
		{"C", "Go", "", ""},
		{"Go", "Go", "", ""},
		{"Go poll", "Go poll", "", ""},
		{"Go", "Go", "-C 1000000", "rdmalink: interrupted after "},
	} {
		t.Run(fmt.Sprintf("%s serves %s %s", test.server, test.client, test.line), func(t *testing.T) {
			kit.NoLeak(t)
			server := serveRping(t, kit.Rping(test.server, "-s"))
			client := kit.Launch(t, kit.Rping(test.client, "-c -v -a "+kit.DummyIPv4+" "+test.line))
			client.Until("ping data: rdma-ping-10:")
			client.Process.Signal(syscall.SIGINT)
			out := client.End()
			if !strings.HasPrefix(out.Err, test.want) || (out.Err == "") != (test.want == "") || (out.Code == 0) != (test.want == "") {
				t.Error(client.Brief(out))
			}
			if kit.IsCRping(server) {
				return // its reaction is not tested
			}
			if serverOut := server.End(); serverOut.Code != 0 {
				t.Error(server.Brief(serverOut))
			}
		})
	}
	t.Run("before any client", func(t *testing.T) {
		kit.NoLeak(t)
		server := serveRping(t, kit.Rping("Go", "-s"))
		server.Process.Signal(syscall.SIGINT)
		if diff := cmp.Diff(kit.Output{Err: "rdmalink: interrupted\n", Code: 1}, server.End()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRpingKill checks that whichever of ours loses its peer in the middle says so; nothing is left of one that dies.
// What C's rping makes of that is its own affair.
func TestRpingKill(t *testing.T) {
	kit.Only612(t)
	kit.Fabric(t)
	for _, test := range []struct{ server, client, dies string }{
		{"Go", "C", "client"}, {"Go", "Go", "client"}, {"Go poll", "Go", "client"},
		{"C", "Go", "server"}, {"Go", "Go", "server"}, {"Go", "Go poll", "server"},
		{"C", "Go", "client"}, {"Go", "C", "server"},
	} {
		t.Run(fmt.Sprintf("%s serves %s, the %s dies", test.server, test.client, test.dies), func(t *testing.T) {
			kit.NoLeak(t)
			const line = " -v -S 20000 -C 1000000"
			server := serveRping(t, kit.Rping(test.server, "-s"+line))
			client := kit.Launch(t, kit.Rping(test.client, "-c -a "+kit.DummyIPv4+line))
			victim, survivor := server, client
			if test.dies == "client" {
				victim, survivor = client, server
			}
			survivor.Until("ping data: rdma-ping-0")
			victim.Process.Kill()
			victim.End()
			if kit.IsCRping(survivor) {
				return
			}
			if out := survivor.End(); out.Code != 1 || !strings.Contains(out.Err, "disconnected") {
				t.Error(survivor.Brief(out))
			}
		})
	}
}

// TestRpingRefused holds the words for servers that are not there.
func TestRpingRefused(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	for line, want := range map[string]string{
		"-c -a " + kit.DummyIPv4:                    "refused",
		"-c -a 192.0.2.77":                          "unreachable",
		"-c -a " + kit.DummyIPv4 + " -I 192.0.2.77": "assign",
		"-s -a 192.0.2.77":                          "assign",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
		words := append(kit.Rpings["Go"][1:], strings.Fields(line)...)
		out := kit.RunCommand(t, exec.CommandContext(ctx, kit.Rpings["Go"][0], words...))
		cancel()
		t.Logf("%s: %s", line, out.Err)
		if out.Code != 1 || !strings.Contains(out.Err, want) {
			t.Errorf("%s: %+v", line, out)
		}
	}
}

// TestRpingLo runs rping over lo as rdmalink makes it ready, to the address it gave lo and to
// 127.0.0.1, which C's client reaches only from the former (-I).
func TestRpingLo(t *testing.T) {
	kit.Only612(t)
	kit.NeedSiw(t)
	kit.NewNetns(t)
	if out := kit.Rdmalink(t, "add siwlo type siw netdev lo"); out.Code != 0 {
		t.Fatalf("%+v", out)
	}
	t.Cleanup(func() { kit.Rdmalink(t, "del siwlo") })
	for _, test := range []struct{ server, client, addr string }{
		{"Go", "Go", "192.0.2.1"}, {"Go", "Go", "127.0.0.1"}, {"C", "Go", "127.0.0.1"}, {"Go", "C", "192.0.2.1"},
		{"Go", "C", "127.0.0.1 -I 192.0.2.1"},
	} {
		server := serveRping(t, kit.Rping(test.server, "-s"))
		kit.Pinged(t, server, kit.Launch(t, kit.Rping(test.client, "-c -V -C 20 -a "+test.addr)))
	}
}
