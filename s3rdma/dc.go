package s3rdma

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cuObject's protocol: one request has a token, which names memory of the client and a DC target through which the
// server reads or writes it.
const (
	headerAgent = "X-Amz-Rdma-Agent"
	agent       = "cuobj"
	dcTokenSize = 81
	dcHops      = 4
)

// DefaultDCKey is the default DC key of servers of cuObject's protocol.
const DefaultDCKey = 0xffeeddcc

// dcToken is memory, and the target through which it can be reached.
type dcToken struct {
	addr   uint64
	length uint32
	rkey   uint32
	target uint32 // 24 bits
	gid    verbs.GID
}

// String returns the form that all servers take, without an appended range.
func (t *dcToken) String() string {
	return fmt.Sprintf("%016x:%08x:%08x:0000:%06x:1:%x", t.addr, t.length, t.rkey, t.target, t.gid[:])
}

// parseDCToken parses a token. Some clients append a semicolon, and some the address and size of a part.
func parseDCToken(s string) (t dcToken, err error) {
	s = strings.TrimSuffix(s, ";")
	part, narrowed := "", len(s) > dcTokenSize && s[dcTokenSize] == ':'
	if narrowed {
		s, part = s[:dcTokenSize], s[dcTokenSize+1:]
	}
	if len(s) != dcTokenSize {
		return t, violation("the token has %d characters, want %d", len(s), dcTokenSize)
	}
	var numbers [6]uint64
	fields := strings.Split(s, ":")
	sizes := []int{16, 8, 8, 4, 6, 1, 32}
	if len(fields) != len(sizes) {
		return t, violation("the token has %d fields, want %d", len(fields), len(sizes))
	}
	for i, f := range fields {
		if len(f) != sizes[i] {
			return t, violation("field %d of the token has %d digits, want %d", i+1, len(f), sizes[i])
		}
		if i == len(numbers) {
			break
		}
		if numbers[i], err = parseHex(f, 64); err != nil {
			return t, err
		}
	}
	gid, err := hex.DecodeString(fields[6])
	if err != nil {
		return t, violation("the token's GID is not hexadecimal")
	}
	t = dcToken{addr: numbers[0], length: uint32(numbers[1]), rkey: uint32(numbers[2]), target: uint32(numbers[4]), gid: verbs.GID(gid)}
	switch {
	case numbers[5] != 1:
		return t, violation("the token has no GID")
	case t.target == 0 || t.length == 0:
		return t, violation("the token has target %d with %d bytes", t.target, t.length)
	case t.gid == verbs.GID{} || t.gid.IsMulticast():
		return t, violation("the token has GID %v", t.gid)
	case t.addr+uint64(t.length) < t.addr:
		return t, violation("the token has %d bytes at %#x", t.length, t.addr)
	}
	if narrowed {
		err = t.narrow(part)
	}
	return t, err
}

// narrow restricts the memory to a part of it, which is "address:size".
func (t *dcToken) narrow(part string) error {
	a, n, _ := strings.Cut(part, ":")
	if len(a) != 16 || len(n) != 16 {
		return violation("the token has a strange address or size after it")
	}
	addr, err := parseHex(a, 64)
	if err != nil {
		return err
	}
	size, err := parseHex(n, 64)
	if err != nil {
		return err
	}
	if offset := addr - t.addr; addr < t.addr || offset > uint64(t.length) || size == 0 || size > uint64(t.length)-offset {
		return violation("%d bytes at %#x are not within the token's", size, addr)
	}
	t.addr, t.length = addr, uint32(size)
	return nil
}

// needDC returns an error if the device lacks what a key is for.
func (s *side) needDC(key uint64) error {
	if key != 0 && !s.PD.Device().Supports(verbs.QPTypeDCI, verbs.OpRDMAWrite) {
		return fmt.Errorf("%w: the device has no dynamically connected transport, which a DCKey is for", verbs.ErrNotSupported)
	}
	return nil
}

// openTarget creates a DC target through which peers that know the key have access to regions.
func (s *side) openTarget(access verbs.Access, key uint64) (*pair, error) {
	p, err := s.begin(netip.Addr{}, 1)
	if err != nil {
		return nil, err
	}
	if p.srq, err = s.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}); err == nil {
		p.qp, err = s.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: p.cq, SRQ: p.srq, DCKey: key})
	}
	if err == nil {
		err = p.qp.Init(&verbs.QPAttr{Port: s.Port, Access: access})
	}
	if err == nil {
		err = p.qp.Connect(&verbs.QPAttr{Port: s.Port, PathMTU: s.MTU, AH: verbs.AHAttr{Global: true, SGIDIndex: p.gid.Index, HopLimit: dcHops, Port: s.Port}})
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// openInitiator creates a DC initiator for requests to the target of a token.
func (s *side) openInitiator(t *dcToken) (*pair, error) {
	sends := s.requests(int(t.length))
	p, err := s.begin(t.gid.Addr(), sends)
	if err != nil {
		return nil, err
	}
	p.ah, err = s.PD.CreateAH(&verbs.AHAttr{Global: true, DGID: t.gid, SGIDIndex: p.gid.Index, HopLimit: dcHops, Port: s.Port})
	if err == nil {
		p.qp, err = s.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCI, SendCQ: p.cq, Cap: verbs.QPCap{MaxSendWR: uint32(sends), MaxSendSGE: 1}})
	}
	if err == nil {
		err = p.qp.Init(&verbs.QPAttr{Port: s.Port})
	}
	if err == nil {
		err = p.qp.Connect(&verbs.QPAttr{Port: s.Port, PathMTU: s.MTU})
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// access posts the requests that read the n first bytes of a token's memory into a region, or write them from it. The
// last one is signaled.
func (p *pair) access(op verbs.Opcode, mr *uverbs.MR, n int, t *dcToken, key uint64) error {
	wrs := make([]verbs.SendWR, 0, p.side.requests(n))
	for at := 0; at < n; at += p.side.message {
		wrs = append(wrs, verbs.SendWR{Opcode: op, SGL: []verbs.SGE{mr.SGE(at, min(n-at, p.side.message))}, RemoteAddr: t.addr + uint64(at), RKey: t.rkey,
			AH: p.ah, RemoteQPN: t.target, DCKey: key})
	}
	wrs[len(wrs)-1].Flags = verbs.SendSignaled
	return p.post(wrs)
}
