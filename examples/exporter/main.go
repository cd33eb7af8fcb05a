// Exporter exports the RDMA devices of a machine to Prometheus: the state and counters of each
// port, and the number of objects. It needs no root, no device node and no /sys. The program
// rdmalink-exporter exports much more; this one shows how little it takes.
//
//	exporter -listen :9879
//	curl http://localhost:9879/metrics
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

func main() {
	listen := flag.String("listen", ":9879", "serve at this TCP `address`")
	flag.Parse()
	http.HandleFunc("/metrics", metrics)
	log.Fatal(http.ListenAndServe(*listen, nil))
}

func metrics(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	if err := write(&page, new(netlinkrdma.Client)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = page.WriteTo(w)
}

// families are the metrics in the order of the output.
var families = []struct {
	name, kind, help string
	of               func(c *netlinkrdma.Client, d *netlinkrdma.Device) ([]sample, error)
}{
	{"rdma_port_active", "gauge", "Whether a port can carry traffic.", ports},
	{"rdma_port_counter_total", "counter", "What the driver counts at a port.", counters},
	{"rdma_objects", "gauge", "Objects on a device, those of the kernel's users included.", objects},
}

type sample struct {
	labels string
	value  uint64
}

func write(w io.Writer, c *netlinkrdma.Client) error {
	devices, err := c.Devices()
	if err != nil {
		return err
	}
	for _, f := range families {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for i := range devices {
			samples, err := f.of(c, &devices[i])
			if errors.Is(err, netlinkrdma.ErrNotFound) { // it has been removed meanwhile
				continue
			}
			if err != nil {
				return err
			}
			for _, s := range samples {
				fmt.Fprintf(w, "%s{device=%q,%s} %d\n", f.name, devices[i].Name, s.labels, s.value)
			}
		}
	}
	return nil
}

func ports(c *netlinkrdma.Client, d *netlinkrdma.Device) (samples []sample, err error) {
	all, err := c.Ports(d.Index)
	for _, p := range all {
		s := sample{fmt.Sprintf("port=\"%d\",netdev=%q", p.Index, p.NetdevName), 0}
		if p.State == verbs.PortActive {
			s.value = 1
		}
		samples = append(samples, s)
	}
	return samples, err
}

func counters(c *netlinkrdma.Client, d *netlinkrdma.Device) (samples []sample, err error) {
	for port := 1; port <= d.Ports; port++ {
		all, err := c.PortCounters(d.Index, port)
		if errors.Is(err, netlinkrdma.ErrNoStatistics) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, n := range all {
			samples = append(samples, sample{fmt.Sprintf("port=\"%d\",counter=%q", port, n.Name), n.Value})
		}
	}
	return samples, nil
}

func objects(c *netlinkrdma.Client, d *netlinkrdma.Device) (samples []sample, err error) {
	all, err := c.Resources(d.Index, nil)
	for _, r := range all {
		samples = append(samples, sample{fmt.Sprintf("kind=%q", r.Kind), r.Count})
	}
	return samples, err
}
