package main

import "context"

func setDeviceCommand() command {
	return command{
		names:   []string{"set"},
		args:    "DEV { name NEWNAME | netns NETNS | adaptive-moderation { on | off } }",
		summary: "rename a device, move it to a network namespace, or moderate its interrupts",
		details: `
NETNS is a name that ip netns add gave (a file in /run/netns), a path, or the
number of a process. A device moves in exclusive mode only (see system set),
out of the namespace where rdmalink runs, and loses its users. siw and rxe
devices stay where they were added. It all needs CAP_NET_ADMIN.

adaptive-moderation holds for the queues that the kernel makes from then on.`,
		run: setDevice,
	}
}

func setDevice(_ context.Context, t *tool, w *words) error {
	name, err := w.value("DEV")
	if err != nil {
		return err
	}
	set, err := t.deviceSetting(w)
	if err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	return t.change("set "+name, name, set)
}

// deviceSetting reads what shall change, and gives what changes it.
func (t *tool) deviceSetting(w *words) (set func(device uint32) error, err error) {
	what, err := w.oneOf("name", "netns", "adaptive-moderation")
	switch {
	case err != nil:
		return nil, err
	case what == "name":
		name, err := w.value("NEWNAME")
		return func(device uint32) error { return t.RDMA.RenameDevice(device, name) }, err
	case what == "netns":
		netns, err := w.value("NETNS")
		return func(device uint32) error { return t.moveDevice(device, netns) }, err
	}
	on, err := w.onOff()
	return func(device uint32) error { return t.RDMA.SetAdaptiveModeration(device, on) }, err
}

func (t *tool) moveDevice(device uint32, netns string) error {
	to, err := openNetns(netns)
	if err != nil {
		return err
	}
	defer to.Close()
	return t.RDMA.MoveDevice(device, to)
}
