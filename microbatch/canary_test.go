package microbatch_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// plainSum adds floats as they come, which no order of additions agrees on: the
// combine fn that registration refuses, for what a person forces in.
type plainSum struct{}

func (plainSum) TypeID() string       { return "careless(float64)/1" }
func (plainSum) Class() combine.Class { return combine.Monoid }
func (plainSum) Args() []column.Type  { return []column.Type{column.Of(column.Float64)} }
func (plainSum) Output() column.Type  { return column.Of(column.Float64) }
func (plainSum) NewColumn() combine.Column {
	return &plainColumn{}
}

func (plainSum) Validate(acc []byte) error {
	if len(acc) != 0 && len(acc) != 8 {
		return fmt.Errorf("careless: accumulator of %d bytes", len(acc))
	}
	return nil
}

type plainColumn struct {
	sums []float64
	some []bool
}

func (c *plainColumn) Len() int { return len(c.sums) }
func (c *plainColumn) Grow(n int) {
	for len(c.sums) < n {
		c.sums, c.some = append(c.sums, 0), append(c.some, false)
	}
}
func (c *plainColumn) Reset()       { c.sums, c.some = c.sums[:0], c.some[:0] }
func (c *plainColumn) Bytes() int64 { return int64(9 * cap(c.sums)) }

func (c *plainColumn) Add(in *combine.Input) error {
	for _, i := range in.Rows {
		if v := in.Args[0]; !v.Null(int(i)) {
			c.sums[in.Groups[i]] += v.Floats[i]
			c.some[in.Groups[i]] = true
		}
	}
	return nil
}

func (c *plainColumn) Merge(g uint32, acc []byte) error {
	if err := (plainSum{}).Validate(acc); err != nil || len(acc) == 0 {
		return err
	}
	c.sums[g] += math.Float64frombits(binary.BigEndian.Uint64(acc))
	c.some[g] = true
	return nil
}

func (c *plainColumn) AppendAcc(dst []byte, g uint32) []byte {
	if !c.some[g] {
		return dst
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(c.sums[g]))
}

func (c *plainColumn) Extract(g uint32, dst *column.Vector) error {
	dst.AppendFloat(c.sums[g])
	return nil
}

// glitch is a fn whose column gives a wrong accumulator once, each time that it
// is armed: the machine's doing.
type glitch struct {
	combine.Fn
	armed *atomic.Bool
}

func (f glitch) NewColumn() combine.Column { return &glitchColumn{f.Fn.NewColumn(), f.armed} }

type glitchColumn struct {
	combine.Column
	armed *atomic.Bool
}

func (c *glitchColumn) AppendAcc(dst []byte, g uint32) []byte {
	dst = c.Column.AppendAcc(dst, g)
	if c.armed.CompareAndSwap(true, false) {
		dst[len(dst)-1] ^= 1
	}
	return dst
}

// firstCome keeps what it is offered first, whatever comes later: associative,
// idempotent, and a function of the order.
type firstCome struct{ plainSum }

func (firstCome) TypeID() string            { return "first_come(float64)/1" }
func (firstCome) NewColumn() combine.Column { return &firstColumn{} }

type firstColumn struct{ plainColumn }

func (c *firstColumn) Add(in *combine.Input) error {
	for _, i := range in.Rows {
		if v, g := in.Args[0], in.Groups[i]; !v.Null(int(i)) && !c.some[g] {
			c.sums[g], c.some[g] = v.Floats[i], true
		}
	}
	return nil
}

func (c *firstColumn) Merge(g uint32, acc []byte) error {
	if err := (plainSum{}).Validate(acc); err != nil || len(acc) == 0 {
		return err
	}
	if !c.some[g] {
		c.sums[g], c.some[g] = math.Float64frombits(binary.BigEndian.Uint64(acc)), true
	}
	return nil
}

