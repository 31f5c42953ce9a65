//go:build integration

package binary

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestBuildsOnceAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var one, same, other string
	order := ""
	rig := Rig{
		Name: "binary", Builds: map[*string]Build{&one: {}, &same: {}, &other: {Version: "1.2.3-test"}},
		After: func() { order += " after" },
	}
	code, err := rig.run(func() int {
		order += "tests"
		if one != same || one == other {
			t.Errorf("paths %s, %s and %s: want one for equal builds", one, same, other)
		}
		if out, err := exec.Command(other, "version").Output(); err != nil || !strings.Contains(string(out), "1.2.3-test") {
			t.Errorf("the version is %q, %v", out, err)
		}
		return 7
	})
	if code != 7 || err != nil || order != "tests after" {
		t.Errorf("code %d, %v, order %q", code, err, order)
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "deltad-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRootFromBelow(t *testing.T) {
	want, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../faults/s3proxy")
	if got, err := Root(); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	t.Chdir(t.TempDir())
	if got, err := Root(); err == nil {
		t.Errorf("outside of a checkout it is %s", got)
	}
}

func TestProcess(t *testing.T) {
	p := Start(t, exec.Command("sh", "-c", "trap 'exit 0' TERM; echo up >&2; while :; do sleep 0.02; done"))
	for deadline := time.Now().Add(10 * time.Second); p.Log() != "up\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log is %q", p.Log())
		}
	}
	p.Stop(10 * time.Second)
	killed := Start(t, exec.Command("sleep", "60"))
	killed.Signal(syscall.SIGKILL)
	if code := killed.Wait(10 * time.Second); code != -1 {
		t.Errorf("exit code %d of one that was killed, want -1", code)
	}
}

// TestPackagesShareABuild: a second process links nothing, and what it gets
// stays as it is when the source changes under the first.
func TestPackagesShareABuild(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	b, kept := Build{}, filepath.Join(root, ".cache", "tests", "deltad--")
	var built []os.FileInfo
	for i := range 2 {
		path := filepath.Join(t.TempDir(), "deltad")
		if err := b.into(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "version").Output(); err != nil || len(out) == 0 {
			t.Errorf("build %d says %q, %v", i, out, err)
		}
		info, err := os.Stat(kept)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, info)
	}
	if !os.SameFile(built[0], built[1]) {
		t.Error("the second process linked again")
	}
}
