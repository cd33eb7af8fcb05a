package sandbox

import (
	"fmt"
	"strings"
	"testing"
)

// TestProfileInside reads what programs see of a profile's machine.
func TestProfileInside(t *testing.T) {
	out, err := inside(t, []string{"--profile", "hygon-8dcu", "--hosts", "2", "--fault", "link 1:mlx5_4 down"}, "sh", "-c", `
		cd /sys/class/infiniband && for d in *; do cat $d/device/vendor $d/device/numa_node $d/ports/1/rate $d/ports/1/state $d/hca_type; readlink -f $d/device; done
		ls /sys/bus/pci/devices | wc -l; cat /sys/bus/pci/devices/0000:37:00.0/class; ls /dev/infiniband; GOVERBS_HOST=2 ls /sys/class/infiniband`)
	var want strings.Builder
	for i, d := range []struct{ numa, rate, model, dir string }{
		{"3", "200 Gb/sec (4X HDR)", "MT4129", "pci0000:30/0000:30:01.0/0000:31:00.0/0000:32:03.0/0000:40:00.0/0000:41:02.0/0000:42:00.0"},
		{"3", "200 Gb/sec (4X HDR)", "MT4129", "pci0000:30/0000:30:01.0/0000:31:00.0/0000:32:03.0/0000:40:00.0/0000:41:02.0/0000:42:00.1"},
		{"5", "10 Gb/sec (4X SDR)", "MT4117", "pci0000:90/0000:90:01.0/0000:91:00.0"},
		{"5", "10 Gb/sec (4X SDR)", "MT4117", "pci0000:90/0000:90:01.0/0000:91:00.1"},
		{"7", "200 Gb/sec (4X HDR)", "MT4129", "pci0000:b0/0000:b0:01.0/0000:b1:00.0/0000:b2:02.0/0000:bb:00.0/0000:bc:02.0/0000:c0:00.0"},
		{"7", "200 Gb/sec (4X HDR)", "MT4129", "pci0000:b0/0000:b0:01.0/0000:b1:00.0/0000:b2:02.0/0000:bb:00.0/0000:bc:02.0/0000:c0:00.1"},
	} {
		state := "4: ACTIVE"
		if i == 4 {
			state = "1: DOWN"
		}
		fmt.Fprintf(&want, "0x15b3\n%s\n%s\n%s\n%s\n/sys/devices/%s\n", d.numa, d.rate, state, d.model, d.dir)
	}
	names := "mlx5_0\nmlx5_1\nmlx5_2\nmlx5_3\nmlx5_4\nmlx5_5\n"
	want.WriteString("57\n0x038000\nrdma_cm\nuverbs0\nuverbs1\nuverbs2\nuverbs3\nuverbs4\nuverbs5\n" + names)
	if err != nil || out != want.String() {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want.String())
	}
}

// TestProfileOfPrograms moves data between the third devices of two machines.
func TestProfileOfPrograms(t *testing.T) {
	long(t)
	for _, program := range []string{"rping", "ibv_devinfo"} {
		need(t, program)
	}
	const server = "198.51.102.1"
	out, err := inside(t, []string{"--profile", "dgx-h100", "--hosts", "2"}, "sh", "-c", rpings(t, "rping -s -a "+server, "env "+hostVariable+"=2 rping -c -a "+server))
	if err != nil || len(pinged.FindAllString(out, -1)) != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = inside(t, []string{"--profile", "dgx-h100"}, "ibv_devinfo", "-v", "-d", "mlx5_11")
	if err != nil || !strings.Contains(out, "vendor_part_id:\t\t\t4129") || !strings.Contains(out, "4X (2)") || !strings.Contains(out, "(128)") {
		t.Errorf("%v\n%s", err, out)
	}
}
