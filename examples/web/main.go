// Web serves the files of a directory by HTTP over RDMA, and fetches one. net/http needs to
// know nothing of it: a listener and a dialer take the place of package net's.
//
//	web -listen 10.0.0.1:8080 -dir /srv/www
//	web http://10.0.0.1:8080/index.html
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rsocket"
)

func main() {
	listen := flag.String("listen", ":8080", "serve at this `address`")
	dir := flag.String("dir", ".", "serve the files of this `directory`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "web [options] serves; web URL fetches a file.")
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	if flag.NArg() == 0 {
		err = serve(*listen, *dir)
	} else {
		err = fetch(flag.Arg(0), os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(address, dir string) error {
	l, err := rsocket.Listen(address)
	if err != nil {
		return err
	}
	return http.Serve(l, http.FileServer(http.Dir(dir)))
}

func fetch(url string, to io.Writer) error {
	dialer := rsocket.Dialer{Timeout: 10 * time.Second}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
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
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}
