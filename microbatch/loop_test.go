package microbatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/watermark"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loop is one output and one state store inside a bubble, for any number of
// pipelines that share them. Bubble time begins at midnight, 2000-01-01 UTC.
type loop struct {
	t     *testing.T
	raw   *mem.Store
	out   *sinktest.Watcher
	state *memState
	began time.Time

	mu      sync.Mutex
	reports []seen
}

// seen is a report and when it was made.
type seen struct {
	after time.Duration
	microbatch.Report
}

// bubble runs a test in fake time.
func bubble(t *testing.T, test func(t *testing.T, l *loop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &loop{t: t, raw: mem.New("raw"), out: sinktest.Watch(mem.New("out")), state: newMemState(), began: time.Now()}
		test(t, l)
		if broken := l.out.Broken(); len(broken) > 0 {
			t.Errorf("broken: %s", strings.Join(broken, "; "))
		}
	})
}

// produce puts an object into the partition of this minute.
func (l *loop) produce(clicks int) {
	now := time.Now().UTC()
	body := fmt.Sprintf(`{"item":"x","ts":%q,"clicks":%d,"title":"t","op":"U"}`, now.Format(time.RFC3339), clicks)
	key := now.Format("2006/01/02/15/04/") + ulid.Make().String() + ".ndjson"
	if _, err := l.raw.Put(context.Background(), key, strings.NewReader(body+"\n"), store.PutOptions{}); err != nil {
		l.t.Error(err)
	}
}

const ttl = 30 * time.Second

// pipeline makes one more candidate for the lease.
func (l *loop) pipeline(name string, change func(*microbatch.Settings)) *microbatch.Pipeline {
	layout, err := partition.ParseLayout("%Y/%m/%d/%H/%M", partition.LayoutOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	src, err := source.New(l.raw, source.Options{Layout: layout})
	if err != nil {
		l.t.Fatal(err)
	}
	program, err := index.Compile(clicks(), combine.Builtins())
	if err != nil {
		l.t.Fatal(err)
	}
	newID := func() string { return ulid.Make().String() }
	set := microbatch.Settings{
		Name: "ads", Rule: hour(10 * time.Minute), Calendar: layout.Calendar, ConfigHash: "c1", Program: program, Format: scan.NDJSON,
		ObjectErrors: microbatch.ObjectFail, Retain: sink.DefaultRetain(), Workers: 2, CacheBytes: 1 << 20, WindowBytes: 64 << 20,
		Lister: src, Sink: sink.New(sink.Settings{Store: l.out, Pipeline: "ads", NewID: newID}), State: l.state,
		Open: func(o partition.Object) (scan.Blob, map[string]string) { return source.NewBlob(l.raw, o), nil },
		// The decoder that reads panes is pooled and has channels, which must not pass from bubble to bubble.
		Documents: func(context.Context, sink.Manifest, func(*column.Batch) error) error { return nil },
		Log:       zap.NewNop(), NewID: newID, Build: "test", Instance: name, LeaseTTL: ttl, Grace: 10 * time.Second,
		Observe: func(r microbatch.Report) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.reports = append(l.reports, seen{time.Since(l.began), r})
		},
	}
	if change != nil {
		change(&set)
	}
	return microbatch.New(set)
}

// serve starts the loop; the function returned stops it and says how long it
// took to end.
func (l *loop) serve(p *microbatch.Pipeline, s cron.Schedule) (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, s) }()
	return func() time.Duration {
		asked := time.Now()
		cancel()
		if err := <-done; err != nil {
			l.t.Errorf("serve: %v", err)
		}
		return time.Since(asked)
	}
}

// ended are the outcomes so far and when each step ended.
func (l *loop) ended() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, s := range l.reports {
		out = append(out, fmt.Sprintf("%s %s", s.after.Round(time.Second), s.Outcome))
	}
	return out
}

func (l *loop) want(what string, want ...string) {
	l.t.Helper()
	if got := l.ended(); fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("%s: steps ended %v, want %v", what, got, want)
	}
}

func (l *loop) head() sink.Head {
	l.t.Helper()
	h, err := sink.ReadHead(context.Background(), l.out, "")
	if err != nil {
		l.t.Fatal(err)
	}
	return h
}

