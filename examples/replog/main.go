// Replog is a log that several machines keep. A leader writes records to the memory of the
// replicas with RDMA WRITEs. Their programs do nothing when a record comes. The program that
// appends becomes the leader, and the previous leader can write no more.
//
//	replog -listen 10.0.0.1:7471                                # on each of three machines
//	replog "a record" 10.0.0.1:7471 10.0.0.2:7471 10.0.0.3:7471
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "", "be a replica at this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("give a record and the addresses of replicas, or -listen ADDRESS")
	switch {
	case *listen != "":
		err = keep(ctx, *listen, os.Stdout)
	case flag.NArg() > 1:
		err = add(ctx, flag.Arg(0), flag.Args()[1:])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// keep runs a replica until ctx ends, and then prints its log.
func keep(ctx context.Context, address string, out io.Writer) error {
	r, err := newReplica(address)
	if err != nil {
		return err
	}
	<-ctx.Done()
	r.close()
	for _, one := range r.records() {
		fmt.Fprintf(out, "%d %s\n", one.epoch, one.data)
	}
	return nil
}

// add becomes the leader, and appends a record.
func add(ctx context.Context, text string, replicas []string) error {
	l, err := newLeader(ctx, replicas)
	if err != nil {
		return err
	}
	defer l.close()
	return l.append(ctx, []byte(text))
}
