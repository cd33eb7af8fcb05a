package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink-exporter/internal/podresources"
	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/goverbs/goverbs/verbs"
	"github.com/prometheus/client_golang/prometheus"
)

// exporter is a prometheus.Collector for the RDMA devices of a machine.
type exporter struct {
	source   *metrics.Collector
	watcher  *metrics.Watcher
	pods     *podResources
	failures *failureLog
}

// family is a metric and its labels.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	name string
}

var families []*family

func newFamily(kind prometheus.ValueType, name, help string, labels ...string) *family {
	f := &family{prometheus.NewDesc(name, help, labels, nil), kind, name}
	families = append(families, f)
	return f
}

func gauge(name, help string, labels ...string) *family {
	return newFamily(prometheus.GaugeValue, name, help, labels...)
}

func counter(name, help string, labels ...string) *family {
	return newFamily(prometheus.CounterValue, name, help, labels...)
}

// The labels of processes. PromQL can sum by cgroup or pod: sum by (pod_uid) (...).
var processLabels = []string{"device", "pid", "process", "kernel", "cgroup", "pod_uid", "namespace", "pod", "container_id"}

var (
	up           = gauge("rdma_up", "Whether the devices could be listed.")
	scrapeErrors = gauge("rdma_scrape_errors", "Parts of this scrape that failed or were cut short.", "part", "device")
	deviceInfo   = gauge("rdma_device_info", "Information about an RDMA device; the value is always 1.",
		"device", "driver", "protocol", "node_type", "node_guid", "sys_image_guid", "firmware", "parent")
	deviceObjects = gauge("rdma_device_objects", "Number of objects on a device, including those of kernel modules.", "device", "kind")
	deviceLimit   = gauge("rdma_device_objects_limit", "Maximum number of objects that a device supports.", "device", "kind")
	deviceCounter = counter("rdma_device_driver_total", "Counters of the driver for the device as a whole.", "device", "counter")

	portInfo = gauge("rdma_port_info", "Information about a port; the value is always 1.",
		"device", "port", "netdev")
	portActive    = gauge("rdma_port_active", "Whether a port can carry traffic.", "device", "port")
	portState     = gauge("rdma_port_state", "Logical state of a port: 1 down, 2 init, 3 armed, 4 active, 5 active_defer.", "device", "port")
	portPhys      = gauge("rdma_port_physical_state", "Physical state of a port: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery, 7 test.", "device", "port")
	portRate      = gauge("rdma_port_rate_bytes_per_second", "Rate of the link in bytes per second.", "device", "port")
	portMTU       = gauge("rdma_port_mtu_bytes", "Active path MTU, the maximum payload of a packet, in bytes.", "device", "port")
	portNetdevMTU = gauge("rdma_port_netdev_mtu_bytes", "MTU of the network device of a port, in bytes.", "device", "port", "netdev")
	portGID       = gauge("rdma_port_gid_info", "Information about a GID of a port; the value is always 1.", "device", "port", "index", "gid", "type")
	portOptional  = gauge("rdma_port_optional_enabled", "Whether an optional counter is enabled. To enable counters: rdmalink statistic set link DEV/PORT optional-counters NAMES.", "device", "port", "counter")
	portCounter   = counter("rdma_port_driver_total", "Counters of the driver for a port that have no other metric.", "device", "port", "counter")
	deviceValue   = gauge("rdma_device_driver_value", "Values of the driver for the device as a whole that are listed as counters but may decrease.", "device", "counter")
	portValue     = gauge("rdma_port_driver_value", "Values of the driver for a port that are listed as counters but may decrease.", "device", "port", "counter")
	portFalls     = counter("rdma_port_value_resets_total", "Number of times that a counter of a port decreased because it was reset or wrapped around.", "device", "port")

	processObjects = gauge("rdma_process_objects", "Number of objects of a process or kernel module.", append(processLabels, "kind")...)
	processMR      = gauge("rdma_process_mr_bytes", "Total length of the memory regions of a process in bytes. Regions that overlap count more than once.", processLabels...)
	processPinned  = gauge("rdma_process_pinned_bytes", "Memory that drivers have pinned for a process, in bytes.", "pid", "process", "pod_uid")
	processMemlock = gauge("rdma_process_memlock_limit_bytes", "RLIMIT_MEMLOCK of a process in bytes. It is +Inf without a limit or with CAP_IPC_LOCK.", "pid", "process", "pod_uid")
	processesCut   = gauge("rdma_processes_summed_up", "Number of processes that are summed up in the series \"others\".")

	devicePod = gauge("rdma_device_pod_info", "A device that the kubelet has allocated to a container of a pod; the value is always 1.",
		"device", "namespace", "pod", "container", "resource", "id")
	podsAnswer = gauge("rdma_podresources_last_success_timestamp_seconds", "Time of the kubelet's last answer about the devices of its pods, in seconds since the epoch.")

	cgroupUse   = gauge("rdma_cgroup_resources", "Use of a resource of the rdma controller by a cgroup.", "cgroup", "device", "resource")
	cgroupLimit = gauge("rdma_cgroup_resources_limit", "Limit of a resource of the rdma controller for a cgroup. It is +Inf without a limit.", "cgroup", "device", "resource")

	pfcEnabled  = gauge("rdma_netdev_pfc_enabled", "Whether PFC is enabled for a priority.", "netdev", "priority")
	pfcSent     = counter("rdma_netdev_pfc_sent_total", "PFC frames sent for a priority, if the driver counts them.", "netdev", "priority")
	pfcReceived = counter("rdma_netdev_pfc_received_total", "PFC frames received for a priority, if the driver counts them.", "netdev", "priority")
	trustDSCP   = gauge("rdma_netdev_trust_dscp", "Whether the priority of a packet is derived from its DSCP.", "netdev")
	qdiscECN    = gauge("rdma_netdev_qdisc_ecn", "Whether a queueing discipline marks packets with ECN.", "netdev", "qdisc")

	allEvents    = counter("rdma_events_total", "Number of events of all devices and ports since the exporter started. The series exist from the start, unlike those of one device, so increase() counts the first event.", "event")
	deviceEvents = counter("rdma_device_events_total", "Number of times that a device was added, removed (or moved to another network namespace) or renamed since the exporter started.", "device", "event")
	portEvents   = counter("rdma_port_events_total", "Number of times that a port became active, or stopped being active, since the exporter started.", "device", "port", "event")
)

