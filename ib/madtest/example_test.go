package madtest_test

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
)

// A program asks the switch at the other end of its port's link for its name.
func ExampleNewSubnet() {
	topology, err := madtest.FatTree(4, 2)
	if err != nil {
		panic(err)
	}
	subnet, err := madtest.NewSubnet(topology)
	if err != nil {
		panic(err)
	}
	port, err := subnet.Open("h1", 1)
	if err != nil {
		panic(err)
	}
	defer port.Close()
	agent, err := port.Register(mad.AgentConfig{Class: mad.ClassDirected})
	if err != nil {
		panic(err)
	}
	request := mad.New(mad.ClassDirected, mad.Get, mad.AttrNodeDescription, 0)
	request.SetDrSLID(mad.PermissiveLID)
	request.SetDrDLID(mad.PermissiveLID)
	request.SetHopCount(1)
	request.InitialPath()[1] = 1 // the output port of the first hop
	response, err := agent.Do(context.Background(), &mad.Message{Addr: mad.Addr{LID: mad.PermissiveLID}, Data: request}, mad.Retry{})
	if err != nil {
		panic(err)
	}
	var description mad.NodeDescription
	if err := mad.Unmarshal(response.Data.Data(), &description); err != nil {
		panic(err)
	}
	fmt.Println(description.Text)
	// Output: leaf1
}

// A subnet manager assigns a LID to each port, so any program can reach any port.
func ExampleSubnet_StartSM() {
	topology, err := madtest.Dragonfly(3, 2, 2)
	if err != nil {
		panic(err)
	}
	subnet, err := madtest.NewSubnet(topology)
	if err != nil {
		panic(err)
	}
	fmt.Println(subnet.Node("h12").Port(1).Info().LinkState)
	if err := subnet.StartSM("h1"); err != nil {
		panic(err)
	}
	info := subnet.Node("h12").Port(1).Info()
	fmt.Println(info.LinkState, info.LID, info.SMLID)
	// Output:
	// INIT
	// ACTIVE 18 1
}
