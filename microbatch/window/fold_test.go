package window_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/window"
)

// record is a row of the fold's test: key, value, and whether it deletes.
type record struct {
	key    string
	value  int64
	delete bool
}

func folding(t *testing.T) *index.Bound {
	t.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, DeleteWhen: "op", Fields: []index.FieldSpec{
		{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "all", Fn: "sum", Args: []string{"v"}},
		{Name: "recent", Fn: "sum", Args: []string{"v"}, Over: 3 * time.Minute}, {Name: "last", Fn: "latest", Args: []string{"v"}, Over: time.Minute},
		{Name: "most", Fn: "max", Args: []string{"v"}},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]column.Type{"k": column.Of(column.String), "v": column.Of(column.Int64), "op": column.Of(column.Bool)}
	var kinds []column.Type
	for _, c := range program.Columns() {
		kinds = append(kinds, types[c.Path])
	}
	bound, err := program.Bind(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// slice makes the run of a partition.
func slice(rt *rapid.T, bound *index.Bound, start time.Time, records []record) window.Source {
	tab := table.New(bound.Shape())
	lifter, err := bound.NewLifter(tab, start)
	if err != nil {
		rt.Fatal(err)
	}
	// Columns are sorted by path: k, op, v.
	batch := &column.Batch{Columns: []*column.Vector{column.New(column.Of(column.String)), column.New(column.Of(column.Bool)), column.New(column.Of(column.Int64))}}
	for _, r := range records {
		batch.Columns[0].AppendString(r.key)
		batch.Columns[1].AppendBool(r.delete)
		batch.Columns[2].AppendInt(r.value)
		batch.Len++
	}
	if _, err := lifter.Add(batch, 0); err != nil {
		rt.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
		rt.Fatal(err)
	}
	run, err := table.OpenBytes(out.Bytes(), bound.Shape())
	if err != nil {
		rt.Fatal(err)
	}
	return window.Source{Start: start, Run: run, All: true, Windowed: true}
}

// fold is the text of the documents and the keys of the tombstones.
func fold(rt *rapid.T, bound *index.Bound, slices []window.Source, n time.Time) (docs, dead []string) {
	err := window.Fold(bound, slices, nil, n, func(d window.Documents) error {
		for i := range d.Docs.Len {
			line := d.Docs.Columns[0].Strings[i]
			for _, v := range d.Docs.Columns[1:] {
				if v.Null(i) {
					line += " null"
				} else {
					line += fmt.Sprint(" ", v.Ints[i])
				}
			}
			docs = append(docs, line)
		}
		for i := range d.Tombstones.Len {
			dead = append(dead, d.Tombstones.Columns[0].Strings[i])
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	return docs, dead
}

// brute computes the same from the records, one key at a time.
func brute(parts map[int][]record, n int) (docs, dead []string) {
	keys := map[string]map[int][]record{}
	for at, records := range parts {
		for _, r := range records {
			if keys[r.key] == nil {
				keys[r.key] = map[int][]record{}
			}
			keys[r.key][at] = append(keys[r.key][at], r)
		}
	}
	for key, parts := range keys {
		var count, all, most int64
		var recent, last *int64
		newest, deleted := -1, false
		for at, records := range parts {
			for _, r := range records {
				if at > newest {
					newest, deleted = at, false
				}
				deleted = deleted || at == newest && r.delete
				if r.delete { // which counts towards newest alone
					continue
				}
				if count == 0 || r.value > most {
					most = r.value
				}
				count, all = count+1, all+r.value
				if at > n-3 {
					sum := r.value
					if recent != nil {
						sum += *recent
					}
					recent = &sum
				}
				if at > n-1 && (last == nil || r.value > *last) { // ties are broken by content
					last = &r.value
				}
			}
		}
		if deleted {
			dead = append(dead, key)
			continue
		}
		text := func(v *int64) string {
			if v == nil {
				return "null"
			}
			return fmt.Sprint(*v)
		}
		docs = append(docs, fmt.Sprintf("%s %d %d %s %s %d", key, count, all, text(recent), text(last), most))
	}
	slices.Sort(docs)
	slices.Sort(dead)
	return docs, dead
}

// TestFoldIsWhatTheRecordsSay: in any order of the slices, over blocks of any
// size, each field takes the partitions inside its own duration.
func TestFoldIsWhatTheRecordsSay(t *testing.T) {
	bound := folding(t)
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SampledFrom([]int{3, 3, 3, 40, 40, 40, 40, 1500}).Draw(rt, "keys") // beyond a block of keys, too
		parts := map[int][]record{}
		var sources []window.Source
		const n = 6
		for at := 1; at <= n; at++ {
			records := rapid.IntRange(0, 12).Draw(rt, "records")
			if keys > 1000 {
				records *= 60
			}
			seed := rapid.Int64Range(1, 1<<30).Draw(rt, "seed")
			for i := range int64(records) {
				x := (seed + i*7919) * 2654435761 % (1 << 31)
				parts[at] = append(parts[at], record{fmt.Sprintf("k%04d", x%int64(keys)), x % 100, x%37 == 0})
			}
			if len(parts[at]) > 0 {
				sources = append(sources, slice(rt, bound, minute(at), parts[at]))
			}
		}
		want, gone := brute(parts, n)
		docs, dead := fold(rt, bound, rapid.Permutation(sources).Draw(rt, "order"), minute(n))
		if !slices.Equal(docs, want) || !slices.Equal(dead, gone) {
			rt.Fatalf("documents %v\nwant %v\ntombstones %v\nwant %v", docs, want, dead, gone)
		}
	})
}
