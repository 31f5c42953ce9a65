package main_test

import (
	"errors"
	"fmt"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/deltad/deltad"

// rule says which packages of this module a package may import. A name ending
// in "/..." stands for a package and everything below it. A package without a
// rule of its own follows the nearest one above it, and packages that follow
// one rule may import each other.
type rule struct {
	pkg  string
	may  []string
	pure bool // does no I/O: see impure
}

// rules is the architecture: who may know whom. It reads from the inside out,
// and every name in may stands further up. A new package without a place here
// fails the test: decide where it belongs before it grows.
func rules() []rule {
	return []rule{
		// What a partition is: functions of metadata.
		{pkg: "partition", pure: true},

		// The object store: the contract knows nothing of its implementations.
		{pkg: "store"},
		{pkg: "store/fault", may: []string{"store"}},
		{pkg: "store/s3", may: []string{"store"}},
		{pkg: "store/file", may: []string{"store"}},
		{pkg: "store/mem", may: []string{"store"}},
		{pkg: "store/storetest", may: []string{"store", "store/fault", "store/mem"}},
		{pkg: "store/open", may: []string{"store/..."}},

		// The state store, likewise.
		{pkg: "migrations"},
		{pkg: "watermark", may: []string{"partition"}},
		{pkg: "watermark/internal", may: []string{"watermark", "partition", "migrations"}},
		{pkg: "watermark/postgres", may: []string{"watermark", "watermark/internal/...", "partition", "migrations"}},
		{pkg: "watermark/sqlite", may: []string{"watermark", "watermark/internal/...", "partition", "migrations"}},
		{pkg: "watermark/watermarktest", may: []string{"watermark", "partition"}},

		// The engine, pure at its core.
		{pkg: "microbatch/column", pure: true},
		{pkg: "microbatch/tuple", may: []string{"microbatch/column"}, pure: true},
		{pkg: "microbatch/combine", may: []string{"microbatch/column", "microbatch/tuple/..."}, pure: true},
		{pkg: "microbatch/combine/combinetest", may: []string{"microbatch/combine", "microbatch/column", "microbatch/tuple/..."}},
		{pkg: "microbatch/table", may: []string{"microbatch/combine", "microbatch/column", "microbatch/tuple/..."}, pure: true},
		{pkg: "microbatch/scan", may: []string{"microbatch/column"}},
		{pkg: "microbatch/source", may: []string{"partition", "store"}},
		{pkg: "microbatch/index", may: []string{
			"microbatch/column", "microbatch/tuple/...", "microbatch/combine", "microbatch/table", "microbatch/scan", "partition",
		}},
		{pkg: "microbatch/spool"},
		{pkg: "microbatch/window", may: []string{
			"partition", "microbatch/table", "microbatch/combine", "microbatch/column", "microbatch/tuple/...", "microbatch/index",
			"microbatch/spool",
		}},

		{pkg: "microbatch/rescue"},
		{pkg: "microbatch/slice", may: []string{
			"partition", "microbatch/table", "microbatch/combine", "microbatch/column", "microbatch/tuple/...", "microbatch/index",
			"microbatch/scan", "microbatch/spool", "microbatch/rescue",
		}},

		{pkg: "microbatch/tenure", may: []string{"watermark"}},

		// Publishing knows objects, not engines.
		{pkg: "sink", may: []string{"store", "partition", "microbatch/column", "microbatch/rescue"}},

		{pkg: "microbatch/blame", may: []string{"microbatch/slice", "microbatch/source", "microbatch/tenure", "sink", "store", "watermark"}},
		{pkg: "microbatch/layers", may: []string{"microbatch/column", "microbatch/tuple", "microbatch/spool", "microbatch/window", "sink"}},
		{pkg: "microbatch/datafile", may: []string{"microbatch/column", "microbatch/spool", "sink", "sink/parquet"}},
		// A rebuild reads and folds as a run does, and changes no CURRENT.
		{pkg: "microbatch/full", may: []string{
			"partition", "watermark", "sink", "sink/parquet", "microbatch/table", "microbatch/combine", "microbatch/column", "microbatch/tuple/...",
			"microbatch/index", "microbatch/scan", "microbatch/spool", "microbatch/rescue", "microbatch/slice", "microbatch/source",
			"microbatch/tenure", "microbatch/blame", "microbatch/window", "microbatch/datafile",
		}},

		// Slices at rest: in a directory, and in what the sink gives out.
		{pkg: "microbatch/shelf", may: []string{"microbatch/slice", "microbatch/spool", "microbatch/rescue", "sink", "store"}},

		// The run knows the contracts of what surrounds it (words, interfaces,
		// formats), never an implementation of a store. sink/parquet is a format:
		// it writes to whatever it is given.
		{pkg: "microbatch", may: []string{"partition", "microbatch/...", "store", "watermark", "sink", "sink/parquet"}},

		// Configuration describes pure things and opens nothing.
		{pkg: "configs", may: []string{
			"partition", "microbatch/column", "microbatch/tuple/...", "microbatch/combine", "microbatch/table", "microbatch/scan",
			"microbatch/index", "microbatch/window",
		}},

		// Commands wire everything; nothing imports them.
		{pkg: "cmd", may: []string{
			"partition", "store/...", "migrations", "watermark/...", "microbatch/...", "sink/...", "configs",
		}},
	}
}

// impure is what a pure package may not import: whatever reaches outside the
// process. Clocks are golangci-lint's to find.
func impure() []string {
	return []string{"os", "net", "database", "log", "context", "syscall", "io/ioutil", "go.uber.org/zap"}
}

// TestImportDirections holds every package to its rule. Test files are bound by
// less: they may use any package but a command.
func TestImportDirections(t *testing.T) {
	all, err := packages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 3 {
		t.Fatalf("found only %d packages", len(all))
	}
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		t.Run(pkg, func(t *testing.T) {
			r, ok := ruleOf(rules(), pkg)
			if !ok {
				t.Fatalf("%s has no rule: give it its place in rules", pkg)
			}
			for _, i := range all[pkg] {
				if why := violation(r, pkg, i); why != "" {
					t.Errorf("%s imports %s: %s", i.file, i.path, why)
				}
			}
		})
	}
}

