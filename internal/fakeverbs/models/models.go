// Package models registers the models of all devices with package fakeverbs.
package models

import (
	_ "github.com/goverbs/goverbs/internal/fakeverbs/efa" // each registers its driver
	_ "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/siw"
)
