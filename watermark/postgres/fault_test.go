//go:build integration

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/watermarktest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// verdict is what a proxy does with bytes from the client.
type verdict int

const (
	pass      verdict = iota
	cutBefore         // the server never sees them, the client sees a broken connection
	cutAfter          // the server does them and answers, the client sees a broken connection
	swallow           // nothing comes back any more, on this connection
)

// proxy stands between a store and the server and applies a rule to what the
// client sends.
type proxy struct {
	dsn  string
	rule atomic.Pointer[func([]byte) verdict]
}

func newProxy(t testing.TB, dsn string) *proxy {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host = ln.Addr().String()
	p := &proxy{dsn: u.String()}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(ctx, client, target) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		wg.Wait()
	})
	return p
}

// once applies a verdict to the first bytes that contain text, and passes the
// rest.
func (p *proxy) once(text string, v verdict) *atomic.Int32 {
	var hits atomic.Int32
	rule := func(b []byte) verdict {
		if bytes.Contains(b, []byte(text)) && hits.Add(1) == 1 {
			return v
		}
		return pass
	}
	p.rule.Store(&rule)
	return &hits
}

func (p *proxy) serve(ctx context.Context, client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { client.Close(); server.Close() })
	defer stop()
	var mute atomic.Bool
	answered := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if mute.Load() {
				select {
				case answered <- struct{}{}:
				default:
				}
				continue
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	p.pump(ctx, client, server, &mute, answered)
	client.Close()
	server.Close()
	<-done
}

func (p *proxy) pump(ctx context.Context, client, server net.Conn, mute *atomic.Bool, answered chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		v := pass
		if rule := p.rule.Load(); rule != nil {
			v = (*rule)(buf[:n])
		}
		switch v {
		case cutBefore:
			return
		case cutAfter:
			mute.Store(true)
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
			select {
			case <-answered:
			case <-ctx.Done():
			}
			return
		case swallow:
			// The client may give up and close: the server must not learn of
			// it, as when a host loses its network.
			mute.Store(true)
			_, _ = io.Copy(io.Discard, client)
			<-ctx.Done()
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestB34CommitWithoutAnswer cuts the connection after COMMIT was sent, once
// after the server did it and once before it saw it. Either way the answer is
// right, the work is done once, and nothing goes back.
func TestB34CommitWithoutAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		v    verdict
	}{{"after the server committed", cutAfter}, {"before the server saw it", cutBefore}} {
		t.Run(c.name, func(t *testing.T) {
			ctx := watermarktest.Context(t)
			b := newBase(t, nil)
			direct := watermarktest.Migrated(t, b)
			p := newProxy(t, b.url)
			s := b.at(t, p.dsn)

			hits := p.once("commit\x00", c.v)
			l, err := s.Acquire(ctx, "ads", watermark.RoleDelta, "a", time.Minute, 0)
			if err != nil || l.Epoch != 1 || hits.Load() < 2 {
				t.Fatalf("acquire: %+v, %v after %d commits; want epoch 1 and a second look", l, err, hits.Load())
			}
			if st, err := direct.LeaseStatus(ctx, "ads", watermark.RoleDelta); err != nil || st.Lease != l {
				t.Fatalf("the row says %+v, %v; the answer was %+v", st, err, l)
			}

			r := watermarktest.Planned(l, 1)
			if err := s.PlanRun(ctx, l, r); err != nil {
				t.Fatal(err)
			}
			pub := watermarktest.Published(r, 7)
			pub.Late = []watermark.LateObject{{Key: "k", ETag: "e"}}
			hits = p.once("commit\x00", c.v)
			out, err := s.PublishRun(ctx, l, pub)
			if err != nil || out.Already || out.Run.Late != 1 || hits.Load() < 2 {
				t.Fatalf("publish: %+v, %v after %d commits", out, err, hits.Load())
			}
			row, err := direct.Pipeline(ctx, "ads")
			if err != nil || row.Version != 2 || row.CurrentVersion != 7 || row.RunID != r.ID {
				t.Fatalf("row %+v, %v; want exactly one change", row, err)
			}

			change := watermark.Change{ID: watermarktest.ID(), Actor: "ann", Reason: "x"}
			p.once("commit\x00", c.v)
			paused, err := s.Pause(ctx, "ads", change)
			if err != nil || !paused.Paused || paused.Version != 3 {
				t.Fatalf("pause: %+v, %v", paused, err)
			}
			p.once("commit\x00", c.v)
			in := watermark.Intent{ID: watermarktest.ID(), Pipeline: "ads", Actor: "ann", Reason: "bad data"}
			if _, err := s.CreateIntent(ctx, in, 3); err != nil {
				t.Fatal(err)
			}
			trail, err := direct.AuditTrail(ctx, "ads", 10, 0)
			if err != nil || len(trail) != 2 {
				t.Fatalf("audit: %+v, %v; want one entry each", trail, err)
			}
		})
	}
}

