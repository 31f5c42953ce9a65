package layers_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// fields are of every kind that documents can have, behind a key of two columns.
func fields() []column.Field {
	list := column.Type{Kind: column.List, Elem: &column.Type{Kind: column.Struct, Fields: []column.Field{
		{Name: "s", Type: column.Of(column.String)}, {Name: "n", Type: column.Of(column.Int64)},
	}}}
	return []column.Field{
		{Name: "item", Type: column.Of(column.String), Key: true},
		{Name: "shop", Type: column.Of(column.Int64), Key: true},
		{Name: "b", Type: column.Of(column.Bool)},
		{Name: "i", Type: column.Of(column.Int64)},
		{Name: "f", Type: column.Of(column.Float64)},
		{Name: "d", Type: column.Type{Kind: column.Decimal, Precision: 38, Scale: 2}},
		{Name: "s", Type: column.Of(column.String)},
		{Name: "t", Type: column.Of(column.Timestamp)},
		{Name: "l", Type: list},
	}
}

// key is one of few, some of which begin others or have bytes that are escaped.
type key struct {
	item string
	shop int64
}

func keys() (out []key) {
	for _, item := range []string{"", "\x00", "a", "a\x00", "a\x01b", "aa", "ü", strings.Repeat("long", 300)} {
		for shop := int64(-1); shop <= 1; shop++ {
			out = append(out, key{item, shop})
		}
	}
	return out
}

// pane is what each key is: a document made of a number, or a tombstone.
type pane map[key]int

const dead = -1

// appendDocument adds the document of a number. Numbers differ in one value, of one bit where that is possible.
func appendDocument(b *column.Batch, k key, n int) {
	pick := func(at int) int {
		if n/2%7 == at {
			return n%2 + 1
		}
		return 0
	}
	c := b.Columns
	c[0].AppendString(k.item)
	c[1].AppendInt(k.shop)
	c[2].AppendBool(pick(0) == 2)
	switch pick(1) {
	case 1:
		c[3].AppendNull()
	default:
		c[3].AppendInt(int64(pick(1)))
	}
	c[4].AppendFloat([]float64{0, math.Copysign(0, -1), math.NaN()}[pick(2)])
	c[5].AppendDecimal(column.Int128{Hi: int64(pick(3)), Lo: 0})
	switch pick(4) {
	case 1:
		c[6].AppendString("")
	case 2:
		c[6].AppendString("x")
	default:
		c[6].AppendNull()
	}
	c[7].AppendTimestamp(7, int32(pick(5)))
	for i := range pick(6) + 1 {
		c[8].Elem.Fields[0].AppendString("e")
		c[8].Elem.Fields[1].AppendInt(int64(i))
		c[8].Elem.EndStruct()
	}
	c[8].EndList()
	b.Len++
}

func appendKey(b *column.Batch, k key) {
	b.Columns[0].AppendString(k.item)
	b.Columns[1].AppendInt(k.shop)
	b.Len++
}

// in returns the keys of a pane in order.
func (p pane) in() []key {
	encode := func(k key) []byte { return tuple.AppendInt(tuple.AppendString(nil, k.item), k.shop) }
	return slices.SortedFunc(maps.Keys(p), func(a, b key) int { return bytes.Compare(encode(a), encode(b)) })
}

// show adds a pane to a differ, in blocks of so many keys: every other one with what a fold has at hand.
func (p pane) show(d *layers.Differ, h window.Hasher, size int) error {
	fs, folded := fields(), false
	for block := range slices.Chunk(p.in(), size) {
		docs, tombs := column.NewBatch(fs), column.NewBatch(fs[:2])
		for _, k := range block {
			if p[k] == dead {
				appendKey(tombs, k)
			} else {
				appendDocument(docs, k, p[k])
			}
		}
		rows := window.Documents{Docs: docs, Tombstones: tombs}
		if folded = !folded; folded {
			for i := range docs.Len {
				rows.Keys = append(rows.Keys, tuple.AppendRow(nil, docs.Columns[:2], i))
			}
			rows.Hashes = h.Append(nil, docs.Columns[2:], docs.Len)
		}
		if err := d.Add(rows); err != nil {
			return err
		}
	}
	return nil
}

// layer is what one layer says, by key.
type layer struct {
	docs             map[key]string
	tombstones, left map[key]bool
	calls            int
}