// portMetrics holds the families of metrics.Metrics.
var portMetrics = func() map[*metrics.Metric]*family {
	all := make(map[*metrics.Metric]*family)
	for _, m := range metrics.Metrics {
		all[m] = counter("rdma_port_"+m.Name+"_total", m.Help, "device", "port", "counter")
	}
	return all
}()

// Describe implements prometheus.Collector.
func (e *exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// page collects the samples of one scrape. Prometheus refuses a page that has the same series twice.
// A hostile kernel may send a name twice, so page keeps only the first sample of a series.
type page struct {
	ch   chan<- prometheus.Metric
	seen map[string]bool
	key  []byte
}

func (p *page) add(f *family, value float64, labels ...string) {
	p.key = append(p.key[:0], f.name...)
	for i, l := range labels {
		labels[i] = metrics.Printable(l)
		p.key = append(append(p.key, 0), labels[i]...)
	}
	if p.seen[string(p.key)] {
		return
	}
	p.seen[string(p.key)] = true
	p.ch <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

func (p *page) flag(f *family, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	p.add(f, value, labels...)
}

// Collect implements prometheus.Collector.
func (e *exporter) Collect(ch chan<- prometheus.Metric) {
	p := &page{ch: ch, seen: make(map[string]bool)}
	s, err := e.source.Collect()
	p.flag(up, err == nil)
	e.events(p)
	if err != nil {
		e.failures.add("devices", "", err)
		return
	}
	for i := range s.Devices {
		p.device(&s.Devices[i])
	}
	p.processes(s)
	e.allocations(p, s)
	for _, n := range s.Netdevs {
		p.netdev(n)
	}
	failures := make(map[[2]string]float64)
	for _, err := range s.Errors {
		failures[[2]string{err.Part, err.Device}]++
		e.failures.add(err.Part, err.Device, err.Err)
	}
	for where, n := range failures {
		p.add(scrapeErrors, n, where[0], where[1])
	}
}

func number[T uint32 | uint64 | int](n T) string { return strconv.FormatUint(uint64(n), 10) }

func (p *page) device(d *metrics.Device) {
	p.add(deviceInfo, 1, d.Name, d.Driver.String(), d.Protocol, d.NodeType.String(), d.NodeGUID.String(), d.SysImageGUID.String(), d.FWVersion, d.Parent)
	for _, r := range d.Objects {
		p.add(deviceObjects, float64(r.Count), d.Name, r.Kind)
	}
	if l := d.Limits; l != nil {
		for kind, most := range map[string]uint32{"qp": l.MaxQP, "cq": l.MaxCQ, "mr": l.MaxMR, "pd": l.MaxPD, "srq": l.MaxSRQ, "mw": l.MaxMW, "ah": l.MaxAH} {
			if most > 0 {
				p.add(deviceLimit, float64(most), d.Name, kind)
			}
		}
	}
	for _, c := range d.Counters {
		f := deviceCounter
		if c.Gauge() {
			f = deviceValue
		}
		p.add(f, float64(c.Value), d.Name, c.Name)
	}
	for i := range d.Ports {
		p.port(d.Name, &d.Ports[i])
	}
}

func (p *page) port(device string, port *metrics.Port) {
	n := number(port.Index)
	p.add(portInfo, 1, device, n, port.NetdevName)
	p.flag(portActive, port.State == verbs.PortActive, device, n)
	p.add(portState, float64(port.State), device, n)
	p.add(portPhys, float64(port.PhysState), device, n)
	if port.Rate > 0 {
		p.add(portRate, float64(port.Rate)/8, device, n)
	}
	if port.MTU > 0 {
		p.add(portMTU, float64(port.MTU), device, n)
	}
	if port.NetdevMTU > 0 {
		p.add(portNetdevMTU, float64(port.NetdevMTU), device, n, port.NetdevName)
	}
	for _, g := range port.GIDs {
		p.add(portGID, 1, device, n, number(g.Index), g.GID.String(), g.Type.String())
	}
	for _, o := range port.Optional {
		p.flag(portOptional, o.Enabled, device, n, o.Name)
	}
	for _, c := range port.Counters {
		f := portCounter
		switch {
		case c.Metric != nil:
			f = portMetrics[c.Metric]
		case c.Gauge():
			f = portValue
		}
		p.add(f, float64(c.Value), device, n, c.Name)
	}
	p.add(portFalls, float64(port.Falls), device, n)
}

// amount converts a number to the value of a sample. NoLimit becomes +Inf.
func amount(n uint64) float64 {
	if n == metrics.NoLimit {
		return math.Inf(1)
	}
	return float64(n)
}

func (p *page) processes(s *metrics.Snapshot) {
	summed := 0
	for i := range s.Processes {
		one := &s.Processes[i]
		name, pid := one.Name, ""
		switch {
		case one.PID != 0:
			pid = number(one.PID)
		case one.Others > 0:
			name, summed = "others", one.Others
		case one.Kernel == "":
			name = "unknown"
		}
		for _, use := range one.Uses {
			labels := []string{use.Device, pid, name, one.Kernel, one.Cgroup, one.Pod.UID, one.Pod.Namespace, one.Pod.Name, one.Pod.Container}
			for k, n := range use.Objects {
				p.add(processObjects, float64(n), append(labels[:len(labels):len(labels)], metrics.Kind(k).String())...)
			}
			p.add(processMR, float64(use.MRBytes), labels...)
		}
		if one.MemlockKnown {
			p.add(processPinned, float64(one.Pinned), pid, name, one.Pod.UID)
			p.add(processMemlock, amount(one.Memlock), pid, name, one.Pod.UID)
		}
	}
	p.add(processesCut, float64(summed))
	for _, c := range s.Cgroups {
		p.add(cgroupUse, float64(c.Current), c.Path, c.Device, c.Resource)
		p.add(cgroupLimit, amount(c.Max), c.Path, c.Device, c.Resource)
	}
}

// allocations adds the pods to which the kubelet has allocated devices.
func (e *exporter) allocations(p *page, s *metrics.Snapshot) {
	last, at, err := e.pods.state()
	if err != nil {
		s.Errors = append(s.Errors, metrics.Error{Part: "podresources", Err: err})
	}
	if at.IsZero() {
		return
	}
	p.add(podsAnswer, float64(at.UnixMilli())/1e3)
	devices, series := deviceNames(s.Devices), 0
	for _, a := range last {
		for _, device := range devices[deviceKey(a.ID)] { // devices may share their hardware
			if series++; series > podresources.Max {
				s.Errors = append(s.Errors, metrics.Error{Part: "podresources", Err: fmt.Errorf("more than %d pairs of a pod and a device", podresources.Max)})
				return
			}
			p.add(devicePod, 1, device, a.Namespace, a.Pod, a.Container, a.Resource, a.ID)
		}
	}
}

func (p *page) netdev(n metrics.Netdev) {
	if d := n.DCB; d != nil && d.HasPFC {
		for priority := range 8 {
			label := number(priority)
			p.flag(pfcEnabled, d.PFC>>priority&1 == 1, n.Name, label)
			p.add(pfcSent, float64(d.PFCSent[priority]), n.Name, label)
			p.add(pfcReceived, float64(d.PFCReceived[priority]), n.Name, label)
		}
	}
	if d := n.DCB; d != nil && d.Trust != nil {
		on := false
		for _, s := range d.Trust {
			on = on || s == rtnetlink.SelectDSCP
		}
		p.flag(trustDSCP, on, n.Name)
	}
	ecn := make(map[string]bool)
	for _, q := range n.Qdiscs {
		ecn[q.Kind] = ecn[q.Kind] || q.ECN
	}
	for kind, marks := range ecn {
		p.flag(qdiscECN, marks, n.Name, kind)
	}
}

func (e *exporter) events(p *page) {
	sums := make(map[metrics.EventKind]uint64)
	for _, kind := range metrics.EventKinds {
		sums[kind] = 0
	}
	for _, c := range e.watcher.Counts() {
		sums[c.Kind] += c.Count
		if c.Port == 0 {
			p.add(deviceEvents, float64(c.Count), c.Device, string(c.Kind))
		} else {
			p.add(portEvents, float64(c.Count), c.Device, number(c.Port), string(c.Kind))
		}
	}
	for kind, n := range sums {
		p.add(allEvents, float64(n), string(kind))
	}
}
