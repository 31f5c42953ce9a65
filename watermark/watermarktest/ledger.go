package watermarktest

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"errors"

	"github.com/deltad/deltad/watermark"
)

func ledgerEntries(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	pub := Published(Planned(l, 3), 7)
	pub.Ledger = []watermark.LedgerEntry{
		{Partition: at(3), State: "covered", Fingerprint: "f3", Objects: 4},
		{Partition: at(2), State: "skipped_covered", Fingerprint: "f2", Objects: 1, Note: "jumped over"},
	}
	mustPublish(t, s, l, pub)
	earlier := ID()
	if err := s.UpsertLedger(ctx, l, []watermark.LedgerEntry{
		{Partition: at(1), State: "never_covered"},
		{Partition: at(2), State: "covered", Fingerprint: "g2", RunID: earlier},
		{Partition: at(2), State: "covered", Source: "clicks"},
		{Partition: at(2), State: watermark.History, Source: watermark.History, Members: "aa"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.UpsertLedger(ctx, l, nil); err != nil {
		t.Fatal(err)
	}
	got, err := s.LedgerRange(ctx, pipe, "", at(1), at(3), 10)
	if err != nil || len(got) != 2 {
		t.Fatalf("(1, 3]: %+v, %v", got, err)
	}
	if e := got[0]; !e.Partition.Equal(at(2)) || e.State != "covered" || e.Fingerprint != "g2" || e.RunID != earlier || e.Note != "" {
		t.Fatalf("replaced entry: %+v", e)
	}
	if e := got[1]; !e.Partition.Equal(at(3)) || e.RunID != pub.Run.ID || e.Objects != 4 || e.UpdatedAt.IsZero() {
		t.Fatalf("entry: %+v", e)
	}
	if all, err := s.LedgerRange(ctx, pipe, "", time.Time{}, time.Time{}, 10); err != nil || len(all) != 3 {
		t.Fatalf("unbounded: %+v, %v", all, err)
	}
	if one, err := s.LedgerRange(ctx, pipe, "", time.Time{}, time.Time{}, 1); err != nil || len(one) != 1 || !one[0].Partition.Equal(at(1)) {
		t.Fatalf("limited: %+v, %v", one, err)
	}
	if past, err := s.LedgerRange(ctx, pipe, watermark.History, time.Time{}, time.Time{}, 10); err != nil || len(past) != 1 || past[0].Members != "aa" {
		t.Fatalf("history: %+v, %v", past, err)
	}
	counts, err := s.LedgerCounts(ctx, pipe)
	if want := map[string]int64{"covered": 3, "never_covered": 1}; err != nil || !maps.Equal(counts, want) {
		t.Fatalf("counts %v, %v; want %v", counts, err, want)
	}
	twice := []watermark.LedgerEntry{{Partition: at(1), State: "a"}, {Partition: at(1), State: "b"}}
	if err := s.UpsertLedger(ctx, l, twice); !errors.Is(err, watermark.ErrInvalid) {
		t.Fatalf("a partition twice: %v, want a refusal", err)
	}
}

// ledgerLarge crosses every chunk size of bulk inserts.
func ledgerLarge(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	const n = 256 + 3*32 + 2*4 + 3
	pub := Published(Planned(l, n), 7)
	for i := range n {
		pub.Ledger = append(pub.Ledger, watermark.LedgerEntry{
			Partition: at(i), State: "covered", Fingerprint: fmt.Sprint(i), Objects: i,
		})
		pub.Late = append(pub.Late, watermark.LateObject{Key: fmt.Sprintf("k%d", i), ETag: "e", Partition: at(-i)})
	}
	if out := mustPublish(t, s, l, pub); out.Run.Late != n {
		t.Fatalf("late %d, want %d", out.Run.Late, n)
	}
	got, err := s.LedgerRange(ctx, pipe, "", time.Time{}, time.Time{}, 10*n)
	if err != nil || len(got) != n {
		t.Fatalf("%d entries, %v; want %d", len(got), err, n)
	}
	for i, e := range got {
		if !e.Partition.Equal(at(i)) || e.Fingerprint != fmt.Sprint(i) || e.Objects != i {
			t.Fatalf("entry %d: %+v", i, e)
		}
	}
}

func lateObjects(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	x := watermark.LateObject{Key: "p/x=1 ü.parquet", ETag: "e1", Partition: at(-500)}
	replaced := watermark.LateObject{Key: x.Key, ETag: "e2", Partition: at(-500)}
	for i, c := range []struct {
		late []watermark.LateObject
		want int64
	}{
		{[]watermark.LateObject{x}, 1},
		{[]watermark.LateObject{x, x}, 0},
		{[]watermark.LateObject{x, replaced}, 1},
	} {
		pub := Published(Planned(l, i), int64(i+1))
		pub.Late = c.late
		if out := mustPublish(t, s, l, pub); out.Run.Late != c.want {
			t.Fatalf("publication %d counted %d late objects, want %d", i, out.Run.Late, c.want)
		}
	}
	if n, err := s.CountLate(ctx, pipe); n != 2 || err != nil {
		t.Fatalf("count %d, %v; want 2", n, err)
	}
	got, err := s.LateObjects(ctx, pipe, 10)
	if err != nil || len(got) != 2 || got[0].Key != x.Key || !got[0].Partition.Equal(at(-500)) || got[0].RunID == "" || got[0].FoundAt.IsZero() {
		t.Fatalf("late objects: %+v, %v", got, err)
	}
	if n, err := s.CountLate(ctx, "other"); n != 0 || err != nil {
		t.Fatalf("another pipeline counts %d, %v", n, err)
	}
}

func objectFailures(t *testing.T, db Database) {
	ctx := Context(t)
	s := Migrated(t, db)
	l := Acquire(t, s, pipe, watermark.RoleDelta)
	bad := []watermark.ObjectFailure{{Key: "b", ETag: "1", Error: "truncated\xff\x00"}, {Key: "a", ETag: "1", Error: "no footer"}}
	run1, run2 := ID(), ID()
	for _, c := range []struct {
		run  string
		want int
	}{{run1, 1}, {run1, 1}, {run2, 2}} {
		got, err := s.RecordFailures(ctx, l, c.run, bad, 3)
		if err != nil || len(got) != 2 || got[0].Key != "b" || got[0].Failures != c.want || got[1].Failures != c.want || !got[0].SkippedAt.IsZero() {
			t.Fatalf("failures %+v, %v; want %d each", got, err, c.want)
		}
	}
	// a is read at last, b fails a third time and is skipped.
	if err := s.ClearFailures(ctx, l, []watermark.ObjectRef{{Key: "a", ETag: "1"}, {Key: "z", ETag: "1"}}); err != nil {
		t.Fatal(err)
	}
	run3 := ID()
	for range 2 {
		got, err := s.RecordFailures(ctx, l, run3, bad[:1], 3)
		if err != nil || got[0].Failures != 3 || got[0].SkippedAt.IsZero() || got[0].SkippedBy != "deltad" || got[0].SkipReason == "" {
			t.Fatalf("third failure: %+v, %v; want skipped", got, err)
		}
	}
	// Being read does not undo a skip, and another ETag starts anew.
	if err := s.ClearFailures(ctx, l, []watermark.ObjectRef{{Key: "b", ETag: "1"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.RecordFailures(ctx, l, ID(), []watermark.ObjectFailure{{Key: "b", ETag: "2", Error: "x"}}, 3); err != nil || got[0].Failures != 1 {
		t.Fatalf("another ETag: %+v, %v", got, err)
	}
	c := change("known bad")
	ref := watermark.ObjectRef{Key: "c", ETag: "9"}
	for range 2 {
		if err := s.SkipObject(ctx, pipe, ref, c); err != nil {
			t.Fatal(err)
		}
	}
	states, err := s.ObjectStates(ctx, pipe)
	if err != nil || len(states) != 3 || states[0].Key != "b" || states[1].ETag != "2" || states[2].SkippedBy != "ann" || states[2].SkipReason != "known bad" {
		t.Fatalf("states: %+v, %v", states, err)
	}
	if err := s.UnskipObject(ctx, pipe, ref, change("it was fine")); err != nil {
		t.Fatal(err)
	}
	if err := s.UnskipObject(ctx, pipe, ref, change("again")); !errors.Is(err, watermark.ErrNotFound) {
		t.Fatalf("undoing no skip: %v", err)
	}
	trail, err := s.AuditTrail(ctx, pipe, 10, 0)
	if err != nil || len(trail) != 3 || trail[0].Action != "object-unskip" || trail[1].Action != "object-skip" || trail[2].Actor != "deltad" {
		t.Fatalf("audit: %+v, %v; want two skips and one undone", trail, err)
	}
}
