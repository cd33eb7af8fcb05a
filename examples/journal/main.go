// Journal appends the lines of its standard input to a file on another machine, each exactly once and in order,
// although the server is killed or shut down and started again. (It does not sync the file, so a machine that loses
// power may lose lines.)
//
//	journal -listen 10.0.0.1:7471 -file lines.txt
//	journal 10.0.0.1:7471 < input.txt
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/msg"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/redial"
)

func main() {
	listen := flag.String("listen", ":7471", "serve at this `address`")
	file := flag.String("file", "journal", "append to this `file`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "journal [options] serves; journal ADDRESS sends standard input.")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if flag.NArg() == 0 {
		err = serve(ctx, *listen, *file)
	} else {
		err = send(ctx, flag.Arg(0), os.Stdin, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A request is the number of the client, the number of the line, and the line. The answer has no bytes.
const header = 16

// send sends lines until the last one has been answered. It repeats a line with its number, because the server may have
// stored it before the connection broke.
func send(ctx context.Context, address string, lines io.Reader, out io.Writer) error {
	server := redial.New(func(ctx context.Context) (*msg.Conn, error) {
		return (&msg.Dialer{Config: msg.Config{MaxIdleTimeout: 5 * time.Second}}).Dial(ctx, address)
	})
	defer server.Close()
	request := binary.BigEndian.AppendUint64(nil, rand.Uint64())
	in, sent, again := bufio.NewScanner(lines), uint64(0), 0
	for ; in.Scan(); sent++ {
		request = append(binary.BigEndian.AppendUint64(request[:8], sent), in.Bytes()...)
		err := store(ctx, server, request)
		var failed *redial.Error
		for errors.As(err, &failed) && failed.MayHaveRun && ctx.Err() == nil {
			again++
			err = store(ctx, server, request)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", sent+1, err)
		}
	}
	fmt.Fprintf(out, "%d lines stored, %d times one was sent again\n", sent, again)
	return in.Err()
}

// store sends a request and waits for the answer.
func store(ctx context.Context, server *redial.Redialer[*msg.Conn], request []byte) error {
	return server.Do(ctx, func(c *msg.Conn) error {
		if err := c.Send(ctx, request); err != nil {
			return err
		}
		answer, err := c.Recv(ctx)
		if err == nil {
			answer.Release()
		}
		return err
	})
}

// serve stores lines until ctx ends. Then it accepts no more connections, answers the requests that it has read, and
// waits until the answers have arrived.
func serve(ctx context.Context, address, name string) error {
	j, err := openJournal(name)
	if err != nil {
		return err
	}
	defer j.file.Close()
	l, err := (&msg.ListenConfig{Config: msg.Config{MaxIdleTimeout: 5 * time.Second}}).Listen(ctx, address)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.Accept(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			conns.Go(func() { j.answer(ctx, c) })
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed): // any other error is of one client
			return err
		}
	}
}

// answer serves one client until it leaves or ctx ends.
func (j *journal) answer(ctx context.Context, c *msg.Conn) {
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			break
		}
		if err = j.store(m.Bytes()); err != nil {
			log.Print(err)
			break // without an answer
		}
		m.Release()
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err = c.Send(limited, nil)
		cancel()
		if err != nil {
			break
		}
	}
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = c.Shutdown(limited)
}

// journal is a file with a line for each request: the client, the number and the text.
type journal struct {
	mu   sync.Mutex
	file *os.File
	next map[uint64]uint64 // by client, the number of its next line
}

// openJournal reads what earlier servers have stored. It discards the part of a line that one was killed in.
func openJournal(name string) (*journal, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	stored, err := io.ReadAll(f)
	whole := bytes.LastIndexByte(stored, '\n') + 1
	if err == nil {
		err = errors.Join(f.Truncate(int64(whole)), seek(f, int64(whole)))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	j := &journal{file: f, next: make(map[uint64]uint64)}
	for line := range bytes.Lines(stored[:whole]) {
		var client, number uint64
		if _, err := fmt.Sscanf(string(line), "%x %d ", &client, &number); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
		}
		j.next[client] = number + 1
	}
	return j, nil
}

func seek(f *os.File, at int64) error {
	_, err := f.Seek(at, io.SeekStart)
	return err
}

// store appends a line unless it is stored already.
func (j *journal) store(request []byte) error {
	if len(request) < header || bytes.IndexByte(request[header:], '\n') >= 0 {
		return errors.New("a request without a number, or with several lines")
	}
	client, number := binary.BigEndian.Uint64(request), binary.BigEndian.Uint64(request[8:])
	j.mu.Lock()
	defer j.mu.Unlock()
	if number < j.next[client] {
		return nil
	}
	if _, err := fmt.Fprintf(j.file, "%x %d %s\n", client, number, request[header:]); err != nil {
		return err
	}
	j.next[client] = number + 1
	return nil
}
