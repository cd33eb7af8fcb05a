package uverbs

import (
	"errors"
	"io"
	"math"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// family is a root with two children.
func family(t *testing.T) (root, first, second *object) {
	t.Helper()
	root, first, second = new(object), new(object), new(object)
	root.root("siw0", "siw")
	for _, n := range []*object{first, second} {
		if err := n.attach("PD", root); err != nil {
			t.Fatal(err)
		}
	}
	return root, first, second
}

// While an object is being closed, no object can be created from it or moved to it.
func TestParentThatIsClosing(t *testing.T) {
	_, parent, other := family(t)
	child := new(object)
	if err := child.attach("MR", other); err != nil {
		t.Fatal(err)
	}
	err := parent.close(func() error {
		if err := new(object).attach("MR", parent); !errors.Is(err, verbs.ErrClosed) {
			t.Error("made of it:", err)
		}
		if err := child.move(other, parent, noop); !errors.Is(err, verbs.ErrClosed) {
			t.Error("moved to it:", err)
		}
		return nil
	}, noop)
	if err != nil {
		t.Error(err)
	}
	if err := other.close(noop, noop); !errors.Is(err, verbs.ErrInUse) {
		t.Error("a move that was refused changed the parent:", err)
	}
}

// An object whose creation is not over is left to who creates it, and so is what it uses.
func TestCloseAllWhileCreating(t *testing.T) {
	_, parent, _ := family(t)
	parent.created(io.NopCloser(nil), 1)
	child := new(object)
	if err := child.attach("MR", parent); err != nil {
		t.Fatal(err)
	}
	if err := parent.closeAll(); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
	child.detach()
	if err := parent.closeAll(); err != nil {
		t.Error(err)
	}
}

// An object that could not be destroyed is open: it can be used, and closed.
func TestDestroyRefused(t *testing.T) {
	_, n, _ := family(t)
	refused := errors.New("refused")
	if err := n.close(func() error { return refused }, noop); !errors.Is(err, refused) {
		t.Error(err)
	}
	child := new(object)
	if err := child.attach("MR", n); err != nil {
		t.Error(err)
	}
	child.detach()
	if err := n.close(noop, noop); err != nil {
		t.Error(err)
	}
}

// A move that fails leaves the object with its old parent. Both are in use meanwhile.
func TestMove(t *testing.T) {
	_, from, to := family(t)
	child := new(object)
	if err := child.attach("MR", from); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	for _, c := range []struct {
		outcome      error
		inUse, freed *object
	}{{refused, from, to}, {nil, to, from}} {
		err := child.move(from, to, func() error {
			if from.users != 1 || to.users != 1 {
				t.Errorf("users %d and %d meanwhile", from.users, to.users)
			}
			return c.outcome
		})
		if err != c.outcome || c.inUse.users != 1 || c.freed.users != 0 {
			t.Errorf("%v: users %d and %d", err, c.inUse.users, c.freed.users)
		}
	}
}

func TestODPCaps(t *testing.T) {
	var resp abi.IbUverbsExQueryDeviceResp
	resp.OdpCaps.GeneralCaps, resp.XrcOdpCaps = 1, 5
	resp.OdpCaps.PerTransportCaps = abi.IbUverbsOdpCapsPerTransportCaps{RcOdpCaps: 2, UcOdpCaps: 3, UdOdpCaps: 4}
	if got, want := newDeviceAttr(&resp).ODP, (verbs.ODPCaps{General: verbs.ODPSupport, RC: 2, UC: 3, UD: 4, XRC: 5}); got != want {
		t.Errorf("%+v", got)
	}
}

// TestOffloads checks attributes that no device in software has.
func TestOffloads(t *testing.T) {
	resp := abi.IbUverbsExQueryDeviceResp{
		RssCaps:     abi.IbUverbsRssCaps{SupportedQpts: 1, MaxRwqIndirectionTables: 2, MaxRwqIndirectionTableSize: 3},
		MaxWqTypeRq: 4, RawPacketCaps: 5,
		TmCaps: abi.IbUverbsTmCaps{MaxRndvHdrSize: 6, MaxNumTags: 7, Flags: 8, MaxOps: 9, MaxSge: 10},
	}
	want := verbs.DeviceAttr{RSS: verbs.RSSCaps{SupportedQPTypes: 1, MaxIndirectionTables: 2, MaxIndirectionTableSize: 3}, MaxWQTypeRQ: 4, RawPacketCaps: 5, TagMatching: verbs.TagMatchingCaps{MaxRndvHdrSize: 6, MaxTags: 7, Flags: 8, MaxOps: 9, MaxSGE: 10}}
	if got := newDeviceAttr(&resp); *got != want {
		t.Errorf("%+v", got)
	}
}

// A hint is given for the error that it explains and for no other.
func TestHintsFit(t *testing.T) {
	const types = "a window has type 1 or 2"
	for _, c := range []struct {
		err  syscall.Errno
		typ  verbs.MWType
		want string
	}{
		{syscall.EINVAL, 3, types}, {syscall.EINVAL, 0, types},
		{syscall.EINVAL, verbs.MWType1, createHint(syscall.EINVAL)}, {syscall.EINVAL, verbs.MWType2, createHint(syscall.EINVAL)},
		{syscall.ENOMEM, 3, createHint(syscall.ENOMEM)},
	} {
		if got := mwHint(c.err, c.typ); got != c.want {
			t.Errorf("%v, window of type %d: %q, want %q", c.err, c.typ, got, c.want)
		}
	}
	for _, c := range []struct {
		err  syscall.Errno
		mask verbs.QPAttrMask
		want string
	}{
		{syscall.ENETUNREACH, verbs.QPAttrState | verbs.QPAttrAV, noRouteHint}, {syscall.ETIMEDOUT, verbs.QPAttrAltPath, noRouteHint},
		{syscall.ENETUNREACH, verbs.QPAttrState, ""}, {syscall.EIO, verbs.QPAttrAV, ""},
	} {
		if got := new(QP).explain(c.err, &verbs.QPAttr{}, c.mask); got != c.want {
			t.Errorf("%v, attributes %#x: %q, want %q", c.err, c.mask, got, c.want)
		}
	}
}

// TestRegionsWrite checks that a provider can write only to writable memory of the key's region.
func TestRegionsWrite(t *testing.T) {
	newMR := func(key uint32, access verbs.Access) *MR {
		return &MR{lkey: key, data: make([]byte, 16), iova: 0x1000, access: access}
	}
	plain, zero := newMR(1, verbs.AccessLocalWrite), newMR(2, verbs.AccessLocalWrite|verbs.AccessZeroBased)
	readOnly, implicit := newMR(3, verbs.AccessRemoteRead), &MR{lkey: 4, access: verbs.AccessLocalWrite | verbs.AccessOnDemand}
	var r regions
	for _, mr := range []*MR{plain, zero, readOnly, implicit} {
		r.add(mr)
	}
	d := driverDevice{dev: &Device{}}
	d.dev.regions.add(plain)
	for _, c := range []struct {
		what string
		key  uint32
		addr uint64
		ok   bool
	}{
		{"the beginning", 1, 0x1000, true}, {"the end", 1, 0x100c, true}, {"behind the end", 1, 0x100d, false}, {"before it", 1, 0xfff, false},
		{"far behind it", 1, 1<<64 - 2, false}, {"based on zero", 2, 0, true}, {"based on zero, by its address", 2, 0x1000, false},
		{"read only", 3, 0x1000, false}, {"all memory", 4, 0x1000, false}, {"no region", 5, 0x1000, false},
	} {
		for _, mr := range []*MR{plain, zero, readOnly} {
			clear(mr.data)
		}
		if got := r.write(c.key, c.addr, []byte("text")); got != c.ok {
			t.Errorf("%s: %v", c.what, got)
		}
		written := 0
		for _, mr := range []*MR{plain, zero, readOnly} {
			for _, b := range mr.data {
				if b != 0 {
					written++
				}
			}
		}
		if want := map[bool]int{true: 4}[c.ok]; written != want {
			t.Errorf("%s: %d bytes are written, want %d", c.what, written, want)
		}
	}
	r.remove(plain)
	if r.write(1, 0x1000, []byte("text")) {
		t.Error("a region that is closed")
	}
	if !d.Write(1, 0x1000, []byte("text")) || string(plain.data[:4]) != "text" || d.Write(9, 0x1000, []byte("text")) {
		t.Errorf("by the device: %q", plain.data[:4])
	}
}

// TestUnknownNumbers checks that unknown values print as numbers.
func TestUnknownNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{verbs.Status(27).String(), "Status(27)"}, {verbs.WCOpcode(27).String(), "WCOpcode(27)"}, {verbs.Opcode(27).String(), "Opcode(27)"},
		{verbs.QPState(27).String(), "QPState(27)"}, {verbs.QPType(27).String(), "QPType(27)"}, {verbs.EventType(1<<32 - 1).String(), "EventType(4294967295)"},
		{verbs.DriverID(99).String(), "DriverID(99)"}, {verbs.GIDType(27).String(), "GIDType(27)"}, {verbs.LinkLayer(27).String(), "LinkLayer(27)"},
		{verbs.QPAttrMask(1<<26 | 1).String(), "State|0x4000000"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if verbs.MTU(0).Bytes() != 0 || verbs.MTU4096.Bytes() != 4096 || verbs.MTU(200).Bytes() != 0 {
		t.Error("MTU")
	}
}

// TestSGEOfLargeRegion checks that an SGE of a region of more than 4 GiB has BadLength if the length does not fit.
func TestSGEOfLargeRegion(t *testing.T) {
	mr := &MR{length: math.MaxInt, iova: 0x1000}
	for n, want := range map[uint64]uint32{1<<32 - 2: 1<<32 - 2, 1<<32 - 1: verbs.BadLength, 1 << 32: verbs.BadLength, 5 << 32: verbs.BadLength} {
		if n > math.MaxInt {
			continue
		}
		if got := mr.SGE(8, int(n)); got.Length != want || got.Addr != 0x1008 {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
}
