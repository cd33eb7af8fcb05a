package doctor

// check is one thing that can be wrong.
type check struct {
	name  string
	about string
	run   func(*facts) []finding
}

// checks lists the checks in the order in which a program would run into the
// problems. docs/doctor.md describes each.
var checks = []check{
	{"core", "the kernel supports RDMA, and answers", checkCore},
	{"devices", "there are RDMA devices in this network namespace", checkDevices},
	{"modules", "no driver is loaded without its RDMA half", checkModules},
	{"netns", "how network namespaces share devices; network devices in other namespaces", checkNetns},
	{"nodes", "device nodes exist, are the right ones, and can be opened", checkNodes},
	{"provider", "this build can create queues on the device", checkProvider},
	{"rdma_cm", "connections can be made by address", checkCM},
	{"port", "ports are active", checkPort},
	{"gid", "ports have GIDs that peers can send to", checkGID},
	{"address", "network devices have the addresses that rdma_cm needs", checkAddress},
	{"connect", "rdma_cm connects through soft RoCE and soft iWARP: to the device's own address", checkConnect},
	{"lossless", "RoCE's network devices pause instead of dropping packets: PFC, DSCP, ETS", checkLossless},
	{"ecn", "the kernel's queues mark packets before they drop any", checkECN},
	{"memlock", "programs can pin enough memory", checkMemlock},
	{"cgroup", "no limit of the rdma cgroup is reached", checkCgroup},
	{"register", "memory can be registered: one page, which is released again", checkRegister},
}
