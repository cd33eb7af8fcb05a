// Command greeted prints the greeting of the first client that connects to the
// address it is given, such as :7471.
package main

import (
	"context"
	"log"
	"os"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: greeted [HOST]:PORT")
	}
	var inbox *uverbs.MR
	lc := rdmacm.ListenConfig{Config: rdmacm.Config{Prepare: func(c *rdmacm.Conn) (err error) {
		if inbox, err = c.PD().AllocMR(4096, verbs.AccessLocalWrite, nil); err != nil {
			return err
		}
		c.Own(inbox)
		_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{inbox.SGE(0, inbox.Len())}}})
		return err
	}}}
	ln, err := lc.Listen(context.Background(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	conn, err := ln.Accept(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	var got [1]verbs.WC
	if _, err := conn.RecvCQ().Wait(context.Background(), got[:]); err != nil {
		log.Fatal(err)
	}
	if err := got[0].Err(); err != nil {
		log.Fatal(err)
	}
	log.Printf("%v says %q", conn.RemoteAddr(), inbox.Bytes()[:got[0].ByteLen])
}
