package table

import "io"

// rowsAtOnce is how many rows' accumulators are written column by column, at
// most.
const rowsAtOnce = 256

// WriteRun writes the table as a run. The table stays as it is.
func (t *Table) WriteRun(w io.Writer, o Options) (Summary, error) {
	rw, err := NewWriter(w, t.shape, o)
	if err != nil {
		return Summary{}, err
	}
	rw.desk, t.desk = t.desk, desk{}
	rw.open.reset(len(t.columns))
	defer func() { t.desk = rw.desk }()
	next := rw.expected()
	for order := t.sorted(); len(order) > 0; {
		n := min(next, len(order))
		if err := rw.appendGroups(t, order[:n]); err != nil {
			return Summary{}, err
		}
		order = order[n:]
		next = rw.expected()
	}
	return rw.Close()
}

// appendGroups is Append of groups of a table in the order of their keys.
func (w *Writer) appendGroups(t *Table, groups []uint32) error {
	had := len(w.open.at)
	w.open.addGroups(t, groups)
	if w.open.size(len(w.open.at)) > MaxBlock/2 {
		before := w.open.size(had)
		for i := had; i < len(w.open.at); i++ {
			size := w.open.size(i + 1)
			if size-before > MaxBlock/2 {
				w.err = tooLarge(w.open.key(i), size-before)
				return w.err
			}
			before = size
		}
	}
	w.flush(false)
	return w.err
}

// expected is how many rows are read next: about as many as fill the open block,
// if they are like the last ones. Of the first nothing is known: it comes alone,
// as it may be as large as half of MaxBlock.
func (w *Writer) expected() int {
	n := len(w.open.at)
	if n == 0 {
		return max(1, min(rowsAtOnce, w.was))
	}
	left := blockBytes - w.open.size(n)
	return max(1, min(rowsAtOnce, blockRows-n, 1+left*n/max(1, w.open.size(n))))
}
