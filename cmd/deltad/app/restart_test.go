package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/deltad/deltad/configs"
)

func TestRestartAfter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	if got := restartAfter(configs.Restart{}, random); got != 0 {
		t.Errorf("without a schedule: %s", got)
	}
	if got := restartAfter(configs.Restart{Every: time.Hour}, random); got != time.Hour {
		t.Errorf("without jitter: %s", got)
	}
	seen := map[time.Duration]bool{}
	for range 100 {
		got := restartAfter(configs.Restart{Every: time.Hour, Jitter: time.Minute}, random)
		if got < time.Hour || got >= time.Hour+time.Minute {
			t.Fatalf("%s is outside one hour and a minute of jitter", got)
		}
		seen[got] = true
	}
	if len(seen) < 90 {
		t.Errorf("only %d different delays in 100", len(seen))
	}
}

func TestRestartMode(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	kubernetes := func(name string) (string, bool) { return "10.0.0.1", name == "KUBERNETES_SERVICE_HOST" }
	for _, c := range []struct {
		mode string
		pid  int
		env  func(string) (string, bool)
		want string
	}{
		{"auto", 4711, none, "exec"}, {"auto", 1, none, "exit"}, {"auto", 4711, kubernetes, "exit"},
		{"exec", 1, kubernetes, "exec"}, {"exit", 4711, none, "exit"},
	} {
		if got := restartMode(c.mode, c.pid, c.env); got != c.want {
			t.Errorf("%s as process %d: %s, want %s", c.mode, c.pid, got, c.want)
		}
	}
}

// TestMain lets the test binary stand in for deltad in processes of their own.
func TestMain(m *testing.M) {
	if args := os.Getenv("DELTAD_TEST_MAIN"); args != "" {
		var list []string
		if err := json.Unmarshal([]byte(args), &list); err != nil {
			panic(err)
		}
		os.Exit(Main(Options{Args: list, Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	os.Exit(m.Run())
}

// deltad starts the test binary as deltad.
func deltad(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	list, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "DELTAD_TEST_MAIN="+string(list))
	return cmd
}

// TestPlannedRestartMissesNoTrigger restarts a daemon three times, by exec,
// under a trigger of one second and a partition a second: one process id, four
// lives, no lease waited for, and panes as close together as without restarts.
func TestPlannedRestartMissesNoTrigger(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "deltad.yaml")
	body := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
restart: {every: 24h, mode: exec}
pipelines:
  p:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M/%%S", granularity: 1s, format: ndjson}
    trigger: {every: 1s}
    window: {size: 1m}
    index: {key: [k], fields: {n: {count: "*", over: 1m}}}
    output: {url: "file://%[1]s/out"}
`, dir)
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := deltad(ctx, t, "run", "-c", file)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go produceEverySecond(ctx, filepath.Join(dir, "in"))
	var lives, published int
	var panes []time.Time
	scanner := bufio.NewScanner(logs)
	for scanner.Scan() {
		var line struct {
			Msg string `json:"msg"`
			PID int    `json:"pid"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("log line %q: %v", scanner.Text(), err)
		}
		switch line.Msg {
		case "started":
			lives++
			if line.PID != cmd.Process.Pid {
				t.Errorf("life %d has process id %d, want %d", lives, line.PID, cmd.Process.Pid)
			}
			published = 0
		case "pane published":
			panes = append(panes, time.Now())
			if published++; published == 3 {
				sig := syscall.SIGUSR2
				if lives == 4 {
					sig = syscall.SIGTERM
				}
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
		case "run failed":
			t.Errorf("%s", scanner.Text())
		}
	}
	if err := cmd.Wait(); err != nil || lives != 4 {
		t.Fatalf("the daemon ended with %v after %d lives", err, lives)
	}
	var longest time.Duration
	for i := 1; i < len(panes); i++ {
		longest = max(longest, panes[i].Sub(panes[i-1]))
	}
	t.Logf("%d panes over four lives, at most %s apart", len(panes), longest)
	// Two triggers and a start: no lease was waited for (that takes 30 s).
	if longest > 5*time.Second {
		t.Errorf("panes are up to %s apart", longest)
	}
}

func produceEverySecond(ctx context.Context, root string) {
	for ctx.Err() == nil {
		now := time.Now().UTC()
		d := filepath.Join(root, now.Format("2006/01/02/15/04/05"))
		if os.MkdirAll(d, 0o755) == nil {
			_ = os.WriteFile(filepath.Join(d, "a.ndjson"), []byte("{\"k\":\"a\"}\n"), 0o600)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
