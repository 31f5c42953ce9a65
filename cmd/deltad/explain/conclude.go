package explain

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/sink/reader"
)

// conclude puts what was found into words.
func (x *explainer) conclude(layer reader.Layer) error {
	x.out.Newest = x.fold.from(0)
	var values map[string]json.RawMessage
	if x.out.Document != nil {
		if err := json.Unmarshal(x.out.Document, &values); err != nil {
			return fmt.Errorf("read the document: %w", err)
		}
	}
	x.fields(values)
	x.out.Why = x.why(layer)
	return x.compare(layer)
}

// fields says of each field what made it.
func (x *explainer) fields(values map[string]json.RawMessage) {
	spec, j := x.fold.bound.Program().Spec(), 0
	for _, f := range spec.Fields {
		out := Field{Name: f.Name, Over: "all", Expr: f.Expr, Value: values[f.Name]}
		if out.Value == nil {
			out.Value = json.RawMessage("null")
		}
		if f.Expr != "" {
			out.Over = ""
			x.out.Fields = append(x.out.Fields, out)
			continue
		}
		j++
		if f.Over > 0 {
			out.Over = f.Over.String()
		}
		s := x.fold.fields[j]
		out.Records, out.BaseRecords, out.Base = s.records, s.base, s.held
		out.Pending = x.fold.join != nil && x.fold.join.Pending[j]
		if chooses(f.Fn) {
			out.From = x.fold.from(j)
		}
		x.out.Fields = append(x.out.Fields, out)
	}
}

// why says in a sentence why the index has what it has.
func (x *explainer) why(layer reader.Layer) string {
	base := ""
	if x.base != nil {
		base = fmt.Sprintf("base %s (cut at %s)", x.base.ID, clock(x.base.Cut))
	}
	switch layer { //nolint:exhaustive // what is nowhere takes more looking into
	case reader.InDelta:
		if x.held != nil {
			return fmt.Sprintf("the pane of run %s has records of it, and joins what %s remembers", x.out.RunID, base)
		}
		return fmt.Sprintf("the pane of run %s has records of it", x.out.RunID)
	case reader.InBase:
		return fmt.Sprintf("%s has it, and no object that came since has a record of it", base)
	case reader.Tombstone:
		return x.whyDeleted(base)
	}
	records, left := int64(0), int64(0)
	for _, o := range x.out.Objects {
		records, left = records+o.Records, left+o.LeftOut
	}
	switch {
	case x.out.Base != nil && x.out.Base.Holds && x.out.Base.Deleted:
		return fmt.Sprintf("%s remembers it as deleted%s, and no object that came since has a record of it", base, when(x.out.Base.Newest))
	case records == 0 && left > 0:
		return fmt.Sprintf("all %d records of it are left out by index.where or by errors.row", left)
	case records > 0:
		return fmt.Sprintf("%d records of it are in objects that the base has read, and the base does not have it: they were deleted longer ago than full.tombstones", records)
	case x.base == nil:
		return fmt.Sprintf("no record of it lies in the partitions that the index speaks for, %s", x.out.Covered)
	}
	return "no object that base or pane have read has a record of it"
}

func (x *explainer) whyDeleted(base string) string {
	newest, ok := x.fold.columns[0].(combine.Presence)
	switch {
	case x.fold.fields[0].from != nil && ok && newest.Deleted(0):
		return fmt.Sprintf("its newest record deletes it: %s", x.fold.fields[0].from)
	case x.fold.fields[0].held && ok && newest.Deleted(0):
		return fmt.Sprintf("%s remembers it as deleted%s, and nothing newer has come", base, when(x.out.Base.Newest))
	case !x.fold.fields[0].held && x.fold.fields[0].records == 0 && x.out.Scanned == x.out.Inputs:
		return "no record of it is left: what had one was replaced or is gone"
	}
	return "its newest record deletes it, in an object that was not read here"
}

// compare checks the published document against what the records make, where
// all of them were read.
func (x *explainer) compare(layer reader.Layer) error {
	if x.out.Document == nil || layer != reader.InDelta || x.partial {
		return nil
	}
	var pending []bool
	if x.fold.join != nil {
		pending = x.fold.join.Pending
	}
	extractor, err := x.fold.bound.NewExtractor(pending)
	if err != nil {
		return err
	}
	docs, dead := column.NewBatch(x.fold.bound.Schema()), column.NewBatch(x.fold.bound.Shape().Keys)
	if err := extractor.Extract([][]byte{x.fold.key}, x.fold.columns, docs, dead); err != nil {
		return err
	}
	made := "a tombstone"
	if docs.Len == 1 {
		b, err := reader.Document{Fields: x.fold.bound.Schema(), Batch: docs}.MarshalJSON()
		if err != nil {
			return err
		}
		made = string(b)
	}
	if made != string(x.out.Document) {
		x.note("the records make another document: %s; `deltad verify --recompute` looks into all of them", made)
	}
	return nil
}

func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " at " + clock(*t)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