// withFn is a bench with one more combine fn, whose field is called total.
func withFn(t *testing.T, name string, builder combine.Builder, change func(*microbatch.Settings)) *bench {
	t.Helper()
	builders := maps.Clone(combine.Builtins())
	builders[name] = builder
	spec := clicks()
	spec.Fields = append(spec.Fields, index.FieldSpec{Name: "total", Fn: name, Args: []string{"clicks"}})
	program, err := index.Compile(spec, builders)
	if err != nil {
		t.Fatal(err)
	}
	return newBench(t, benchOptions{change: func(s *microbatch.Settings) {
		s.Program, s.Combiners = program, builders
		if change != nil {
			change(s)
		}
	}})
}

// reads counts the objects that a pipeline opens.
func reads(s *microbatch.Settings) *atomic.Int64 {
	var n atomic.Int64
	open := s.Open
	s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		n.Add(1)
		return open(o)
	}
	return &n
}

func share(clock string, clicks float64) string {
	return fmt.Sprintf(`{"item":"x","ts":"2026-11-30T%s:00Z","clicks":%g,"title":"t","op":"U"}`, clock, clicks)
}

// TestWhatComesFirstIsNoLawfulFn: whichever way a window is folded, as a stream
// or brought up to date, the canary comes to another result before long.
func TestWhatComesFirstIsNoLawfulFn(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			b := withFn(t, "first_come", combine.Builder{Name: "first_come", MinArgs: 1, MaxArgs: 1, Build: func(combine.Params, []column.Type) (combine.Fn, error) {
				return firstCome{}, nil
			}}, func(s *microbatch.Settings) { s.NoCache = stream })
			for i := range 9 {
				clock := fmt.Sprintf("03:%02d", i)
				b.put(clock, "a.ndjson", share(clock, float64(i)+0.5))
				if r := b.p.Once(t.Context(), at(clock), microbatch.StepOptions{}); errors.Is(r.Err, microbatch.ErrCanary) {
					return
				} else if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			t.Error("nine panes of a fn that goes by the order of slices, and the canary believed all")
		})
	}
}

// TestAnUnlawfulFnPausesThePipeline: the first difference fails the run, the
// next ignores what is kept, a second one pauses; after a person resumes it
// begins at the first stage again. The three shares are of a kind that each way
// to add them up has a sum of its own: as they come, from the last, and the
// canary's.
func TestAnUnlawfulFnPausesThePipeline(t *testing.T) {
	var opened *atomic.Int64
	b := withFn(t, "careless", combine.Builder{Name: "careless", MinArgs: 1, MaxArgs: 1, Build: func(combine.Params, []column.Type) (combine.Fn, error) {
		return plainSum{}, nil
	}}, func(s *microbatch.Settings) { opened = reads(s) })
	for i, clock := range []string{"03:00", "03:01", "03:02"} {
		b.put(clock, "a.ndjson", share(clock, []float64{5e15, 0.5, -4999999999999999}[i]))
		if i < 2 {
			b.step(clock, microbatch.Advanced) // two additions commute
		}
	}
	const asTheyCome, fromTheLast, fromBothEnds = "3ff0000000000000", "4000000000000000", "3ff8000000000000"
	stages := func(sum string, fresh int64) {
		t.Helper()
		opened.Store(0)
		r := b.step("03:03", microbatch.Failed)
		for _, want := range []string{"canary", "item=x", "field total", "careless(float64)/1", "one fold makes 8 bytes " + sum, "the other 8 bytes " + fromBothEnds, "the next run ignores"} {
			if !strings.Contains(r.Why, want) {
				t.Errorf("%q is not in: %s", want, r.Why)
			}
		}
		if !errors.Is(r.Err, microbatch.ErrCanary) || opened.Load() != fresh || !r.Watermark.Equal(at("03:01")) {
			t.Errorf("%v after %d objects, watermark %s", r.Err, opened.Load(), r.Watermark)
		}
		opened.Store(0)
		if row, err := b.state.Pipeline(t.Context(), "ads"); err != nil || row.Paused {
			t.Fatalf("paused %v, %v", row.Paused, err)
		}
		r = b.step("03:03", microbatch.Failed) // at the very next trigger
		if !errors.Is(r.Err, microbatch.ErrCanary) || !strings.Contains(r.Why, "paused") || opened.Load() != 3 {
			t.Errorf("%v after %d objects", r.Err, opened.Load())
		}
	}
	stages(asTheyCome, 1)
	row, err := b.state.Pipeline(t.Context(), "ads")
	if err != nil || !row.Paused || row.PausedBy != "canary of t1" || !strings.Contains(row.PauseReason, "field total") || len(row.PauseReason) > 2000 {
		t.Fatalf("row %+v, %v", row, err)
	}
	if r := b.step("03:04", microbatch.WasHeld); !strings.Contains(r.Why, "paused by canary of t1: canary: key item=x") {
		t.Errorf("held because %s", r.Why)
	}
	resumed := watermark.Change{ID: b.set.NewID(), Actor: "ann", Reason: "to look again"}
	if _, err := b.state.Resume(t.Context(), "ads", resumed); err != nil {
		t.Fatal(err)
	}
	stages(fromTheLast, 3) // what the last run had read is thrown away, too
	if docs := b.docs(); !strings.Contains(docs["x"], `"updates":2`) {
		t.Errorf("published %v", docs)
	}
	if audit, err := b.state.AuditTrail(t.Context(), "ads", 10, 0); err != nil || len(audit) != 3 || audit[0].Actor != "canary of t1" {
		t.Errorf("audit %+v, %v", audit, err)
	}
}

