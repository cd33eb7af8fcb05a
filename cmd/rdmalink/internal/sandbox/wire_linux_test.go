package sandbox

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/roce"
	"github.com/goverbs/goverbs/rdmatest"
)

// twoSpaces is a script that runs a server and a client, each in a network namespace of its own, with an Ethernet cable
// between. They have the addresses 192.0.2.1 and 192.0.2.2, 2001:db8::1 and 2001:db8::2. OWN and PEER are the devices'.
const twoSpaces = `
unshare -n sleep 1200 & other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do kill -0 $other || exit 1; done
there="nsenter -t $other -n"
ip link add veth0 type veth peer name veth1 netns $other &&
ip addr add 192.0.2.1/24 dev veth0 && $there ip addr add 192.0.2.2/24 dev veth1 &&
ip link set veth0 up && $there ip link set veth1 up || exit 77
ip addr add 2001:db8::1/64 dev veth0 nodad; $there ip addr add 2001:db8::2/64 dev veth1 nodad
$RDMALINK sandbox $OPTIONS --wire $OWN -- $SERVER & export server=$!
until $there $RDMALINK sandbox $OPTIONS --wire $PEER -- $CLIENT; do kill -0 $server || exit 1; done
wait $server
`

// TestWire checks that programs in two sandboxes, in two network namespaces, reach each other over
// UDP, without privileges.
func TestWire(t *testing.T) {
	long(t)
	need(t, "nsenter")
	need(t, "ip")
	faults := filepath.Join(t.TempDir(), "faults")
	if err := os.WriteFile(faults, []byte("loss 0.02\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a key of some bytes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	untilEnd := filepath.Join(t.TempDir(), "sender")
	if err := os.WriteFile(untilEnd, []byte("while kill -0 $server; do mckey -s -C 4 $* || exit 1; done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rdmalink(t)
	onesided := filepath.Join(built, "cmtest") + " onesided"
	for _, c := range []struct{ options, server, client string }{
		{"-d rxe --wire-key " + key + " --faults " + faults, onesided, onesided + " -s 192.0.2.1"},
		{"-d mlx5", onesided, onesided + " -s 192.0.2.1"},
		{"-d rxe", "ibv_rc_pingpong -g 1 -e -c -n 50", "ibv_rc_pingpong -g 1 -e -c -n 50 192.0.2.1"},
		{"-d mlx5 --faults " + faults, "ibv_rc_pingpong -g 1 -e -c -n 50", "ibv_rc_pingpong -g 1 -e -c -n 50 192.0.2.1"},
		{"-d mlx5 --wire-key " + key, "ib_write_bw -x 1 -s 65536 -n 100", "ib_write_bw -x 1 -s 65536 -n 100 192.0.2.1"},
		{"-d rxe", "ib_read_bw -e -x 1 -s 65536 -n 100", "ib_read_bw -e -x 1 -s 65536 -n 100 192.0.2.1"},
		{"-d rxe", "rping -s -C 3 -a 192.0.2.1", "rping -c -v -V -C 3 -a 192.0.2.1"},
		{"-d mlx5 --faults " + faults, "rping -s -C 3 -a 0.0.0.0", "rping -c -v -V -C 3 -a 192.0.2.1"},
		{"-d mlx5", "udaddy -b 192.0.2.1", "udaddy -s 192.0.2.1"},
		{"-d rxe", "ucmatose -b 192.0.2.1", "ucmatose -s 192.0.2.1"},
		{"-d rxe", "ib_send_bw -R -F -n 100", "ib_send_bw -R -F -n 100 192.0.2.1"},
		{"-d rxe --wire-key " + key, "mckey -C 4 -m 239.83.1.3 -b 192.0.2.1", "sh " + untilEnd + " -m 239.83.1.3 -b 192.0.2.2"},
		{"-d mlx5", "mckey -C 4 -m 239.83.1.3 -b 192.0.2.1", "sh " + untilEnd + " -m 239.83.1.3 -b 192.0.2.2"},
		{"-d rxe", "mckey -C 4 -m ff0e::83:9 -b 2001:db8::1", "sh " + untilEnd + " -m ff0e::83:9 -b 2001:db8::2"},
		{"-d mlx5", "rping -s -C 3 -a 2001:db8::1", "rping -c -v -V -C 3 -a 2001:db8::1"},
	} {
		t.Run(c.options+" "+filepath.Base(c.server), func(t *testing.T) {
			need(t, strings.Fields(c.server)[0])
			own, peer := "192.0.2.1", "192.0.2.2"
			if strings.Contains(c.server, "2001:db8::1") {
				own, peer = "2001:db8::1", "2001:db8::2"
				if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
					t.Skip(err)
				}
			}
			flags := "-n"
			if os.Getuid() != 0 {
				flags = "-Urn"
			}
			cmd := exec.CommandContext(t.Context(), "unshare", flags, "sh", "-c", twoSpaces)
			cmd.Env = append(os.Environ(), "RDMALINK="+rdmalink(t), "OPTIONS="+c.options, "SERVER="+c.server, "CLIENT="+c.client, "OWN="+own, "PEER="+peer)
			out, err := cmd.CombinedOutput()
			const noCable = 77
			switch {
			case err != nil && (cmd.ProcessState.ExitCode() == noCable || strings.Contains(string(out), "unshare: ")):
				t.Skipf("no network namespaces here: %s", out)
			case err != nil:
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestWireRefused checks that an address that is not the machine's is refused, with what to do.
func TestWireRefused(t *testing.T) {
	_, err := inside(t, []string{"--wire", "192.0.2.77"}, "true")
	if err == nil || !strings.Contains(err.Error(), "has to be an address of this machine") {
		t.Error(err)
	}
}

// loopback returns one of four addresses that no other process uses: these tests may run twice at once, and their port
// is given.
func loopback(i byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, 64 + byte(pid>>14&63), byte(pid >> 6), byte(pid<<2) + i})
}

// TestWireKey checks that with a key, only datagrams with its seal arrive. Others are counted.
func TestWireKey(t *testing.T) {
	own, peer := loopback(0), loopback(1)
	key := []byte("a key of some bytes")
	open := func(a netip.Addr, key []byte, log *bytes.Buffer) *wire {
		w, err := openWire([]netip.Addr{a}, key, cli.Output{Stderr: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.close)
		return w
	}
	send := func(key []byte, packet string) {
		w := open(peer, key, new(bytes.Buffer))
		w.send(rdmatest.Datagram{Src: peer, Dst: own, SrcPort: roce.Port, Payload: []byte(packet)})
		w.close()
	}
	var log bytes.Buffer
	w := open(own, key, &log)
	got := make(chan string)
	w.receive = func(d rdmatest.Datagram) {
		if d.Src != peer || d.Dst != own || d.SrcPort != roce.Port {
			t.Error(d)
		}
		got <- string(d.Payload)
	}
	go w.serve(w.sockets[own], rdmatest.Datagram{Dst: own})
	send(nil, "open")
	send([]byte("another key, also long"), "sealed with another key")
	send(key, "good")
	if p := <-got; p != "good" {
		t.Errorf("%q arrived", p)
	}
	w.close()
	for _, want := range []string{"a datagram from " + peer.String() + " was dropped: it has no seal of this key", "2 datagrams were dropped"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q, want %s", &log, want)
		}
	}
}

// TestWireNobody checks that an address that no sandbox has is not resolved.
func TestWireNobody(t *testing.T) {
	need(t, "rping")
	out, err := inside(t, []string{"--wire", loopback(0).String()}, "rping", "-c", "-C", "1", "-a", "192.0.2.9")
	if err == nil || !strings.Contains(out, "RDMA_CM_EVENT_ADDR_ERROR") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWireGroup checks that a host receives the datagrams of a multicast group only while it is a member.
func TestWireGroup(t *testing.T) {
	own, group := loopback(0), netip.MustParseAddr("239.83.1.4")
	w, err := openWire([]netip.Addr{own}, nil, cli.Output{Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	got := make(chan rdmatest.Datagram, 8)
	w.receive = func(d rdmatest.Datagram) {
		if d.Src == own {
			d.Payload = bytes.Clone(d.Payload)
			got <- d
		}
	}
	go w.serve(w.sockets[own], rdmatest.Datagram{Dst: own})
	send := func(to netip.Addr, data string) {
		w.send(rdmatest.Datagram{Src: own, Dst: to, SrcPort: roce.Port, Payload: []byte(data)})
	}
	for _, member := range []bool{true, false, true, false} {
		if err := w.join(own, group, member); err != nil {
			t.Fatal(err)
		}
		send(group, "all")
		if member {
			if d := <-got; d.Dst != group || d.Member != own || d.Src != own || string(d.Payload) != "all" {
				t.Errorf("%+v", d)
			}
		}
		send(own, "one")
		if d := <-got; d.Dst != own || d.Member.IsValid() || string(d.Payload) != "one" {
			t.Errorf("%+v", d)
		}
	}
}

// TestWireHeader checks that traffic class, hop limit and flow label cross the network.
func TestWireHeader(t *testing.T) {
	for _, own := range []netip.Addr{loopback(0), netip.IPv6Loopback()} {
		w, err := openWire([]netip.Addr{own}, nil, cli.Output{Stderr: t.Output()})
		if err != nil {
			if own.Is6() {
				t.Skip(err)
			}
			t.Fatal(err)
		}
		t.Cleanup(w.close)
		got := make(chan rdmatest.Datagram)
		w.receive = func(d rdmatest.Datagram) { got <- d }
		go w.serve(w.sockets[own], rdmatest.Datagram{Dst: own})
		for _, sent := range []rdmatest.Datagram{{TrafficClass: 0xff, HopLimit: 3}, {HopLimit: 255, FlowLabel: 0xfedcb}, {TrafficClass: 0x28, HopLimit: 1, FlowLabel: 1}, {HopLimit: 64}, {}} {
			sent.Src, sent.Dst, sent.SrcPort = own, own, roce.Port
			w.send(sent)
			d := <-got
			if sent.HopLimit == 0 {
				sent.HopLimit = d.HopLimit // the machine's, which is not 0
			}
			if own.Is4() {
				sent.FlowLabel = 0
			}
			if d.TrafficClass != sent.TrafficClass || d.HopLimit != sent.HopLimit || d.HopLimit == 0 || d.FlowLabel != sent.FlowLabel {
				t.Errorf("%v: %+v arrived as %+v", own, sent, d)
			}
		}
	}
}
