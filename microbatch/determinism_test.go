package microbatch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/store"
)

// everything is an index with every built-in combine fn.
func everything() index.Spec {
	return index.Spec{
		Key: []string{"item"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op == 'D'", Where: "clicks != 13",
		Fields: []index.FieldSpec{
			{Name: "n", Fn: "count", Args: []string{"*"}},
			{Name: "priced", Fn: "count", Args: []string{"price"}},
			{Name: "clicks", Fn: "sum", Args: []string{"clicks"}},
			{Name: "spent", Fn: "sum", Args: []string{"price"}},
			{Name: "price_mean", Fn: "mean", Args: []string{"price"}},
			{Name: "low", Fn: "min", Args: []string{"price"}},
			{Name: "high", Fn: "max", Args: []string{"price"}},
			{Name: "title", Fn: "latest", Args: []string{"title"}},
			{Name: "first", Fn: "earliest", Args: []string{"title"}, Where: "clicks > 3"},
			{Name: "some", Fn: "any", Args: []string{"title"}},
			{Name: "titles", Fn: "set", Args: []string{"title"}},
			{Name: "users", Fn: "distinct_exact", Args: []string{"user"}},
			{Name: "by_user", Fn: "collect", Args: []string{"user"}, Fields: []index.FieldSpec{
				{Name: "clicks", Fn: "sum", Args: []string{"clicks"}}, {Name: "title", Fn: "latest", Args: []string{"title"}},
			}},
			{Name: "offer", Fn: "latest", Args: []string{"offer"}, Optional: true},
			{Name: "recent", Fn: "sum", Args: []string{"clicks"}, Over: 4 * time.Minute},
			{Name: "rate", Expr: "n > 0 ? clicks / n : nil"},
		},
	}
}

// randomRows are records of ten minutes, with ties, nulls, deletes and numbers
// that a float sum in another order would round differently.
func randomRows(r *rand.Rand, n int) map[string][]string {
	rows := map[string][]string{}
	for range n {
		minute := r.IntN(10)
		clock := fmt.Sprintf("03:%02d", minute)
		price, title, op := "null", "null", "U"
		if r.IntN(5) > 0 {
			price = fmt.Sprintf("%.3f", r.NormFloat64()*1e6)
			if r.IntN(4) == 0 {
				price = fmt.Sprintf("%de%d", r.IntN(9)+1, r.IntN(30)-10)
			}
		}
		if r.IntN(4) > 0 {
			title = fmt.Sprintf(`"t%d"`, r.IntN(6))
		}
		if r.IntN(12) == 0 {
			op = "D"
		}
		ts := `"` + at(clock).Add(time.Duration(r.IntN(4))*time.Second).Format(time.RFC3339) + `"`
		if r.IntN(20) == 0 {
			ts = "null"
		}
		offer := []string{`null`, `{}`, `{"b":1}`, `{"c":[],"a":"x"}`, `{"a":null,"b":2.5}`, `{"c":["z"]}`}[r.IntN(6)]
		rows[clock] = append(rows[clock], fmt.Sprintf(`{"item":"i%d","user":%d,"ts":%s,"clicks":%d,"price":%s,"title":%s,"op":%q,"offer":%s}`,
			r.IntN(40), r.IntN(5), ts, r.IntN(20), price, title, op, offer))
	}
	return rows
}

// spread drops each minute's rows into a random number of objects, in random
// order.
func spread(b *bench, r *rand.Rand, rows map[string][]string) {
	for clock, list := range rows {
		list = slices.Clone(list)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		files := 1 + r.IntN(4)
		for f := range files {
			from, to := f*len(list)/files, (f+1)*len(list)/files
			if from < to {
				b.put(clock, fmt.Sprintf("%03d.ndjson", r.IntN(1000)*10+f), list[from:to]...)
			}
		}
	}
}

// files are the hashes of the live pane's data files.
func (b *bench) files() []string {
	var out []string
	m := b.live()
	for _, f := range append(slices.Clone(m.Files), m.Tombstones...) {
		out = append(out, fmt.Sprintf("%d rows %d bytes %s", f.Rows, f.Bytes, f.SHA256))
	}
	return out
}

// TestSameInputsSameBytes: object order, row order, splits into other files
// and the number of workers do not change a byte of a pane.
func TestSameInputsSameBytes(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		rows := randomRows(r, 400)
		var want []string
		for try := range 6 {
			b := newBench(t, benchOptions{spec: everything(), change: func(s *microbatch.Settings) {
				s.Workers = []int{1, 8}[try%2]
				s.NoCache = try%3 == 0
			}})
			spread(b, r, rows)
			b.step("03:09", microbatch.Advanced)
			got := b.files()
			if want == nil {
				want = got
				if len(got) != 2 {
					t.Fatalf("seed %d: files %v, want documents and tombstones", seed, got)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, try %d: %v, want %v", seed, try, got, want)
			}
		}
	}
}

// TestStepwiseEqualsAtOnce: however the pane came about (many steps, late
// objects, restarts, jumps), its bytes are those of a first pane over the same
// coverage and inputs.
func TestStepwiseEqualsAtOnce(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 2))
		rows := randomRows(r, 300)
		all := newBench(t, benchOptions{spec: everything()})
		slow := newBench(t, benchOptions{spec: everything()})
		spread(all, r, rows)
		for minute := range 10 {
			clock := fmt.Sprintf("03:%02d", minute)
			for _, key := range keysUnder(all, clock) {
				body, _, err := store.ReadAll(t.Context(), all.raw, key, 1<<20, store.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				slow.putKey(key, string(body[:len(body)-1]))
				if r.IntN(2) == 0 {
					slow.p.Once(t.Context(), at(clock), microbatch.StepOptions{})
				}
				if r.IntN(4) == 0 {
					slow.restart()
				}
			}
		}
		slow.p.Once(t.Context(), at("03:09"), microbatch.StepOptions{})
		all.step("03:09", microbatch.Advanced)
		if got, want := slow.files(), all.files(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: stepwise %v, at once %v", seed, got, want)
		}
	}
}

func keysUnder(b *bench, clock string) []string {
	page, err := b.raw.List(b.t.Context(), store.ListOptions{Prefix: at(clock).Format("2006/01/02/15/04/")})
	if err != nil {
		b.t.Fatal(err)
	}
	var keys []string
	for _, o := range page.Objects {
		keys = append(keys, o.Key)
	}
	return keys
}