// TestRulesAreSound checks the table itself: rules that no package follows or
// that point outwards would make the test above say less than it seems to.
func TestRulesAreSound(t *testing.T) {
	seen := map[string]bool{}
	rs := rules()
	for n, r := range rs {
		if seen[r.pkg] {
			t.Errorf("%s has two rules", r.pkg)
		}
		seen[r.pkg] = true
		for _, m := range r.may {
			base, below := strings.CutSuffix(m, "/...")
			ok := slices.ContainsFunc(rs[:n], func(o rule) bool { return covers(o.pkg, base) || below && covers(base, o.pkg) })
			if !ok {
				t.Errorf("%s may import %s, which has no rule further up", r.pkg, m)
			}
		}
	}
}

func TestViolation(t *testing.T) {
	tests := []struct {
		name string
		pkg  string
		imp  imported
		want string // part of the reason, "" for allowed
	}{
		{"allowed", "watermark", imported{path: module + "/partition"}, ""},
		{"not listed", "sink", imported{path: module + "/store/s3"}, "not allowed"},
		{"contract", "microbatch", imported{path: module + "/store"}, ""},
		{"implementation", "microbatch", imported{path: module + "/store/s3"}, "not allowed"},
		{"same rule", "sink/reader", imported{path: module + "/sink/manifest"}, ""},
		{"child with own rule", "store", imported{path: module + "/store/s3"}, "not allowed"},
		{"wildcard", "store/open", imported{path: module + "/store/s3"}, ""},
		{"command", "sink", imported{path: module + "/cmd/deltad/app"}, "nothing imports a command"},
		{"command from a test", "sink", imported{path: module + "/cmd/deltad/app", test: true}, "nothing imports a command"},
		{"command from a command", "cmd/deltad", imported{path: module + "/cmd/deltad/app"}, ""},
		{"test may more", "sink", imported{path: module + "/store/mem", test: true}, ""},
		{"pure and os", "partition", imported{path: "os"}, "pure"},
		{"pure and os below", "microbatch/combine", imported{path: "os/exec"}, "pure"},
		{"pure test and os", "partition", imported{path: "os", test: true}, ""},
		{"others", "store/s3", imported{path: "github.com/aws/aws-sdk-go-v2/aws"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, ok := ruleOf(rules(), tt.pkg)
			if !ok {
				t.Fatalf("%s has no rule", tt.pkg)
			}
			got := violation(r, tt.pkg, tt.imp)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// imported is one import of one file.
type imported struct {
	file string
	path string
	test bool // the file is a test's
}

// violation says why r forbids pkg an import, or "".
func violation(r rule, pkg string, i imported) string {
	target, ours := strings.CutPrefix(i.path, module+"/")
	if !ours {
		if r.pure && !i.test && slices.ContainsFunc(impure(), func(p string) bool { return covers(p, i.path) }) {
			return r.pkg + " is pure and does no I/O"
		}
		return ""
	}
	if covers("cmd", target) && !covers("cmd", pkg) {
		return "nothing imports a command"
	}
	if i.test {
		return ""
	}
	if tr, ok := ruleOf(rules(), target); ok && tr.pkg == r.pkg {
		return ""
	}
	for _, m := range r.may {
		if base, below := strings.CutSuffix(m, "/..."); target == m || below && covers(base, target) {
			return ""
		}
	}
	return fmt.Sprintf("not allowed; %s may import %v", r.pkg, r.may)
}

// ruleOf returns the rule of pkg: its own, or the nearest above it.
func ruleOf(rs []rule, pkg string) (rule, bool) {
	for p := pkg; p != "."; p = path.Dir(p) {
		if n := slices.IndexFunc(rs, func(r rule) bool { return r.pkg == p }); n >= 0 {
			return rs[n], true
		}
	}
	return rule{}, false
}

// covers says whether p is base or below it.
func covers(base, p string) bool {
	return p == base || strings.HasPrefix(p, base+"/")
}

// packages reads the imports of every package of the module at root, by the
// package's path within the module. Build constraints are not looked at: an
// import is one on every platform and under every tag.
func packages(root string) (map[string][]imported, error) {
	all := map[string][]imported{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(file, rel, d.Name())
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if ignored(string(src)) {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		if all[pkg] == nil {
			all[pkg] = []imported{}
		}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			all[pkg] = append(all[pkg], imported{file: filepath.ToSlash(rel), path: p, test: strings.HasSuffix(file, "_test.go")})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read imports below %s: %w", root, err)
	}
	return all, nil
}

// enter returns SkipDir for directories that the go command does not see as
// part of this module: hidden ones, testdata, and modules of their own.
func enter(dir, rel, name string) error {
	if rel == "." {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	switch {
	case err == nil:
		return fs.SkipDir
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// ignored says whether a file is no part of its package: a program to be run by
// hand, marked //go:build ignore.
func ignored(src string) bool {
	for line := range strings.Lines(src) {
		if strings.HasPrefix(line, "package ") {
			return false
		}
		if x, err := constraint.Parse(strings.TrimSpace(line)); err == nil {
			if tag, ok := x.(*constraint.TagExpr); ok && tag.Tag == "ignore" {
				return true
			}
		}
	}
	return false
}
