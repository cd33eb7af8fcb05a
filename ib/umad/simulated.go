package umad

import (
	"os"
	"strconv"
)

// IBSim describes a simulator and the node to attach to. Its fields are the environment variables of
// libumad2sim.
type IBSim struct {
	Node       string // SIM_HOST: name or description of the node; empty means the first of the topology file
	IsSM       bool   // SIM_SET_ISSM: the port is a subnet manager; only such ports receive requests
	SockName   string // IBSIM_SOCKNAME: base of the names of the simulator's sockets; empty means sim
	Server     string // IBSIM_SERVER_NAME: host of a simulator that uses UDP; empty means Unix sockets on this host
	ServerPort uint16 // IBSIM_SERVER_PORT: 0 means 7070
}

// Simulated returns the simulator that the environment names. The result is false if none of
// SIM_HOST, IBSIM_SOCKNAME and IBSIM_SERVER_NAME is set.
func Simulated() (IBSim, bool) {
	c := IBSim{Node: os.Getenv("SIM_HOST"), SockName: os.Getenv("IBSIM_SOCKNAME"), Server: os.Getenv("IBSIM_SERVER_NAME")}
	_, c.IsSM = os.LookupEnv("SIM_SET_ISSM")
	if n, err := strconv.ParseUint(os.Getenv("IBSIM_SERVER_PORT"), 10, 16); err == nil {
		c.ServerPort = uint16(n)
	}
	return c, c.Node != "" || c.SockName != "" || c.Server != ""
}
