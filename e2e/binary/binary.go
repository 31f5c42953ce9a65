// Package binary gives integration tests the real deltad: it builds what a
// package's tests run, once for the test process and with the go command's
// own build cache, and starts it.
//
// What it promises:
//
//  1. The source is that of the checkout the test runs in, whatever its
//     folder within it.
//  2. Nothing is left behind: binaries are in a temporary directory that is
//     removed when the tests have ended, and a process ends with its test.
//  3. What is missing (a server, a compiler) fails the package, saying what;
//     nothing is skipped.
package binary

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/deltad/deltad/e2e/servers"
)

// module is the one that has cmd/deltad.
const module = "github.com/deltad/deltad"

// Build says how deltad is built. The zero Build is the one of `make build`.
type Build struct {
	Tags    string // build tags, separated by commas
	Version string // empty: the source's own
}

// Rig is what the tests of a package stand on. Its Main is all that a TestMain
// has to call.
type Rig struct {
	// Name is the package's, for messages and temporary directories.
	Name string
	// Builds are the binaries; each path is put where its key points to.
	Builds map[*string]Build
	// Env is where the servers are put; nil for tests that need none.
	Env *servers.Env
	// Parallel is how many tests run at a time, for tests that wait more than
	// they work; 0 leaves it to the go command.
	Parallel int
	// Before is called before the tests, After behind them; both may be nil.
	Before func(ctx context.Context) error
	After  func()
}

// Main prepares the rig, runs the tests and returns the exit code.
func (r Rig) Main(m *testing.M) int {
	code, err := r.run(m.Run)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, err)
		return 1
	}
	return code
}

func (r Rig) run(tests func() int) (code int, err error) {
	ctx := context.Background()
	flag.Parse()
	if r.Parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(r.Parallel)); err != nil {
			return 0, err
		}
	}
	if r.Env != nil {
		if *r.Env, err = servers.FromEnv(); err != nil {
			return 0, err
		}
	}
	dir, err := os.MkdirTemp("", "deltad-"+r.Name+"-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := r.build(ctx, dir); err != nil {
		return 0, err
	}
	if r.Before != nil {
		if err := r.Before(ctx); err != nil {
			return 0, err
		}
	}
	code = tests()
	if r.After != nil {
		r.After()
	}
	return code, nil
}

// build builds each distinct Build once.
func (r Rig) build(ctx context.Context, dir string) error {
	built := map[Build]string{}
	for to, b := range r.Builds {
		if built[b] == "" {
			path := filepath.Join(dir, fmt.Sprintf("deltad-%d", len(built)))
			if err := b.into(ctx, path); err != nil {
				return err
			}
			built[b] = path
		}
		*to = built[b]
	}
	return nil
}

// into builds deltad to a path.
func (b Build) into(ctx context.Context, path string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	args := []string{"build", "-buildvcs=false", "-tags", b.Tags}
	if b.Version != "" {
		args = append(args, "-ldflags", "-X "+module+"/cmd/deltad/app.Version="+b.Version)
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat(args, []string{"-o", path, "./cmd/deltad"})...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build deltad (tags %q): %w", b.Tags, err)
	}
	return nil
}

// Root is the directory of the checkout that the working directory is in.
func Root() (string, error) {
	from, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for dir := from; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		first, _, _ := strings.Cut(string(text), "\n")
		if err == nil && strings.TrimSpace(first) == "module "+module {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the checkout: no go.mod of %s above %s", module, from)
		}
	}
}
