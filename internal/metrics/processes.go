package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// Kind is a kind of object.
type Kind uint8

// The kinds, in the order of the columns of rdmalink top.
const (
	QP Kind = iota
	CQ
	MR
	PD
	Context
	SRQ
	CMID
	Kinds // the number of kinds
)

var kindNames = [Kinds]string{"qp", "cq", "mr", "pd", "ctx", "srq", "cm_id"}

// String returns the kernel's name of the kind.
func (k Kind) String() string { return kindNames[k] }

// Use holds the objects and the memory of a process on a device.
type Use struct {
	Device  string
	Objects [Kinds]uint64
	MRBytes uint64 // total length of the memory regions, which may overlap
}

// total returns the number of objects.
func (u *Use) total() (n uint64) {
	for _, count := range u.Objects {
		n += count
	}
	return n
}

func (u *Use) add(other *Use) {
	for k, n := range other.Objects {
		u.Objects[k] += n
	}
	u.MRBytes = saturate(u.MRBytes, other.MRBytes)
}

// saturate returns a+b, or the maximum if the sum overflows.
func saturate(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}

// Process is a user of RDMA devices. It is a process, or a kernel module, with PID 0 and its name in
// Kernel. Another Process with PID 0 stands for all unknown threads, which have ended or belong to
// other PID namespaces. If there are too many users, the last Process is the sum of the rest and
// has Others set.
type Process struct {
	PID     int
	Name    string // name of the process
	Kernel  string
	Others  int // number of processes in the sum, or 0
	Cgroup  string
	Pod     Pod
	Uses    []Use  // sorted by device name
	Pinned  uint64 // bytes that drivers have pinned for the process
	Memlock uint64 // RLIMIT_MEMLOCK in bytes; [NoLimit] without a limit or with CAP_IPC_LOCK
	// MemlockKnown reports whether Pinned and Memlock are known.
	MemlockKnown bool
}

// NoLimit is the value of Memlock and Cgroup.Max without a limit.
const NoLimit = math.MaxUint64

// Total returns the sum of the process's uses.
func (p *Process) Total() (sum Use) {
	for i := range p.Uses {
		sum.add(&p.Uses[i])
	}
	return sum
}

// Pod is a Kubernetes pod. It comes from the path of a cgroup. UID is empty if the process doesn't
// belong to a pod. Namespace and Name are empty if the kubelet's directory can't be read.
type Pod struct {
	UID, Namespace, Name, Container string // Container is the container's ID
}

// owner is the creator of objects. If its thread has ended, the process can still be found through
// another object in the same context, whose thread exists.
type owner struct {
	tid     uint32
	kernel  string
	context int64 // -1 if unknown
}

// objects holds the numbers of objects of one device by owner.
type objects struct {
	uses     map[owner]*Use
	contexts map[uint32]int64 // contexts of PDs
	seen     [Kinds]int
}

func newObjects() *objects {
	return &objects{uses: make(map[owner]*Use), contexts: make(map[uint32]int64)}
}

// read counts the objects of a device. It doesn't store the objects.
func (o *objects) read(c *netlinkrdma.Client, device uint32) error {
	pd := func(pdn netlinkrdma.Opt[uint32]) int64 {
		if context, ok := o.contexts[pdn.Value]; ok && pdn.Known {
			return context
		}
		return -1
	}
	own := func(context netlinkrdma.Opt[uint32]) int64 {
		if context.Known {
			return int64(context.Value)
		}
		return -1
	}
	return errors.Join(
		count(o, Context, c.Contexts(device, nil), func(x *netlinkrdma.Context) (netlinkrdma.Owner, int64, uint64) {
			return x.Owner, int64(x.CTXN), 0
		}),
		count(o, PD, c.PDs(device, nil), func(p *netlinkrdma.PD) (netlinkrdma.Owner, int64, uint64) {
			o.contexts[p.PDN] = own(p.CTXN)
			return p.Owner, own(p.CTXN), 0
		}),
		count(o, QP, c.QPs(device, nil), func(q *netlinkrdma.QP) (netlinkrdma.Owner, int64, uint64) { return q.Owner, pd(q.PDN), 0 }),
		count(o, CQ, c.CQs(device, nil), func(q *netlinkrdma.CQ) (netlinkrdma.Owner, int64, uint64) { return q.Owner, own(q.CTXN), 0 }),
		count(o, MR, c.MRs(device, nil), func(m *netlinkrdma.MR) (netlinkrdma.Owner, int64, uint64) { return m.Owner, pd(m.PDN), m.Length }),
		count(o, SRQ, c.SRQs(device, nil), func(s *netlinkrdma.SRQ) (netlinkrdma.Owner, int64, uint64) { return s.Owner, pd(s.PDN), 0 }),
		count(o, CMID, c.CMIDs(device, nil), func(m *netlinkrdma.CMID) (netlinkrdma.Owner, int64, uint64) { return m.Owner, -1, 0 }),
	)
}