// TestB34BlackHole loses the network in the middle of a transaction: the call
// ends within its timeout, and the lease row is free again soon after although
// the server never hears of the client's end.
func TestB34BlackHole(t *testing.T) {
	ctx := watermarktest.Context(t)
	const limit = 2 * time.Second
	b := newBase(t, func(o *Options) { o.CallTimeout = limit })
	direct := watermarktest.Migrated(t, b)
	l := watermarktest.Acquire(t, direct, "ads", watermark.RoleDelta)
	p := newProxy(t, b.url)
	s := b.at(t, p.dsn)
	if err := s.Renew(ctx, l); err != nil {
		t.Fatal(err)
	}
	var hits *atomic.Int32
	var started time.Time
	var err error
	// On a machine that stands still for the limit the server ends the session
	// before the update is sent, and the call does well on another connection.
	for range 5 {
		hits = p.once("UPDATE deltad_lease", swallow)
		started = time.Now()
		if err = s.Renew(ctx, l); err != nil {
			break
		}
	}
	if !errors.Is(err, watermark.ErrUnavailable) || hits.Load() == 0 {
		t.Fatalf("renew into a black hole: %v, want unavailable", err)
	}
	if took := time.Since(started); took > 3*limit {
		t.Fatalf("it took %s, want about %s", took, limit)
	}
	// The vanished client's transaction holds the row lock until the server's
	// own limit ends it.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err = direct.Renew(ctx, l); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatalf("renew on another connection: %v", err)
	}
	if err := s.Renew(ctx, l); err != nil {
		t.Fatalf("renew after the network is back: %v", err)
	}
}

// TestB34DyingConnectionsFreeThePool loses the network under every connection
// that the pool may have: the first call after it is back goes through, though
// the lost ones still wait for an answer.
func TestB34DyingConnectionsFreeThePool(t *testing.T) {
	ctx := watermarktest.Context(t)
	const limit, size = 700 * time.Millisecond, 3
	b := newBase(t, func(o *Options) { o.CallTimeout, o.MaxConns = limit, size })
	direct := watermarktest.Migrated(t, b)
	l := watermarktest.Acquire(t, direct, "ads", watermark.RoleDelta)
	p := newProxy(t, b.url)
	s := b.at(t, p.dsn)
	lost := func(data []byte) verdict {
		if bytes.Contains(data, []byte("begin isolation")) {
			return swallow
		}
		return pass
	}
	p.rule.Store(&lost)
	var wg sync.WaitGroup
	for range size {
		wg.Go(func() {
			if err := s.Renew(ctx, l); !errors.Is(err, watermark.ErrUnavailable) {
				t.Errorf("renew into a black hole: %v, want unavailable", err)
			}
		})
	}
	wg.Wait()
	p.rule.Store(nil)
	if err := s.Renew(ctx, l); err != nil {
		t.Fatalf("renew after the network is back: %v", err)
	}
}

