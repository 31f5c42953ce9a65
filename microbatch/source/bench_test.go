package source

import (
	"context"
	"testing"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// still is a listing of which nothing changes: its pages cost nothing.
type still struct{ pages []store.Page }

func (s still) List(_ context.Context, o store.ListOptions) (store.Page, error) {
	return s.pages[len(o.Token)], nil
}

func (still) Head(context.Context, string) (store.ObjectInfo, error) {
	return store.ObjectInfo{}, store.ErrNotFound
}

// BenchmarkScan is what a listing of a day of minutes costs beside the store.
func BenchmarkScan(b *testing.B) {
	layout, err := partition.ParseLayout("%Y/%m/%d/%H/%M", partition.LayoutOptions{})
	if err != nil {
		b.Fatal(err)
	}
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var l still
	const partitions, page = 1440, 1000
	for i := range partitions {
		if i%page == 0 {
			if i > 0 {
				l.pages[len(l.pages)-1].NextToken = "next"[:len(l.pages)]
			}
			l.pages = append(l.pages, store.Page{})
		}
		p := &l.pages[len(l.pages)-1]
		start := day.Add(time.Duration(i) * time.Minute)
		p.Objects = append(p.Objects, store.ObjectInfo{Key: layout.PrefixOf(start) + "/part-0.parquet", ETag: "e", Size: 1})
	}
	s, err := New(l, Options{Layout: layout})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		got, err := s.Scan(b.Context(), day.Add(24*time.Hour), day.Add(-time.Second))
		if err != nil || len(got.Objects) != partitions {
			b.Fatal(len(got.Objects), err)
		}
	}
}
