package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

const day = "p/2026/11/30/"

// field is a source at p/ in minutes, as the cases have it.
func field(t *testing.T, keys ...string) (*synthetic, *Source) {
	t.Helper()
	s := &synthetic{streams: []stream{keysOf(keys...)}}
	return s, source(t, s, Options{Layout: layout(t, fiveLevels, partition.LayoutOptions{}), Prefixes: []string{"p"}})
}

func scan(t *testing.T, s *Source, now, after string) Listing {
	t.Helper()
	l, err := s.Scan(context.Background(), at(t, now), at(t, after))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func keysIn(l Listing) []string {
	var out []string
	for _, o := range l.Inputs(l.Range) {
		out = append(out, o.Key)
	}
	return out
}

const (
	now  = "2026-11-30T03:05:20Z"
	back = "2026-11-30T02:05:00Z"
)

func TestB4SmallerNamedPrefixArrivesLater(t *testing.T) {
	s := &synthetic{streams: []stream{keysOf("a/2026/11/30/03/09/x", "a/2026/11/30/03/10/x", "b/2026/11/30/03/02/x")}}
	src := source(t, s, Options{Layout: layout(t, fiveLevels, partition.LayoutOptions{}), Prefixes: []string{"a", "b/"}})
	l := scan(t, src, "2026-11-30T03:10:10Z", "2026-11-30T02:10:00Z")
	if !l.Newest.Equal(at(t, "2026-11-30T03:10:00Z")) || l.Calls != 2 {
		t.Errorf("newest %s in %d calls", l.Newest, l.Calls)
	}
	if l.Prefixes[0].Prefix != "a" || l.Prefixes[1].Prefix != "b" || !l.Prefixes[1].Newest.Equal(at(t, "2026-11-30T03:02:00Z")) {
		t.Errorf("prefixes %+v", l.Prefixes)
	}
	if lag := Lagging(l.Prefixes, 7*time.Minute); !slices.Equal(lag, []string{"b"}) {
		t.Errorf("lagging by more than 7 minutes: %v", lag)
	}
	if lag := Lagging(l.Prefixes, 8*time.Minute); lag != nil {
		t.Errorf("lagging by more than 8 minutes: %v", lag)
	}
	before := partition.FingerprintOf(of(l, at(t, "2026-11-30T03:09:00Z")))

	// b's 03:03 and its share of 03:09 come later: inputs change, progress does not.
	s.streams = append(s.streams, keysOf("b/2026/11/30/03/03/x", "b/2026/11/30/03/09/x"))
	l = scan(t, src, "2026-11-30T03:10:40Z", "2026-11-30T02:10:00Z")
	if !l.Newest.Equal(at(t, "2026-11-30T03:10:00Z")) || len(of(l, at(t, "2026-11-30T03:03:00Z"))) != 1 {
		t.Errorf("newest %s, objects %v", l.Newest, l.Objects)
	}
	if joint := of(l, at(t, "2026-11-30T03:09:00Z")); len(joint) != 2 || partition.FingerprintOf(joint) == before {
		t.Errorf("03:09 is %v", joint)
	}
	f, err := src.Newest(context.Background(), at(t, now), nil)
	if err != nil || f.Prefixes[1].Newest == nil || !f.Prefixes[1].Newest.Equal(at(t, "2026-11-30T03:03:00Z")) {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestB7LateObject: what comes late is in the next listing of its range, wherever it sorts.
func TestB7LateObject(t *testing.T) {
	s, src := field(t, day+"03/01/b", day+"03/05/a")
	if got := keysIn(scan(t, src, now, back)); !slices.Equal(got, []string{day + "03/01/b", day + "03/05/a"}) {
		t.Fatalf("objects %v", got)
	}
	s.streams = append(s.streams, keysOf(day+"03/01/a", day+"01/00/a"))
	if got := keysIn(scan(t, src, now, back)); !slices.Equal(got, []string{day + "03/01/a", day + "03/01/b", day + "03/05/a"}) {
		t.Errorf("objects %v", got)
	}
	// The wider range that serves to count what came outside the window.
	if got := keysIn(scan(t, src, now, "2026-11-30T00:05:00Z")); got[0] != day+"01/00/a" || len(got) != 4 {
		t.Errorf("objects %v", got)
	}
}

func TestB10FutureAndImplausible(t *testing.T) {
	_, src := field(t, day+"03/04/x", day+"03/05/x", "p/2027/01/01/00/00/x", "p/9999/01/01/00/00/x", "p/2026/11/31/00/00/x", "p/2026/02/30/00/00/x")
	want := []string{"p/2026/11/31: day 11/31 does not exist", "p/2027/01/01/00/00: starts in the future, at 2027-01-01T00:00:00Z", "p/9999: year 9999 is implausible"}
	for name, l := range map[string]Listing{"within the window": scan(t, src, now, back), "watermark in the future": scan(t, src, now, "2026-11-30T04:00:00Z")} {
		if name == "within the window" && !l.Newest.Equal(at(t, "2026-11-30T03:05:00Z")) {
			t.Errorf("newest %v", l.Newest)
		}
		var got []string
		for _, q := range l.Quarantined {
			got = append(got, q.Path+": "+q.Reason)
		}
		if !slices.Equal(got, want) || l.MoreQuarantined {
			t.Errorf("%s: quarantined %q", name, got)
		}
	}
	f, err := src.Newest(context.Background(), at(t, now), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantNewest(t, f, at(t, "2026-11-30T03:05:00Z"))
	if len(f.Quarantined) == 0 || f.Calls > 10 {
		t.Errorf("%+v", f)
	}

	// Once it is its time, it is a partition like any other.
	l := scan(t, src, "2027-01-01T00:00:10Z", "2026-11-30T02:05:00Z")
	if !l.Newest.Equal(at(t, "2027-01-01T00:00:00Z")) {
		t.Errorf("newest %s", l.Newest)
	}
}

func TestB10FloodsOfFutureAreBounded(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	end := at(t, "2026-11-30T03:05:00Z")
	s := &synthetic{streams: []stream{history(l, "", end.Add(-59*time.Minute), 60, 3, nil), history(l, "", end.Add(time.Hour), 100_000, 1, nil)}}
	got, err := source(t, s, Options{Layout: l}).Scan(context.Background(), end, end.Add(-60*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Newest.Equal(end) || got.Calls != 1 || len(got.Quarantined) != 820 || !got.MoreQuarantined {
		t.Errorf("newest %s, %d calls, %d quarantined, more %v", got.Newest, got.Calls, len(got.Quarantined), got.MoreQuarantined)
	}
}

func TestB12SkippedLocalHour(t *testing.T) {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	s := &synthetic{streams: []stream{keysOf("2026/03/08/01/x", "2026/03/08/02/x")}}
	autumn := &synthetic{streams: []stream{keysOf("2026/11/01/00/x", "2026/11/01/01/x", "2026/11/01/01/y")}}
	o := Options{Layout: layout(t, "%Y/%m/%d/%H", partition.LayoutOptions{Location: loc})}
	src := source(t, s, o)
	l := scan(t, src, "2026-03-08T08:30:00Z", "2026-03-08T00:00:00Z")
	if !l.Newest.Equal(at(t, "2026-03-08T06:00:00Z")) || len(l.Quarantined) != 1 || l.Quarantined[0].Path != "2026/03/08/02" {
		t.Errorf("newest %s, quarantined %+v", l.Newest, l.Quarantined)
	}
	l = scan(t, source(t, autumn, o), "2026-11-01T06:30:00Z", "2026-11-01T00:00:00Z") // 01:30 for the second time
	if !l.Newest.Equal(at(t, "2026-11-01T05:00:00Z")) || len(of(l, at(t, "2026-11-01T05:00:00Z"))) != 2 {
		t.Errorf("newest %s, objects %v", l.Newest, l.Objects)
	}
}

func TestB14OddKeysAreExact(t *testing.T) {
	ctx, st := context.Background(), mem.New("odd")
	names := []string{"part+1 a=b%3A.parquet", "ü.parquet", `a\b.parquet`, "c=%2F/x y.parquet", "\U0001F600=1/z", "a//b"}
	var want []string
	for _, n := range names {
		want = append(want, day+"03/05/"+n)
		if _, err := store.PutBytes(ctx, st, day+"03/05/"+n, []byte("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	src := source(t, st, Options{Layout: layout(t, fiveLevels, partition.LayoutOptions{}), Prefixes: []string{"p"}})
	l := scan(t, src, now, back)
	if got := keysIn(l); !slices.Equal(got, want) {
		t.Fatalf("keys %q", got)
	}
	for _, o := range l.Inputs(l.Range) {
		if info, err := st.Head(ctx, o.Key); err != nil || info.ETag != o.ETag || info.Size != o.Size {
			t.Errorf("%q: %+v, %v", o.Key, info, err)
		}
	}
	if got := src.PathColumns(day + "03/05/c=%2F/x y.parquet"); !slices.Equal(got, []partition.Column{{Name: "c", Value: "%2F"}}) {
		t.Errorf("columns %v", got)
	}
	gone, err := src.ConfirmGone(ctx, append(slices.Clone(want), day+"03/05/lost 1"))
	if err != nil || !slices.Equal(gone, []string{day + "03/05/lost 1"}) {
		t.Errorf("gone %q, %v", gone, err)
	}
}

func TestB15MoreThanThousandKeys(t *testing.T) {
	for _, n := range []int{1, 999, 1000, 1001, 2500} {
		s, src := field(t)
		s.streams = append(s.streams, stream{n: n, key: func(i int) string { return fmt.Sprintf("%s03/05/part-%05d", day, i) }})
		l := scan(t, src, now, back)
		if got := keysIn(l); len(got) != n || got[n-1] != fmt.Sprintf("%s03/05/part-%05d", day, n-1) {
			t.Errorf("%d objects: %d listed", n, len(got))
		}
		if want := (n + 999) / 1000; l.Calls != want {
			t.Errorf("%d objects: %d calls, want %d", n, l.Calls, want)
		}
	}
}

func TestB18DirectoryMarkers(t *testing.T) {
	_, src := field(t, "p/", day, day+"03/04/", day+"03/04/a", day+"03/05/")
	l := scan(t, src, now, back)
	if got := keysIn(l); !slices.Equal(got, []string{day + "03/04/a"}) || l.Ignored != 2 {
		t.Errorf("objects %v, %d ignored", got, l.Ignored)
	}
	f, err := src.Newest(context.Background(), at(t, now), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantNewest(t, f, at(t, "2026-11-30T03:04:00Z"))
	_, src = field(t, day+"03/05/")
	if f, err := src.Newest(context.Background(), at(t, now), nil); err != nil || f.Newest != nil {
		t.Errorf("only a marker: %v, %v", f.Newest, err)
	}
}

func TestB19StagingTreesAreNotDescended(t *testing.T) {
	tree := func(dir string) stream {
		return stream{n: 100_000, key: func(i int) string { return fmt.Sprintf("%s%06d", dir, i) }}
	}
	s := &synthetic{streams: []stream{
		keysOf("_warehouse/2026/11/30/03/04/part-0", "_warehouse/2026/11/30/03/05/part-0", "_warehouse/2026/11/30/03/05/zz", "_warehouse/2026/11/30/03/05/_SUCCESS"),
		tree("_warehouse/2026/11/30/03/04/_temporary/0/"), tree("_warehouse/2026/11/30/03/05/__magic_job-1/"), tree("_warehouse/2026/11/30/03/05/.hive-staging_x/"),
		tree("_warehouse/2026/11/30/03/_temporary/"), tree("_warehouse/_temporary/"),
	}}
	src := source(t, s, Options{Layout: layout(t, fiveLevels, partition.LayoutOptions{}), Prefixes: []string{"_warehouse"}})
	l := scan(t, src, now, back)
	want := []string{"_warehouse/2026/11/30/03/04/part-0", "_warehouse/2026/11/30/03/05/part-0", "_warehouse/2026/11/30/03/05/zz"}
	if got := keysIn(l); !slices.Equal(got, want) {
		t.Errorf("objects %v", got)
	}
	if l.Calls > 5 {
		t.Errorf("%d calls around four trees", l.Calls)
	}
	f, err := src.Newest(context.Background(), at(t, now), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantNewest(t, f, at(t, "2026-11-30T03:05:00Z"))
	if f.Calls > 10 {
		t.Errorf("newest took %d calls", f.Calls)
	}
}

func TestClashesAreReported(t *testing.T) {
	s := &synthetic{streams: []stream{keysOf("2026/3/9/x", "2026/03/9/x", "2026/3/09/x", "2026/3/8/x", "2026/3/10/x")}}
	src := source(t, s, Options{Layout: layout(t, "%Y/%-m/%-d", partition.LayoutOptions{})})
	l := scan(t, src, "2026-03-10T12:00:00Z", "2026-03-08T00:00:00Z")
	if len(l.Clashes) != 1 || !slices.Equal(l.Clashes[0].Spellings, []string{"2026/03/9", "2026/3/09", "2026/3/9"}) || l.Clashes[0].Canonical != "2026/3/9" {
		t.Errorf("clashes %+v", l.Clashes)
	}
	if got := keysIn(l); len(got) != 4 {
		t.Errorf("objects %v", got)
	}
}

func TestSettleHoldsBack(t *testing.T) {
	s := &synthetic{streams: []stream{keysOf(day+"03/03/x", day+"03/04/x", day+"03/05/x")}}
	src := source(t, s, Options{Layout: layout(t, fiveLevels, partition.LayoutOptions{}), Prefixes: []string{"p"}, Eligibility: partition.Eligibility{Settle: 30 * time.Second}})
	l := scan(t, src, now, back)
	if !l.Newest.Equal(at(t, "2026-11-30T03:03:00Z")) || l.Unsettled != 2 || len(l.Quarantined) != 0 {
		t.Errorf("newest %s, %d unsettled, quarantined %v", l.Newest, l.Unsettled, l.Quarantined)
	}
}

// TestLiesAreErrors is Invariant 4.
func TestLiesAreErrors(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	end := at(t, "2026-11-30T03:05:00Z")
	for _, tc := range []struct {
		name   string
		edit   func(o store.ListOptions, p *store.Page)
		want   string
		second bool // only in second pages, which Newest does not read here
	}{
		{"repeated token", func(_ store.ListOptions, p *store.Page) { p.NextToken = "t:again" }, "", false},
		{"backward", func(_ store.ListOptions, p *store.Page) { slices.Reverse(p.Objects) }, "comes after", false},
		{"twice", func(_ store.ListOptions, p *store.Page) { p.Objects = append(p.Objects, p.Objects[len(p.Objects)-1]) }, "comes after", false},
		{"same page again", func(o store.ListOptions, p *store.Page) {
			if o.Token != "" {
				p.Objects[0].Key = "p/2026/11/30/02/00/x"
			}
		}, "comes after", true},
		{"outside", func(_ store.ListOptions, p *store.Page) { p.Objects[len(p.Objects)-1].Key = "q/x" }, "outside the prefix", false},
		{"before what was asked", func(_ store.ListOptions, p *store.Page) { p.Objects[0].Key = "p/2001" }, "not after what was asked", false},
		{"folded unasked", func(_ store.ListOptions, p *store.Page) { p.Prefixes = []string{"p/2026/11/30/03/05/z/"} }, "no common prefix", false},
		{"empty pages for ever", func(o store.ListOptions, p *store.Page) {
			*p = store.Page{NextToken: o.Token + "x"}
		}, "empty pages in a row", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &synthetic{streams: []stream{history(l, "p/", end.Add(-59*time.Minute), 60, 30, nil)}, edit: tc.edit}
			src := source(t, s, Options{Layout: l, Prefixes: []string{"p"}})
			got, err := src.Scan(context.Background(), end, end.Add(-60*time.Minute))
			if !errors.Is(err, store.ErrBadListing) || !strings.Contains(err.Error(), tc.want) || got.Objects != nil {
				t.Errorf("scan: %v", err)
			}
			if _, err := src.Newest(context.Background(), end, nil); !tc.second && !errors.Is(err, store.ErrBadListing) {
				t.Errorf("newest: %v", err)
			}
		})
	}
	down := errors.New("down")
	src := source(t, failing{down}, Options{Layout: l})
	if _, err := src.Newest(context.Background(), end, nil); !errors.Is(err, down) {
		t.Errorf("newest: %v", err)
	}
	if _, err := src.ConfirmGone(context.Background(), []string{"k"}); !errors.Is(err, down) {
		t.Errorf("gone: %v", err)
	}
}

type failing struct{ err error }

func (f failing) List(context.Context, store.ListOptions) (store.Page, error) {
	return store.Page{}, f.err
}
func (f failing) Head(context.Context, string) (store.ObjectInfo, error) {
	return store.ObjectInfo{}, f.err
}

func TestNewRefusesPrefixes(t *testing.T) {
	l := layout(t, fiveLevels, partition.LayoutOptions{})
	for _, tc := range []struct {
		prefixes []string
		want     string
	}{
		{[]string{"/a"}, `prefixes[0]: must be a relative path without empty, . or .. segments, got "/a"`},
		{[]string{""}, `prefixes[0]: must be a relative path without empty, . or .. segments, got ""`},
		{[]string{"a", "a/b", "../x"}, "prefixes[1]: \"a/b\" and \"a\" lie in each other, objects would count twice\nprefixes[2]: must be a relative path without empty, . or .. segments, got \"../x\""},
		{[]string{"a", "a/"}, `prefixes[1]: "a/" and "a" lie in each other, objects would count twice`},
	} {
		if _, err := New(&synthetic{}, Options{Layout: l, Prefixes: tc.prefixes}); err == nil || err.Error() != tc.want {
			t.Errorf("%q: %v", tc.prefixes, err)
		}
	}
}
