package perfcmd

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestEFA runs both ends of each test that EFA has, and checks the result.
func TestEFA(t *testing.T) {
	for line, want := range map[string]string{
		"send bw -c SRD":               " 8928       40 ", // of the default of 65536 bytes
		"send bw -c SRD -a":            " 8192       40 ",
		"send bw -c SRD -l 8 -Q 4":     " 8928       40 ",
		"send bw -c SRD -b -q 3 -s 64": " 64         120 ",
		"send bw -c SRD -e -s 1000":    " 1000       40 ",
		"send lat -c SRD -I 32":        " 2       40 ",
		"read bw -c SRD -q 2":          " 65536      80 ",
		"read lat -c SRD -s 100000":    " 100000  40 ",
		"write bw -c SRD":              " 65536      40 ",
		"send bw -c UD":                " 4096       40 ",
		"send lat -c UD":               " 2       40 ",
	} {
		testBothEnds(t, rdmatest.EFA, line, want, "CQ Moderation   : 1\n")
	}
}

// testBothEnds runs both ends of a test on devices of a kind, and checks that the client's output contains each of
// want.
func testBothEnds(t *testing.T, kind rdmatest.Kind, line string, want ...string) {
	t.Run(line, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
		conns := tcpPair(t)
		server := make(chan error, 1)
		go func() {
			_, err := runOver(t, conns[0], f.Host(0).Device(0), line+" -n 40")
			server <- err
		}()
		out, err := runOver(t, conns[1], f.Host(1).Device(0), line+" -n 40 host")
		if serverErr := <-server; err != nil || serverErr != nil {
			t.Errorf("%v, server: %v", err, serverErr)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("no %q in\n%s", text, out)
			}
		}
	})
}

// runOver runs one end on a device. It closes the connection.
func runOver(t *testing.T, conn net.Conn, d *rdmatest.Device, line string) (string, error) {
	defer conn.Close()
	p, out := newSession(t, line)
	dev, err := uverbs.Open(d.Name())
	if err != nil {
		return "", err
	}
	if _, err := p.suits(dev); err != nil {
		return "", err // suits has closed the device
	}
	defer func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = p.over(t.Context(), conn, dev, p.newReport())
	return out.String(), err
}

func tcpPair(t *testing.T) (conns [2]net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if conns[1], err = net.Dial("tcp4", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if conns[0], err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return conns
}

// TestEFARefused checks the errors for what a device does not have. Those of which another device may be capable
// match ErrNotSupported.
func TestEFARefused(t *testing.T) {
	for line, want := range map[string]struct {
		text  string
		other bool
	}{
		"send lat":                {"-c RC: %s has no SEND of this type", true},
		"send bw":                 {"-c RC: %s has no SEND of this type", true},
		"write bw -c UC":          {"-c UC: %s has no RDMA_WRITE of this type", true},
		"atomic bw":               {"%s has no atomics", true},
		"send bw -c SRD -s 8929":  {"-s 8929: %s sends 8928 bytes at most", false},
		"read bw -c SRD -s 1025M": {"-s 1074790400: %s sends 1073741824 bytes at most", false},
	} {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.EFA})
		p, _ := newSession(t, line)
		name := f.Host(0).Device(0).Name()
		dev, err := uverbs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.suits(dev)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf(want.text, name)) || errors.Is(err, verbs.ErrNotSupported) != want.other {
			t.Errorf("%s: %v, want %q", line, err, want.text)
		}
	}
	f := rdmatest.New(t)
	p, _ := newSession(t, "send lat -c SRD")
	dev, err := uverbs.Open(f.Host(0).Device(0).Name())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.suits(dev); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("SRD on soft RoCE: %v", err)
	}
}
