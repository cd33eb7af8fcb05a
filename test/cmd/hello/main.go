// Command hello sends a greeting to the server at an address.
package main

import (
	"context"
	"log"
	"os"

	_ "github.com/goverbs/goverbs/provider/all" // siw and the other providers
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: hello HOST:PORT")
	}
	conn, err := rdmacm.Dial(context.Background(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	hello := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: []byte("hello, RDMA")}
	if _, err := conn.QP().PostSend([]verbs.SendWR{hello}); err != nil {
		log.Fatal(err)
	}
	var done [1]verbs.WC
	if _, err := conn.SendCQ().Wait(context.Background(), done[:]); err != nil {
		log.Fatal(err)
	}
	if err := done[0].Err(); err != nil {
		log.Fatal(err)
	}
}
