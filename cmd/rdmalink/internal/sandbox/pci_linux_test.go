package sandbox

import "testing"

// TestPCI checks that hardware is behind a PCI device, as programs look for it, and that devices in
// software are behind none.
func TestPCI(t *testing.T) {
	out, err := inside(t, []string{"-d", "mlx5"}, "sh", "-c", `ib=/sys/class/infiniband/mlx5_0
		realpath $ib /sys/class/infiniband_verbs/uverbs0 $ib/device $ib/device/driver /sys/bus/pci/drivers/mlx5_core/*
		readlink $ib/device
		cat $ib/device/vendor $ib/device/device $ib/device/numa_node $ib/hca_type $ib/board_id $ib/fw_ver $ib/ports/1/gids/1 $ib/ports/1/gid_attrs/types/1
		grep SLOT /sys/bus/pci/devices/ffff:00:01.0/uevent`)
	const want = `/sys/devices/pciffff:00/ffff:00:01.0/infiniband/mlx5_0
/sys/devices/pciffff:00/ffff:00:01.0/infiniband_verbs/uverbs0
/sys/devices/pciffff:00/ffff:00:01.0
/sys/bus/pci/drivers/mlx5_core
/sys/devices/pciffff:00/ffff:00:01.0
../../../ffff:00:01.0
0x15b3
0x1019
-1
MT4121
MT_0000000008
16.35.3006
0000:0000:0000:0000:0000:ffff:c633:6401
RoCE v2
PCI_SLOT_NAME=ffff:00:01.0
`
	if err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = inside(t, []string{"-d", "rxe"}, "sh", "-c", "realpath /sys/class/infiniband/rxe0; test ! -e /sys/class/infiniband/rxe0/device")
	if err != nil || out != "/sys/class/infiniband/rxe0\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
