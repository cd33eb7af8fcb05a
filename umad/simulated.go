package umad

import (
	"os"
	"strconv"
)

// IBSim says which simulator to attach to, and where. Its fields are the variables of umad2sim's
// environment.
type IBSim struct {
	Node       string // SIM_HOST: name or description of the node; empty: the first of the simulator's file
	IsSM       bool   // SIM_SET_ISSM: the port is a subnet manager, which also lets it receive requests
	SockName   string // IBSIM_SOCKNAME: base of the names of the simulator's sockets; empty: sim
	Server     string // IBSIM_SERVER_NAME: host that runs the simulator with UDP; empty: this host, without UDP
	ServerPort uint16 // IBSIM_SERVER_PORT: 0 means 7070
}

// Simulated returns the simulator that the environment names. It reports whether there is one: one of
// SIM_HOST, IBSIM_SOCKNAME and IBSIM_SERVER_NAME is set.
func Simulated() (IBSim, bool) {
	c := IBSim{Node: os.Getenv("SIM_HOST"), SockName: os.Getenv("IBSIM_SOCKNAME"), Server: os.Getenv("IBSIM_SERVER_NAME")}
	_, c.IsSM = os.LookupEnv("SIM_SET_ISSM")
	if n, err := strconv.ParseUint(os.Getenv("IBSIM_SERVER_PORT"), 10, 16); err == nil {
		c.ServerPort = uint16(n)
	}
	return c, c.Node != "" || c.SockName != "" || c.Server != ""
}
