package uverbs_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestAdviseMR(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	k.OnDemand = true
	var flags uint64
	var advice, list []byte
	k.Tamper = func(call string, r *ioctl.Request) {
		if call == "ADVISE_MR" {
			flags, _ = r.Value(abi.UVERBS_ATTR_ADVISE_MR_FLAGS)
			advice, _ = r.Bytes(abi.UVERBS_ATTR_ADVISE_MR_ADVICE)
			list, _ = r.Bytes(abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST)
		}
	}
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	mr := must[*uverbs.MR](t)(pd.AllocMR(8192, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	defer mr.Close()
	sgl := []verbs.SGE{mr.SGE(0, 100), mr.SGE(4096, 200)}
	if err := pd.AdviseMR(verbs.MRPrefetchWrite, true, sgl); err != nil {
		t.Fatal(err)
	}
	var want []byte
	for _, s := range sgl {
		want = binary.NativeEndian.AppendUint64(want, s.Addr)
		want = binary.NativeEndian.AppendUint32(want, s.Length)
		want = binary.NativeEndian.AppendUint32(want, s.LKey)
	}
	if !slices.Equal(list, want) || advice[0] != 1 || flags != abi.IB_UVERBS_ADVISE_MR_FLAG_FLUSH {
		t.Errorf("advice %v, flags %d, %x", advice, flags, list)
	}
	if err := pd.AdviseMR(verbs.MRPrefetchNoFault, false, sgl[:1]); err != nil || len(list) != 16 || advice[0] != 2 || flags != 0 {
		t.Errorf("%v: advice %v, flags %d, %x", err, advice, flags, list)
	}
	if err := pd.AdviseMR(9, false, sgl); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	for errno, hint := range map[syscall.Errno]string{
		syscall.EPERM: "not writable", syscall.EFAULT: "outside its region", syscall.EOPNOTSUPP: "no on-demand paging", syscall.ENOENT: "another PD's",
		syscall.EIO: "input/output error",
	} {
		k.Fail("ADVISE_MR", 0, errno)
		if err := pd.AdviseMR(verbs.MRPrefetch, false, sgl); !errors.Is(err, errno) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// TestAdviseRefused keeps from the kernel what it does not look at itself.
func TestAdviseRefused(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	k.OnDemand = true
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	pinned := must[*uverbs.MR](t)(pd.AllocMR(1, verbs.AccessLocalWrite, nil))
	defer pinned.Close()
	closed := must[*uverbs.MR](t)(pd.AllocMR(1, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	old := closed.SGE(0, 1)
	k.Fail("MR_DESTROY", 0, syscall.EBUSY)
	if err := closed.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	if err := pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{old}); err != nil {
		t.Error("a region that would not close:", err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	before := k.Calls("ADVISE_MR")
	for name, c := range map[string]struct {
		sgl  []verbs.SGE
		want string
	}{
		"nothing": {nil, "1 to 4095 entries"}, "too much": {make([]verbs.SGE, 4096), "1 to 4095 entries"},
		"pinned": {[]verbs.SGE{pinned.SGE(0, 1)}, "has no AccessOnDemand"}, "closed": {[]verbs.SGE{old}, "has no AccessOnDemand"},
		"4 GiB": {[]verbs.SGE{pinned.SGE(0, 1<<32)}, "entry 0 has BadLength"},
	} {
		if err := pd.AdviseMR(verbs.MRPrefetch, false, c.sgl); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := k.Calls("ADVISE_MR"); n != before {
		t.Errorf("%d calls reached the kernel", n-before)
	}
}

// TestAdviseAfterRereg goes with the key.
func TestAdviseAfterRereg(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	k.OnDemand = true
	k.Tamper = func(call string, r *ioctl.Request) {
		if call == "REREG_MR" {
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsReregMrResp{Lkey: 77, Rkey: 77})
		}
	}
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	mr := must[*uverbs.MR](t)(pd.AllocMR(1, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	defer mr.Close()
	old := mr.SGE(0, 1)
	access := verbs.AccessLocalWrite | verbs.AccessRemoteRead
	if err := mr.Rereg(uverbs.ReregOptions{Access: &access}); err != nil {
		t.Fatal(err)
	}
	if err := pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{mr.SGE(0, 1)}); !errors.Is(err, syscall.ENOENT) || k.Calls("ADVISE_MR") != 1 {
		t.Error("the kernel, which has not heard of the new key, was not asked:", err)
	}
	if err := pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{old}); !errors.Is(err, syscall.EINVAL) || k.Calls("ADVISE_MR") != 1 {
		t.Error("the old key still works:", err)
	}
}
