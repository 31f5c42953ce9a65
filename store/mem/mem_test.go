package mem_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New("t") }, storetest.Options{ModelChecks: 2000, Rounds: 50})
}

// TestAgainstSortedSlice puts, deletes and lists at random and compares with the plainest set there is.
func TestAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mem.New("t")
		var keys []string
		key := rapid.StringMatching(`[ab/-]{1,4}`)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if _, err := store.PutBytes(t.Context(), s, k, nil, store.PutOptions{}); err != nil {
					t.Fatal(err)
				}
				if i, ok := slices.BinarySearch(keys, k); !ok {
					keys = slices.Insert(keys, i, k)
				}
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if err := s.Delete(t.Context(), k); err != nil {
					t.Fatal(err)
				}
				if i, ok := slices.BinarySearch(keys, k); ok {
					keys = slices.Delete(keys, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				var got []string
				for info, err := range store.Objects(t.Context(), s, store.ListOptions{MaxKeys: 3}) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, info.Key)
				}
				if !slices.Equal(got, keys) || s.Len() != len(keys) {
					t.Fatalf("%q, want %q", got, keys)
				}
			},
		})
	})
}

// TestTwoYearsOfPartitions fills two years of ten minutes each in a shuffled order and finds the newest and a folder by delimiter without walking them.
func TestTwoYearsOfPartitions(t *testing.T) {
	s := mem.New("t")
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	const n = 105_120
	key := func(i int) string {
		return start.Add(time.Duration(i)*10*time.Minute).Format("p/2006/01/02/15/04/") + "part-0.parquet"
	}
	for i := range n {
		j := i * 7919 % n // a permutation: 7919 is prime and no factor of n
		if _, err := store.PutBytes(t.Context(), s, key(j), nil, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != n {
		t.Fatalf("%d objects, want %d", s.Len(), n)
	}
	begin := time.Now()
	for _, c := range []struct {
		o                 store.ListOptions
		objects, prefixes int
		first             string
	}{
		{store.ListOptions{Prefix: "p/", Delimiter: "/"}, 0, 2, "p/2025/"},
		{store.ListOptions{Prefix: "p/2026/11/", Delimiter: "/"}, 0, 30, "p/2026/11/01/"},
		{store.ListOptions{Prefix: "p/", StartAfter: key(n - 60)}, 59, 0, key(n - 59)},
		{store.ListOptions{Prefix: "p/2026/06/15/"}, 144, 0, "p/2026/06/15/00/00/part-0.parquet"},
	} {
		for range 50 {
			p, err := s.List(t.Context(), c.o)
			if err != nil || len(p.Objects) != c.objects || len(p.Prefixes) != c.prefixes {
				t.Fatalf("%+v: %d objects, %d prefixes, %v", c.o, len(p.Objects), len(p.Prefixes), err)
			}
			if first := append(slices.Clone(p.Prefixes), "")[0]; c.prefixes > 0 && first != c.first {
				t.Fatalf("%+v: %s", c.o, first)
			}
			if c.objects > 0 && p.Objects[0].Key != c.first {
				t.Fatalf("%+v: %s", c.o, p.Objects[0].Key)
			}
		}
	}
	// A walk over all the keys for each of the 200 listings would take longer.
	if took := time.Since(begin); took > 5*time.Second {
		t.Fatalf("200 listings took %v", took)
	}
}

func BenchmarkList(b *testing.B) {
	s := mem.New("t")
	for i := range 1_000_000 {
		if _, err := store.PutBytes(b.Context(), s, fmt.Sprintf("p/%06d", i*7919%1_000_000), nil, store.PutOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if p, err := s.List(b.Context(), store.ListOptions{Prefix: "p/", StartAfter: "p/5"}); err != nil || len(p.Objects) != 1000 {
			b.Fatal(err)
		}
	}
}