// glitching is a bench whose fold can be made to go wrong once per run.
func glitching(t *testing.T, change func(*microbatch.Settings)) (*bench, *atomic.Bool) {
	t.Helper()
	var next, armed atomic.Bool
	builder := combine.Builtins()["sum"]
	builder.Name = "glitch"
	build := builder.Build
	builder.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) {
		fn, err := build(p, args)
		return glitch{fn, &armed}, err
	}
	return withFn(t, "glitch", builder, func(s *microbatch.Settings) {
		s.Trace = func(step string) {
			if step == "slices" { // what was read is right, what is folded is not
				armed.Store(next.Swap(false))
			}
		}
		if change != nil {
			change(s)
		}
	}), &next
}

// TestACleanRunEndsTheDoubt: one difference is a run that failed, however many
// there are, if a run that reads everything anew finds none in between.
func TestACleanRunEndsTheDoubt(t *testing.T) {
	var opened *atomic.Int64
	b, glitch := glitching(t, func(s *microbatch.Settings) { opened = reads(s) })
	for i := range 4 {
		clock := fmt.Sprintf("03:%02d", i)
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"), row("y", clock, 2, "t"))
		glitch.Store(true)
		if r := b.step(clock, microbatch.Failed); !errors.Is(r.Err, microbatch.ErrCanary) {
			t.Fatalf("failed with %v", r.Err)
		}
		opened.Store(0)
		b.step(clock, microbatch.Advanced)
		if opened.Load() != int64(i+1) {
			t.Errorf("after a difference %d of %d objects read", opened.Load(), i+1)
		}
		if got := b.docs()["y"]; !strings.Contains(got, fmt.Sprintf(`"clicks":%d,`, 2*(i+1))) || !strings.Contains(got, fmt.Sprintf(`"total":%d}`, 2*(i+1))) {
			t.Errorf("y is %s", got)
		}
	}
	b.put("03:04", "a.ndjson", row("x", "03:04", 1, "t"))
	opened.Store(0)
	b.step("03:04", microbatch.Advanced)
	if opened.Load() != 1 {
		t.Errorf("without doubt %d objects read", opened.Load())
	}
	m := b.live()
	var found bool
	for _, c := range m.Checks {
		found = found || c.Name == "canary" && c.Passed && c.Detail == "2 keys folded in two ways"
	}
	if !found {
		t.Errorf("checks %+v", m.Checks)
	}
}

