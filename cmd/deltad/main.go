// Command deltad keeps a delta index fresh: see README.md.
package main

import (
	"os"

	"github.com/deltad/deltad/cmd/deltad/app"
)

func main() { os.Exit(app.Main(app.Options{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr})) }
