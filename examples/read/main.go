// Read fetches text from the memory of another process with one RDMA READ. The process that
// has the text does nothing for it.
//
//	read -listen 10.0.0.1:7471 "hello, RDMA"
//	read 10.0.0.1:7471
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "serve the text at this address")
	flag.Parse()
	ctx, err := context.Background(), error(nil)
	switch {
	case *listen != "":
		err = serve(ctx, *listen, flag.Arg(0))
	case flag.NArg() == 1:
		err = fetch(ctx, flag.Arg(0), os.Stdout)
	default:
		err = errors.New("give an address, or -listen ADDRESS TEXT")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve lets peers read the text. The connection's private data has its address and key.
func serve(ctx context.Context, address, text string) error {
	lc := rdmacm.ListenConfig{Config: rdmacm.Config{Prepare: func(c *rdmacm.Conn) error {
		mr, err := c.PD().AllocMR(max(len(text), 1), verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil)
		if err != nil {
			return err
		}
		c.Own(mr) // Close of the connection closes mr
		copy(mr.Bytes(), text)
		where := binary.BigEndian.AppendUint64(nil, mr.Addr())
		where = binary.BigEndian.AppendUint32(where, mr.RKey())
		c.SetPrivateData(binary.BigEndian.AppendUint32(where, uint32(len(text))))
		return nil
	}}}
	ln, err := lc.Listen(ctx, address)
	if err != nil {
		return err
	}
	defer ln.Close()
	for {
		conn, err := ln.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			<-conn.Done()
			conn.Close()
		}()
	}
}

// fetch reads the text and prints it.
func fetch(ctx context.Context, address string, out io.Writer) error {
	conn, err := rdmacm.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	where := conn.PrivateData()
	if len(where) < 16 {
		return errors.New("the server does not say where its text is")
	}
	addr, rkey, size := binary.BigEndian.Uint64(where), binary.BigEndian.Uint32(where[8:]), binary.BigEndian.Uint32(where[12:])
	mr, err := conn.PD().AllocMR(max(int(size), 1), verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil) // iWARP needs both
	if err != nil {
		return err
	}
	defer mr.Close()
	_, err = conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{mr.SGE(0, int(size))}, RemoteAddr: addr, RKey: rkey}})
	if err != nil {
		return err
	}
	var done [1]verbs.WC
	if _, err := conn.SendCQ().Wait(ctx, done[:]); err != nil {
		return err
	}
	if err := done[0].Err(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", mr.Bytes()[:size])
	return err
}
