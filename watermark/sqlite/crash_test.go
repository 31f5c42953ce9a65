package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/watermarktest"
)

// child names the database file in the environment of a process that publishes
// until it is killed.
const child = "DELTAD_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(rebuilder); path != "" {
		if err := rebuildUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if path := os.Getenv(child); path != "" {
		if err := publishUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// publishUntilKilled continues at the version the file has, and prints each
// version once it is acknowledged.
func publishUntilKilled(path string) error {
	ctx := context.Background()
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		return err
	}
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	p, err := s.EnsurePipeline(ctx, "ads")
	if err != nil {
		return err
	}
	l, err := s.Acquire(ctx, "ads", watermark.RoleDelta, "child", time.Millisecond, 0)
	if err != nil {
		return err
	}
	for v := p.CurrentVersion + 1; ; v++ {
		r := watermarktest.Planned(l, int(v))
		if err := s.PlanRun(ctx, l, r); err != nil {
			return err
		}
		pub := watermarktest.Published(r, v)
		for i := range 40 { // wide enough for a kill to land inside
			pub.Ledger = append(pub.Ledger, watermark.LedgerEntry{
				Partition: r.Watermark.Add(time.Duration(i) * time.Second), State: "covered", Objects: int(v),
			})
		}
		if _, err := s.PublishRun(ctx, l, pub); err != nil {
			return err
		}
		fmt.Println(v)
	}
}

// TestKilledInTheMiddle kills a publishing process several times. What was
// acknowledged is there, nothing is half there, and the next process goes on.
func TestKilledInTheMiddle(t *testing.T) {
	ctx := watermarktest.Context(t)
	f := fresh(t).(file)
	acked := int64(0)
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), child+"="+f.path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		for n := 0; lines.Scan(); n++ {
			if acked, err = strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64); err != nil {
				t.Fatal(err)
			}
			if n == 3 {
				time.AfterFunc(time.Duration(round*3)*time.Millisecond, func() { _ = cmd.Process.Kill() })
			}
		}
		timer.Stop()
		_ = cmd.Wait() // killed: its status says nothing
		s := f.Open(t)
		p, err := s.Pipeline(ctx, "ads")
		if err != nil {
			t.Fatal(err)
		}
		if p.CurrentVersion < acked || p.CurrentVersion > acked+1 || acked == 0 {
			t.Fatalf("round %d: version %d was acknowledged, %d is there", round, acked, p.CurrentVersion)
		}
		latest, err := s.LatestPublished(ctx, "ads")
		if err != nil || latest.ID != p.RunID || latest.CurrentVersion != p.CurrentVersion || !latest.Watermark.Equal(p.Watermark) {
			t.Fatalf("round %d: journal %+v and row %+v disagree (%v)", round, latest, p, err)
		}
		entries, err := s.LedgerRange(ctx, "ads", "", p.Watermark.Add(-time.Second), p.Watermark.Add(39*time.Second), 100)
		if err != nil || len(entries) != 40 || entries[0].Objects != int(p.CurrentVersion) {
			t.Fatalf("round %d: %d ledger entries (%v), want the publication's 40", round, len(entries), err)
		}
		st, err := s.LeaseStatus(ctx, "ads", watermark.RoleDelta)
		if err != nil || st.Epoch != int64(round+1) {
			t.Fatalf("round %d: epoch %d, %v", round, st.Epoch, err)
		}
	}
}

func TestDamagedFile(t *testing.T) {
	ctx := watermarktest.Context(t)
	f := fresh(t).(file)
	watermarktest.Migrated(t, f)
	for _, c := range []struct {
		name string
		text string
	}{
		{"not a database", strings.Repeat("this is no database. ", 1000)},
	} {
		path := f.path + ".damaged"
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(ctx, Options{Path: path})
		if err == nil {
			_, err = s.Pipeline(ctx, "ads")
			_ = s.Close()
		}
		if !errors.Is(err, watermark.ErrCorrupt) || errors.Is(err, watermark.ErrUnavailable) {
			t.Errorf("%s: %v, want corrupt", c.name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != c.text {
			t.Errorf("%s: the file was changed (%v)", c.name, err)
		}
	}
}

func TestWatermarkOutOfRangeIsCorrupt(t *testing.T) {
	ctx := watermarktest.Context(t)
	f := fresh(t).(file)
	s := watermarktest.Migrated(t, f)
	if _, err := s.EnsurePipeline(ctx, "ads"); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"9223372036854775807", "-9223372036854775808", "400000000000000000"} {
		if err := f.Exec(t, "UPDATE deltad_pipeline SET current_version = 1, watermark = "+value); err != nil {
			t.Fatal(err)
		}
		var ce *watermark.CorruptError
		if _, err := s.Pipeline(ctx, "ads"); !errors.As(err, &ce) || ce.Pipeline != "ads" || ce.Column != "watermark" {
			t.Errorf("watermark %s: %v, want corrupt", value, err)
		}
	}
	if err := f.Exec(t, "UPDATE deltad_pipeline SET watermark = 'yesterday'"); err == nil {
		t.Error("the table took text for an instant")
	}
}

func TestAuditRefusesReplace(t *testing.T) {
	ctx := watermarktest.Context(t)
	f := fresh(t).(file)
	s := watermarktest.Migrated(t, f)
	id := watermarktest.ID()
	if err := s.AppendAudit(ctx, watermark.AuditEntry{ID: id, Actor: "ann", Action: "promote"}); err != nil {
		t.Fatal(err)
	}
	err := f.Exec(t, `INSERT OR REPLACE INTO deltad_audit (id, at, actor, action, reason) VALUES ('`+id+`', 1, 'eve', 'x', 'x')`)
	if err == nil || !strings.Contains(err.Error(), "append-only") {
		t.Fatalf("replace: %v, want a refusal", err)
	}
}

// TestWriterWaits holds the file's write lock from another handle: a call waits
// its turn, and one whose time is up says so.
func TestWriterWaits(t *testing.T) {
	ctx := watermarktest.Context(t)
	f := fresh(t).(file)
	s := watermarktest.Migrated(t, f)
	other, _, err := open(ctx, Options{Path: f.path})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.writer.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	if _, err := s.EnsurePipeline(short, "ads"); !errors.Is(err, watermark.ErrUnavailable) {
		t.Fatalf("a call whose time is up: %v, want unavailable", err)
	}
	if _, err := s.Pipelines(ctx); err != nil {
		t.Fatalf("a reader beside a writer: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = tx.Rollback() })
	if _, err := s.EnsurePipeline(ctx, "ads"); err != nil {
		t.Fatalf("a call that waits: %v", err)
	}
}

func TestOpenRefusesNoPath(t *testing.T) {
	if _, err := Open(context.Background(), Options{}); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
}
