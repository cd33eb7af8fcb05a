package doctor

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

// memlockEnough is less than most programs register, and more than the defaults of
// systems: 64 KiB, or 8 MiB since Linux 5.16.
const memlockEnough = 64 << 20

const memlockRemedy = "ulimit -l unlimited; LimitMEMLOCK=infinity in the systemd unit; --ulimit memlock=-1 for the container; memlock in /etc/security/limits.conf"

// checkMemlock checks RLIMIT_MEMLOCK, which does not apply to processes with
// CAP_IPC_LOCK.
func checkMemlock(p *facts) []finding {
	if p.inSandbox() {
		return []finding{found(fine, "", "models of rdmalink sandbox pin no memory")}
	}
	limit, known := p.memlock()
	switch {
	case !known:
		return []finding{found(noted, "", "RLIMIT_MEMLOCK is not known: /proc/self/limits can't be read")}
	case limit == "unlimited":
		return []finding{found(fine, "", "RLIMIT_MEMLOCK is unlimited")}
	}
	n, err := strconv.ParseUint(limit, 10, 64)
	switch {
	case err != nil:
		return []finding{found(noted, "", "RLIMIT_MEMLOCK is %q", limit)}
	case p.mayLock() && n < memlockEnough && p.hasSiw():
		return []finding{found(noted, memlockRemedy, "RLIMIT_MEMLOCK is %s; CAP_IPC_LOCK lifts it, but not for siw of Linux 6.1", size(n))}
	case p.mayLock():
		return []finding{found(fine, "", "RLIMIT_MEMLOCK is %s, and CAP_IPC_LOCK lifts it", size(n))}
	case n < memlockEnough:
		return []finding{found(problem, memlockRemedy, "RLIMIT_MEMLOCK allows this process %s of registered memory, which is too little for most programs", size(n))}
	}
	return []finding{found(noted, memlockRemedy, "RLIMIT_MEMLOCK allows this process %s of registered memory", size(n))}
}

// inSandbox reports whether all devices are models.
func (p *facts) inSandbox() bool {
	isReal := func(l *deviceFacts) bool { return l.sandbox == "" }
	return len(p.devices) > 0 && !slices.ContainsFunc(p.devices, isReal)
}

func size(bytes uint64) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

// memlock returns the soft limit from /proc.
func (p *facts) memlock() (limit string, known bool) {
	for line := range strings.Lines(p.Proc.Text("self/limits")) {
		if rest, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				return fields[0], true
			}
		}
	}
	return "", false
}

// mayLock reports whether the process has CAP_IPC_LOCK. A process in a user
// namespace other than the first never has it, even if its mask includes it.
func (p *facts) mayLock() bool {
	const capIPCLock = 14
	if users := strings.Fields(p.Proc.Text("self/uid_map")); len(users) > 0 && strings.Join(users, " ") != "0 0 4294967295" {
		return false
	}
	for line := range strings.Lines(p.Proc.Text("self/status")) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			return err == nil && caps>>capIPCLock&1 == 1
		}
	}
	return false
}

func (p *facts) hasSiw() bool {
	for _, l := range p.devices {
		if l.info.Driver == verbs.DriverSIW {
			return true
		}
	}
	return false
}

// checkCgroup reads the limits of the process's rdma cgroup and those above it,
// as far as they are shown here.
func checkCgroup(p *facts) (all []finding) {
	limits := 0
	for _, dir := range p.rdmaCgroups() {
		used, allowed := usesOf(p.Sys.Text(dir, "rdma.current")), usesOf(p.Sys.Text(dir, "rdma.max"))
		for _, key := range slices.Sorted(maps.Keys(allowed)) {
			device, kind, _ := strings.Cut(key, " ")
			l := p.find(device)
			if allowed[key] == "max" || l == nil || l.sandbox != "" {
				continue
			}
			limits++
			n, most := amount(used[key]), amount(allowed[key])
			if kind == "hca_handle" && l.dev != nil && n > 0 {
				n-- // ours, which the program in question can have
			}
			if n >= most {
				all = append(all, found(problem, fmt.Sprintf("raise it: echo '%s %s=max' > /sys/%s/rdma.max", device, kind, dir),
					"%s: the cgroup allows %d %s and has %d: another one fails with EAGAIN", device, most, kind, n))
			}
		}
	}
	switch {
	case all != nil:
		return all
	case limits > 0:
		return []finding{found(fine, "", "there are limits, and none is reached")}
	}
	return []finding{found(fine, "", "no limit is visible")}
}

// rdmaCgroups returns the directories of the process's cgroup and those above.
func (p *facts) rdmaCgroups() (dirs []string) {
	for line := range strings.Lines(p.Proc.Text("self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "rdma" {
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			dirs = append(dirs, path.Join("fs/cgroup", parts[1], dir))
			if dir == "/" {
				break
			}
		}
	}
	return dirs
}

// usesOf reads lines such as "siw0 hca_handle=2 hca_object=max".
func usesOf(text string) map[string]string {
	uses := make(map[string]string)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for i := 1; i < len(fields); i++ {
			kind, value, _ := strings.Cut(fields[i], "=")
			uses[fields[0]+" "+kind] = value
		}
	}
	return uses
}

func amount(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func (p *facts) find(device string) *deviceFacts {
	for _, l := range p.devices {
		if l.Name == device {
			return l
		}
	}
	return nil
}
