package rdmacm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// exampleTest takes the place of a *testing.T for devices in software.
type exampleTest struct{}

func (exampleTest) Helper()                           {}
func (exampleTest) Cleanup(func())                    {}
func (exampleTest) Errorf(format string, args ...any) { log.Printf(format, args...) }

// A server and a client, on devices in software. The server sends its name with the connection.
func Example() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	ctx := context.Background()
	lc := rdmacm.ListenConfig{Config: rdmacm.Config{PrivateData: []byte("server 1")}}
	l, err := lc.Listen(context.Background(), fabric.Host(1).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *rdmacm.Conn, 1)
	go func() {
		conn, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		accepted <- conn
	}()
	conn, err := rdmacm.Dial(ctx, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	server := <-accepted
	fmt.Printf("%s: %v\n", conn.PrivateData()[:8], conn.QP().Type())
	if err := conn.Disconnect(); err != nil {
		log.Fatal(err)
	}
	<-server.Done()
	fmt.Println(server.Err())
	conn.Close()
	server.Close()
	// Output:
	// server 1: RC
	// peer disconnected
}

// The lower half: an ID finds the way to an address, from a host in software.
func ExampleEventChannel() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	from, to := netip.MustParseAddr(fabric.Host(0).Addr()), netip.MustParseAddr(fabric.Host(1).Addr())
	ch, err := rdmacm.NewEventChannelFor(from) // NewEventChannel, for the devices of the kernel
	if err != nil {
		log.Fatal(err)
	}
	defer ch.Close()
	id, err := ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC)
	if err != nil {
		log.Fatal(err)
	}
	defer id.Close()
	if err := id.ResolveAddr(netip.AddrPortFrom(from, 0), netip.AddrPortFrom(to, 7471), time.Second); err != nil {
		log.Fatal(err)
	}
	event, err := ch.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.Type)
	event.Ack()
	// Output: ADDR_RESOLVED
}

// An ID listens, and its event channel reports connect requests. This is compiled
// and not run, as are the examples below.
func ExampleID() {
	var ch *rdmacm.EventChannel
	id, err := ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC)
	if err != nil {
		log.Fatal(err)
	}
	defer id.Close()
	if err := id.Bind(netip.MustParseAddrPort("10.0.0.1:7471")); err != nil {
		log.Fatal(err)
	}
	if err := id.Listen(16); err != nil {
		log.Fatal(err)
	}
}

// An event is acknowledged when its ID is no more needed for it.
func ExampleEvent() {
	var ch *rdmacm.EventChannel
	event, err := ch.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer event.Ack()
	if event.Type == rdmacm.EventConnectRequest {
		fmt.Println("a new ID:", event.ID)
	}
}

// A group that is left before the Conn is closed.
func ExampleGroup() {
	var conn *rdmacm.Conn // with a queue pair of type UD
	group, err := conn.JoinMulticast(context.Background(), netip.MustParseAddr("239.1.2.3"), rdmacm.JoinFullMember)
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()
}

// The same with an ID: the event MULTICAST_JOIN reports that it has joined.
func ExampleMulticast() {
	var id *rdmacm.ID
	member, err := id.JoinMulticast(netip.MustParseAddr("239.1.2.3"), rdmacm.JoinSendOnly)
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()
}

// TestServeShared checks that the server of ExampleConfig_sharedReceives answers several clients,
// also the first message of each, and leaves nothing.
func TestServeShared(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.RXE, rdmatest.MLX5} { // erdma has no SRQ
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			dev, err := uverbs.Open(fabric.Host(1).Device(0).Name())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				err := dev.Close()
				for ; errors.Is(err, verbs.ErrInUse); err = dev.Close() { // a connection that nobody accepted closes its own CQ last
					runtime.Gosched()
				}
				if err != nil {
					t.Error(err)
				}
			}()
			ctx, stop := context.WithCancel(t.Context())
			address, served := fabric.Host(1).Addr()+":7471", make(chan error, 1)
			go func() { served <- serveShared(ctx, dev, address) }()
			for client := range 3 {
				if err := askShared(ctx, address, fmt.Sprintf("client %d", client)); err != nil {
					t.Error(err)
				}
			}
			stop()
			if err := <-served; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// askShared dials until the server listens, and sends more messages than its queues have room for.
func askShared(ctx context.Context, address, text string) error {
	answers := func(c *rdmacm.Conn, mr *uverbs.MR) error {
		_, err := c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}})
		return err
	}
	var mr *uverbs.MR
	d := rdmacm.Dialer{Config: rdmacm.Config{Prepare: func(c *rdmacm.Conn) (err error) {
		if mr, err = c.PD().AllocMR(64, verbs.AccessLocalWrite, nil); err != nil {
			return err
		}
		c.Own(mr)
		return answers(c, mr)
	}}}
	c, err := d.Dial(ctx, address)
	for errors.Is(err, syscall.ECONNREFUSED) {
		c, err = d.Dial(ctx, address)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	var wc [1]verbs.WC
	for range 200 {
		if _, err := c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: []byte(text)}}); err != nil {
			return err
		}
		for _, cq := range []*uverbs.CQ{c.SendCQ(), c.RecvCQ()} {
			if _, err := cq.Wait(ctx, wc[:]); err != nil {
				return err
			}
			if err := wc[0].Err(); err != nil {
				return err
			}
		}
		if got := string(mr.Bytes()[:wc[0].ByteLen]); got != text {
			return fmt.Errorf("%q came for %q", got, text)
		}
		if err := answers(c, mr); err != nil {
			return err
		}
	}
	return nil
}
