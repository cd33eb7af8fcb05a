package metrics

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// TestCgroupNamespace reads the rdma controller as a process of the host does, as a pod does that has
// a cgroup namespace of its own and mounts the host's /sys, and as a container does that sees
// its own cgroups only.
func TestCgroupNamespace(t *testing.T) {
	const (
		pods  = "/kubepods.slice/kubepods-besteffort.slice"
		own   = pods + "/kubepods-besteffort-pod0a1b2c3d_0000_0000_0000_0a1b2c3d4e5f.slice"
		owner = pods + "/kubepods-besteffort-pod0a1b2c3d_0001_0002_0003_0a1b2c3d4e5f.slice"
	)
	id := "/cri-containerd-" + strings.Repeat("0f", 32) + ".scope"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	// host is a tree of cgroups: this process is in one pod, process 30 in another, 31 in a service.
	host := func(dir string) fstest.MapFS {
		sys := fstest.MapFS{dir + "/cgroup.procs": file("1\n2\n"), "fs/cgroup/cgroup.controllers": file("rdma")}
		for cgroup, pid := range map[string]string{own + id: "20", owner + id: "30", "/system.slice/a.service": "31"} {
			sys[dir+cgroup+"/cgroup.procs"] = file("9" + pid + "\n" + pid + "\n")
			sys[dir+cgroup+"/rdma.current"] = file("mlx5_0 hca_handle=" + pid + " hca_object=x\n")
			sys[dir+cgroup+"/rdma.max"] = file("mlx5_0 hca_handle=max\n")
		}
		return sys
	}
	v1 := host("fs/cgroup/rdma")
	delete(v1, "fs/cgroup/cgroup.controllers")
	for name, test := range map[string]struct {
		sys         fstest.MapFS
		self, nspid string
		theirs      [3]string // of processes 20, 30 and 31
		want        []string  // the cgroups that are shown
	}{
		"host": {host("fs/cgroup"), "0::/system.slice/a.service", "31", [3]string{"0::" + own + id, "0::" + owner + id, "0::/system.slice/a.service"},
			[]string{own + id, owner + id, "/system.slice/a.service"}},
		"pod": {host("fs/cgroup"), "0::/", "20", [3]string{"0::/", "0::/../.." + owner[len(pods):] + id, "0::/../../../../system.slice/a.service"},
			[]string{own + id, owner + id, "/system.slice/a.service"}},
		"pod, version 1": {v1, "3:rdma:/\n0::/x", "20", [3]string{"3:rdma:/", "3:rdma:/../.." + owner[len(pods):] + id, "3:rdma:/../../../../system.slice/a.service"},
			[]string{own + id, owner + id, "/system.slice/a.service"}},
		"in a cgroup of the container": {host("fs/cgroup"), "0::" + id, "1000 20", [3]string{"0::" + id, "0::/.." + owner[len(pods):] + id, "0::/../../../system.slice/a.service"},
			[]string{own + id, owner + id, "/system.slice/a.service"}},
		"container": {fstest.MapFS{"fs/cgroup/cgroup.procs": file("20"), "fs/cgroup/rdma.current": file("mlx5_0 hca_handle=20"),
			"fs/cgroup/system.slice/a.service/rdma.current": file("mlx5_0 hca_handle=99")},
			"0::/", "20", [3]string{"0::/", "0::/../.." + owner[len(pods):] + id, "0::/../system.slice/a.service"}, []string{"/"}},
	} {
		t.Run(name, func(t *testing.T) {
			proc := fstest.MapFS{"self/cgroup": file(test.self + "\n"), "self/status": file("Name:\tx\nNSpid:\t" + test.nspid + "\n")}
			k := state(verbs.PortActive, map[uint32]string{1: "mlx5_0"})
			var qps []netlinkrdma.QP
			for i, pid := range []int{20, 30, 31} {
				dir := strconv.Itoa(pid)
				proc[dir+"/cgroup"], proc[dir+"/status"] = file(test.theirs[i]+"\n"), file("Tgid:\t"+dir+"\n")
				qps = append(qps, netlinkrdma.QP{Owner: netlinkrdma.Owner{TID: uint32(pid)}, LQPN: uint32(pid)})
			}
			k.Objects = map[uint32]nltest.Objects{1: {QP: qps}}
			c := &Collector{RDMA: &netlinkrdma.Client{Kernel: k}, Sys: test.sys, Proc: proc}
			s, err := c.Collect()
			if err != nil || len(s.Processes) != 3 {
				t.Fatal(s, err)
			}
			var paths []string
			for _, g := range s.Cgroups {
				paths = append(paths, g.Path)
				if pid := strconv.FormatUint(g.Current, 10); g.Resource != "hca_handle" || g.Max != NoLimit ||
					g.Path != "/" && !slices.Contains(strings.Fields(text(test.sys, c.cgroups.dir+g.Path+"/cgroup.procs")), pid) {
					t.Errorf("%+v", g)
				}
			}
			if !slices.Equal(paths, test.want) {
				t.Errorf("%q", paths)
			}
			if p := s.Processes[0]; name != "container" && (p.Cgroup != own+id || p.Pod.UID != "0a1b2c3d-0000-0000-0000-0a1b2c3d4e5f" || p.Pod.Container != strings.Repeat("0f", 32)) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestBounds checks that many processes on many devices do not become many series, and that
// nothing is lost.
func TestBounds(t *testing.T) {
	k := state(verbs.PortActive, nil)
	proc, sys := make(fstest.MapFS), make(fstest.MapFS)
	k.Objects = make(map[uint32]nltest.Objects)
	const devices, processes = 40, 200
	var resources strings.Builder
	for d := range uint32(devices) {
		name := "d" + strconv.Itoa(int(d))
		resources.WriteString(name + " hca_handle=1 hca_object=1\n")
		k.Devices = append(k.Devices, netlinkrdma.Device{Index: d, Name: name})
		var qps []netlinkrdma.QP
		for p := range uint32(processes) {
			qps = append(qps, netlinkrdma.QP{Owner: netlinkrdma.Owner{TID: 1 + p}, LQPN: p})
		}
		k.Objects[d] = nltest.Objects{QP: qps}
	}
	for p := 1; p <= processes; p++ {
		dir := strconv.Itoa(p)
		proc[dir+"/status"], proc[dir+"/cgroup"] = &fstest.MapFile{Data: []byte("Tgid:\t" + dir)}, &fstest.MapFile{Data: []byte("0::/" + dir)}
		sys["fs/cgroup/"+dir+"/rdma.current"] = &fstest.MapFile{Data: []byte(resources.String())}
	}
	s, err := (&Collector{RDMA: &netlinkrdma.Client{Kernel: k}, Sys: sys, Proc: proc}).Collect()
	if err != nil {
		t.Fatal(err)
	}
	uses, qps := 0, uint64(0)
	for i := range s.Processes {
		uses += len(s.Processes[i].Uses)
		qps += s.Processes[i].Total().Objects[QP]
	}
	if uses != 1000+devices || qps != devices*processes || s.Processes[len(s.Processes)-1].Others != processes-25 {
		t.Error(uses, qps, len(s.Processes))
	}
	if len(s.Cgroups) != 1024 || len(s.Errors) != 1 || s.Errors[0].Part != "cgroups" {
		t.Error(len(s.Cgroups), s.Errors)
	}
}

// FuzzHierarchy finds this process's place in a tree of cgroups, and that of another process. A path never leads out of
// the tree.
func FuzzHierarchy(f *testing.F) {
	for _, own := range []string{"0::/", "0::/pods/a", "0::pods", "3:rdma,x:/pods\n0::/x", "0::/../pods", "0::/..", "::\n:rdma:"} {
		for _, theirs := range []string{"/../b", "/..", "/../..", "/../../../x", "", "/a/../../..", "..", "/a\x00", "/\xff"} {
			f.Add(own, "NSpid:\t7 1\n", theirs, "1\n7\n", "mlx5_0 hca_handle=max hca_object=18446744073709551616\n")
		}
	}
	f.Fuzz(func(t *testing.T, own, status, theirs, procs, current string) {
		file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
		sys := fstest.MapFS{"fs/cgroup/cgroup.procs": file("2\n"), "fs/cgroup/pods/a/cgroup.procs": file(procs), "fs/cgroup/pods/a/rdma.current": file(current)}
		h := findHierarchy(fstest.MapFS{"self/cgroup": file(own), "self/status": file(status)}, sys)
		place, ok := h.resolve(theirs)
		if ok && (!strings.HasPrefix(place, "/") || strings.Contains(place, "/../")) {
			t.Errorf("%q", place)
		}
		h.rdma(place)
	})
}
