package watermark

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTrust(t *testing.T) {
	start := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	tr := Lease{TTL: 15 * time.Second}.TrustFrom(start)
	for _, c := range []struct {
		name  string
		after time.Duration
		left  time.Duration
		holds bool
	}{
		{"at the start of the attempt", 0, 12 * time.Second, true},
		{"later", 5 * time.Second, 7 * time.Second, true},
		{"just before its end", 12*time.Second - 1, 1, true},
		{"at its end", 12 * time.Second, 0, false},
		{"while the lease still lives", 14 * time.Second, 0, false},
		{"long after", time.Hour, 0, false},
	} {
		now := start.Add(c.after)
		if got := tr.Remaining(now); got != c.left {
			t.Errorf("%s: %s left, want %s", c.name, got, c.left)
		}
		if got := tr.Holds(now); got != c.holds {
			t.Errorf("%s: holds %v", c.name, got)
		}
	}
	if got := tr.RenewAt(); !got.Equal(start.Add(5 * time.Second)) {
		t.Errorf("renew at %s", got)
	}
	if got := tr.Until(); !got.Equal(start.Add(12 * time.Second)) {
		t.Errorf("until %s", got)
	}
	if (Trust{}).Holds(start) || (Trust{}).Holds(time.Time{}) {
		t.Error("the zero trust holds")
	}
}

// TestTrustBelievesTheLargerLapse suspends a machine: its monotonic clock does
// not count the hours, its wall clock does.
func TestTrustBelievesTheLargerLapse(t *testing.T) {
	start := time.Now()
	tr := Lease{TTL: 15 * time.Second}.TrustFrom(start)
	if !tr.Holds(start.Add(time.Second)) {
		t.Fatal("does not hold after a second")
	}
	// A wall-clock reading without a monotonic one is an hour later.
	if tr.Holds(start.Round(0).Add(time.Hour)) {
		t.Error("holds though the wall clock says an hour passed")
	}
}

func TestTrustEndsBeforeTheLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "start"), 0)
		ttl := time.Duration(rapid.Int64Range(1e6, 1e13).Draw(t, "ttl"))
		// The database executes the renewal some time after it was sent.
		sent := time.Duration(rapid.Int64Range(0, int64(ttl)).Draw(t, "sent"))
		expires := start.Add(sent).Add(ttl)
		tr := Lease{TTL: ttl}.TrustFrom(start)
		if !tr.Until().Before(expires) {
			t.Fatalf("trust until %s, lease until %s", tr.Until(), expires)
		}
		if !tr.RenewAt().Before(tr.Until()) {
			t.Fatalf("renewal at %s, trust until %s", tr.RenewAt(), tr.Until())
		}
		now := start.Add(time.Duration(rapid.Int64Range(0, 2*int64(ttl)).Draw(t, "now")))
		if tr.Holds(now) != now.Before(tr.Until()) {
			t.Fatalf("holds %v at %s, until %s", tr.Holds(now), now, tr.Until())
		}
	})
}