// TestLargeWindowsAreFoldedAgainInTurn: a window of many slices has all of its
// fields folded again in some runs, and in every one that is in doubt.
func TestLargeWindowsAreFoldedAgainInTurn(t *testing.T) {
	b, glitch := glitching(t, func(s *microbatch.Settings) {
		s.Rule = hour(5 * time.Hour)
	})
	start := at("03:00")
	add := func(i int) string {
		clock := start.Add(time.Duration(i) * time.Minute).Format("15:04")
		b.put(clock, "a.ndjson", row("x", clock, 1, "t"), row("y", clock, 1, "t"))
		return clock
	}
	for i := range 200 {
		add(i)
	}
	b.step("06:19", microbatch.Advanced)
	short, whole := 0, 0
	for i := range 24 {
		b.step(add(200+i), microbatch.Advanced)
		for _, c := range b.live().Checks {
			switch {
			case c.Name != "canary":
			case strings.HasSuffix(c.Detail, ", those of fields that more than 128 slices feed in one of 2 runs"):
				short++
			default:
				whole++
			}
		}
	}
	if short == 0 || whole == 0 || short+whole != 24 {
		t.Errorf("%d short, %d whole of 24", short, whole)
	}
	clock := add(230)
	failed := 0
	for range 40 {
		glitch.Store(true)
		r := b.p.Once(t.Context(), at(clock), microbatch.StepOptions{Force: true})
		if r.Outcome != microbatch.Failed {
			continue
		}
		failed++
		glitch.Store(false)
		b.p.Once(t.Context(), at(clock), microbatch.StepOptions{Force: true})
		for _, c := range b.live().Checks {
			if c.Name == "canary" && c.Detail != "2 keys folded in two ways" {
				t.Fatalf("in doubt %s", c.Detail)
			}
		}
		break
	}
	if failed == 0 {
		t.Error("nothing was found")
	}
}

// TestDoubtOutlivesOtherFailures: an outage in between neither ends it nor
// counts, and a restart ends it.
func TestDoubtOutlivesOtherFailures(t *testing.T) {
	var down atomic.Bool
	for _, c := range []struct {
		name    string
		between func(b *bench)
		paused  bool
	}{
		{"an outage", func(b *bench) {
			down.Store(true)
			if r := b.step("03:01", microbatch.Failed); !errors.Is(r.Err, store.ErrUnavailable) {
				t.Errorf("failed with %v", r.Err)
			}
			down.Store(false)
		}, true},
		{"a restart", func(b *bench) { b.restart() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, glitch := glitching(t, func(s *microbatch.Settings) {
				open := s.Open
				s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
					blob, paths := open(o)
					return unreachable{blob, &down}, paths
				}
			})
			b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
			b.step("03:00", microbatch.Advanced)
			b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
			glitch.Store(true)
			b.step("03:01", microbatch.Failed)
			c.between(b)
			glitch.Store(true)
			b.step("03:01", microbatch.Failed)
			if row, err := b.state.Pipeline(t.Context(), "ads"); err != nil || row.Paused != c.paused {
				t.Errorf("paused %v, %v", row.Paused, err)
			}
		})
	}
}

// unreachable is an object of a store that is down.
type unreachable struct {
	scan.Blob
	down *atomic.Bool
}

func (u unreachable) ReadAll(ctx context.Context) ([]byte, error) {
	if u.down.Load() {
		return nil, store.ErrUnavailable
	}
	return u.Blob.ReadAll(ctx)
}

func (u unreachable) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if u.down.Load() {
		return nil, store.ErrUnavailable
	}
	return u.Blob.ReadRange(ctx, off, n)
}

// unpausable is a state store that cannot be told to pause.
type unpausable struct {
	microbatch.State
	down bool
}

func (s *unpausable) Pause(ctx context.Context, name string, c watermark.Change) (watermark.Pipeline, error) {
	if s.down {
		return watermark.Pipeline{}, watermark.ErrUnavailable
	}
	return s.State.Pause(ctx, name, c)
}

