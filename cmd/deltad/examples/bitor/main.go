// Command bitor is deltad with one combine fn more, bit_or: the template for
// programs that bring fns of their own. Copy main.go and bit_or.go into a
// module of yours; docs/combiners.md explains them.
//
//	go build -o deltad-bitor ./cmd/deltad/examples/bitor
//	./deltad-bitor check -c ads.yaml
package main

import (
	"os"

	"github.com/deltad/deltad/cmd/deltad/app"
)

func main() {
	os.Exit(app.Main(app.Options{
		Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr,
		Combiners: []app.Combiner{{Builder: bitOr()}},
	}))
}
