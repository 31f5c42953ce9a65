// Package laws checks the combine fns of a pipeline on records of its own
// source: what `deltad check --laws` runs.
//
// Invariants:
//
//  1. Records are lifted by the engine's own lifter, from a program that is
//     compiled from the pipeline's index and bound to the types of the sample:
//     with where, delete_when, event times and the expressions within collect.
//     Every fn gets the records that it would get in a run.
//  2. The sample is a function of the source and the time: equal sources give
//     equal samples, and those equal results. The newest objects of the newest
//     window are read, each from its start.
//  3. It is bounded: in records, objects and bytes of values, whatever the
//     objects hold. Of a text object no more is read than the records taken,
//     unless a column changes its type among them.
//  4. Nothing is written anywhere.
//
// A law that holds on a sample is not proven. What is unlawful shows in the
// laws' own generated cases first; real data adds the values that nobody
// thought of.
package laws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
)

// Subject is a pipeline.
type Subject struct {
	Name string
	// Source lists the objects; Window is how far before the newest partition.
	Source *source.Source
	Window time.Duration
	// Builder knows how the engine reads them, and the index.
	Builder slice.Builder
	// Combiners are the combine fns there are.
	Combiners map[string]combine.Builder
}

// Options bound a sample.
type Options struct {
	Now time.Time
	// Records and Objects are how many of each are read at most, Bytes what
	// the sampled values may hold.
	Records, Objects int
	Bytes            int64
}

// The defaults of Options.
const (
	DefaultRecords = 10_000
	DefaultObjects = 16
	DefaultBytes   = 64 << 20
)

// Report is what a check of a pipeline found.
type Report struct {
	Pipeline string `json:"pipeline"`
	// From and To are the oldest and the newest partition that was sampled;
	// null if there was no data.
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
	// Objects were read, and so many Records of them.
	Objects []string `json:"objects"`
	Records int64    `json:"records"`
	// Cut: values were so large that fewer records were read than allowed.
	Cut bool `json:"cut,omitempty"`
	// Fields are those with a combine fn, in the order of the configuration;
	// those of a collect follow it.
	Fields []Field `json:"fields"`
}

// Field is what a check of one combine fn found.
type Field struct {
	Name   string `json:"field"`
	Fn     string `json:"fn"`
	TypeID string `json:"type_id"`
	Class  string `json:"class"`
	// Records the field took, and in how many multisets of them the laws were
	// checked. With none nothing was.
	Records   int `json:"records"`
	Multisets int `json:"multisets"`
	// Held are the laws that held in all of them.
	Held []string `json:"laws_held"`
	// Violation is the first law found broken.
	Violation *Violation `json:"violation,omitempty"`
}

// Violation is a combinetest.Violation in words. Accumulators are in hex.
type Violation struct {
	Law     string   `json:"law"`
	Detail  string   `json:"detail"`
	Got     string   `json:"got"`
	Want    string   `json:"want"`
	Records []string `json:"records"`
	// Text is all of it, in lines.
	Text string `json:"-"`
}

// Run samples the pipeline's source and checks every field. A violation is no
// error; errors are of the source, or of records that no run could read.
func Run(ctx context.Context, s Subject, o Options) (Report, error) {
	report := Report{Pipeline: s.Name, Objects: []string{}, Fields: []Field{}}
	objects, err := s.newest(ctx, o)
	if err != nil {
		return report, err
	}
	if len(objects) == 0 {
		return report, nil
	}
	sample, err := s.read(ctx, objects, o)
	if err != nil || len(sample.objects) == 0 {
		return report, err
	}
	for _, ob := range sample.objects {
		report.Objects = append(report.Objects, ob.Key)
	}
	byTime := func(a, b partition.Object) int { return a.Partition.Compare(b.Partition) }
	from, to := slices.MinFunc(sample.objects, byTime).Partition.UTC(), slices.MaxFunc(sample.objects, byTime).Partition.UTC()
	report.From, report.To, report.Records, report.Cut = &from, &to, sample.rows, sample.cut
	for _, t := range sample.taps {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		report.Fields = append(report.Fields, t.check())
	}
	return report, nil
}

// newest are the objects to sample: of the newest partitions first, within a
// partition in the order of their keys.
func (s Subject) newest(ctx context.Context, o Options) ([]partition.Object, error) {
	found, err := s.Source.Newest(ctx, o.Now, nil)
	if err != nil || found.Newest == nil {
		return nil, err
	}
	listing, err := s.Source.Scan(ctx, o.Now, found.Newest.Add(-s.Window))
	if err != nil {
		return nil, err
	}
	objects := listing.Inputs(listing.Range)
	slices.SortStableFunc(objects, func(a, b partition.Object) int { return b.Partition.Compare(a.Partition) })
	return objects[:min(len(objects), o.Objects)], nil
}

// Multisets of a field: all its records at once, and as many small ones, of one
// key where it has several records, for laws that many records hide.
const (
	small      = 64
	manySmall  = 200
	sampleSeed = 1
)

// check runs the battery over the records of a field.
func (t *tap) check() Field {
	f := Field{Name: t.name, Fn: t.fnName, TypeID: t.TypeID(), Class: t.Class().String(), Records: len(t.records.Ranks), Held: []string{}}
	if f.Records == 0 {
		return f
	}
	for i, rec := range t.multisets() {
		f.Multisets++
		err := combinetest.CheckRecords(t.Fn, rec, sampleSeed+uint64(i))
		if v := (*combinetest.Violation)(nil); errors.As(err, &v) {
			f.Violation = &Violation{
				Law: v.Law, Detail: v.Detail, Got: fmt.Sprintf("%x", v.Got), Want: fmt.Sprintf("%x", v.Want), Records: v.Records.Lines(), Text: v.Error(),
			}
			return f
		}
	}
	f.Held = combinetest.Laws()
	return f
}

// multisets are what the laws are checked on.
func (t *tap) multisets() []combinetest.Records {
	out := []combinetest.Records{t.records}
	n := len(t.records.Ranks)
	if n <= small {
		return out
	}
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	slices.SortStableFunc(rows, func(a, b int32) int { return cmp.Compare(t.groups[a], t.groups[b]) })
	for chunk := range slices.Chunk(rows, small) {
		if len(out) > manySmall {
			break
		}
		out = append(out, t.records.Only(chunk))
	}
	return out
}
