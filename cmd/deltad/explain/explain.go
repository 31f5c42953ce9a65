// Package explain says of one key how its document came about: which objects
// have records of it, which records made each field, what the base adds, and
// why there is no document where there is none.
//
// It reads the inputs of the live pane again, and those of the base where the
// base has a part in it: newest first, as many objects as it is allowed. It
// writes nothing. What it says is computed from the records by the code that
// runs use, one record at a time, and compared with the document that is
// published where every input was read.
package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

// Subject is the pipeline whose index is explained.
type Subject struct {
	Out        store.Store
	ConfigHash string
	// Builder reads objects as runs do; its Program is the configuration's.
	Builder   slice.Builder
	Combiners map[string]combine.Builder
	Workers   int
}

// Options bound the work.
type Options struct {
	// Limit is the most objects that are read, 0 for all.
	Limit int
	// Progress is told how many are done; nil for nobody.
	Progress func(done, total int)
}

// Place is one record.
type Place struct {
	Object    string    `json:"object"`
	Partition time.Time `json:"partition"`
	Row       int64     `json:"row"` // from 1
}

func (p Place) String() string { return fmt.Sprintf("row %d of %s", p.Row, p.Object) }

// Field is how one field came about.
type Field struct {
	Name string `json:"field"`
	// Over is "all" or a duration; Expr the expression of a derived field, which
	// has no records of its own.
	Over  string          `json:"over,omitempty"`
	Expr  string          `json:"expr,omitempty"`
	Value json.RawMessage `json:"value"`
	// Records is how many records that the delta adds have a part in it, and
	// BaseRecords how many of those that the base read, as far as they were
	// found. Base says that the base's accumulator has a part in it.
	Records     int64 `json:"records"`
	BaseRecords int64 `json:"base_records"`
	Base        bool  `json:"base"`
	// Pending says that it is null until a base has it.
	Pending bool `json:"pending,omitempty"`
	// From is the record whose value it has, for fields that choose one; nil
	// where it is not among the objects that were read.
	From *Place `json:"from,omitempty"`
}

// Object is what one object has of the key.
type Object struct {
	Object    string    `json:"object"`
	Partition time.Time `json:"partition"`
	// Pane and Base say whose input it is.
	Pane bool `json:"pane"`
	Base bool `json:"base"`
	// Records are those of the key that count; LeftOut those that the filter or
	// the row policy leaves out.
	Records int64 `json:"records"`
	LeftOut int64 `json:"left_out"`
	// Fields is how many records have a part in each field.
	Fields map[string]int64 `json:"fields"`
}

// Base is what the base remembers of the key.
type Base struct {
	Generation string    `json:"generation"`
	Cut        time.Time `json:"cut"`
	// Holds says that it has accumulators of the key, Deleted that the newest
	// record it read deletes it, Newest when that record happened.
	Holds   bool       `json:"holds"`
	Deleted bool       `json:"deleted"`
	Newest  *time.Time `json:"newest"`
}

// Explanation is everything that was found out.
type Explanation struct {
	Key []string `json:"key"`
	// Layer is where the index has the key: delta, base, tombstone, or "".
	Layer    reader.Layer    `json:"layer"`
	File     string          `json:"file,omitempty"`
	Document json.RawMessage `json:"document"`
	// Why says it to people, in a sentence.
	Why       string    `json:"why"`
	RunID     string    `json:"run_id"`
	Watermark time.Time `json:"watermark"`
	// Covered is (from, to], what the pane speaks for.
	Covered partition.Range `json:"coverage"`
	Base    *Base           `json:"base"`
	Fields  []Field         `json:"fields"`
	Objects []Object        `json:"objects"`
	// Scanned of Inputs objects were read.
	Scanned int `json:"scanned"`
	Inputs  int `json:"inputs"`
	// Newest is the record that says whether the key is deleted.
	Newest *Place `json:"newest"`
	// Notes are what else is to be known: objects that are gone, limits that
	// were met, disagreement.
	Notes []string `json:"notes"`
}

// Key explains a key, given as one text per key column.
func Key(ctx context.Context, s Subject, o Options, key ...string) (Explanation, error) {
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	r := reader.Open(s.Out, reader.Options{Lazy: true})
	if _, err := r.Poll(ctx); err != nil {
		return Explanation{}, err
	}
	x := &explainer{Subject: s, Options: o, snapshot: r.Snapshot()}
	m := x.snapshot.Manifest
	x.out = Explanation{
		Key: key, RunID: m.RunID, Watermark: m.Watermark.Time, Covered: partition.Range{From: m.Coverage.From.Time, To: m.Coverage.To.Time},
		Fields: []Field{}, Objects: []Object{}, Notes: []string{},
	}
	found, err := x.snapshot.Find(ctx, key...)
	if err != nil {
		return x.out, err
	}
	if x.key, err = probe(x.snapshot.KeyFields(), key); err != nil {
		return x.out, err
	}
	x.out.Layer, x.out.File, x.at = found.Layer, found.File, m.Watermark.Time
	if found.Found {
		if x.out.Document, err = found.MarshalJSON(); err != nil {
			return x.out, err
		}
	}
	if m.ConfigHash != s.ConfigHash {
		x.partial = true
		x.note("the pane was made with another configuration: what follows is computed with the one of today")
	}
	if err := x.open(ctx, found.Layer); err != nil {
		return x.out, err
	}
	if err := x.scan(ctx); err != nil {
		return x.out, err
	}
	if err := x.conclude(found.Layer); err != nil {
		return x.out, err
	}
	return x.out, nil
}

