// Kv is a key-value cache: a client puts by a message, and gets by reading the server's memory.
//
//	kv -dev siw0 -listen 10.0.0.1:7471
//	kv 10.0.0.1:7471 put colour red
//	kv 10.0.0.1:7471 get colour
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
	"time"

	"github.com/goverbs/goverbs/msg"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
)

// The table has one entry for all keys with the same hash. An entry is a checksum, the key, a zero byte and the value.
const entries, entrySize = 4096, 256
const usage = "kv [options] serves; kv ADDRESS put KEY VALUE and kv ADDRESS get KEY ask a server."

func main() {
	dev := flag.String("dev", "siw0", "serve on this RDMA `device`")
	listen := flag.String("listen", ":7471", "serve at this `address`")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage); flag.PrintDefaults() }
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal(serve(*dev, *listen))
	}
	if err := ask(flag.Args(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func serve(device, address string) error {
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
	l, err := (&msg.ListenConfig{Config: msg.Config{Pool: pool}}).Listen(context.Background(), address)
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
func ask(args []string, to io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := msg.Dial(ctx, args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	m, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Release()
	var table msg.RemoteRegion
	if err := table.UnmarshalBinary(m.Bytes()); err != nil {
		return err
	}
	switch {
	case len(args) == 4 && args[1] == "put":
		if err = c.Send(ctx, []byte(args[2]+"\x00"+args[3])); err == nil {
			_, err = c.Recv(ctx) // the entry is stored
		}
		return err
	case len(args) == 3 && args[1] == "get":
		return get(ctx, c, table, []byte(args[2]), to)
	}
	return fmt.Errorf("%q: see kv -h", args[1:])
}

// entryOf returns the offset of a key's entry in the table.
func entryOf(key []byte) int { return int(crc32.ChecksumIEEE(key)%entries) * entrySize }

func get(ctx context.Context, c *msg.Conn, table msg.RemoteRegion, key []byte, to io.Writer) error {
	ours, err := c.Register(make([]byte, entrySize), 0)
	if err != nil {
		return err
	}
	entry := ours.Bytes()
	for sound := false; !sound; sound = crc32.ChecksumIEEE(entry[4:]) == binary.LittleEndian.Uint32(entry) {
		if err := c.Read(ctx, ours.Span(0, entrySize), table, uint64(entryOf(key))); err != nil {
			return err
		}
	}
	stored, value, _ := bytes.Cut(bytes.TrimRight(entry[4:], "\x00"), []byte{0})
	if !bytes.Equal(stored, key) {
		return fmt.Errorf("no value for key %q", key)
	}
	_, err = fmt.Fprintf(to, "%s\n", value)
	return err
}