// TestAPauseThatCannotBeWrittenIsTriedAgain: nothing is published meanwhile
// unless a run finds no difference.
func TestAPauseThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	var state *unpausable
	b, glitch := glitching(t, func(s *microbatch.Settings) {
		state = &unpausable{State: s.State, down: true}
		s.State = state
	})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	for i := range 4 {
		state.down = i < 3
		glitch.Store(true)
		if r := b.step("03:00", microbatch.Failed); !errors.Is(r.Err, microbatch.ErrCanary) || (i > 0 && i < 3) != errors.Is(r.Err, watermark.ErrUnavailable) {
			t.Fatalf("attempt %d failed with %v", i, r.Err)
		}
	}
	b.step("03:00", microbatch.WasHeld)
}

// TestADamagedKeptSliceCostsOneRun: it is thrown away with all others, and read
// again.
func TestADamagedKeptSliceCostsOneRun(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("a key that is long enough", "03:00", 5, "one"))
	b.step("03:00", microbatch.Advanced)
	b.put("03:01", "a.ndjson", row("a key that is long enough", "03:01", 6, "two"))
	for i, change := range []func([]byte) []byte{
		func(b []byte) []byte { b[bytes.Index(b, []byte("long enough"))]++; return b },
		func(b []byte) []byte { return b[:len(b)-1] },
	} {
		if !b.p.Tamper(b.live().Inputs[0], change) {
			t.Fatal("the slice is not kept")
		}
		clock := fmt.Sprintf("03:%02d", 1+i)
		b.put(clock, "a.ndjson", row("a key that is long enough", clock, 6, "two"))
		if r := b.step(clock, microbatch.Failed); !strings.Contains(r.Why, "the next run ignores") {
			t.Errorf("failed with %v", r.Err)
		}
		b.step(clock, microbatch.Advanced)
		if got := b.docs()["a key that is long enough"]; !strings.Contains(got, fmt.Sprintf(`"clicks":%d,`, 11+6*i)) {
			t.Errorf("published %s", got)
		}
	}
}

// TestAKeptSliceWithOtherAccumulatorsCostsOneRun: its bytes are a run as good
// as any, which is not what the window was folded of.
func TestAKeptSliceWithOtherAccumulatorsCostsOneRun(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 5, "one"))
	b.put("03:01", "a.ndjson", row("x", "03:01", 6, "two"))
	b.step("03:01", microbatch.Advanced)
	other := b.p.Kept(b.live().Inputs[1])
	if !b.p.Tamper(b.live().Inputs[0], func([]byte) []byte { return other }) {
		t.Fatal("the slice is not kept")
	}
	b.put("03:02", "a.ndjson", row("x", "03:02", 7, "three"))
	if r := b.step("03:02", microbatch.Failed); !errors.Is(r.Err, microbatch.ErrCanary) {
		t.Errorf("failed with %v", r.Err)
	}
	b.step("03:02", microbatch.Advanced)
	if got := b.docs()["x"]; !strings.Contains(got, `"clicks":18,`) {
		t.Errorf("published %s", got)
	}
}

// TestDoubtTakesNothingFromWhereSlicesLast, and puts what it built in its place.
func TestDoubtTakesNothingFromWhereSlicesLast(t *testing.T) {
	var opened *atomic.Int64
	dir := t.TempDir()
	b, glitch := glitching(t, func(s *microbatch.Settings) {
		opened, s.SliceDir = reads(s), shelf.NewDir(dir, 1<<30, zap.NewNop()).Scope("ads")
	})
	files := func() (found []os.FileInfo) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "ads", "*"))
		for _, name := range names {
			var info os.FileInfo
			if info, err = os.Stat(name); err == nil {
				found = append(found, info)
			}
		}
		if err != nil || len(found) == 0 {
			t.Fatalf("%d files, %v", len(found), err)
		}
		return found
	}
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
	b.step("03:01", microbatch.Advanced)
	before := files()
	b.restart()
	b.put("03:02", "a.ndjson", row("x", "03:02", 1, "t"))
	glitch.Store(true)
	for i, want := range []struct {
		outcome microbatch.Outcome
		opened  int64
	}{{microbatch.Failed, 1}, {microbatch.Advanced, 3}} {
		opened.Store(0)
		if b.step("03:02", want.outcome); opened.Load() != want.opened {
			t.Errorf("step %d read %d objects, want %d", i, opened.Load(), want.opened)
		}
	}
	for _, is := range files() {
		if slices.ContainsFunc(before, func(was os.FileInfo) bool { return was.Name() == is.Name() && was.ModTime().Equal(is.ModTime()) }) {
			t.Errorf("%s is still the former one", is.Name())
		}
	}
	b.restart()
	b.put("03:03", "a.ndjson", row("x", "03:03", 1, "t"))
	opened.Store(0)
	if b.step("03:03", microbatch.Advanced); opened.Load() != 1 {
		t.Errorf("after the doubt %d objects read", opened.Load())
	}
}

