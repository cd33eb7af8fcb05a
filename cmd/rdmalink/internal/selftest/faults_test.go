package selftest

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// fault is a fault of the model of mlx5.
type fault struct {
	name  string
	plant func(*planter)
	red   []string // the tests that fail, and no other
}

// planter plants a fault.
type planter struct {
	f *rdmatest.Fabric
	d *rdmatest.Device
	// cross, asked and answered are for each opening of the device.
	cross           func(k *fakeverbs.Kernel, c *fakeverbs.Crossing)
	asked, answered func(call string, r *ioctl.Request)
}

// cqe changes completions before the device writes them.
func (p *planter) cqe(change func(typ uint64, b []byte)) {
	p.cross = func(k *fakeverbs.Kernel, c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.EntryCQE {
			change(typeOfEntry(k, c.Bytes), c.Bytes)
		}
	}
}

// sqe changes sends before the device carries them out, and rqe receives.
func (p *planter) sqe(change func(typ uint64, b []byte)) {
	p.cross = func(k *fakeverbs.Kernel, c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.EntrySQE {
			change(typeOf(k, c.Object), c.Bytes)
		}
	}
}

func (p *planter) rqe(change func(srq bool, typ uint64, b []byte)) {
	p.cross = func(k *fakeverbs.Kernel, c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.EntryRQE {
			change(c.SRQ, typeOf(k, c.Object), c.Bytes)
		}
	}
}

// doorbell drops stores to registers. b is the start of a request, or the arm of a CQ.
func (p *planter) doorbell(drop func(arm bool, b []byte) bool) {
	p.cross = func(_ *fakeverbs.Kernel, c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.Doorbell && c.Size == 8 {
			b := binary.BigEndian.AppendUint64(nil, bits.ReverseBytes64(c.Value))
			c.Drop = drop(c.Offset%4096 == 0x20, b)
		}
	}
}

// typeOfEntry returns the type of the queue pair that a completion names, or 0. Those of raw packets
// have a flow tag in place of the number.
func typeOfEntry(k *fakeverbs.Kernel, b []byte) uint64 {
	for qp := range fakeverbs.Objects[*fakeverbs.QP](k) {
		if q := fakemlx5.QPOf(qp); q != nil && qp.Type == raw && q.Queue() == binary.BigEndian.Uint32(b[32:]) {
			return raw
		}
	}
	return typeOf(k, binary.BigEndian.Uint32(b[56:])&0xffffff)
}

// typeOf returns the type of a queue pair, or 0.
func typeOf(k *fakeverbs.Kernel, num uint32) uint64 {
	if qp := k.Device.QP(num); qp != nil {
		return qp.Type
	}
	return 0
}

// request changes the request of a call, and answer its answer.
func request[T any](p *planter, name string, change func(*T)) {
	p.asked = func(call string, r *ioctl.Request) {
		if call == name {
			edit(r, abi.UVERBS_ATTR_CORE_IN, change)
		}
	}
}

func answer[T any](p *planter, name string, change func(*T)) {
	p.answered = func(call string, r *ioctl.Request) {
		if call == name {
			edit(r, abi.UVERBS_ATTR_CORE_OUT, change)
		}
	}
}

func edit[T any](r *ioctl.Request, id uint16, change func(*T)) {
	var v T
	b, _ := r.Bytes(id)
	copy(abi.Bytes(&v), b)
	change(&v)
	copy(b, abi.Bytes(&v))
}

// private changes the private bytes of a call, one way.
func (p *planter) private(kind fakeverbs.CrossingKind, call string, change func(b []byte)) {
	p.cross = func(_ *fakeverbs.Kernel, c *fakeverbs.Crossing) {
		if c.Kind == kind && c.Call == call && len(c.Bytes) > 0 {
			change(c.Bytes)
		}
	}
}