func every(d time.Duration) cron.Schedule { return cron.Every(d) }

func TestLoopStepsAtOnceAndThenOnSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		stop := l.serve(l.pipeline("a", nil), every(30*time.Second))
		synctest.Wait()
		l.want("at the start", "0s advanced")
		time.Sleep(65 * time.Second)
		l.produce(2)
		time.Sleep(30 * time.Second)
		stop()
		l.want("on schedule", "0s advanced", "30s idle", "1m0s idle", "1m30s advanced")
	})
}

func TestLoopCronWithSecondsAndZone(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		zone, err := time.LoadLocation("America/New_York")
		if err != nil {
			t.Fatal(err)
		}
		// Bubbles begin at 19:00 in New York.
		parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
		schedule, err := parser.Parse("15,45 1 20 * * *")
		if err != nil {
			t.Fatal(err)
		}
		schedule.(*cron.SpecSchedule).Location = zone
		stop := l.serve(l.pipeline("a", nil), schedule)
		time.Sleep(2 * time.Hour)
		stop()
		l.want("cron", "0s idle", "1h1m15s idle", "1h1m45s idle")
	})
}

// never is a schedule that has no next time.
type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

func TestLoopScheduleThatNeverComes(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		stop := l.serve(l.pipeline("a", nil), never{})
		time.Sleep(time.Hour)
		stop()
		l.want("never", "0s idle")
	})
}

// TestLoopMissedFiresAreOneStepAtOnce: fires during a long run are neither
// lost nor queued, during the first run too.
func TestLoopMissedFiresAreOneStepAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		slow := 100 * time.Second
		p := l.pipeline("a", func(s *microbatch.Settings) {
			s.Trace = func(step string) {
				if step == "slices" {
					time.Sleep(slow)
					slow = 0
				}
			}
		})
		stop := l.serve(p, every(30*time.Second))
		time.Sleep(165 * time.Second)
		stop()
		l.want("a long first run", "1m40s advanced", "1m40s idle", "2m10s idle", "2m40s idle")
	})
	bubble(t, func(t *testing.T, l *loop) {
		var slow time.Duration
		p := l.pipeline("a", func(s *microbatch.Settings) {
			s.Trace = func(step string) {
				if step == "slices" {
					time.Sleep(slow)
					slow = 0
				}
			}
		})
		stop := l.serve(p, every(10*time.Second))
		time.Sleep(5 * time.Second)
		slow = 25 * time.Second
		l.produce(1)
		time.Sleep(51 * time.Second)
		stop()
		// The run of 10s ends at 35s; it missed 20s and 30s.
		l.want("a long later run", "0s idle", "35s advanced", "35s idle", "45s idle", "55s idle")
	})
}

func TestB28LoopGoesOnAfterAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		armed := true
		p := l.pipeline("a", func(s *microbatch.Settings) {
			s.Trace = func(step string) {
				if step == "data" && armed {
					armed = false
					panic("a combiner gives up")
				}
			}
		})
		stop := l.serve(p, every(30*time.Second))
		time.Sleep(31 * time.Second)
		stop()
		l.want("one panic", "0s failed", "30s advanced")
		if failed := l.state.runsWith(watermark.RunFailed); len(failed) != 1 {
			t.Errorf("failed runs %v", failed)
		}
	})
}

// panicky panics once, when it is asked for resets between two triggers.
type panicky struct {
	*memState
	armed atomic.Bool
}

func (s *panicky) PendingIntents(ctx context.Context, pipeline string) ([]watermark.Intent, error) {
	if s.armed.CompareAndSwap(true, false) {
		panic("a reset of nowhere")
	}
	return s.memState.PendingIntents(ctx, pipeline)
}