func newLayer() *layer {
	return &layer{docs: map[key]string{}, tombstones: map[key]bool{}, left: map[key]bool{}}
}

func keyOf(b *column.Batch, i int) key { return key{b.Columns[0].Strings[i], b.Columns[1].Ints[i]} }

// text is all there is to a document.
func text(b *column.Batch, i int) string {
	var out strings.Builder
	for _, v := range b.Columns {
		fmt.Fprint(&out, v.Null(i), "|")
		if v.Null(i) {
			continue
		}
		switch v.Type.Kind {
		case column.Bool:
			fmt.Fprint(&out, v.Bools[i])
		case column.Int64:
			fmt.Fprint(&out, v.Ints[i])
		case column.Float64:
			fmt.Fprintf(&out, "%x", math.Float64bits(v.Floats[i]))
		case column.Decimal:
			fmt.Fprint(&out, v.Decimals[i])
		case column.String:
			fmt.Fprintf(&out, "%q", v.Strings[i])
		case column.Timestamp:
			fmt.Fprint(&out, v.Ints[i], ".", v.Nanos[i])
		case column.List:
			for e := v.Offsets[i]; e < v.Offsets[i+1]; e++ {
				fmt.Fprint(&out, v.Elem.Fields[0].Strings[e], v.Elem.Fields[1].Ints[e], ",")
			}
		}
		out.WriteString(";")
	}
	return out.String()
}

// take is Emit.
func (l *layer) take(rows layers.Rows) error {
	l.calls++
	for i := range rows.Docs.Len {
		l.docs[keyOf(rows.Docs, i)] = text(rows.Docs, i)
	}
	for i := range rows.Tombstones.Len {
		l.tombstones[keyOf(rows.Tombstones, i)] = true
	}
	for i := range rows.Left.Len {
		l.left[keyOf(rows.Left, i)] = true
	}
	return nil
}

// documents are those of a pane as text.
func (p pane) documents() map[key]string {
	out := map[key]string{}
	for k, n := range p {
		if n != dead {
			b := column.NewBatch(fields())
			appendDocument(b, k, n)
			out[k] = text(b, 0)
		}
	}
	return out
}

