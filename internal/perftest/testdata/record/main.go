//go:build linux

// Record prints the messages of the two ends of perftest, for ../transcripts.txt.
// It runs as root on a machine on which it may create RDMA links:
//
//	CGO_ENABLED=0 go build -o bin/record ./internal/perftest/testdata/record
//	bin/vm run -timeout 5m -kernel 6.12 -- bin/record
//
// A proxy stands between client and server. With -R the ends are on siw, whose
// queue pairs are TCP connections; of these the first is the one to look at.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	rxeAddress = "10.84.0.1"
	siwAddress = "10.85.0.1" // rdma_cm finds the device by the address
	serverPort = "18515"
	proxyPort  = "18600"
	setUp      = `set -e
		ip link add gvrecord type dummy
		ip addr add 10.84.0.1/24 dev gvrecord
		ip link set gvrecord up
		ip link add gvrecsiw type dummy
		ip addr add 10.85.0.1/24 dev gvrecsiw
		ip link set gvrecsiw up
		bin/rdmalink add recrxe type rxe netdev gvrecord
		bin/rdmalink add recsiw type siw netdev gvrecsiw`
	patience = time.Minute
)

// sessions are perftest's command lines.
var sessions = []string{
	"ib_send_lat -d recrxe -x 1 -n 20 -s 8",
	"ib_send_lat -d recrxe -x 1 -n 20 -s 8 -c UD",
	"ib_send_lat -d recrxe -x 1 -n 5 -a -c UC -m 256",
	"ib_send_bw -d recrxe -x 1 -n 20 -s 1024 -q 2",
	"ib_send_bw -d recrxe -x 1 -n 20 -a -b -c UD",
	"ib_send_bw -d recrxe -x 1 -n 20 -b",
	"ib_write_lat -d recrxe -x 1 -n 20 -s 8",
	"ib_write_bw -d recrxe -x 1 -n 20 -s 1024",
	"ib_write_bw -d recrxe -x 1 -n 20 -a -b -q 2",
	"ib_read_lat -d recrxe -x 1 -n 20 -s 8",
	"ib_read_bw -d recrxe -x 1 -n 20 -s 1024 -b",
	"ib_atomic_lat -d recrxe -x 1 -n 20",
	"ib_atomic_bw -d recrxe -x 1 -n 20",
	"ib_send_lat -R -d recsiw -n 20 -s 8",
	"ib_write_bw -R -d recsiw -n 20 -s 1024 -q 2",
}

func main() {
	if out, err := exec.Command("sh", "-c", setUp).CombinedOutput(); err != nil {
		fmt.Printf("%s%v\n", out, err)
		os.Exit(1)
	}
	if len(os.Args) > 1 {
		sessions = os.Args[1:]
	}
	for _, line := range sessions {
		record(line)
	}
}

// record runs a session and prints its transcript.
func record(line string) {
	words := strings.Fields(line)
	cm := strings.Contains(line, " -R ")
	address := rxeAddress
	if cm {
		address = siwAddress
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server := exec.CommandContext(ctx, words[0], append(words[1:], "-p", serverPort)...)
	server.Start()
	time.Sleep(2 * time.Second)
	p := newProxy(address)
	client := exec.CommandContext(ctx, words[0], append(words[1:], "-p", proxyPort, address)...)
	out, err := client.CombinedOutput()
	serverErr := server.Wait()
	p.Close()
	fmt.Printf("# perftest 4.5+0.17-1, Linux 6.12: %s\n", line)
	if err != nil || serverErr != nil {
		fmt.Printf("! client %v, server %v\n%s\n", err, serverErr, out)
	}
	p.print(cm)
}

type proxy struct {
	net.Listener
	mu    sync.Mutex
	said  []said // on the first connection
	count int
}

type said struct {
	arrow string
	text  []byte
}

func newProxy(address string) *proxy {
	l, err := net.Listen("tcp4", address+":"+proxyPort)
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
	p := &proxy{Listener: l}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp4", address+":"+serverPort)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			first := p.count == 0
			p.count++
			p.mu.Unlock()
			go p.relay(server, client, ">", first)
			go p.relay(client, server, "<", first)
		}
	}()
	return p
}

func (p *proxy) relay(to, from net.Conn, arrow string, note bool) {
	defer to.(*net.TCPConn).CloseWrite()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if note && n > 0 {
			p.mu.Lock()
			p.said = append(p.said, said{arrow, append([]byte(nil), buf[:n]...)})
			p.mu.Unlock()
		}
		if _, werr := to.Write(buf[:n]); err == io.EOF || err != nil || werr != nil {
			return
		}
	}
}

func (p *proxy) print(cm bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun := map[string]bool{}
	for _, s := range p.said {
		if !cm {
			fmt.Printf("%s %q\n", s.arrow, s.text)
			continue
		}
		if !begun[s.arrow] { // MPA's request and reply
			begun[s.arrow] = true
			continue
		}
		for b := s.text; len(b) > 20; { // each a length, DDP's and RDMAP's header, a SEND's payload, padding, CRC
			n := int(b[0])<<8 | int(b[1])
			if len(b) < 2+n || n < 18 {
				fmt.Printf("! %q\n", b)
				break
			}
			fmt.Printf("%s %q\n", s.arrow, b[20:2+n])
			b = b[min(len(b), (2+n+3)/4*4+4):]
		}
	}
	fmt.Println()
}
