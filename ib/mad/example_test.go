package mad_test

import (
	"fmt"
	"log"

	"github.com/goverbs/goverbs/ib/mad"
)

// An attribute is read from the data of a MAD, changed, and written back.
func Example() {
	m := mad.New(mad.ClassLID, mad.GetResp, mad.AttrSMInfo, 0)
	if err := mad.Marshal(m.Data(), &mad.SMInfo{GUID: 0x100001, Priority: 3, State: mad.SMMaster}); err != nil {
		log.Fatal(err)
	}
	var sm mad.SMInfo
	if err := mad.Unmarshal(m.Data(), &sm); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sm.State)
	fmt.Print(mad.Dump(&sm, nil))
	// Output:
	// Master
	// SmInfoGuid:......................0x0000000000100001
	// SmInfoKey:.......................0x0000000000000000
	// SmActivity:......................0
	// SmPriority:......................3
	// SmState:.........................3
}
