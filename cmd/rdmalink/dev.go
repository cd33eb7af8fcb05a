package main

// devCommand is rdma dev: what there is of a device whatever its ports.
func devCommand() command {
	return command{
		names:   []string{"dev"},
		leads:   true,
		summary: "show RDMA devices, rename them, move them, and add sub-devices",
		sub:     []command{addDeviceCommand(), deleteDeviceCommand(), showDevicesCommand(), setDeviceCommand(), helpCommand("dev")},
		run:     showDevices,
	}
}