// explainer works on one key.
type explainer struct {
	Subject
	Options
	snapshot *reader.Snapshot
	key      []byte // as runs spell it, at whatever width a column of it has
	base     *microbatch.Generation
	held     [][]byte  // the base's accumulators of the key; nil if it has none
	at       time.Time // what durations end at
	inputs   []input
	fold     *fold
	partial  bool // not everything that the document is made of could be read
	out      Explanation
}

// input is an object that may have records of the key.
type input struct {
	partition.Object
	pane bool // an input of the pane
	all  bool // of the pane, and not read by the base: feeds the fields over all
	base bool // read by the base
}

func (x *explainer) note(format string, args ...any) {
	x.out.Notes = append(x.out.Notes, fmt.Sprintf(format, args...))
}

// open finds what is to be read: inputs of the pane and, where it has a part in
// the key, of the base.
func (x *explainer) open(ctx context.Context, layer reader.Layer) error {
	snk := sink.New(sink.Settings{Store: x.Out, Pipeline: x.snapshot.Manifest.Pipeline})
	pane := x.snapshot.Manifest
	if err := snk.LoadInputs(ctx, &pane); err != nil {
		return err
	}
	if b := x.snapshot.BaseManifest; b != nil {
		m := *b
		if err := snk.LoadInputs(ctx, &m); err != nil {
			return err
		}
		var err error
		if x.base, err = microbatch.NewGeneration(x.snapshot.Current.Base.Ref(), m, x.Combiners); err != nil {
			return err
		}
		if err := x.remembered(ctx); err != nil {
			return err
		}
	}
	byKey := map[string]int{}
	if layer != reader.InBase {
		for _, in := range pane.Inputs {
			o := objectOf(in)
			byKey[o.Key] = len(x.inputs)
			x.inputs = append(x.inputs, input{Object: o, pane: true, all: x.base == nil || !x.base.Read(o)})
		}
	} else {
		x.at = x.base.Cut
	}
	if x.base != nil && (x.held != nil || layer == reader.Nowhere) {
		for _, in := range x.base.Manifest.Inputs {
			o := objectOf(in)
			i, ok := byKey[o.Key]
			switch {
			case ok && x.inputs[i].ETag == o.ETag:
				x.inputs[i].base = true
			case ok:
				x.note("%s was replaced since the base read it: what the base has of it cannot be shown", o.Key)
			default:
				x.inputs = append(x.inputs, input{Object: o, base: true})
			}
		}
	}
	slices.SortStableFunc(x.inputs, func(a, b input) int {
		if c := b.Partition.Compare(a.Partition); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	x.out.Inputs = len(x.inputs)
	if n := len(pane.Skipped); n > 0 {
		x.note("%d objects are skipped and were not read by the pane, %s among them", n, pane.Skipped[0].Key)
	}
	return nil
}

func objectOf(in sink.Input) partition.Object {
	return partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time}
}

// probe is a key as runs spell it.
func probe(keys []column.Field, texts []string) ([]byte, error) {
	row, err := parquet.KeyRow(keys, texts)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, v := range row.Columns {
		out = tuple.Append(out, v, 0)
	}
	return out, nil
}

// gone takes out the objects that an error says are not there as they were
// read, and says whether it named any.
func (x *explainer) gone(list []input, err error) ([]input, bool) {
	bad := map[string]error{}
	for _, e := range objectErrors(err) {
		bad[e.Object.Key] = e.Err
	}
	for _, in := range list {
		if why, ok := bad[in.Key]; ok {
			x.partial = true
			x.note("%s cannot be read: %v", in.Key, why)
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(in input) bool { return bad[in.Key] != nil }), len(bad) > 0
}

// objectErrors are the objects that an error names.
func objectErrors(err error) []*slice.ObjectError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*slice.ObjectError
		for _, e := range joined.Unwrap() {
			out = append(out, objectErrors(e)...)
		}
		return out
	}
	var o *slice.ObjectError
	if errors.As(err, &o) {
		return []*slice.ObjectError{o}
	}
	return nil
}
