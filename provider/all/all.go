// Package all links every provider of the module into a program.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("mlx5_0")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer dev.Close()
//		cq, err := dev.CreateCQ(16, nil) // on rings that the provider knows
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer cq.Close()
//	}
package all

import (
	_ "github.com/goverbs/goverbs/provider/efa"   // EFA
	_ "github.com/goverbs/goverbs/provider/erdma" // eRDMA
	_ "github.com/goverbs/goverbs/provider/mlx5"  // NVIDIA ConnectX-4 and later
	_ "github.com/goverbs/goverbs/provider/rxe"   // soft RoCE
	_ "github.com/goverbs/goverbs/provider/siw"   // soft iWARP
)