// count counts the objects of one kind. Older kernels can't list some kinds.
func count[T any](o *objects, k Kind, list iter.Seq2[T, error], of func(*T) (netlinkrdma.Owner, int64, uint64)) error {
	for v, err := range list {
		switch {
		case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, netlinkrdma.ErrNotFound):
			return nil
		case err != nil:
			return err
		case o.seen[k] == maxObjects:
			return fmt.Errorf("more than %d objects of kind %s", maxObjects, k)
		}
		o.seen[k]++
		by, context, bytes := of(&v)
		key := owner{by.TID, by.Kernel, context}
		use := o.uses[key]
		if use == nil {
			use = new(Use)
			o.uses[key] = use
		}
		use.Objects[k]++
		use.MRBytes = saturate(use.MRBytes, bytes)
	}
	return nil
}

// users collects the users of all devices.
type users struct {
	proc    fs.FS
	threads map[uint32]int // process IDs by thread ID; 0 if unknown
	all     map[processID]map[string]*Use
}

type processID struct {
	pid    int
	kernel string
}

func newUsers(proc fs.FS) *users {
	return &users{proc: proc, threads: make(map[uint32]int), all: make(map[processID]map[string]*Use)}
}

// add adds the objects of a device.
func (u *users) add(device string, o *objects) {
	contexts := make(map[int64]int)
	for by := range o.uses {
		if pid := u.process(by.tid); pid != 0 && by.context >= 0 {
			contexts[by.context] = pid
		}
	}
	for by, use := range o.uses {
		id := processID{u.process(by.tid), by.kernel}
		if id.pid == 0 && id.kernel == "" {
			id.pid = contexts[by.context]
		}
		if u.all[id] == nil {
			u.all[id] = make(map[string]*Use)
		}
		if u.all[id][device] == nil {
			u.all[id][device] = &Use{Device: device}
		}
		u.all[id][device].add(use)
	}
}

// process returns the process ID of a thread, or 0.
func (u *users) process(tid uint32) int {
	if tid == 0 || u.proc == nil {
		return 0
	}
	pid, known := u.threads[tid]
	if !known {
		pid, _ = strconv.Atoi(field(text(u.proc, fmt.Sprintf("%d/status", tid)), "Tgid:"))
		u.threads[tid] = pid
	}
	return pid
}

// finish adds the processes and their cgroups to the snapshot.
func (u *users) finish(s *Snapshot, tree *hierarchy, pods map[string]Pod) {
	for id, uses := range u.all {
		p := Process{PID: id.pid, Kernel: id.kernel}
		for _, device := range slices.Sorted(maps.Keys(uses)) {
			p.Uses = append(p.Uses, *uses[device])
		}
		s.Processes = append(s.Processes, p)
	}
	slices.SortFunc(s.Processes, func(a, b Process) int {
		x, y := a.Total(), b.Total()
		return cmp.Or(cmp.Compare(y.total(), x.total()), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Kernel, b.Kernel))
	})
	if n := bound(s.Processes); n < len(s.Processes) {
		s.Processes = append(s.Processes[:n], sumUp(s.Processes[n:]))
	}
	cgroups := make(map[string]bool)
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.PID == 0 {
			continue
		}
		u.describe(p)
		where, reachable := tree.resolve(p.Cgroup)
		if reachable && p.Cgroup != "" {
			p.Cgroup = where
		}
		p.Pod = podOf(p.Cgroup)
		if named, ok := pods[p.Pod.UID]; ok && p.Pod.UID != "" {
			p.Pod.Namespace, p.Pod.Name = named.Namespace, named.Name
		}
		if reachable && !cgroups[p.Cgroup] {
			cgroups[p.Cgroup] = true
			s.Cgroups = append(s.Cgroups, tree.rdma(p.Cgroup)...)
		}
	}
	if len(s.Cgroups) > maxCgroups {
		s.fail("cgroups", "", fmt.Errorf("%d resources of cgroups, %d are shown", len(s.Cgroups), maxCgroups))
		s.Cgroups = s.Cgroups[:maxCgroups]
	}
}

