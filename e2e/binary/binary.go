// Package binary gives integration tests the real deltad: it builds what a
// package's tests run, once for all packages while the source is the same, and
// starts it.
//
// What it promises:
//
//  1. The source is that of the checkout the test runs in, whatever its
//     folder within it.
//  2. Nothing is left behind but .cache/tests of the checkout, which has the
//     binaries for the next package: tests run copies of their own, in a
//     temporary directory that is removed when they have ended, and a process
//     ends with its test.
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
	"syscall"
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

// into puts deltad, built, at a path.
func (b Build) into(ctx context.Context, path string) (err error) {
	root, err := Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".cache", "tests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	kept := filepath.Join(dir, fmt.Sprintf("deltad-%s-%s", b.Tags, b.Version))
	lock, err := os.OpenFile(kept+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := b.build(ctx, root, kept); err != nil {
		return err
	}
	return replicate(kept, path)
}

// replicate makes a link, or a copy where another file system is the target.
// The go command replaces a binary and never writes into it.
func replicate(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o700) //nolint:gosec // it is a program
}

// build builds deltad to a path. The go command leaves what is there alone if
// it was built from the same source.
func (b Build) build(ctx context.Context, root, path string) error {
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
