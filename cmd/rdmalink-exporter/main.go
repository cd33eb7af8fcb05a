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
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
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
	watcher := &metrics.Watcher{RDMA: source.RDMA}
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
	maxScrapes    = 8                // those that timed out and still wait for the kernel among them
)

// serve serves until ctx is done.
func serve(ctx context.Context, h http.Handler, config *web.FlagConfig, log *slog.Logger) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
	}
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
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry(source, watcher, pods, log), promhttp.HandlerOpts{
		ErrorLog: errorLog{log}, ErrorHandling: promhttp.HTTPErrorOnError,
		Timeout: scrapeTimeout, MaxRequestsInFlight: maxScrapes,
	}))
	mux.Handle("GET /healthz", http.TimeoutHandler(health(source), scrapeTimeout, "the kernel does not answer\n"))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><title>rdmalink-exporter</title><a href="/metrics">metrics</a> <a href="/healthz">health</a>`+"\n")
	})
	return mux
}

// health returns the handler of /healthz, without its time limit. Requests that wait for the kernel are limited
// as scrapes are.
func health(source *metrics.Collector) http.Handler {
	waiting := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case waiting <- struct{}{}:
			defer func() { <-waiting }()
		default:
			http.Error(w, "too many requests wait for the kernel", http.StatusServiceUnavailable)
			return
		}
		if _, err := source.RDMA.Devices(); err != nil {
			http.Error(w, metrics.Printable(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
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
