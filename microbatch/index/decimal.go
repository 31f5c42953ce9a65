package index

import (
	"math/big"

	"github.com/deltad/deltad/microbatch/column"
)

// decimalFloat returns the double nearest to d / 10^scale.
func decimalFloat(d column.Int128, scale int) float64 {
	den := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	f, _ := new(big.Rat).SetFrac(d.Big(), den).Float64()
	return f
}