// Opcodes of requests and completions, and syndromes, of mlx5.
const (
	opWrite, opSend, opRead, opCompare, opAdd, opUMR, opTSO = 0x08, 0x0a, 0x10, 0x11, 0x12, 0x25, 0x0e

	wroteImm, received, receivedImm, reqErr, respErr = 1, 2, 3, 13, 14

	localLength, localProtection, bindError, invalidRequest      = 0x01, 0x04, 0x06, 0x12
	remoteAccess, remoteOperation, retriesOver, peerWithoutRecvs = 0x13, 0x14, 0x15, 0x16
)

const (
	rc  = uint64(abi.IB_UVERBS_QPT_RC)
	uc  = uint64(abi.IB_UVERBS_QPT_UC)
	ud  = uint64(abi.IB_UVERBS_QPT_UD)
	ini = uint64(abi.IB_UVERBS_QPT_XRC_INI)
	dci = uint64(abi.IB_UVERBS_QPT_DRIVER)
	raw = 0 // completions of frames have a tag in place of the queue pair
)

func opcode(b []byte) uint8 { return b[63] >> 4 }

// add adds to a big-endian number of 32 bits.
func add(b []byte, n uint32) { binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)+n) }

// syndrome replaces the syndrome of completions.
func syndrome(from, to uint8) func(*planter) {
	return func(p *planter) {
		p.cqe(func(_ uint64, b []byte) {
			if op := opcode(b); (op == reqErr || op == respErr) && b[55] == from {
				b[55] = to
			}
		})
	}
}

