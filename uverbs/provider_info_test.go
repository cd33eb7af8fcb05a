package uverbs_test

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestInfoProvider(t *testing.T) {
	for _, test := range []struct {
		info uverbs.DeviceInfo
		want string
	}{
		{siw0, ""},
		{rxe0, ""},
		{uverbs.DeviceInfo{Name: "qib0", Driver: verbs.DriverQIB, ABI: 1}, "uverbs: use device on qib0: no provider: this program links none for driver qib"},
		{uverbs.DeviceInfo{Name: "rxe9", Driver: verbs.DriverRXE, ABI: 9}, "uverbs: use device on rxe9: no provider: the kernel's rxe driver speaks ABI 9, the provider linked in 2 to 2"},
	} {
		err := test.info.Provider()
		switch {
		case test.want == "" && err != nil:
			t.Error(err)
		case test.want != "" && (!errors.Is(err, verbs.ErrNoProvider) || err.Error() != test.want):
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}
