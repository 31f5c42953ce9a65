package main_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An accumulator's bytes are the same whatever the order of records and the
// machine. What could break that without a test on one machine noticing is
// forbidden where accumulators are made, keyed, merged and stored:
//
//  1. Float arithmetic: sums of floats depend on their order, a conversion to
//     an integer on the architecture. Values may be computed with floats once
//     nothing is merged any more, in the functions that exceptions names.
//  2. Products of floats that the compiler may fuse with an addition, which
//     arm64 does and amd64 does not: everywhere, without exception. float64(x*y)
//     stands for a product that is rounded.
//  3. Functions of package math that are not exact: they differ in the last
//     digit from one architecture to the next. Without exception, too.
//  4. The order in which a map is ranged over.
//
// purecheck_test.go says how each is found.
func pure() []string {
	return []string{
		"microbatch/column", "microbatch/tuple", "microbatch/tuple/intern", "microbatch/combine", "microbatch/table", "microbatch/slice", "microbatch/window",
	}
}

// exception lets one function do what is forbidden.
type exception struct {
	fn  string // package.function, or package.type.method
	may hazard
	why string
}

// exceptions are all there are. A function earns one by computing a value that
// nothing is merged with afterwards, or a parameter that the type id then names.
func exceptions() []exception {
	const combine = "microbatch/combine."
	return []exception{
		// Values, in Extract. Each operation is one that IEEE 754 rounds, or is
		// exact; their order is that of the code.
		{combine + "hllEstimate", arithmetic, "extracts the estimate from counts of registers"},
		{combine + "sigma", arithmetic, "a term of hllEstimate"},
		{combine + "tau", arithmetic, "a term of hllEstimate"},
		{combine + "hllImage", arithmetic, "extracts the image; integers below 2^53 times a power of two, exact"},
		{combine + "logLinear.value", arithmetic, "extracts a quantile from the number of its bucket: one rounded division, then the scale"},
		{combine + "logLinear.bound", arithmetic, "extracts a bound from the number of its bucket: exact, then the scale"},

		// Parameters, when a configuration is read: the type id holds what comes
		// of them.
		{combine + "newLogLinear", arithmetic, "chooses the precision, which is in the type id"},
		{combine + "buildBloom", arithmetic, "counts halvings, each exact; the number of hashes is in the type id"},

		// Loops that end in the same whatever their order.
		{"microbatch/slice.Builder.odd", mapOrder, "adds up integers and takes the least error by its text"},
	}
}

func TestPurity(t *testing.T) {
	std := loadExports(t)
	used := map[exception]bool{}
	for _, pkg := range pure() {
		t.Run(pkg, func(t *testing.T) {
			for _, f := range std.check(t, pkg) {
				at := slices.IndexFunc(exceptions(), func(e exception) bool { return e.fn == f.fn && e.may == f.hazard })
				if at >= 0 && f.hazard.excusable() {
					used[exceptions()[at]] = true
					continue
				}
				t.Errorf("%s: %s in %s: %s", f.at, f.hazard, f.fn, f.what)
			}
		})
	}
	for _, e := range exceptions() {
		switch {
		case e.why == "":
			t.Errorf("the exception for %s has no reason", e.fn)
		case !e.may.excusable():
			t.Errorf("the exception for %s: there is none from %q", e.fn, e.may)
		case !used[e]:
			t.Errorf("the exception for %s is not needed: remove it", e.fn)
		}
	}
}

// exports finds the compiled form of packages, by import path, for go/types.
type exports map[string]string

// loadExports asks the go command, which compiles what is not in its cache:
// our pure packages with all that they import, and what the tests of the check
// import.
func loadExports(t *testing.T) exports {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "math/cmplx", "math/big", "maps", "slices", "sort", "sync", "reflect", "cmp"}
	for _, pkg := range pure() {
		args = append(args, module+"/"+pkg)
	}
	e := exports{}
	for line := range strings.Lines(goCommand(t, args...)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		e[path] = file
	}
	return e
}

// check reads a package of this module and returns its hazards. Every
// file that is not a test's is read: one that this machine would not compile is
// an error, as is one that is not Go.
func (e exports) check(t *testing.T, pkg string) []finding {
	t.Helper()
	text := goCommand(t, "list", "-f",
		"{{.Dir}}\n{{join .GoFiles \"\\n\"}}\n--\n{{join .IgnoredGoFiles \"\\n\"}}\n{{join .CgoFiles \"\\n\"}}\n{{join .SFiles \"\\n\"}}\n{{join .CFiles \"\\n\"}}", module+"/"+pkg)
	head, hidden, _ := strings.Cut(text, "\n--\n")
	if hidden = strings.TrimSpace(hidden); hidden != "" {
		t.Errorf("%s has files that are not read here: %v", pkg, strings.Fields(hidden))
	}
	lines := strings.Split(head, "\n")
	src := map[string]string{}
	for _, name := range lines[1:] {
		b, err := os.ReadFile(filepath.Join(lines[0], name))
		if err != nil {
			t.Fatal(err)
		}
		src[pkg+"/"+filepath.Base(name)] = string(b)
	}
	found, err := checkSource(pkg, src, e.importer())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (e exports) importer() types.Importer {
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		file := e[path]
		if file == "" {
			return nil, fmt.Errorf("no compiled form of %s", path)
		}
		return os.Open(file)
	})
}

// goCommand runs the go command in the module's root and returns its output.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
