package driver

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// SumSGL returns how many bytes an SGL names. It refuses one that has more SGEs than
// its queue takes, and one with an SGE of [verbs.BadLength].
func SumSGL(sgl []verbs.SGE, most int) (bytes uint64, err error) {
	if len(sgl) > most {
		return 0, fmt.Errorf("%w: %d SGEs, the queue takes %d", verbs.ErrInvalidWR, len(sgl), most)
	}
	for i := range sgl {
		n := sgl[i].Length // read once
		if n == verbs.BadLength {
			return 0, fmt.Errorf("%w: SGE %d has BadLength: MR.SGE got an offset or a length below 0, or a length of 4 GiB or more", verbs.ErrInvalidWR, i)
		}
		bytes += uint64(n)
	}
	return bytes, nil
}