// TestDoubtDoesNotLoseWhatOnlyItsSliceHas: of a carried object that is gone
// nothing but the kept slice is left.
func TestDoubtDoesNotLoseWhatOnlyItsSliceHas(t *testing.T) {
	b := newBaseBench(t, nil)
	b.put("02:00", "a.ndjson", row("old", "02:00", 7, "ancient"))
	b.put("03:00", "a.ndjson", row("x", "03:00", 2, "one"))
	b.step("03:01", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:01", microbatch.Refined)
	late := b.put("02:32", "late.ndjson", row("old", "02:32", 1, "late"))
	b.step("03:02", microbatch.Refined)
	kept := b.put("05:00", "a.ndjson", row("z", "05:00", 1, "zed"))
	b.step("05:01", microbatch.Advanced)
	if err := b.raw.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	for _, in := range b.live().Inputs {
		if in.Key == kept && !b.p.Tamper(in, func(b []byte) []byte { return b[:len(b)-1] }) {
			t.Fatal("the slice is not kept")
		}
	}
	b.put("05:01", "a.ndjson", row("z", "05:01", 1, "zed"))
	b.step("05:02", microbatch.Failed)
	b.step("05:02", microbatch.Advanced)
	if got := b.docs()["old"]; got != `{"item":"old","updates":2,"clicks":8,"title":"late","clicks_5m":null,"double":16}` {
		t.Errorf("old is %s", got)
	}
}

// TestTheGateHoldsWhatTheCanaryFinds: the accumulators of a base are folded
// again, too, from what they were made of.
func TestTheGateHoldsWhatTheCanaryFinds(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(combine.Params, []column.Type) (combine.Fn, error)
		want  watermark.RebuildState
	}{
		{"lawful", combine.Builtins()["sum"].Build, watermark.RebuildCandidate},
		{"unlawful", func(combine.Params, []column.Type) (combine.Fn, error) { return plainSum{}, nil }, watermark.RebuildHeld},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := withFn(t, "careless", combine.Builder{Name: "careless", MinArgs: 1, MaxArgs: 1, Build: c.build}, func(s *microbatch.Settings) {
				s.Full, s.Rule.Size = true, 10*time.Minute
			})
			// What is merged first is the sum of two of them whose third makes a difference.
			for i := range 40 {
				clock := fmt.Sprintf("02:%02d", i)
				b.put(clock, "a.ndjson", strings.Replace(share(clock, 0.5), `"x"`, `"y"`, 1))
			}
			b.put("02:02", "b.ndjson", share("02:02", 0.2))
			b.put("02:30", "b.ndjson", share("02:30", 0.1))
			b.put("03:00", "a.ndjson", share("03:00", 0.3))
			b.step("03:00", microbatch.Advanced)
			rb := b.rebuild(c.want)
			checks := b.generation(rb.ID).Checks
			at := slices.IndexFunc(checks, func(r sink.CheckResult) bool { return r.Name == "canary" })
			if at < 0 {
				t.Fatalf("checks %+v", checks)
			}
			if held := c.want == watermark.RebuildHeld; checks[at].Passed == held || held && !strings.Contains(checks[at].Detail, "key item=x, field total") {
				t.Errorf("check %+v", checks[at])
			}
		})
	}
}
