package window

import "time"

// Room says that whoever shares memory with the window leaves it so many bytes
// now. A window that holds more is let go, and folded anew by the next Fold,
// within the whole budget again; but where it was let go before it had served a
// run, within what there is room for, until there is room for all.
func (r *Rolling) Room(bytes int64) {
	r.left = min(bytes, r.o.Budget)
	if r.left == r.o.Budget {
		r.vain = false
	}
	switch {
	case r.accumulated() > r.left:
		r.vain = !r.served
		r.release()
	case r.Bytes() > r.left:
		r.documents = documents{}
	}
}

// budget is what the next fold may leave behind.
func (r *Rolling) budget() int64 {
	if r.vain {
		return r.left
	}
	return r.o.Budget
}

// release forgets the window, and not what was learned of the room for it.
func (r *Rolling) release() {
	*r = Rolling{o: r.o, lookups: r.lookups, share: r.share, refused: r.refused, left: r.left, vain: r.vain}
}

// refusal is a window that was beyond the budget. It is folded anew by every
// run, as a stream, until another try may fit.
type refusal struct {
	rows   int64     // that it had; 0 for no refusal
	fit    int64     // so many of them, as far as is known, would have fitted
	budget int64     // what it was beyond
	last   time.Time // its last source began
}

// refuse says that a window of so many rows takes more than the budget: so many
// of them took bytes.
func (r *Rolling) refuse(now *sourceSet, rows, of, bytes int64) {
	budget := r.budget()
	r.refused = refusal{rows: rows, fit: of, budget: budget}
	if bytes > budget && of > 0 {
		r.refused.fit = min(of, budget/max(1, bytes/of))
	}
	if n := len(now.list); n > 0 {
		r.refused.last = now.list[n-1].Start
	}
}

// holds says that a window of so many rows would be refused again within the
// budget: it has as many as before, and they are in part the same.
func (f refusal) holds(now *sourceSet, rows, budget int64) bool {
	return f.rows > 0 && rows > f.fit && rows > f.rows-f.rows/4 && budget <= f.budget && !now.list[0].Start.After(f.last)
}
