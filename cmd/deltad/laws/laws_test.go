package laws_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/indextest"
	"github.com/deltad/deltad/cmd/deltad/laws"
)

func run(t *testing.T, x *indextest.Index, o laws.Options) laws.Report {
	t.Helper()
	o.Now = indextest.At("03:30")
	r, err := laws.Run(t.Context(), laws.Subject{
		Name: "ads", Source: x.Source, Window: x.Set.Rule.Size, Builder: x.Pipeline().Builder(), Combiners: x.Set.Combiners,
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSampleKeepsToItsBounds of records, objects and bytes, the newest
// partition of the window first.
func TestSampleKeepsToItsBounds(t *testing.T) {
	x := indextest.New(t, false)
	rows := make([]string, 5000)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"item":"i%d","ts":"2026-11-30T03:10:00Z","op":"U","clicks":%d,"title":%q}`, i%9, i, strings.Repeat("x", 100))
	}
	x.Put("03:01", "old", rows...) // before the window
	for _, name := range []string{"a", "b", "c"} {
		x.Put("03:11", name, rows...)
		x.Put("03:12", name, rows...)
	}
	tests := []struct {
		name    string
		options laws.Options
		objects string
		records int64
		cut     bool
	}{
		{"everything of the window", laws.Options{Records: 1e6, Objects: 100, Bytes: 1e9}, "12/a 12/b 12/c 11/a 11/b 11/c", 30_000, false},
		{"few records", laws.Options{Records: 100, Objects: 100, Bytes: 1e9}, "12/a 12/b 12/c 11/a 11/b 11/c", 100, false},
		{"fewer records than objects", laws.Options{Records: 4, Objects: 100, Bytes: 1e9}, "12/a 12/b 12/c 11/a", 4, false},
		{"few objects", laws.Options{Records: 100, Objects: 4, Bytes: 1e9}, "12/a 12/b 12/c 11/a", 100, false},
		{"few bytes", laws.Options{Records: 1e6, Objects: 100, Bytes: 100_000}, "12/a", 2048, true}, // a batch
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, x, tt.options)
			var objects []string
			for _, key := range r.Objects {
				minute, name := path.Split(key)
				objects = append(objects, path.Base(minute)+"/"+name)
			}
			if got := strings.Join(objects, " "); got != tt.objects || r.Records != tt.records || r.Cut != tt.cut {
				t.Errorf("%d records of %s, cut %t", r.Records, got, r.Cut)
			}
			for _, f := range r.Fields {
				if f.Violation != nil || int64(f.Records) > tt.records || f.Name != "big" && int64(f.Records) != tt.records {
					t.Errorf("%+v", f)
				}
			}
			if len(r.Fields) != 6 || *r.To != indextest.At("03:12") || r.From.After(*r.To) {
				t.Errorf("%d fields, %s to %s", len(r.Fields), r.From, r.To)
			}
		})
	}
}

// TestRecordsAreThoseOfARun: what where leaves out has no part, what deletes a
// key adds to no field, and the time of a record is its rank's.
func TestRecordsAreThoseOfARun(t *testing.T) {
	x := indextest.New(t, false)
	x.Put("03:12", "a",
		`{"item":"i","ts":"2026-11-30T03:10:00Z","op":"U","clicks":9,"title":"a"}`,
		`{"item":"i","ts":"2026-11-30T03:10:00Z","op":"X","clicks":9,"title":"b"}`,
		`{"item":"i","ts":"2026-11-30T03:10:00Z","op":"D","clicks":9,"title":"c"}`,
		`{"item":"j","ts":"2026-11-30T03:10:00Z","op":"U","clicks":1,"title":"d"}`)
	r := run(t, x, laws.Options{Records: laws.DefaultRecords, Objects: laws.DefaultObjects, Bytes: laws.DefaultBytes})
	for _, f := range r.Fields {
		want := 2
		if f.Name == "big" {
			want = 1
		}
		if f.Records != want || f.Multisets != 1 {
			t.Errorf("%+v, want %d records", f, want)
		}
	}
	if r.Records != 4 || r.To.Sub(*r.From) != 0*time.Second {
		t.Errorf("%+v", r)
	}
}
