//go:build integration

package golden_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/e2e/binary"
)

// build is deltad for one kind of processor.
type build struct {
	name string
	arch string
	env  []string
	cpu  string // of the emulator

	path string   // of the binary
	exec []string // what runs it: itself, or an emulator and itself; nil for nothing that is here
	why  string   // it is not run by itself
}

// builds are those that must agree, set up by TestMain.
var builds = []*build{
	{name: "amd64 v1", arch: "amd64", env: []string{"GOAMD64=v1"}, cpu: "max"},
	{name: "amd64 v3", arch: "amd64", env: []string{"GOAMD64=v3"}, cpu: "max"},
	{name: "arm64", arch: "arm64", env: []string{"GOARM64=v8.0"}, cpu: "max"},
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deltad-golden-")
	if err == nil {
		err = makeBuilds(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "golden: %v\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintf(os.Stderr, "golden: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

func makeBuilds(ctx context.Context, dir string) error {
	root, err := binary.Root()
	if err != nil {
		return err
	}
	for i, b := range builds {
		b.path = filepath.Join(dir, fmt.Sprintf("deltad-%d", i))
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", b.path, "./cmd/deltad")
		cmd.Dir, cmd.Stderr = root, os.Stderr
		cmd.Env = slices.Concat(os.Environ(), []string{"GOARCH=" + b.arch}, b.env)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build deltad for %s: %w", b.name, err)
		}
		b.find(ctx)
	}
	return nil
}

// find looks for what runs the build: this machine, else an emulator.
func (b *build) find(ctx context.Context) {
	err := exec.CommandContext(ctx, b.path, "version").Run()
	if err == nil {
		b.exec = []string{b.path}
		return
	}
	b.why = fmt.Sprintf("this machine does not run it (%v)", err)
	qemu := map[string]string{"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}[b.arch]
	for _, name := range []string{qemu, qemu + "-static"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = exec.CommandContext(ctx, path, "-cpu", b.cpu, b.path, "version").Run()
		}
		if err == nil {
			b.exec = []string{path, "-cpu", b.cpu, b.path}
			b.why += ", " + name + " does"
			return
		}
		b.why += fmt.Sprintf("; %s: %v", name, err)
	}
}

// native says whether it is this machine's usual build.
func (b *build) native() bool {
	return b.arch == runtime.GOARCH && !slices.Contains(b.env, "GOAMD64=v3") && !b.emulated()
}

// emulated says whether the build runs slowly.
func (b *build) emulated() bool { return len(b.exec) > 1 }

// run is one deltad command, which must end with exit code 0.
func (b *build) run(t *testing.T, procs int, args ...string) {
	t.Helper()
	argv := slices.Concat(b.exec, args)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", procs))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: deltad %s: %v\n%s", b.name, strings.Join(args, " "), err, out)
	}
}

// TestNativeBuildRuns: an emulator may be missing, the machine itself is not.
func TestNativeBuildRuns(t *testing.T) {
	err := errors.New("there is none")
	for _, b := range builds {
		switch {
		case b.arch == runtime.GOARCH && len(b.exec) == 1:
			err = nil
		case b.exec == nil:
			t.Logf("%s: not run: %s", b.name, b.why)
		}
	}
	if err != nil {
		t.Errorf("no build for %s runs here: %v", runtime.GOARCH, err)
	}
}
