package window

import "time"

// refusal is a window that was beyond the budget. It is folded anew by every
// run, as a stream, until another try may fit.
type refusal struct {
	rows int64     // that it had; 0 for no refusal
	fit  int64     // so many of them, as far as is known, would have fitted
	last time.Time // its last source began
}

// refuse says that a window of so many rows takes more than the budget: so many
// of them took bytes.
func (r *Rolling) refuse(now *sourceSet, rows, of, bytes int64) {
	r.refused = refusal{rows: rows, fit: of}
	if bytes > r.o.Budget && of > 0 {
		r.refused.fit = min(of, r.o.Budget/max(1, bytes/of))
	}
	if n := len(now.list); n > 0 {
		r.refused.last = now.list[n-1].Start
	}
}

// holds says that a window of so many rows would be refused again: it has as
// many as before, and they are in part the same.
func (f refusal) holds(now *sourceSet, rows int64) bool {
	return f.rows > 0 && rows > f.fit && rows > f.rows-f.rows/4 && !now.list[0].Start.After(f.last)
}