// run shows a pane to a differ over the log of the one before, and has a layer of what differs where that has all.
func run(t rapid.TB, h window.Hasher, before *layers.Log, p pane, size int, whole bool, memory *spool.Budget) (*layers.Log, *layer, layers.Counts) {
	l := newLayer()
	o := layers.Options{Hasher: h, Fields: fields(), Before: before, Whole: whole, Memory: memory}
	if whole && before.Whole() {
		o.Emit = l.take
	}
	d, err := layers.NewDiffer(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Abort()
	if err := p.show(d, h, size); err != nil {
		t.Fatal(err)
	}
	log, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if log.Whole() != whole {
		t.Fatalf("a log is whole: %t, want %t", log.Whole(), whole)
	}
	return log, l, d.Counts()
}

// counts are those of a pane after another.
func (p pane) counts(was pane) (c layers.Counts) {
	before, docs := was.documents(), p.documents()
	for k, d := range docs {
		if old, ok := before[k]; !ok {
			c.New++
		} else if old != d {
			c.Changed++
		}
	}
	for k := range before {
		if _, ok := docs[k]; !ok {
			c.Left++
		}
	}
	return c
}

// patch shows what differs between two panes to a patch over the log of the first, in blocks of so many keys.
func patch(t rapid.TB, h window.Hasher, before *layers.Log, was, is pane, size int, memory *spool.Budget) (*layers.Log, *layer, layers.Counts) {
	l := newLayer()
	o := layers.Options{Hasher: h, Fields: fields(), Before: before, Whole: before.Whole(), Memory: memory}
	if before.Whole() {
		o.Emit = l.take
	}
	d, err := layers.NewPatch(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Abort()
	row := func(p pane, k key) window.Row {
		switch n, there := p[k]; {
		case !there:
			return window.NoRow
		case n == dead:
			return window.TombstoneRow
		}
		return window.DocumentRow
	}
	all := pane{}
	maps.Copy(all, was)
	maps.Copy(all, is)
	for block := range slices.Chunk(all.in(), size) {
		c := window.Changes{Docs: column.NewBatch(fields()), Tombstones: column.NewBatch(fields()[:2])}
		for _, k := range block {
			a, b := row(was, k), row(is, k)
			if a == b && was.documents()[k] == is.documents()[k] {
				continue
			}
			stone := column.NewBatch(fields()[:2])
			appendKey(stone, k)
			c.Keys, c.Was, c.Is = append(c.Keys, tuple.AppendRow(nil, stone.Columns, 0)), append(c.Was, a), append(c.Is, b)
			at, hash := -1, window.Hash{}
			switch b {
			case window.NoRow:
			case window.DocumentRow:
				at = c.Docs.Len
				appendDocument(c.Docs, k, is[k])
				hash = h.Append(nil, c.Docs.Columns[2:], c.Docs.Len)[at]
			case window.TombstoneRow:
				at = c.Tombstones.Len
				appendKey(c.Tombstones, k)
			}
			c.At, c.Hashes = append(c.At, int32(at)), append(c.Hashes, hash)
		}
		if err := d.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	log, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if log.Whole() != before.Whole() {
		t.Fatalf("a log is whole: %t, want %t", log.Whole(), before.Whole())
	}
	return log, l, d.Counts()
}

// TestAPatchIsADiffer: what is told of a pane makes the layer and the counts that comparing makes, and a log to compare the next pane with, over
// so many panes as there may be layers, some of which never became live.
func TestAPatchIsADiffer(t *testing.T) {
	all := keys()
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.SampledFrom([]int64{0, 1 << 20}).Draw(t, "memory")
		h, memory := window.NewHasher(), spool.NewBudget(room)
		whole := rapid.Bool().Draw(t, "whole")
		panes := rapid.SliceOfN(rapid.MapOf(rapid.SampledFrom(all), rapid.IntRange(dead, 2)), 2, 24).Draw(t, "panes")
		was := pane(panes[0])
		log, _, _ := run(t, h, nil, was, 7, whole, memory)
		for n, drawn := range panes[1:] {
			is, size := pane(drawn), rapid.IntRange(1, 30).Draw(t, "block")
			compared, want, counts := run(t, h, log, is, size, whole, memory)
			compared.Close()
			patched, got, told := patch(t, h, log, was, is, size, memory)
			if told != counts {
				t.Fatalf("pane %d: counts are %+v, want %+v", n, told, counts)
			}
			if !maps.Equal(got.docs, want.docs) || !maps.Equal(got.tombstones, want.tombstones) || !maps.Equal(got.left, want.left) {
				t.Fatalf("pane %d: the layer is\n%+v, want\n%+v", n, got, want)
			}
			if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				patched.Close() // and the one before is as good as it was
				continue
			}
			log.Close()
			log, was = patched, is
		}
		last, _, counts := run(t, h, log, was, 7, whole, memory)
		if counts != (layers.Counts{}) {
			t.Fatalf("the log of all patches differs from its pane: %+v", counts)
		}
		last.Close()
		log.Close()
		if memory.OnDisk() != 0 || memory.Left() != room {
			t.Fatalf("%d of %d bytes of memory are left, %d are on disk", memory.Left(), room, memory.OnDisk())
		}
	})
}

// TestAPatchWithoutALogCounts and makes none.
func TestAPatchWithoutALogCounts(t *testing.T) {
	h, all := window.NewHasher(), keys()
	was, is := pane{all[0]: 1, all[1]: 2, all[2]: dead}, pane{all[1]: 3, all[2]: 4, all[3]: dead, all[4]: 5}
	log, _, counts := patch(t, h, nil, was, is, 2, nil)
	if want := is.counts(was); log != nil || counts != want {
		t.Errorf("counts are %+v, want %+v; a log: %t", counts, want, log != nil)
	}
}

