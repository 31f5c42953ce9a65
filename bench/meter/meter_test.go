package meter_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deltad/deltad/bench/meter"
)

func TestCPUIsWhatWasUsed(t *testing.T) {
	pid := os.Getpid()
	before, err := meter.CPU(pid)
	if err != nil {
		t.Fatal(err)
	}
	began, sum := time.Now(), 0
	var used time.Duration
	for used < 20*time.Millisecond && time.Since(began) < 10*time.Second {
		for i := range 100_000 {
			sum += i * sum
		}
		is, err := meter.CPU(pid)
		if err != nil {
			t.Fatal(err)
		}
		used = is - before
	}
	if wall := time.Since(began); used < 20*time.Millisecond || used > 64*wall {
		t.Errorf("%s of CPU in %s (%d)", used, wall, sum)
	}
}

func TestPeakIsForgotten(t *testing.T) {
	const size = 64 << 20
	pid := os.Getpid()
	big, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < size; i += 4096 {
		big[i] = 1
	}
	if err := unix.Munmap(big); err != nil {
		t.Fatal(err)
	}
	first, err := meter.Peak(pid)
	if err != nil || first < size {
		t.Fatalf("the peak is %d, it had %d, %v", first, size, err)
	}
	if err := meter.ForgetPeak(pid); err != nil {
		t.Fatal(err)
	}
	if again, err := meter.Peak(pid); err != nil || again > first-size/2 {
		t.Errorf("the peak is %d after it was %d and forgotten, %v", again, first, err)
	}
}

func TestRest(t *testing.T) {
	start := func(command string) int {
		t.Helper()
		cmd := exec.Command("sh", "-c", command)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	if err := meter.Rest(start("exec sleep 60"), 20*time.Second); err != nil {
		t.Errorf("one that sleeps: %v", err)
	}
	if err := meter.Rest(start("while :; do :; done"), time.Second); !errors.Is(err, meter.ErrBusy) {
		t.Errorf("one that works: %v, want ErrBusy", err)
	}
}
