// Web serves the files of a directory by HTTP over RDMA, and fetches one. net/http needs to
// know nothing of it: a listener and a dialer take the place of package net's. The listener's statistics
// are at /debug/listener, and with -metrics those of all connections are there for Prometheus, over TCP.
//
//	web -listen 10.0.0.1:8080 -dir /srv/www -metrics :9880
//	curl http://localhost:9880/metrics
//	web http://10.0.0.1:8080/index.html
package main

import (
	"context"
	"errors"
	"expvar"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/redial"
	"github.com/goverbs/goverbs/rsocket"
)

func main() {
	listen := flag.String("listen", ":8080", "serve at this `address`")
	dir := flag.String("dir", ".", "serve the files of this `directory`")
	metrics := flag.String("metrics", "", "serve metrics at this TCP `address`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "web [options] serves; web URL fetches a file.")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if flag.NArg() == 0 {
		if _, err := os.ReadDir(*dir); err != nil {
			log.Fatal(err)
		}
		var scraped net.Listener
		if *metrics != "" {
			if scraped, err = net.Listen("tcp", *metrics); err != nil {
				log.Fatal(err)
			}
		}
		err = serve(ctx, *listen, *dir, scraped)
	} else {
		err = fetch(ctx, flag.Arg(0), os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// shutdownTime is how long a server that is ended waits for the requests under way, and for their data.
const shutdownTime = 10 * time.Second

// headerTime is how long a client may take to send the header of a request.
const headerTime = 10 * time.Second

// serve serves until ctx ends. Then it waits for the requests under way, and until the clients have the data.
// Its statistics are served at scraped, unless that is nil.
func serve(ctx context.Context, address, dir string, scraped net.Listener) error {
	l, err := rsocket.Listen(ctx, address)
	if err != nil {
		return err
	}
	stats := expvar.Func(func() any { return l.Stats() }) // expvar.Publish adds it to those of the process
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/debug/listener", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, stats) })
	statistics := newStatistics(l)
	if scraped != nil {
		defer scraped.Close()
		scrapes := http.Server{Handler: statistics, ReadHeaderTimeout: headerTime}
		go func() { _ = scrapes.Serve(scraped) }()
	}
	server := http.Server{Handler: mux, ConnState: statistics.connState, ReadHeaderTimeout: headerTime}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return errors.Join(server.Shutdown(limited), l.Shutdown(limited))
}

// dialTime is how long a client waits for a server that is being started.
const dialTime = 10 * time.Second

func fetch(ctx context.Context, url string, to io.Writer) error {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		return redial.Dial(ctx, func(ctx context.Context) (net.Conn, error) {
			return new(rsocket.Dialer).DialContext(ctx, network, address)
		})
	}}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %q", url, resp.Status)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}