// TestDocumentsAreCounted against the pane before as their keys and values say, be either log whole or not, and with keys so long and so many
// that they are in several blocks.
func TestDocumentsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, memory := window.NewHasher(), spool.NewBudget(int64(rapid.SampledFrom([]int{0, 1 << 30}).Draw(t, "memory")))
		most := rapid.SampledFrom([]int{0, 3, 40, 40, 40, 5500}).Draw(t, "keys")
		pad := strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 300}).Draw(t, "key bytes"))
		was, log := pane{}, (*layers.Log)(nil)
		for range 3 {
			is := pane{}
			seed := rapid.Uint64().Draw(t, "seed")
			for k := range most {
				seed = seed*6364136223846793005 + 1442695040888963407
				if x := seed >> 40; x%5 > 0 {
					is[key{fmt.Sprint(k, pad), 0}] = int(x%4) + dead
				}
			}
			before := log
			var c layers.Counts
			log, _, c = run(t, h, before, is, 1000, rapid.Bool().Draw(t, "whole"), memory)
			before.Close()
			if want := is.counts(was); c != want {
				t.Fatalf("counts are %+v, want %+v", c, want)
			}
			was = is
		}
		log.Close()
	})
}

// TestALayerIsWhatDiffers: over random histories of panes a layer says of exactly the keys that differ what they are now, and applied to the
// rows before makes the rows after.
func TestALayerIsWhatDiffers(t *testing.T) {
	all := keys()
	rapid.Check(t, func(t *rapid.T) {
		h, memory := window.NewHasher(), spool.NewBudget(int64(rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "memory")))
		panes := rapid.SliceOfN(rapid.MapOf(rapid.SampledFrom(all), rapid.IntRange(dead, 13)), 1, 6).Draw(t, "panes")
		var log *layers.Log
		docs, tombstones := map[key]string{}, map[key]bool{}
		for n, drawn := range panes {
			is := pane(drawn)
			var l *layer
			before := log
			log, l, _ = run(t, h, before, is, rapid.IntRange(1, 30).Draw(t, "block"), true, memory)
			before.Close()
			want := is.documents()
			if n == 0 {
				if l.calls != 0 {
					t.Fatal("a snapshot is shown as a layer")
				}
				docs = want
				for k, n := range is {
					if n == dead {
						tombstones[k] = true
					}
				}
				continue
			}
			for k, d := range l.docs {
				if docs[k] == d {
					t.Fatalf("pane %d: the layer has %v, which is as it was", n, k)
				}
				docs[k] = d
				delete(tombstones, k)
			}
			for k := range l.tombstones {
				if tombstones[k] {
					t.Fatalf("pane %d: the layer has the tombstone %v, which was there", n, k)
				}
				tombstones[k] = true
				delete(docs, k)
			}
			for k := range l.left {
				if _, was := docs[k]; !was && !tombstones[k] {
					t.Fatalf("pane %d: %v has left and was not there", n, k)
				}
				delete(docs, k)
				delete(tombstones, k)
			}
			if !maps.Equal(docs, want) {
				t.Fatalf("pane %d: layers come to %v, want %v", n, docs, want)
			}
			for k, n := range is {
				if tombstones[k] != (n == dead) {
					t.Fatalf("%v is a tombstone: %t", k, tombstones[k])
				}
			}
			if n := len(docs) + len(tombstones); n != len(is) {
				t.Fatalf("layers come to %d keys, want %d", n, len(is))
			}
		}
		log.Close()
	})
}

