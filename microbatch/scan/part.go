package scan

import "github.com/deltad/deltad/microbatch/column"

// A batch of Parquet is cut after it was read, because a dictionary makes any
// number of large values out of a small page: they share its memory here, but
// not where they are copied.

// hand emits the rows from to to of the batch, in as many parts as their size
// asks for.
func (r *groupReader) hand(from, to int) error {
	if to-from > 1 && weight(r.batch, from, to) > batchBytes {
		middle := (from + to) / 2
		if err := r.hand(from, middle); err != nil {
			return err
		}
		return r.hand(middle, to)
	}
	if from == 0 && to == r.batch.Len {
		return r.emit(r.batch)
	}
	if r.part == nil {
		r.part = &column.Batch{}
		for _, v := range r.batch.Columns {
			r.part.Columns = append(r.part.Columns, column.New(v.Type))
		}
	}
	r.part.Reset()
	for i, v := range r.batch.Columns {
		for row := from; row < to; row++ {
			if err := r.part.Columns[i].AppendFrom(v, row); err != nil {
				return err
			}
		}
	}
	r.part.Len = to - from
	return r.emit(r.part)
}

// weight is about the bytes of what rows from to to hold beyond a number each:
// strings and list elements.
func weight(b *column.Batch, from, to int) (bytes int) {
	for _, v := range b.Columns {
		bytes += vectorWeight(v, from, to)
	}
	return bytes
}

func vectorWeight(v *column.Vector, from, to int) (bytes int) {
	switch v.Type.Kind {
	case column.String, column.Bytes:
		for _, s := range v.Strings[from:to] {
			bytes += len(s)
		}
	case column.List:
		first, last := int(v.Offsets[from]), int(v.Offsets[to])
		return 8*(last-first) + vectorWeight(v.Elem, first, last)
	case column.Struct:
		for _, f := range v.Fields {
			bytes += vectorWeight(f, from, to)
		}
	}
	return bytes
}
