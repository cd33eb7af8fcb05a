// Kv is a key-value cache: a client puts by a message, and gets by reading the server's memory.
//
//	kv -dev siw0 -listen 10.0.0.1:7471
//	kv 10.0.0.1:7471 put colour red
//	kv 10.0.0.1:7471 get colour shape
//	kv 10.0.0.1:7471 list
//
// The device in rdmalink sandbox is rxe0, and its address 198.51.100.1.
//
// With -tcp, both sides exchange the addresses of their queue pairs over TCP, and need no connection manager. The
// client then names its device, too.
//
//	kv -tcp -dev mlx5_0 -listen :7471
//	kv -tcp -dev mlx5_0 10.0.0.1:7471 get colour
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/oob"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/redial"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// The table has one entry for all keys with the same hash. An entry is a checksum, the key, a zero byte and the value.
const entries, entrySize = 4096, 256
const usage = "kv [options] serves; kv ADDRESS put KEY VALUE, kv ADDRESS get KEY... and kv ADDRESS list ask a server."

func main() {
	dev := flag.String("dev", "siw0", "serve on this RDMA `device`, or ask from it with -tcp")
	listen := flag.String("listen", ":7471", "serve at this `address`")
	tcp := flag.Bool("tcp", false, "connect queue pairs over TCP, without the connection manager")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage); flag.PrintDefaults() }
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal(serve(*dev, func(lc *msg.ListenConfig) (*msg.Listener, error) {
			if !*tcp {
				return lc.Listen(context.Background(), *listen)
			}
			streams, err := net.Listen("tcp", *listen)
			if err != nil {
				return nil, err
			}
			return lc.ListenOver(streams, nil)
		}))
	}
	dial := msg.Dial
	if *tcp {
		dial = dialTCP(*dev)
	}
	if err := ask(dial, flag.Args(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// dialTCP returns a function that connects queue pairs of a device over TCP.
func dialTCP(device string) func(ctx context.Context, address string) (*msg.Conn, error) {
	pd := sync.OnceValues(func() (*uverbs.PD, error) {
		dev, err := uverbs.Open(device)
		if err != nil {
			return nil, err
		}
		return dev.AllocPD()
	})
	return func(ctx context.Context, address string) (*msg.Conn, error) {
		pd, err := pd()
		if err != nil {
			return nil, err
		}
		stream, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return new(msg.Dialer).DialOver(ctx, stream, &oob.Config{PD: pd})
	}
}

func serve(device string, listen func(*msg.ListenConfig) (*msg.Listener, error)) error {
	dev, err := uverbs.Open(device)
	if err != nil {
		return err
	}
	pool, err := msg.NewPool(dev, 100, nil)
	if err != nil {
		return err
	}
	table, err := pool.Register(make([]byte, entries*entrySize), msg.MayRead)
	if err != nil {
		return err
	}
	for at := 0; at < entries*entrySize; at += entrySize {
		store(table.Bytes()[at:][:entrySize], nil)
	}
	l, err := listen(&msg.ListenConfig{Config: msg.Config{Pool: pool}})
	if err != nil {
		return err
	}
	go answer(pool, table.Bytes())
	description, _ := table.Remote().MarshalBinary()
	for {
		c, err := l.Accept(context.Background())
		if err == nil {
			go c.Send(context.Background(), description) // an error shows in Recv, too
		} else if errors.Is(err, net.ErrClosed) { // any other is of one client
			return err
		}
	}
}

// answer stores the entries that clients put.
func answer(pool *msg.Pool, table []byte) {
	for {
		c, m, err := pool.Recv(context.Background())
		if c == nil { // the pool is closed
			return
		}
		if err != nil { // the client has gone
			_ = c.Close()
			continue
		}
		if key, _, _ := bytes.Cut(m.Bytes(), []byte{0}); len(m.Bytes()) <= entrySize-4 {
			store(table[entryOf(key):][:entrySize], m.Bytes())
		}
		m.Release()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = c.Send(ctx, nil)
		cancel()
	}
}

// store writes an entry. A client that reads it meanwhile finds a wrong checksum.
func store(entry, text []byte) {
	clear(entry[4+copy(entry[4:], text):])
	binary.LittleEndian.PutUint32(entry, crc32.ChecksumIEEE(entry[4:]))
}

// ask runs the command of the command line, and prints the result.
func ask(dial func(ctx context.Context, address string) (*msg.Conn, error), args []string, to io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := redial.New(func(ctx context.Context) (*shard, error) { return meet(ctx, dial, args[0]) })
	defer server.Close()
	switch {
	case len(args) == 4 && args[1] == "put":
		if n := len(args[2]) + 1 + len(args[3]); n > entrySize-4 {
			return fmt.Errorf("key and value have %d bytes together, the most is %d", n-1, entrySize-5)
		}
		return again(ctx, server, func(s *shard) error {
			err := s.Send(ctx, []byte(args[2]+"\x00"+args[3]))
			if err == nil {
				_, err = s.Recv(ctx) // the entry is stored
			}
			return err
		})
	case len(args) >= 3 && args[1] == "get":
		return get(ctx, server, args[2:], to)
	case len(args) == 2 && args[1] == "list":
		return list(ctx, server, to)
	}
	return fmt.Errorf("%q: see kv -h", args[1:])
}

// shard is a connection to a server, and where that server's table is.
type shard struct {
	*msg.Conn
	table msg.RemoteRegion
}

func meet(ctx context.Context, dial func(ctx context.Context, address string) (*msg.Conn, error), address string) (*shard, error) {
	c, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s := &shard{Conn: c}
	m, err := c.Recv(ctx)
	if err == nil {
		err = s.table.UnmarshalBinary(m.Bytes())
		m.Release()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// again repeats work that may be done twice, as get, list and put may.
func again(ctx context.Context, server *redial.Redialer[*shard], work func(*shard) error) error {
	for {
		err := server.Do(ctx, work)
		var failed *redial.Error
		if !errors.As(err, &failed) || !failed.MayHaveRun || ctx.Err() != nil {
			return err
		}
	}
}

// entryOf returns the offset of a key's entry in the table.
func entryOf(key []byte) int { return int(crc32.ChecksumIEEE(key)%entries) * entrySize }

// get prints the values of keys.
func get(ctx context.Context, server *redial.Redialer[*shard], keys []string, to io.Writer) error {
	offsets := make([]int, len(keys))
	for i, key := range keys {
		offsets[i] = entryOf([]byte(key))
	}
	stored, err := read(ctx, server, offsets)
	if err != nil {
		return err
	}
	for i, key := range keys {
		got, value, _ := bytes.Cut(stored[i], []byte{0})
		if string(got) != key {
			return fmt.Errorf("no value for key %q", key)
		}
		fmt.Fprintln(to, shown(value))
	}
	return nil
}

// list prints all keys and values.
func list(ctx context.Context, server *redial.Redialer[*shard], to io.Writer) error {
	offsets := make([]int, entries)
	for i := range offsets {
		offsets[i] = i * entrySize
	}
	stored, err := read(ctx, server, offsets)
	if err != nil {
		return err
	}
	for _, text := range stored {
		if key, value, ok := bytes.Cut(text, []byte{0}); ok {
			fmt.Fprintln(to, shown(key), shown(value))
		}
	}
	return nil
}

// shown returns a text of another client without what controls a terminal.
func shown(text []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, string(text))
}

// read returns the texts of entries.
func read(ctx context.Context, server *redial.Redialer[*shard], offsets []int) (texts [][]byte, err error) {
	err = again(ctx, server, func(s *shard) (err error) {
		texts, err = s.read(ctx, offsets)
		return err
	})
	return texts, err
}

// read returns the texts of entries, which it reads in a batch. It reads an entry again if that was being written
// meanwhile.
func (s *shard) read(ctx context.Context, offsets []int) ([][]byte, error) {
	ours, err := s.Register(make([]byte, len(offsets)*entrySize), 0)
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, len(offsets))
	ops := make([]msg.Op, len(offsets))
	for i, off := range offsets {
		ops[i] = msg.Op{Opcode: verbs.OpRDMARead, Local: ours.Span(i*entrySize, entrySize), Remote: s.table, Offset: uint64(off)}
	}
	for len(ops) > 0 {
		if err := s.Do(ctx, ops); err != nil {
			return nil, err
		}
		ops = slices.DeleteFunc(ops, func(op msg.Op) bool {
			entry := op.Local.Bytes()
			return crc32.ChecksumIEEE(entry[4:]) == binary.LittleEndian.Uint32(entry)
		})
	}
	for i := range texts {
		texts[i] = bytes.TrimRight(ours.Bytes()[i*entrySize:][4:entrySize], "\x00")
	}
	return texts, nil
}
