//go:build vm

package device

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/verbtable"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
)

// TestVerbsTable checks that docs/verbs.md is right about what siw and rxe of Linux 6.12 have. Each method is called
// without its attributes, of which most have some that must be there.
func TestVerbsTable(t *testing.T) {
	if !kit.OnKernel("6.12") {
		t.Skip("the table is of Linux 6.12")
	}
	ids := methodIDs(t)
	for _, l := range []kit.PerfLink{kit.PerfRxe, kit.PerfSiwCM} {
		driver := map[kit.PerfLink]string{kit.PerfRxe: "rxe", kit.PerfSiwCM: "siw"}[l]
		t.Run(driver, func(t *testing.T) {
			l.Up(t)
			info := kit.InfoOf(t, l.Device)
			f := kit.Must(ioctl.Open(info.Node, 0))(t)
			kit.CloseLater(t, f)
			context := ioctl.New(uint32(info.Driver), abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
			context.Driver(nil, make([]byte, 8))
			kit.OK(t, context.Do(f))
			for _, m := range verbtable.Methods() {
				id, known := ids[m.Name]
				if !known { // newer than 6.12
					continue
				}
				if has, want := id.isOf(info, f), strings.Contains(m.Drivers, driver); has != want {
					t.Errorf("%s: %s has it: %t, and the table says %t", m.Name, driver, has, want)
				}
			}
		})
	}
}

// methodID is how a method is called: one of an object's, or a write command.
type methodID struct {
	object, number uint32
	write          bool
}

func (id methodID) isOf(info uverbs.DeviceInfo, f ioctl.File) bool {
	object, method := uint16(id.object), uint16(id.number)
	if id.write {
		object, method = abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE
	}
	r := ioctl.New(uint32(info.Driver), object, method)
	defer r.Free()
	if id.write {
		r.Const(abi.UVERBS_ATTR_WRITE_CMD, uint64(id.number))
		return !errors.Is(r.Do(f), syscall.EOPNOTSUPP)
	}
	return !errors.Is(r.Do(f), syscall.EPROTONOSUPPORT)
}

var (
	methodEnum = regexp.MustCompile(`(?s)// enum uverbs_methods?_(\w+)\nconst \((.*?)\n\)`)
	objectID   = regexp.MustCompile(`UVERBS_OBJECT_(\w+) += (\w+)`)
	idOf       = regexp.MustCompile(`((?:UVERBS_METHOD|IB_USER_VERBS_CMD|IB_USER_VERBS_EX_CMD)_\w+) += (\w+)`)
)

// methodIDs reads the generated constants.
func methodIDs(t *testing.T) map[string]methodID {
	t.Helper()
	number := func(s string) uint32 { return uint32(kit.Must(strconv.ParseUint(s, 0, 32))(t)) }
	text := string(kit.Must(os.ReadFile("../../internal/abi/zib_user_ioctl_cmds_h.go"))(t))
	objects, ids := make(map[string]uint32), make(map[string]methodID)
	for _, m := range objectID.FindAllStringSubmatch(text, -1) {
		objects[strings.ToLower(m[1])] = number(m[2])
	}
	for _, enum := range methodEnum.FindAllStringSubmatch(text, -1) {
		object, known := objects[strings.TrimSuffix(strings.TrimPrefix(enum[1], "actions_"), "_ops")]
		if !known {
			t.Fatal("no object of ", enum[1])
		}
		for _, m := range idOf.FindAllStringSubmatch(enum[2], -1) {
			ids[m[1]] = methodID{object: object, number: number(m[2])}
		}
	}
	for _, m := range idOf.FindAllStringSubmatch(string(kit.Must(os.ReadFile("../../internal/abi/zib_user_verbs_h.go"))(t)), -1) {
		id := methodID{number: number(m[2]), write: true}
		if strings.Contains(m[1], "_EX_") {
			id.number |= abi.IB_USER_VERBS_CMD_FLAG_EXTENDED
		}
		ids[m[1]] = id
	}
	if len(ids) < 80 {
		t.Fatalf("%d methods", len(ids))
	}
	return ids
}