// TestB34ReadOnlyServer meets sessions that cannot write, as a failover leaves
// them behind.
func TestB34ReadOnlyServer(t *testing.T) {
	ctx := watermarktest.Context(t)
	var dials, readOnlyUntil atomic.Int32
	b := newBase(t, func(o *Options) {
		o.pool = func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				if dials.Add(1) > readOnlyUntil.Load() {
					return nil
				}
				_, err := conn.Exec(ctx, "set default_transaction_read_only = on")
				return err
			}
		}
	})
	s := watermarktest.Migrated(t, b)
	l := watermarktest.Acquire(t, s, "ads", watermark.RoleDelta)

	dials.Store(0)
	readOnlyUntil.Store(1)
	demoted := b.Open(t)
	if err := demoted.Renew(ctx, l); err != nil || dials.Load() != 2 {
		t.Fatalf("renew through one read-only session: %v after %d connections, want the second to do it", err, dials.Load())
	}
	dials.Store(0)
	readOnlyUntil.Store(1000)
	standby := b.Open(t)
	if err := standby.Renew(ctx, l); !errors.Is(err, watermark.ErrUnavailable) {
		t.Fatalf("renew with only read-only sessions: %v, want unavailable", err)
	}
	if dials.Load() < 2 {
		t.Fatalf("a read-only session was used again")
	}
}

// TestKilledBackend ends a session that holds the lease row in the middle of a
// publication: nothing of it stays, and the next holder goes on.
func TestKilledBackend(t *testing.T) {
	ctx := watermarktest.Context(t)
	b := newBase(t, nil)
	s := watermarktest.Migrated(t, b)
	l := watermarktest.Acquire(t, s, "ads", watermark.RoleDelta)
	if _, err := s.EnsurePipeline(ctx, "ads"); err != nil {
		t.Fatal(err)
	}
	victim := b.conn(t)
	var pid int32
	if err := victim.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"begin", "select * from deltad_lease for update",
		"update deltad_pipeline set watermark = now(), current_version = 99",
	} {
		if _, err := victim.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	blocked := make(chan error, 1)
	go func() { blocked <- s.Renew(ctx, l) }()
	time.Sleep(50 * time.Millisecond)
	if err := b.Exec(t, fmt.Sprintf("select pg_terminate_backend(%d)", pid)); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; err != nil {
		t.Fatalf("renew that waited for the killed session: %v", err)
	}
	row, err := s.Pipeline(ctx, "ads")
	if err != nil || row.CurrentVersion != 0 || !row.Watermark.IsZero() {
		t.Fatalf("half a publication stayed: %+v, %v", row, err)
	}
}

// TestOwnSessionsKilled ends the pool's own sessions between calls, as an
// administrator or a failover does.
func TestOwnSessionsKilled(t *testing.T) {
	ctx := watermarktest.Context(t)
	b := newBase(t, func(o *Options) { o.ApplicationName = "victims" })
	s := watermarktest.Migrated(t, b)
	l := watermarktest.Acquire(t, s, "ads", watermark.RoleDelta)
	for i := range 3 {
		if err := b.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victims' and datname = current_database()"); err != nil {
			t.Fatal(err)
		}
		if err := s.Renew(ctx, l); err != nil {
			t.Fatalf("renewal %d: %v", i, err)
		}
	}
}

func TestInfiniteWatermarkIsCorrupt(t *testing.T) {
	ctx := watermarktest.Context(t)
	b := newBase(t, nil)
	s := watermarktest.Migrated(t, b)
	if _, err := s.EnsurePipeline(ctx, "ads"); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"infinity", "-infinity", "0044-03-15 BC", "12000-01-01"} {
		if err := b.Exec(t, "update deltad_pipeline set current_version = 1, watermark = '"+value+"'"); err != nil {
			t.Fatal(err)
		}
		var ce *watermark.CorruptError
		if _, err := s.Pipeline(ctx, "ads"); !errors.As(err, &ce) || ce.Pipeline != "ads" || ce.Column != "watermark" {
			t.Errorf("watermark %s: %v, want corrupt", value, err)
		}
	}
}

func TestAuditRefusesTruncate(t *testing.T) {
	b := newBase(t, nil)
	watermarktest.Migrated(t, b)
	if err := b.Exec(t, "truncate deltad_audit"); err == nil || !strings.Contains(err.Error(), "append-only") {
		t.Fatalf("truncate: %v, want a refusal", err)
	}
}
