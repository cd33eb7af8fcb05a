package doctor

// check is one thing that can be wrong.
type check struct {
	name  string
	about string
	run   func(*patient) []finding
}

// checks lists the checks in the order in which a program would run into the
// problems. docs/doctor.md describes each.
var checks = []check{
	{"core", "the kernel has RDMA, and answers", checkCore},
	{"devices", "there are RDMA devices in this network namespace", checkDevices},
	{"modules", "no driver is there with its network half alone", checkModules},
	{"netns", "how network namespaces share devices; network devices that live elsewhere", checkNetns},
	{"nodes", "device nodes exist, are the right ones, and may be opened", checkNodes},
	{"provider", "this build can make queues on the device", checkProvider},
	{"rdma_cm", "connections can be made by address", checkCM},
	{"port", "ports are active", checkPort},
	{"gid", "ports have GIDs that peers can send to", checkGID},
	{"address", "network devices have what rdma_cm finds them by", checkAddress},
	{"lossless", "RoCE's network devices pause for packets rather than drop them: PFC, DSCP, ETS", checkLossless},
	{"ecn", "queues of the kernel mark packets before they drop some", checkECN},
	{"memlock", "memory can be pinned, as much as programs want", checkMemlock},
	{"cgroup", "no limit of the rdma cgroup is reached", checkCgroup},
	{"register", "memory can in fact be registered: a page, which is given back", checkRegister},
}
