//go:build integration

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/e2e/faults/tcpproxy"
	"github.com/deltad/deltad/e2e/servers"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// ownServer is a PostgreSQL server for one test, which may do with it what it
// likes.
func ownServer(t *testing.T) *servers.Postgres {
	t.Helper()
	s, err := servers.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve lets an engine lead in real time until the test ends.
func (e *engine) serve(t *testing.T) {
	t.Helper()
	schedule, err := e.pipe.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.p.Serve(ctx, schedule) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestB34ReadOnlyFailover makes the server what a failover leaves behind: it
// answers and cannot write. Steps fail as in an outage, and the first one
// after it goes through.
func TestB34ReadOnlyFailover(t *testing.T) {
	t.Parallel()
	own := ownServer(t)
	w := unbuilt(t, env.S3[0], own.DSN)
	w.build(worldOptions{})
	w.produce()
	w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
	w.follow()
	demote := func(to string) {
		t.Helper()
		err := execute(t.Context(), own.DSN, "set default_transaction_read_only = off",
			"alter system set default_transaction_read_only = "+to, "select pg_reload_conf()")
		if err != nil {
			t.Fatal(err)
		}
		for now := ""; now != to; time.Sleep(10 * time.Millisecond) {
			conn, err := pgx.Connect(t.Context(), own.DSN)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(conn.QueryRow(t.Context(), "show default_transaction_read_only").Scan(&now), conn.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 3 {
		w.produce()
		demote("on")
		for range round + 1 {
			began := time.Now()
			r := w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{})
			if !errors.Is(r.Err, watermark.ErrUnavailable) || time.Since(began) > 5*time.Second {
				t.Errorf("a step on a read-only server: %s after %s (%v)", r.Outcome, time.Since(began), r.Err)
			}
			met.add("postgres: read-only", "whole step", 1, true)
			w.read()
		}
		demote("off")
		w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
		w.same()
		w.agrees()
	}
}

// TestPostgresRestarts crashes the server under a leader, for less and for
// longer than its lease.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	own := ownServer(t)
	w := unbuilt(t, env.S3[0], own.DSN)
	w.build(worldOptions{lease: lease})
	w.produce()
	w.engine.serve(t)
	w.waitFor(10 * time.Second)
	w.follow()
	for _, down := range []time.Duration{time.Second, lease + 2*time.Second} {
		own.Kill()
		w.produce()
		time.Sleep(down)
		w.read()
		if err := own.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		// At worst the lease is waited for, tried for every third of it.
		took := w.waitFor(lease + lease/3 + 4*time.Second)
		t.Logf("live %s after a restart that took %s", took.Round(time.Millisecond), down)
		met.add("postgres: crashed and restarted", "leader", 1, true)
		w.same()
	}
	w.produce()
	w.waitFor(10 * time.Second)
	w.same()
	w.agrees()
}

// TestB34BlackHoledDatabase loses the whole network to the database: each step
// fails within the deadlines of its calls (B34).
func TestB34BlackHoledDatabase(t *testing.T) {
	t.Parallel()
	w := unbuilt(t, env.S3[0], env.PG)
	proxy, dsn := behind(t, w.dsn)
	w.build(worldOptions{dsn: dsn})
	w.produce()
	w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
	w.follow()
	for range 2 {
		w.produce()
		proxy.Add(tcpproxy.Rule{Fault: tcpproxy.BlackHole}) // every statement
		began := time.Now()
		r := w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{})
		if took := time.Since(began); !errors.Is(r.Err, watermark.ErrUnavailable) || took > 12*time.Second {
			t.Errorf("a step into a black hole: %s after %s (%v)", r.Outcome, took, r.Err)
		}
		w.read()
		met.add("postgres: black hole", "all calls", proxy.Clear(), true)
		w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
		w.same()
		w.agrees()
	}
}

// bouncer is a transaction-mode pgbouncer before a server.
type bouncer struct {
	dir, bin string
	port     int
	cred     *syscall.Credential
	cmd      *exec.Cmd
}

func newBouncer(t *testing.T, server string) *bouncer {
	t.Helper()
	b := &bouncer{bin: "/usr/sbin/pgbouncer"}
	if found, err := exec.LookPath("pgbouncer"); err == nil {
		b.bin = found
	}
	var err error
	//nolint:usetesting // another user must be able to enter every folder above it
	if b.dir, err = os.MkdirTemp("", "deltad-pgbouncer-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(b.dir) })
	if os.Geteuid() == 0 { // whom it refuses
		u, err := user.Lookup("postgres")
		if err != nil {
			u, err = user.Lookup("nobody")
		}
		if err != nil {
			t.Fatal(err)
		}
		uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
		b.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := errors.Join(uerr, gerr, os.Chown(b.dir, int(uid), int(gid))); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ini := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 100\nlogfile = %s\n",
		u.Port(), b.port, filepath.Join(b.dir, "log"))
	if err := os.WriteFile(filepath.Join(b.dir, "pgbouncer.ini"), []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	t.Cleanup(b.kill)
	return b
}

func (b *bouncer) start(t *testing.T) {
	t.Helper()
	b.cmd = exec.Command(b.bin, "-q", filepath.Join(b.dir, "pgbouncer.ini"))
	b.cmd.Dir, b.cmd.SysProcAttr = b.dir, servers.ProcAttr(syscall.SIGKILL, b.cred)
	if err := b.cmd.Start(); err != nil {
		t.Fatalf("start pgbouncer (Debian: apt-get install pgbouncer): %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", b.port))
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(b.dir, "log"))
			t.Fatalf("pgbouncer does not listen: %v\n%s", err, log)
		}
	}
}

func (b *bouncer) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// TestB32BehindPgbouncer runs two replicas behind a transaction-mode pooler
// with fewer server connections than they use, and restarts the pooler: one
// line of versions, and nothing left in a session.
func TestB32BehindPgbouncer(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	own := ownServer(t)
	w := unbuilt(t, env.S3[0], own.DSN)
	b := newBouncer(t, own.DSN)
	u, err := url.Parse(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = fmt.Sprintf("127.0.0.1:%d", b.port)
	w.build(worldOptions{dsn: u.String(), lease: lease})
	second := w.replica(u.String(), lease)
	w.engine.serve(t)
	second.serve(t)
	for i := range 8 {
		w.produce()
		if i == 4 {
			b.kill()
			time.Sleep(time.Second)
			b.start(t)
			met.add("pgbouncer restarted", "leader", 1, true)
		}
		w.waitFor(lease + lease/3 + 5*time.Second)
		w.same()
	}
	time.Sleep(time.Second) // step 9 follows the pane
	w.agrees()
	conn, err := pgx.Connect(t.Context(), own.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var locks int
	if err := conn.QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory'").Scan(&locks); err != nil || locks > 0 {
		t.Errorf("%d advisory locks are held, %v", locks, err)
	}
}

// replica is another process with the same configuration.
func (w *world) replica(dsn string, lease time.Duration) *engine {
	w.t.Helper()
	return newEngine(w.t, config(w.t, dsn, "s3://bucket/in", "s3://bucket/out"), daemon.Options{
		Build: "faults", LeaseTTL: lease, Mem: map[string]store.Store{"bucket": w.direct},
	})
}
