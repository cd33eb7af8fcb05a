// Rdmalink-exporter exports the RDMA devices of a machine to Prometheus: ports, counters, limits,
// objects by process, cgroup and pod, congestion, and events. It needs neither root nor
// CAP_NET_ADMIN, but sees only the processes and cgroups that /proc and /sys show it.
//
//	rdmalink-exporter -web.listen-address :9879
//	curl http://localhost:9879/metrics
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/sync/singleflight"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

// listOf is a flag that may be repeated.
type listOf []string

func (l *listOf) String() string     { return strings.Join(*l, ",") }
func (l *listOf) Set(s string) error { *l = append(*l, s); return nil }

const defaultAddress = ":9879"

// run runs the program and returns the exit code: 1 after a failure, 2 for an invalid command line.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("rdmalink-exporter", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var addresses listOf
	flags.Var(&addresses, "web.listen-address", "listen on this TCP `address`; may be given more than once (default "+defaultAddress+")")
	config := flags.String("web.config.file", "", "read the settings of TLS and basic authentication from this `file`, in the format of exporter-toolkit")
	socket := flags.Bool("web.systemd-socket", false, "use systemd's socket activation instead of addresses")
	interval := flags.Duration("interval", time.Second, "`interval` at which devices and ports are checked for events")
	proc := flags.String("proc", "/proc", "read processes from this `directory`")
	sys := flags.String("sys", "/sys", "read sysfs and cgroups from this `directory`")
	podLogs := flags.String("pods", "/var/log/pods", "read the names of Kubernetes pods from this `directory`, to which the kubelet writes logs")
	kubelet := flags.String("podresources", "", "ask the kubelet at this `socket` which devices its pods have (default "+kubeletSocket+" if it exists)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "rdmalink-exporter: unexpected argument %q (-h prints the flags)\n", flags.Arg(0))
		return 2
	case *interval <= 0:
		fmt.Fprintf(stderr, "rdmalink-exporter: -interval %v: expected a positive duration\n", *interval)
		return 2
	}
	if addresses == nil {
		addresses = listOf{defaultAddress}
	}
	source := metrics.New()
	source.Proc, source.Sys, source.Pods = os.DirFS(*proc), os.DirFS(*sys), os.DirFS(*podLogs)
	// A socket of its own: in that of the scrapes its request would have the rest of a list, as of 100,000 queue pairs,
	// read into memory.
	watcher := &metrics.Watcher{RDMA: &netlinkrdma.Client{Kernel: new(netlinkrdma.Socket)}}
	pods := &podResources{socket: *kubelet}
	if pods.socket == "" {
		pods.socket, pods.optional = kubeletSocket, true
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	ctx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { watcher.Run(ctx, *interval) })
	background.Go(func() { pods.run(ctx, podResourcesInterval) })
	err := serve(ctx, handler(source, watcher, pods, log), &web.FlagConfig{
		WebListenAddresses: (*[]string)(&addresses), WebSystemdSocket: socket, WebConfigFile: config,
	}, log)
	stop()
	background.Wait()
	if err != nil {
		fmt.Fprintf(stderr, "rdmalink-exporter: %v\n", err)
		return 1
	}
	return 0
}

// The limits of the server. A scrape is small and quick. The limits end connections of clients that
// send or read nothing.
const (
	headerTimeout = 10 * time.Second
	answerTimeout = time.Minute
	idleTimeout   = 2 * time.Minute
	closeTimeout  = 5 * time.Second
	scrapeTimeout = 30 * time.Second // a kernel that does not answer
	maxPages      = 8                // that are written at a time; others wait
	maxConns      = 512              // each takes up to 50 KB, with TLS
)

// newServer returns a server with these limits.
func newServer(h http.Handler) *http.Server {
	conns := &connections{from: make(map[string]int)}
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10, ConnState: conns.state,
	}
}

// connections counts the open connections of a server.
type connections struct {
	mu   sync.Mutex
	open int
	from map[string]int // by the client's address
}

// state is the server's ConnState. It closes a new connection if there are maxConns others, or if its address has more
// than are left. So clients of one address, which may send nothing, can't shut out those of another.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open++
		c.from[from]++
		if c.from[from] > maxConns-c.open+1 {
			_ = conn.Close() // the server learns it when it reads
		}
	case http.StateClosed, http.StateHijacked:
		c.open--
		if c.from[from]--; c.from[from] == 0 {
			delete(c.from, from)
		}
	}
}

// serve serves until ctx is done.
func serve(ctx context.Context, h http.Handler, config *web.FlagConfig, log *slog.Logger) error {
	server := newServer(h)
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe(server, config, log) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close() // some scrapes haven't ended
	}
	return nil
}

// handler returns the handler of /metrics, of /healthz, and of a page at / that links to both.
func handler(source *metrics.Collector, watcher *metrics.Watcher, pods *podResources, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	const stuck = "the kernel does not answer\n"
	mux.Handle("GET /metrics", http.TimeoutHandler(scrapes(registry(source, watcher, pods, log), log), scrapeTimeout, stuck))
	mux.Handle("GET /healthz", http.TimeoutHandler(health(source), scrapeTimeout, stuck))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><title>rdmalink-exporter</title><a href="/metrics">metrics</a> <a href="/healthz">health</a>`+"\n")
	})
	return mux
}

// scrapes returns the handler of /metrics, without its time limit. Requests that wait share one collection. Pages are
// written a few at a time, into the memory of http.TimeoutHandler, so a page never waits for the reader of another one.
func scrapes(gatherer prometheus.Gatherer, log *slog.Logger) http.Handler {
	var collections singleflight.Group
	pages := make(chan struct{}, maxPages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		families, err := share(r.Context(), &collections, gatherer.Gather)
		if errors.Is(err, context.Canceled) { // the client has left, which clients could fill the log with
			return
		}
		select {
		case pages <- struct{}{}:
			defer func() { <-pages }()
		case <-r.Context().Done():
			return
		}
		collected := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err })
		promhttp.HandlerFor(collected, promhttp.HandlerOpts{ErrorLog: errorLog{log}, ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, r)
	})
}

// health returns the handler of /healthz, without its time limit. Requests that wait share one answer of the kernel.
func health(source *metrics.Collector) http.Handler {
	var answers singleflight.Group
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := share(r.Context(), &answers, source.RDMA.Devices); err != nil {
			http.Error(w, metrics.Printable(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
}

// share returns the result of do. Callers that wait at the same time share one run of do, so the kernel gets one
// question at a time however many callers there are. If ctx ends first, share returns its error, and do continues.
func share[T any](ctx context.Context, g *singleflight.Group, do func() (T, error)) (value T, err error) {
	select {
	case r := <-g.DoChan("", func() (any, error) { return do() }):
		return r.Val.(T), r.Err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// errorLog logs the errors of promhttp.
type errorLog struct{ *slog.Logger }

func (l errorLog) Println(v ...any) {
	l.Error(metrics.Printable(strings.TrimSpace(fmt.Sprintln(v...))))
}

// registry returns a registry with the metrics of the machine and of this process.
func registry(source *metrics.Collector, watcher *metrics.Watcher, pods *podResources, log *slog.Logger) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&exporter{source, watcher, pods, &failureLog{log: log}}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