var faults = []fault{
	// Completions.
	{"the bytes of immediate data are reversed", func(p *planter) {
		p.cqe(func(_ uint64, b []byte) {
			if op := opcode(b); op == wroteImm || op == receivedImm {
				slices.Reverse(b[36:40])
			}
		})
	}, []string{"RC SEND with immediate", "RC WRITE with immediate", "UC SEND with immediate", "UC WRITE with immediate", "UD SEND with immediate",
		"XRC SEND with immediate", "XRC WRITE with immediate", "DC SEND with immediate", "DC WRITE with immediate"}},
	{"a SEND with immediate data completes as one without", func(p *planter) {
		p.cqe(func(_ uint64, b []byte) {
			if opcode(b) == receivedImm {
				b[63] = b[63]&0xf | received<<4
			}
		})
	}, []string{"RC SEND with immediate", "UC SEND with immediate", "UD SEND with immediate", "XRC SEND with immediate", "DC SEND with immediate"}},
	{"a receive of more than 1 KiB counts a byte too few", func(p *planter) {
		p.cqe(func(typ uint64, b []byte) {
			if opcode(b) == received && typ != raw && binary.BigEndian.Uint32(b[44:]) > 1024 {
				add(b[44:], ^uint32(0))
			}
		})
	}, []string{"RC SEND", "RC in both directions", "UC SEND", "UD SEND", "XRC SEND", "DC SEND", "SRQ"}},
	{"completions of UC name no queue pair", func(p *planter) {
		p.cqe(func(typ uint64, b []byte) {
			if typ == uc {
				binary.BigEndian.PutUint32(b[32:], 0xfffff0)
			}
		})
	}, []string{"UC SEND", "UC SEND with immediate", "UC WRITE", "UC WRITE with immediate"}},
	{"a datagram has another sender", func(p *planter) {
		p.cqe(func(typ uint64, b []byte) {
			if op := opcode(b); typ == ud && (op == received || op == receivedImm) {
				add(b[24:], 1)
			}
		})
	}, []string{"UD SEND", "UD SEND with immediate", "UD replies"}},
	{"behind the 1024th block completions name the request before", func(p *planter) {
		p.cqe(func(_ uint64, b []byte) {
			if n := binary.BigEndian.Uint16(b[60:]); opcode(b) == 0 && n >= 1024 {
				binary.BigEndian.PutUint16(b[60:], n-1)
			}
		})
	}, []string{"RC lists", "RC single posts"}},
	{"the clock of completions stands still", func(p *planter) {
		p.cqe(func(_ uint64, b []byte) {
			if opcode(b) < reqErr {
				binary.BigEndian.PutUint64(b[48:], 1000)
			}
		})
	}, []string{"time stamps", "wall clock"}},
	{"the clock is twice as fast as it says", func(p *planter) {
		answer(p, "QUERY_DEVICE", func(r *abi.IbUverbsExQueryDeviceResp) { r.HcaCoreClock /= 2 })
	}, []string{"wall clock"}},
	{"all checksums are right", func(p *planter) {
		p.cqe(func(typ uint64, b []byte) {
			if typ == raw && opcode(b) == received {
				b[28] |= 6
			}
		})
	}, []string{"raw checksums", "packet fields"}},
	{"no checksum is right", func(p *planter) {
		p.cqe(func(typ uint64, b []byte) {
			if typ == raw && opcode(b) == received {
				b[28] &^= 6
			}
		})
	}, []string{"raw checksums", "raw segmentation", "packet fields"}},
	{"the tag of a rule is another", func(p *planter) {
		p.cqe(func(typ uint64, b []byte) {
			if typ == raw && opcode(b) == received && b[59] != 0 {
				b[59]++
			}
		})
	}, []string{"packet fields"}},
	{"the tag of a VLAN is lost", func(p *planter) {
		p.cqe(func(typ uint64, b []byte) {
			if typ == raw && opcode(b) == received {
				clear(b[30:32])
			}
		})
	}, []string{"VLAN stripping"}},
	{"packets of a segment are a byte shorter", func(p *planter) {
		p.sqe(func(_ uint64, b []byte) {
			if b[3] == opTSO {
				b[23]--
			}
		})
	}, []string{"raw segmentation"}},
	{"remote access errors are remote operation errors", syndrome(remoteAccess, remoteOperation), []string{
		"wrong key", "write behind a region", "write without the right", "read without the right", "write behind a window", "window that was ended",
	}},
	{"local protection errors are local length errors", syndrome(localProtection, localLength), []string{"wrong local key", "send behind a region", "receive without the right"}},
	{"invalid requests are remote access errors", syndrome(invalidRequest, remoteAccess), []string{"receive that is too short", "atomic at an odd address"}},
	{"a peer without receives is one that does not answer", syndrome(peerWithoutRecvs, retriesOver), []string{"no receive"}},
	{"a peer that does not answer is one without receives", syndrome(retriesOver, peerWithoutRecvs), []string{"no answer"}},
	{"binding errors are protection errors", syndrome(bindError, localProtection), []string{"binding without the right"}},

	// Requests.
	{"the third block of a request is read too early", func(p *planter) {
		p.sqe(func(_ uint64, b []byte) {
			if b[3] == opWrite && len(b) > 128 && b[2]%64 == 0 {
				clear(b[128:144])
			}
		})
	}, []string{"RC single posts", "RC posts of goroutines"}},
	{"a fence is none", func(p *planter) {
		p.f.SetLatency(time.Microsecond)
		p.sqe(func(_ uint64, b []byte) {
			if b[11]>>5 == 4 {
				b[11] &= 0x1f
			}
		})
	}, []string{"RC fence"}},
	{"FETCH_ADD of RC adds one more", func(p *planter) {
		p.sqe(func(typ uint64, b []byte) {
			if typ == rc && b[3] == opAdd {
				at := len(b) - 32
				binary.BigEndian.PutUint64(b[at:], binary.BigEndian.Uint64(b[at:])+1)
			}
		})
	}, []string{"RC FETCH_ADD"}},
	{"COMPARE_SWAP of RC compares with what it swaps in", func(p *planter) {
		p.sqe(func(typ uint64, b []byte) {
			if typ == rc && b[3] == opCompare {
				copy(b[40:48], b[32:40])
			}
		})
	}, []string{"RC COMPARE_SWAP"}},
	{"a READ of RC into several pieces mixes them up", func(p *planter) {
		p.sqe(func(typ uint64, b []byte) {
			if typ == rc && b[3] == opRead && b[7]&0x3f > 3 {
				first := slices.Clone(b[32:48])
				copy(b[32:48], b[48:64])
				copy(b[48:64], first)
			}
		})
	}, []string{"RC READ"}},
	{"a window is 64 bytes too long", func(p *planter) {
		p.sqe(func(_ uint64, b []byte) {
			if b[3] == opUMR && len(b) > 128 {
				binary.BigEndian.PutUint64(b[88:], binary.BigEndian.Uint64(b[88:])+64)
				add(b[128:], 64)
			}
		})
	}, []string{"write behind a window"}},
	{"SEND of XRC goes to another SRQ", func(p *planter) {
		p.sqe(func(typ uint64, b []byte) {
			if typ == ini && b[3] == opSend {
				add(b[16:], 0x100)
			}
		})
	}, []string{"XRC SEND"}},
	{"requests of DC have half of the key", func(p *planter) {
		p.sqe(func(typ uint64, b []byte) {
			if typ == dci {
				clear(b[16:20])
			}
		})
	}, []string{"DC SEND", "DC SEND with immediate", "DC WRITE", "DC WRITE with immediate", "DC READ", "DC COMPARE_SWAP", "DC FETCH_ADD"}},
	{"a datagram's Q_Key is not compared", func(p *planter) {
		p.sqe(func(typ uint64, b []byte) {
			if typ == ud {
				binary.BigEndian.PutUint32(b[16:], qkey)
			}
		})
	}, []string{"UD wrong Q_Key"}},
	{"solicited events are not raised", func(p *planter) {
		p.sqe(func(_ uint64, b []byte) { b[11] &^= 2 })
	}, []string{"solicited events"}},

	// Receives.
	{"a receive of RC in several pieces mixes them up", func(p *planter) {
		p.rqe(func(srq bool, typ uint64, b []byte) {
			if !srq && typ == rc && len(b) >= 32 && binary.BigEndian.Uint32(b[16:]) != 0 {
				first := slices.Clone(b[:16])
				copy(b, b[16:32])
				copy(b[16:32], first)
			}
		})
	}, []string{"RC SEND", "RC SEND with immediate"}},
	{"receives of an SRQ go 8 bytes too far", func(p *planter) {
		p.rqe(func(srq bool, typ uint64, b []byte) {
			if srq {
				add(b[28:], 8)
			}
		})
	}, []string{"XRC SEND", "XRC SEND with immediate", "DC SEND", "DC SEND with immediate", "SRQ", "SRQ, last receive"}},

	// Doorbells.
	{"doorbells of lists are lost behind the 1024th block", func(p *planter) {
		p.doorbell(func(arm bool, b []byte) bool { return !arm && binary.BigEndian.Uint16(b[1:]) >= 1024 })
	}, []string{"RC lists"}},
	{"arms for solicited completions are lost", func(p *planter) {
		p.doorbell(func(arm bool, b []byte) bool { return arm && b[0]&1 != 0 })
	}, []string{"solicited events"}},

	// The kernel.
	{"moderation is forgotten", func(p *planter) {
		request(p, "MODIFY_CQ", func(in *abi.IbUverbsExModifyCq) { in.Attr = abi.IbUverbsCqModeration{} })
	}, []string{"CQ moderation"}},
	{"a queue pair has another time-out", func(p *planter) {
		answer(p, "QUERY_QP", func(r *abi.IbUverbsQueryQpResp) { r.Timeout++ })
	}, []string{"RC attributes"}},
	{"the limit of an SRQ is forgotten", func(p *planter) {
		request(p, "MODIFY_SRQ", func(in *abi.IbUverbsModifySrq) { in.SrqLimit = 0 })
	}, []string{"SRQ limit"}},
	{"a CQ can't be resized", func(p *planter) { p.d.Fail(rdmatest.CallResizeCQ, 0, syscall.EINVAL) }, []string{"CQ that is resized"}},
	{"new rights of a region are forgotten", func(p *planter) {
		request(p, "REREG_MR", func(in *abi.IbUverbsReregMr) { in.AccessFlags = abi.IB_UVERBS_ACCESS_LOCAL_WRITE })
	}, []string{"region that is changed"}},
	{"a region's own addresses begin a page later", func(p *planter) {
		request(p, "REG_MR", func(in *abi.IbUverbsRegMr) {
			if in.HcaVa != in.Start {
				in.HcaVa += 4096
			}
		})
	}, []string{"regions at an address"}},
	{"a region on demand can't be written", func(p *planter) {
		request(p, "REG_MR", func(in *abi.IbUverbsRegMr) {
			if in.AccessFlags&abi.IB_UVERBS_ACCESS_ON_DEMAND != 0 && in.Start != 0 {
				in.AccessFlags &^= abi.IB_UVERBS_ACCESS_REMOTE_WRITE
			}
		})
	}, []string{"on-demand paging"}},
	{"the region of all memory can't be read", func(p *planter) {
		request(p, "REG_MR", func(in *abi.IbUverbsRegMr) {
			if in.AccessFlags&abi.IB_UVERBS_ACCESS_ON_DEMAND != 0 && in.Start == 0 {
				in.AccessFlags &^= abi.IB_UVERBS_ACCESS_REMOTE_READ
			}
		})
	}, []string{"region of all memory"}},
	{"device memory begins elsewhere", func(p *planter) {
		p.answered = func(call string, r *ioctl.Request) {
			if call == "DM_ALLOC" {
				edit(r, abi.MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, func(v *uint64) { *v += 64 })
			}
		}
	}, []string{"device memory"}},
	{"the key of no memory is another", func(p *planter) {
		p.private(fakeverbs.CallOut, "GET_CONTEXT", func(b []byte) {
			var v abi.Mlx5IbAllocUcontextResp
			copy(abi.Bytes(&v), b)
			v.DumpFillMkey += 256
			copy(b, abi.Bytes(&v))
		})
	}, []string{"region of no memory"}},
	{"rules do not look at ports", func(p *planter) {
		p.asked = func(call string, r *ioctl.Request) {
			if b, _ := r.Bytes(abi.UVERBS_ATTR_CORE_IN); call == "CREATE_FLOW" {
				clear(b[len(b)-4:])
			}
		}
	}, []string{"flow rules"}},
	{"a byte of the hash's key is another", func(p *planter) {
		p.private(fakeverbs.CallIn, "QP_CREATE", func(b []byte) {
			if len(b) == 152 {
				b[16+10] ^= 0x55
			}
		})
	}, []string{"RSS"}},
	{"a receive fails once", func(p *planter) { p.d.FailRecv(2, verbs.StatusLocLenErr) }, []string{"RC SEND"}},
	{"a send fails once", func(p *planter) { p.d.FailSend(3, verbs.StatusGeneralErr) }, []string{"RC SEND"}},
}

// careless ignores the violations that a fault of the model makes.
type careless struct{ *testing.T }

func (careless) Errorf(string, ...any) {}

// TestFaults plants one fault after the other in the model. Each makes the tests fail that look for it,
// and no other.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("TestAll runs the same tests once")
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(careless{t}, &rdmatest.Options{Kind: rdmatest.MLX5, Hosts: make([]rdmatest.HostOptions, 1)})
				p := &planter{f: f, d: f.Host(0).Device(0)}
				fault.plant(p)
				m := machine(t, p.d, func(k *fakeverbs.Kernel) {
					if p.cross != nil {
						k.Cross = func(c *fakeverbs.Crossing) { p.cross(k, c) }
					}
					k.Asked, k.Tamper = p.asked, p.answered
				})
				lines, _ := tried(t, m, p.d, 40*depth)
				if diff := cmp.Diff(fault.red, names(lines[failed])); diff != "" || len(fault.red) == 0 {
					t.Errorf("(-want +got):\n%s", diff)
					for _, l := range lines[failed] {
						t.Logf("%q, // %s", l.Test, l.Detail)
					}
				}
			})
		})
	}
}