// TestLayersAreShownInBlocks, however many keys leave at once.
func TestLayersAreShownInBlocks(t *testing.T) {
	was := pane{}
	for n := range 10_000 {
		was[key{fmt.Sprintf("%05d", n), 0}] = n % 14
	}
	for name, is := range map[string]pane{"nothing is left": {}, "one comes after all": {{"z", 0}: 1}, "all are dead": maps.Collect(maps.All(was))} {
		t.Run(name, func(t *testing.T) {
			if name == "all are dead" {
				for k := range is {
					is[k] = dead
				}
			}
			h := window.NewHasher()
			log, _, _ := run(t, h, nil, was, 1000, true, nil)
			most, last := 0, []byte(nil)
			d, err := layers.NewDiffer(layers.Options{Hasher: h, Fields: fields(), Before: log, Whole: true, Emit: func(r layers.Rows) error {
				most = max(most, r.Docs.Len+r.Tombstones.Len+r.Left.Len)
				for i := range r.Left.Len {
					k := tuple.AppendRow(nil, r.Left.Columns, i)
					if bytes.Compare(k, last) <= 0 {
						t.Fatalf("%x has left after %x", k, last)
					}
					last = k
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := is.show(d, h, 20_000); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Finish(); err != nil {
				t.Fatal(err)
			}
			if most == 0 || most > 4096 {
				t.Errorf("up to %d rows at a time", most)
			}
		})
	}
}

// TestRowsOutOfOrderAreRefused: what is merged out of order would make a wrong layer.
func TestRowsOutOfOrderAreRefused(t *testing.T) {
	fs := fields()
	for name, ks := range map[string][]key{"back": {{"b", 0}, {"a", 0}}, "twice": {{"a", 0}, {"a", 0}}} {
		t.Run(name, func(t *testing.T) {
			d, err := layers.NewDiffer(layers.Options{Hasher: window.NewHasher(), Fields: fs, Whole: true})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Abort()
			docs, tombs := column.NewBatch(fs), column.NewBatch(fs[:2])
			for _, k := range ks {
				appendDocument(docs, k, 0)
			}
			if err := d.Add(window.Documents{Docs: docs, Tombstones: tombs}); err == nil || !strings.Contains(err.Error(), "not in key order") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("document and tombstone", func(t *testing.T) {
		d, err := layers.NewDiffer(layers.Options{Hasher: window.NewHasher(), Fields: fs, Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Abort()
		docs, tombs := column.NewBatch(fs), column.NewBatch(fs[:2])
		appendDocument(docs, key{"a", 0}, 0)
		appendKey(tombs, key{"a", 0})
		if err := d.Add(window.Documents{Docs: docs, Tombstones: tombs}); err == nil {
			t.Error("one key is both")
		}
	})
	t.Run("key columns", func(t *testing.T) {
		fs := slices.Clone(fs)
		fs[1], fs[2] = fs[2], fs[1]
		if _, err := layers.NewDiffer(layers.Options{Hasher: window.NewHasher(), Fields: fs, Whole: true}); err == nil {
			t.Error("a key column behind others is taken")
		}
	})
	t.Run("over half a log", func(t *testing.T) {
		h := window.NewHasher()
		log, _, _ := run(t, h, nil, pane{{"a", 0}: 1}, 1, false, nil)
		for _, before := range []*layers.Log{nil, log} {
			o := layers.Options{Hasher: h, Fields: fields(), Before: before, Whole: true, Emit: newLayer().take}
			if _, err := layers.NewDiffer(o); err == nil {
				t.Error("a layer is made over what has no tombstones")
			}
		}
	})
}

// TestOneBitIsADifference: a layer has a document of which one value has another bit, be it one that compares as equal.
func TestOneBitIsADifference(t *testing.T) {
	nan := math.Float64bits(math.NaN())
	for name, pair := range map[string][2]func(*column.Vector){
		"sign of zero": {func(v *column.Vector) { v.AppendFloat(0) }, func(v *column.Vector) { v.AppendFloat(math.Copysign(0, -1)) }},
		"not a number": {func(v *column.Vector) { v.AppendFloat(math.Float64frombits(nan)) }, func(v *column.Vector) { v.AppendFloat(math.Float64frombits(nan ^ 2)) }},
		"null":         {func(v *column.Vector) { v.AppendFloat(0) }, (*column.Vector).AppendNull},
	} {
		t.Run(name, func(t *testing.T) {
			h := window.NewHasher()
			fs := []column.Field{{Name: "k", Type: column.Of(column.Int64), Key: true}, {Name: "f", Type: column.Of(column.Float64)}}
			show := func(before *layers.Log, value func(*column.Vector)) (log *layers.Log, differ int) {
				o := layers.Options{Hasher: h, Fields: fs, Before: before, Whole: true}
				if before != nil {
					o.Emit = func(r layers.Rows) error { differ += r.Docs.Len; return nil }
				}
				d, err := layers.NewDiffer(o)
				if err != nil {
					t.Fatal(err)
				}
				docs := column.NewBatch(fs)
				docs.Columns[0].AppendInt(7)
				value(docs.Columns[1])
				docs.Len++
				if err := d.Add(window.Documents{Docs: docs}); err != nil {
					t.Fatal(err)
				}
				if log, err = d.Finish(); err != nil {
					t.Fatal(err)
				}
				return log, differ
			}
			first, _ := show(nil, pair[0])
			second, differ := show(first, pair[1])
			if differ != 1 {
				t.Error("the layer has no document")
			}
			if _, differ := show(second, pair[1]); differ != 0 {
				t.Error("the layer has a document that is as it was")
			}
		})
	}
}