// TestB28LoopGoesOnAfterAPanicBetweenTriggers: what a leader does beside its
// steps may panic as well, and then neither leads another nor is a step missed.
func TestB28LoopGoesOnAfterAPanicBetweenTriggers(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		state := &panicky{memState: l.state}
		p := l.pipeline("a", func(s *microbatch.Settings) { s.State = state })
		stop := l.serve(p, every(30*time.Second))
		time.Sleep(time.Second) // after the first step, before the first look between two
		epoch := l.head().Owner.Epoch
		l.state.ask("waits", microbatch.RequestTrigger)
		state.armed.Store(true)
		time.Sleep(5 * time.Second)
		if rq := l.state.request("waits"); state.armed.Load() || rq.State != watermark.RequestDone {
			t.Errorf("panicked %v, then the request is %s", !state.armed.Load(), rq.State)
		}
		l.produce(2)
		time.Sleep(25 * time.Second)
		stop()
		if steps := l.ended(); steps[len(steps)-1] != "30s refined" || l.head().Owner.Epoch != epoch {
			t.Errorf("steps %v, epoch %d after %d", steps, l.head().Owner.Epoch, epoch)
		}
	})
}

func TestLoopAnswersRequestsBetweenTriggers(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		p := l.pipeline("a", nil)
		stop := l.serve(p, every(time.Hour))
		synctest.Wait()
		l.produce(1)
		l.state.ask("poked", microbatch.RequestTrigger)
		p.Poke()
		synctest.Wait()
		if rq := l.state.request("poked"); rq.State != watermark.RequestDone || !strings.Contains(string(rq.Result), "advanced") {
			t.Errorf("a poked leader left the request %s: %s", rq.State, rq.Result)
		}
		l.state.ask("unpoked", microbatch.RequestTrigger)
		time.Sleep(3 * time.Second)
		if rq := l.state.request("unpoked"); rq.State != watermark.RequestDone {
			t.Errorf("three seconds later the request is %s", rq.State)
		}
		stop()
	})
}

func TestLoopPausedStillHandlesIntents(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		stop := l.serve(l.pipeline("a", nil), every(30*time.Second))
		synctest.Wait()
		to := l.began.Add(-5 * time.Minute).UTC()
		l.state.resetTo(ulid.Make().String(), to)
		time.Sleep(3 * time.Second)
		h := l.head()
		if h.Reason != sink.Reset || !h.Progress.Equal(to) || !h.Watermark.Equal(l.began) {
			t.Errorf("CURRENT: reason %s, progress %s, watermark %s", h.Reason, h.Progress, h.Watermark)
		}
		if in, err := l.state.IntentByID(t.Context(), h.RunID); err != nil || in.State != watermark.IntentApplied {
			t.Errorf("intent %s, %v", in.State, err)
		}
		l.produce(2)
		time.Sleep(time.Minute)
		if now := l.head(); now.Version != h.Version {
			t.Errorf("a paused pipeline went from version %d to %d", h.Version, now.Version)
		}
		if stop(); l.ended()[1] != "30s held" {
			t.Errorf("steps %v", l.ended())
		}
	})
}

func TestLoopStopLetsTheRunInHandFinish(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		p := l.pipeline("a", func(s *microbatch.Settings) {
			s.Trace = func(step string) {
				if step == "data" {
					time.Sleep(5 * time.Second)
				}
			}
		})
		stop := l.serve(p, every(30*time.Second))
		time.Sleep(time.Second)
		l.state.ask("too late", microbatch.RequestTrigger)
		if took := stop(); took != 4*time.Second {
			t.Errorf("ended %s after the stop, want the rest of the run, 4s", took)
		}
		l.want("drained", "5s advanced")
		if rq := l.state.request("too late"); rq.State != watermark.RequestPending {
			t.Errorf("a request was begun after the stop: %s", rq.State)
		}
		if !time.Now().After(l.state.expires) {
			t.Error("the lease was not given back")
		}
	})
}

// stuck is a read that ends with its context alone.
type stuck struct {
	scan.Blob
}

func (s stuck) ReadAll(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("read: %w", ctx.Err())
}

func stuckReads(s *microbatch.Settings) {
	open := s.Open
	s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		b, paths := open(o)
		return stuck{b}, paths
	}
}

func TestLoopStopEndsWithinGrace(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		stop := l.serve(l.pipeline("a", stuckReads), every(30*time.Second))
		time.Sleep(time.Second)
		if took := stop(); took != 10*time.Second {
			t.Errorf("ended %s after the stop, want Grace, 10s", took)
		}
		l.want("cut off", "11s failed")
		if failed := l.state.runsWith(watermark.RunFailed); len(failed) != 1 || l.head().Delta != nil {
			t.Errorf("failed runs %v, CURRENT %+v", failed, l.head())
		}
		if !time.Now().After(l.state.expires) {
			t.Error("the lease was not given back")
		}
	})
}

func TestLoopRunTimeoutIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		l.produce(1)
		p := l.pipeline("a", func(s *microbatch.Settings) {
			stuckReads(s)
			s.Timeout = 12 * time.Second
		})
		stop := l.serve(p, every(30*time.Second))
		time.Sleep(75 * time.Second)
		stop()
		l.want("stuck", "12s failed", "42s failed", "1m12s failed") // an outage: no back-off
		if err := l.reports[0].Err; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "timeout of 12s") {
			t.Errorf("error %v", err)
		}
	})
}

// TestLoopLeaseLostMidRun: however the lease is lost, the run is cancelled
// with cause ErrFenced and nothing is written after.
func TestLoopLeaseLostMidRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		renew  func(ctx context.Context) error // nil passes
		steal  bool
		within time.Duration
	}{
		{"somebody took it", nil, true, 10 * time.Second},
		{"the state store is unreachable", func(context.Context) error { return watermark.ErrUnavailable }, false, 24 * time.Second},
		{"renewals hang", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, 24 * time.Second},
		{"renewals hang and ignore their deadline", func(context.Context) error { time.Sleep(time.Minute); return nil }, false, 24 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *loop) {
				l.produce(1)
				p := l.pipeline("a", func(s *microbatch.Settings) {
					stuckReads(s)
					s.State = &firstLease{State: renewals{l.state, c.renew}}
				})
				stop := l.serve(p, every(time.Hour))
				synctest.Wait()
				if c.steal {
					l.state.steal()
				}
				version, writes := l.head().Version, l.state.changes()
				time.Sleep(ttl - time.Second) // before anybody else could take it
				l.mu.Lock()
				first := l.reports[0]
				l.mu.Unlock()
				if first.after > c.within || !errors.Is(first.Err, microbatch.ErrFenced) {
					t.Errorf("after %s: %v, want ErrFenced within %s", first.after, first.Err, c.within)
				}
				if got := l.head().Version; got != version {
					t.Errorf("CURRENT went from version %d to %d", version, got)
				}
				if got := l.state.changes(); got != writes {
					t.Errorf("%d writes to the state store after the lease was lost", got-writes)
				}
				stop()
			})
		})
	}
}

// renewals is a state store whose renewals are in the way.
type renewals struct {
	microbatch.State
	renew func(ctx context.Context) error
}

func (r renewals) Renew(ctx context.Context, l watermark.Lease) error {
	if r.renew != nil {
		if err := r.renew(ctx); err != nil {
			return err
		}
	}
	return r.State.Renew(ctx, l)
}

// firstLease is a state store that gives one lease and then is away.
type firstLease struct {
	microbatch.State
	given bool
}

func (f *firstLease) Acquire(ctx context.Context, pipeline string, role watermark.Role, holder string, ttl time.Duration, least int64) (watermark.Lease, error) {
	if f.given {
		return watermark.Lease{}, watermark.ErrUnavailable
	}
	f.given = true
	return f.State.Acquire(ctx, pipeline, role, holder, ttl, least)
}

// TestLoopRenewalsCarryDeadlines: each attempt ends before the trust that it
// is to prolong does.
func TestLoopRenewalsCarryDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, l *loop) {
		attempts, last := 0, time.Now()
		p := l.pipeline("a", func(s *microbatch.Settings) {
			s.State = renewals{l.state, func(ctx context.Context) error {
				attempts++
				deadline, ok := ctx.Deadline()
				if trust := last.Add(ttl - ttl/5); !ok || deadline.After(trust) {
					t.Errorf("attempt %d: deadline %s (%v), trust ends %s", attempts, deadline, ok, trust)
				}
				if attempts%3 > 0 {
					return watermark.ErrUnavailable // two attempts may be lost
				}
				last = time.Now()
				return nil
			}}
		})
		stop := l.serve(p, every(time.Minute))
		time.Sleep(10 * time.Minute)
		stop()
		if attempts < 100 || l.head().Exists {
			t.Errorf("%d attempts, CURRENT %+v", attempts, l.head())
		}
		for _, r := range l.reports {
			if r.Epoch != 1 {
				t.Fatalf("a step at epoch %d: the lease was lost in between", r.Epoch)
			}
		}
	})
}

