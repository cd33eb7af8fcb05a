// Package all links every provider of the module into a program.
package all

import (
	_ "github.com/goverbs/goverbs/provider/erdma" // eRDMA
	_ "github.com/goverbs/goverbs/provider/mlx5"  // NVIDIA ConnectX-4 and later
	_ "github.com/goverbs/goverbs/provider/rxe"   // soft RoCE
	_ "github.com/goverbs/goverbs/provider/siw"   // soft iWARP
)
