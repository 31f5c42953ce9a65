//go:build integration

package acceptance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/deltad/deltad/e2e/binary"
)

// wantRead fails the test where other objects of the source were read than
// these since the last look.
func (b *bench) wantRead(what string, keys ...string) {
	b.t.Helper()
	got := b.proxy.readings("/" + b.root + "in/")
	for i, path := range got {
		_, got[i], _ = strings.Cut(path, "/"+b.root+"in/")
	}
	slices.Sort(keys)
	if !slices.Equal(got, keys) {
		b.t.Errorf("%s read %d objects %v, want %v", what, len(got), got, keys)
	}
}

// cached is how many slices are kept in the bucket.
func (b *bench) cached() int {
	b.t.Helper()
	page, err := b.s3.ListObjectsV2(b.t.Context(), &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.root + "out/state/cache/")})
	if err != nil {
		b.t.Fatal(err)
	}
	return len(page.Contents)
}

// fillMinutes drops two objects into each of some partitions.
func (b *bench) fillMinutes(from time.Time, n int) {
	b.t.Helper()
	for i := range n {
		p := from.Add(time.Duration(i) * time.Minute)
		b.put(minute(p)+"a.ndjson", []byte(row("x", p, i, "a")+row(fmt.Sprint("k", i), p, 1, "k")))
		b.put(minute(p)+"b.ndjson", []byte(row("y", p, i, "b")))
	}
}

// elsewhere is the bench on another machine: with another cache.dir, or with
// none.
func (b *bench) elsewhere(o setup, dir string) {
	b.t.Helper()
	o.cache, o.admin = dir, b.admin != ""
	b.config = b.write("deltad-elsewhere.yaml", o)
}

// TestNoObjectIsReadTwice: processes that take one step each, on one machine,
// on another, and without a directory, and one that was killed in the middle:
// an object that was read once is not read again.
func TestNoObjectIsReadTwice(t *testing.T) {
	o := setup{cache: t.TempDir()}
	inTurn(t, o, func(t *testing.T, b *bench) {
		o := setup{}
		b.elsewhere(o, t.TempDir())
		b.fillMinutes(at("09:00"), 20)
		b.once("09:20", "advanced")
		if n := len(b.proxy.readings("/in/")); n != 40 {
			t.Fatalf("the first pane read %d objects, want 40", n)
		}
		add := func(clock string) string {
			key := drop(clock, "a.ndjson")
			b.put(key, update("x", clock, 1, "more"))
			return key
		}
		added := add("09:20")
		b.once("09:21", "advanced")
		b.wantRead("the next process", added)
		b.elsewhere(o, t.TempDir())
		added = add("09:21")
		b.proxy.take()
		b.once("09:22", "advanced")
		c := b.proxy.take()
		b.wantRead("a process elsewhere", added)
		figure("requests of the first pane elsewhere, 22 partitions of 2 objects", b.server.Name, fmt.Sprint(c.total()))
		b.elsewhere(o, "")
		added = add("09:22")
		b.once("09:23", "advanced")
		b.wantRead("a process without a directory", added)

		// Killed when its slices were built: what it read is in its directory.
		b.elsewhere(o, t.TempDir())
		added = add("09:23")
		b.killed(t, "09:24", "slices")
		b.wantRead("the process that was killed", added)
		b.leaseEnds(t)
		b.once("09:24", "advanced")
		b.wantRead("the process after it")

		// Killed when its pane was live and its slices were not in the bucket.
		added = add("09:24")
		b.killed(t, "09:25", "current")
		b.wantRead("the process that was killed", added)
		b.leaseEnds(t)
		next := add("09:25")
		b.once("09:26", "advanced")
		b.wantRead("the process after it", next)
		b.elsewhere(o, t.TempDir())
		next = add("09:26")
		b.once("09:27", "advanced")
		b.wantRead("the process after that, elsewhere", next)
		if doc := b.document("x"); doc["updates"] != 27.0 {
			t.Errorf("document x is %v", doc)
		}
	})
}

// killed runs a process that kills itself at a step.
func (b *bench) killed(t *testing.T, clock, step string) {
	t.Helper()
	cmd := command(t.Context(), doomed, "run", "--once", "--now", at(clock).Format(time.RFC3339), "-c", b.config)
	cmd.Env = append(cmd.Env, "DELTAD_CRASH_AT="+step, "DELTAD_LEASE_TTL=1s")
	binary.Start(t, cmd).Wait(time.Minute)
}

// leaseEnds waits for the lease of one that was killed.
func (b *bench) leaseEnds(t *testing.T) {
	t.Helper()
	time.Sleep(1500 * time.Millisecond)
}

// TestRestartedDaemonReadsNothingAgain: kill -9 and a planned end, in the same
// directory and in another.
func TestRestartedDaemonReadsNothingAgain(t *testing.T) {
	inTurn(t, setup{}, func(t *testing.T, b *bench) {
		o := setup{trigger: "{every: 1s}"}
		b.elsewhere(o, t.TempDir())
		newest := time.Now().UTC().Truncate(time.Minute).Add(-30 * time.Minute)
		b.fillMinutes(newest.Add(-19*time.Minute), 20)
		d := start(t, b.config)
		eventually(t, "the first pane", 30*time.Second, func() bool { return b.reached(newest) })
		if n := len(b.proxy.readings("/in/")); n != 40 {
			t.Fatalf("the first pane read %d objects, want 40", n)
		}
		eventually(t, "slices in the bucket", 30*time.Second, func() bool { return b.cached() == 20 })
		advance := func(what string) {
			t.Helper()
			newest = newest.Add(time.Minute)
			b.putNow(newest, "a.ndjson", 1)
			eventually(t, what, time.Minute, func() bool { return b.reached(newest) })
			b.wantRead(what, minute(newest)+"a.ndjson")
		}
		d.Stop(leaving)
		d = start(t, b.config)
		advance("after a planned end")
		d.Kill()
		d = start(t, b.config)
		advance("after kill -9")
		eventually(t, "the newest slice in the bucket", 30*time.Second, func() bool { return b.cached() == 22 })
		d.Stop(leaving)
		b.elsewhere(o, t.TempDir())
		d = start(t, b.config)
		advance("on another machine")
		d.Stop(leaving)
	})
}