// TestLoopStandbyTakesOver: at once when the leader gives its lease back, and
// after the lease's time when it dies.
func TestLoopStandbyTakesOver(t *testing.T) {
	for _, c := range []struct {
		name    string
		dies    bool
		trigger time.Duration
		through time.Duration
	}{
		{"the leader stops", false, time.Minute, ttl/3 + time.Second}, {"the leader stops, a short trigger", false, 2 * time.Second, 2 * time.Second},
		{"the leader dies", true, 10 * time.Second, ttl + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *loop) {
				l.produce(1)
				stopA := l.serve(l.pipeline("a", func(s *microbatch.Settings) {
					if c.dies {
						s.State = unreleased{l.state}
					}
				}), every(c.trigger))
				synctest.Wait()
				stopB := l.serve(l.pipeline("b", nil), every(c.trigger))
				time.Sleep(time.Minute + time.Second/2)
				if h := l.head(); h.Owner.Instance != "a" {
					t.Fatalf("%s leads", h.Owner.Instance)
				}
				l.produce(2)
				stopA()
				time.Sleep(c.through)
				if h := l.head(); h.Owner.Instance != "b" || !h.Watermark.Equal(l.began.Add(time.Minute)) {
					t.Errorf("%s later %s leads, watermark %s", c.through, h.Owner.Instance, h.Watermark)
				}
				stopB()
			})
		})
	}
}

// unreleased is the state store of a process that dies without a word.
type unreleased struct{ microbatch.State }

func (unreleased) Release(context.Context, watermark.Lease) error { return nil }

// TestLoopSleepersNeverGoBack: leaders that sleep at any point for longer than
// their lease, and then go on as if nothing had been (their cancelled context
// included), take turns without CURRENT ever going back or losing a change.
func TestLoopSleepersNeverGoBack(t *testing.T) {
	leaders := map[string]bool{}
	for seed := range uint64(5) {
		bubble(t, func(t *testing.T, l *loop) {
			var stops []func() time.Duration
			for i := range 2 {
				r := newDice(seed, uint64(i))
				p := l.pipeline(string(rune('a'+i)), func(s *microbatch.Settings) {
					newID := s.NewID
					s.Sink = sink.New(sink.Settings{Store: sleepy{l.out, r}, Pipeline: "ads", NewID: newID})
					s.State = renewals{l.state, func(context.Context) error { r.nap(30); return nil }}
					s.Trace = func(string) { r.nap(20) }
				})
				stops = append(stops, l.serve(p, every(10*time.Second)))
			}
			for range 100 {
				time.Sleep(15 * time.Second)
				l.produce(1)
			}
			for _, stop := range stops {
				stop()
			}
			var last time.Time
			for _, c := range l.out.History() {
				leaders[c.Owner.Instance] = true
				if c.Progress != nil && c.Progress.Before(last) {
					t.Errorf("seed %d: version %d goes back from %s to %s", seed, c.Version, last, c.Progress)
				}
				if c.Progress != nil {
					last = c.Progress.Time
				}
			}
			// One undisturbed leader afterwards finds everything settled.
			p := l.pipeline("c", nil)
			time.Sleep(2 * ttl)
			l.produce(1)
			if r := p.Once(t.Context(), time.Now(), microbatch.StepOptions{}); r.Err != nil || r.StateErr != nil {
				t.Errorf("seed %d: %v, %v", seed, r.Err, r.StateErr)
			}
			if planned := l.state.runsWith(watermark.RunPlanned); len(planned) > 0 {
				t.Errorf("seed %d: still planned: %v", seed, planned)
			}
		})
	}
	if !leaders["a"] || !leaders["b"] {
		t.Errorf("leaders %v: nobody took over", leaders)
	}
}

// sleepy is a store behind a process that is stopped now and then in the
// middle of a put: it is carried out later, whatever its caller wants by then.
type sleepy struct {
	store.Store
	r *dice
}

func (s sleepy) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	if key != sink.CurrentKey || !s.r.nap(4) {
		return s.Store.Put(ctx, key, body, o)
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	return s.Store.Put(context.WithoutCancel(ctx), key, bytes.NewReader(b), o)
}
