package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/rig"
)

// others returns the words before a command that make it find programs of packages that were unpacked, not
// installed: make others.
func others(t *testing.T) []string {
	t.Helper()
	long(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "goverbs/others")
	needFile(t, filepath.Join(root, "complete"))
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	if err != nil || len(libraries) != 1 {
		t.Fatal(libraries, err)
	}
	lib := libraries[0]
	path := []string{lib, lib + "/ceph", lib + "/openmpi/lib", lib + "/pmix2/lib", root + "/usr/lib/libpsm1"}
	return []string{"env", "LD_LIBRARY_PATH=" + strings.Join(path, ":"), "PATH=" + root + "/usr/bin:" + os.Getenv("PATH"),
		"UCX_MODULE_DIR=" + lib + "/ucx", "OPAL_PREFIX=" + root + "/usr", "PMIX_INSTALL_PREFIX=" + lib + "/pmix2",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
}

// limited returns a command that is killed when it takes too long. The test then reports its output so far.
func limited(line string) string { return "timeout -k 10 5m " + line }

// prints runs a command, and succeeds if the command prints a text.
func prints(line, want string) string {
	return fmt.Sprintf(`out=$(%s 2>&1); echo "$out"; case $out in *'%s'*);; *) false;; esac`, limited(line), want)
}

// pair is script for clients whose exit codes say nothing: fio's is 0 if its server does not listen yet. The client
// begins again until it prints want.
func pair(server, client, want string) string { return script(limited(server), prints(client, want)) }

// TestOthers runs programs of others, unmodified, and wants their own words of success. perftest and the programs of
// rdma-core have tests of their own.
func TestOthers(t *testing.T) {
	env := others(t)
	fio := func(verb string) string { // of fio's two ends, the one that reads is the server
		line := "fio --name=x --ioengine=rdma --bs=4k --size=1m --iodepth=8 --port=" + freePort(t)
		return pair(line+" --rw=read", line+" --hostname=198.51.100.1 --rw=write --verb="+verb, "err= 0")
	}
	qperf := func() string { // its last two tests compare the data; the server runs until the client sends quit
		port := " -lp " + freePort(t)
		// -cp1 polls: a signal at the end of a test may interrupt ibv_req_notify_cq, see docs/sandbox.md.
		const tests = " -cm1 -cp1 -t 1 rc_lat rc_rdma_write_bw rc_rdma_read_lat ver_rc_compare_swap ver_rc_fetch_add"
		client := "qperf 127.0.0.1" + port
		return pair("qperf"+port, "sh -c '"+client+tests+" && "+client+" quit'", "quit:")
	}
	ucx := func(transport, device, test string) string {
		line := fmt.Sprintf("ucx_perftest -x %s -d %s:1 -n 100 -w 10 -p %s -t %s", transport, device, freePort(t), test)
		return pair(line, line+" 127.0.0.1", "Final:  ")
	}
	fabric := func(endpoint string) string { // -c compares the data
		line := "fi_pingpong -c -p " + endpoint
		port := freePort(t)
		return pair(line+" -B "+port, line+" -P "+port+" 127.0.0.1", "Mxfers/sec")
	}
	newest := func(script string) string {
		core, err := rig.NewestRDMACore()
		if err != nil {
			missing(t, "the newest rdma-core")
		}
		return "export LD_LIBRARY_PATH=" + filepath.Join(core.Dir, "build/lib") + ":$LD_LIBRARY_PATH; " + script
	}
	// Between ranks on one host, libfabric's efa and Open MPI would use shared memory.
	const efaMPI = "env FI_EFA_ENABLE_SHM_TRANSFER=0 mpirun.openmpi --oversubscribe -np 2 --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include efa " +
		"--mca btl ^openib NPopenmpi -i -u 70000 -n 2 -o /dev/null"
	efaReads := func() string {
		return "export FI_EFA_ENABLE_SHM_TRANSFER=0 FI_EFA_USE_DEVICE_RDMA=1; " + fabric("efa -e rdm -I 3 -S 1048576")
	}
	const netpipe = "mpirun.openmpi --oversubscribe -np 2 --mca pml ucx --mca btl ^openib NPopenmpi -i -u 70000 -n 2 -o /dev/null"
	for _, c := range []struct{ what, kind, script string }{
		{"fio writes", "rxe", fio("write")},
		{"fio writes", "mlx5", fio("write")},
		{"fio reads", "rxe", fio("read")},
		{"fio writes", "siw", fio("write")},
		{"qperf", "rxe", qperf()},
		{"qperf", "mlx5", qperf()},
		{"UCX rc", "rxe", ucx("rc_verbs", "rxe0", "am_lat")},
		{"UCX rc_mlx5", "mlx5", ucx("rc_mlx5", "mlx5_0", "am_lat")},
		{"UCX rc_mlx5 gets", "mlx5", ucx("rc_mlx5", "mlx5_0", "get -D bcopy -s 16")},
		{"UCX ud_mlx5", "mlx5", ucx("ud_mlx5", "mlx5_0", "am_lat")},
		{"UCX ud_verbs", "mlx5", ucx("ud_verbs", "mlx5_0", "am_lat")},
		{"libfabric", "rxe", fabric("verbs -e msg")},
		{"libfabric's datagrams", "rxe", fabric("verbs -e dgram")},
		{"libfabric in a namespace", "rxe --netns", fabric("verbs -e msg")},
		{"libfabric in a namespace", "siw --netns", fabric("verbs -e msg")},
		{"libfabric in a namespace", "erdma --netns", fabric("verbs -e msg")},
		{"libfabric", "efa", "export FI_EFA_ENABLE_SHM_TRANSFER=0; " + fabric("efa -e rdm")},
		{"libfabric reads", "efa", efaReads()},
		{"libfabric reads with the newest rdma-core", "efa", newest(efaReads())},
		{"libfabric's datagrams", "efa", fabric("efa -e dgram")},
		// NetPIPE compares the data.
		{"Open MPI on UCX", "mlx5", prints(netpipe, "65537 bytes      2 times -->  Integrity check passed")},
		{"Open MPI on libfabric", "efa", prints(efaMPI, "65537 bytes      2 times -->  Integrity check passed")},
	} {
		t.Run(c.what+" on "+c.kind, func(t *testing.T) {
			t.Parallel()
			out, err := inside(t, append([]string{"-d"}, strings.Fields(c.kind)...), slices.Concat(env, []string{"sh", "-c", c.script})...)
			needNamespaces(t, err)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
