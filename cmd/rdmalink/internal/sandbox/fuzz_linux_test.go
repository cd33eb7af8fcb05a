package sandbox

import (
	"context"
	"os"
	"testing"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// noProcess returns a call of a process that has ended, whose memory can be neither read nor written. So programs of
// the fuzzer can't name memory of this process.
func noProcess(f *testing.F) *call {
	p, err := openProcess(os.Getpid())
	if err != nil {
		f.Fatal(err)
	}
	p.close()
	return &call{supervisor: &supervisor{listener: -1}, process: p}
}

func fuzzFiles(f *testing.F) *files {
	all, err := newFiles()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(all.remove)
	return all
}

// cmCommandOf returns a command of the connection manager's.
func cmCommandOf(cmd uint32, out uint16, body any) []byte {
	var b []byte
	switch v := body.(type) {
	case abi.RdmaUcmCreateId:
		b = abi.Bytes(&v)
	case abi.RdmaUcmBind:
		b = abi.Bytes(&v)
	case abi.RdmaUcmSetOption:
		b = abi.Bytes(&v)
	case abi.RdmaUcmResolveAddr:
		b = abi.Bytes(&v)
	}
	h := abi.RdmaUcmCmdHdr{Cmd: cmd, In: uint16(len(b)), Out: out}
	return append(append([]byte(nil), abi.Bytes(&h)...), b...)
}

// FuzzCM writes commands to a channel of the connection manager that has an ID.
func FuzzCM(f *testing.F) {
	k, fabric := newFabric(options{kind: "rxe", hosts: 1}, nil)
	c, all := noProcess(f), fuzzFiles(f)
	create := cmCommandOf(abi.RDMA_USER_CM_CMD_CREATE_ID, 4, abi.RdmaUcmCreateId{Ps: abi.RDMA_PS_TCP})
	bind := abi.RdmaUcmBind{Id: 1, AddrSize: 28}
	bind.Addr[0] = afInet6
	f.Add(create)
	f.Add(cmCommandOf(abi.RDMA_USER_CM_CMD_BIND, 0, bind))
	f.Add(cmCommandOf(abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, 0, abi.RdmaUcmResolveAddr{Id: 1, SrcSize: 16, DstSize: 28}))
	f.Add(cmCommandOf(abi.RDMA_USER_CM_CMD_SET_OPTION, 0, abi.RdmaUcmSetOption{Id: 1, Optname: abi.RDMA_OPTION_ID_AFONLY, Optlen: 4}))
	f.Add(cmCommandOf(abi.RDMA_USER_CM_CMD_GET_EVENT, 336, nil))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		own, theirs, err := all.pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		channel, err := k.OpenCM()
		if err != nil {
			t.Fatal(err)
		}
		m := &cm{pipe: own, addr: fabric.Host(0).Device(0).Addrs()[0], channel: channel, onlyIP6: make(map[uint32]bool)}
		m.life, m.end = context.WithCancel(context.Background())
		defer m.close()
		_ = m.channel.Command(append(append([]byte(nil), create...), make([]byte, mostCommand)...), make([]byte, 4))
		r := m.take(c, append([]byte(nil), b...))
		if r.resume || r.errno == 0 && !r.later && int(r.value) != len(b) {
			t.Errorf("%+v for %d bytes", r, len(b))
		}
	})
}

// FuzzDevice writes commands to a uverbs device.
func FuzzDevice(f *testing.F) {
	k, fabric := newFabric(options{kind: "rxe", hosts: 1}, nil)
	c, all := noProcess(f), fuzzFiles(f)
	m, err := newMachine(k, 0, fabric.Host(0), all.dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	file, err := m.OpenDevice(m.devices[0].char.Path(), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { file.Close() })
	d := &device{kernel: file.(*fakeverbs.Kernel)}
	f.Add([]byte{abi.IB_USER_VERBS_CMD_POST_SEND, 0, 0, 0, 10, 0, 2, 0, 31: 0})
	f.Add([]byte{abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{abi.IB_USER_VERBS_CMD_POLL_CQ, 0, 0, 0, 6, 0, 0xff, 0xff, 23: 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r := d.take(c, append([]byte(nil), b...)); r.resume || r.later {
			t.Errorf("%+v", r)
		}
	})
}

// FuzzUmad writes messages to a umad node with an agent.
func FuzzUmad(f *testing.F) {
	subnet, err := newSubnet("fat-tree:4x2", true)
	if err != nil {
		f.Fatal(err)
	}
	hosts := newFabricHosts(subnet, f.TempDir(), 0)
	host, err := hosts.machine("")
	if err != nil {
		f.Fatal(err)
	}
	all := fuzzFiles(f)
	f.Add(make([]byte, umadHeader+mad.Size), true)
	f.Add(make([]byte, umadOldHeader+rmppHeader), false)
	f.Add([]byte{umadHeader - 1: 0}, true)
	request := make([]byte, umadHeader+mad.Size)
	copy(request[umadHeader:], []byte{1, byte(mad.ClassSA), 2, 1})
	request[8], request[32] = 1, 1 // milliseconds, and a global route
	f.Add(request, true)
	f.Fuzz(func(t *testing.T, b []byte, pkeys bool) {
		own, theirs, err := all.pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		u := &umadFile{pipe: own, pkeys: pkeys, pending: make(map[umadRequest]bool)}
		u.life, u.end = context.WithCancel(context.Background())
		if u.port, err = host.fabric.order[0].open(); err != nil {
			t.Fatal(err)
		}
		defer u.close()
		a, err := u.port.Register(mad.AgentConfig{Class: mad.ClassSA, Version: mad.ClassSA.Version(), RMPP: true})
		if err != nil {
			t.Fatal(err)
		}
		u.agents[0] = &umadAgent{a, lastAgent.Add(1), true}
		if r := u.take(nil, b); r.resume || r.later || r.errno == 0 && int(r.value) != len(b) {
			t.Errorf("%+v for %d bytes", r, len(b))
		}
	})
}