// bound returns how many of the processes are shown one by one: each has a series a device and kind.
func bound(all []Process) int {
	uses := 0
	for i := range all {
		if uses += len(all[i].Uses); i == maxProcesses || uses > maxUses {
			return i
		}
	}
	return len(all)
}

// sumUp returns the sum of many processes as one Process.
func sumUp(all []Process) Process {
	rest, uses := Process{Others: len(all)}, make(map[string]*Use)
	for i := range all {
		for _, use := range all[i].Uses {
			if uses[use.Device] == nil {
				uses[use.Device] = &Use{Device: use.Device}
			}
			uses[use.Device].add(&use)
		}
	}
	for _, device := range slices.Sorted(maps.Keys(uses)) {
		rest.Uses = append(rest.Uses, *uses[device])
	}
	return rest
}

// describe fills in a Process from /proc. The process may have ended meanwhile.
func (u *users) describe(p *Process) {
	dir := strconv.Itoa(p.PID)
	p.Name = text(u.proc, dir+"/comm")
	p.Cgroup = cgroupOf(text(u.proc, dir+"/cgroup"))
	status := text(u.proc, dir+"/status")
	pinned, err := strconv.ParseUint(strings.TrimSuffix(field(status, "VmPin:"), " kB"), 10, 54)
	limit, known := memlock(text(u.proc, dir+"/limits"))
	if err != nil || !known {
		return
	}
	const capIPCLock = 14
	if caps, err := strconv.ParseUint(field(status, "CapEff:"), 16, 64); err == nil && caps>>capIPCLock&1 == 1 {
		limit = NoLimit
	}
	p.Pinned, p.Memlock, p.MemlockKnown = pinned<<10, limit, true
}

// field returns the value of a key in text of the format of /proc/PID/status.
func field(text, key string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// memlock returns the soft limit of locked memory in text of the format of /proc/PID/limits.
func memlock(limits string) (bytes uint64, known bool) {
	words := strings.Fields(field(limits, "Max locked memory"))
	if len(words) == 0 {
		return 0, false
	}
	if words[0] == "unlimited" {
		return NoLimit, true
	}
	bytes, err := strconv.ParseUint(words[0], 10, 64)
	return bytes, err == nil
}

// Patterns for the names of pods and containers in cgroups. The kubelet writes the UID with dashes, or
// with underscores if it uses systemd. The UID of a static pod is a hash.
var (
	podUID      = regexp.MustCompile(`pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?(?:/|$)`)
	containerID = regexp.MustCompile(`(?:^|[-/:])([0-9a-f]{64})(?:\.scope)?$`)
)

func podOf(cgroup string) (p Pod) {
	at := podUID.FindStringSubmatchIndex(cgroup)
	if at == nil {
		return p
	}
	p.UID = strings.ReplaceAll(cgroup[at[2]:at[3]], "_", "-")
	first, _, _ := strings.Cut(cgroup[at[1]:], "/") // the container may have created cgroups below its own
	if m := containerID.FindStringSubmatch(first); m != nil {
		p.Container = m[1]
	}
	return p
}

// podNames returns the pods of this node by UID.
func podNames(logs fs.FS) map[string]Pod {
	if logs == nil {
		return nil
	}
	entries, _ := fs.ReadDir(logs, ".")
	pods := make(map[string]Pod)
	for _, e := range entries[:min(len(entries), maxPods)] {
		if parts := strings.Split(e.Name(), "_"); len(parts) == 3 {
			pods[parts[2]] = Pod{UID: parts[2], Namespace: parts[0], Name: parts[1]}
		}
	}
	return pods
}
