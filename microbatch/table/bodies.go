package table

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/deltad/deltad/microbatch/combine"
)

// The groups of a table lie in memory in the order in which they came, and its
// columns write their accumulators quickest in that order: in that of the keys
// each would wait for memory once a group. So where there is room the rows are
// written before they are sorted, each in one place that is fetched at once.

// A body is the accumulators of one row: the length of each in a byte, or long
// and four bytes behind all those, then the accumulators.
const long = 255

// window is what is copied at once of a short accumulator.
const window = 16

// bodies are those of all groups of a table, in their order.
type bodies struct {
	b    []byte // and window bytes
	at   []int  // where each begins, and the last one ends; nil where there are none
	rest []int  // scratch: of the rows at hand, where what is not read yet begins
	rows rows   // scratch: without keys

	touched byte // of no meaning: what is read must be used
}

func (d *bodies) bytes() int64 {
	return int64(cap(d.b)+8*cap(d.at)+8*cap(d.rest)) + d.rows.bytes()
}

// write writes the bodies of a table's columns, if they take no more than most
// bytes.
func (d *bodies) write(columns []combine.Column, groups int, most int64) {
	d.b, d.at = d.b[:0], append(slices.Grow(d.at[:0], groups+1), 0)
	var some [rowsAtOnce]uint32
	for from := 0; from < groups; from += rowsAtOnce {
		n := min(groups-from, rowsAtOnce)
		for i := range n {
			some[i] = uint32(from + i)
		}
		d.rows.reset(len(columns))
		size := n * len(columns)
		for f, c := range columns {
			d.rows.accs[f], d.rows.ends[f] = combine.AppendAccs(c, d.rows.accs[f], d.rows.ends[f], some[:n])
			size += len(d.rows.accs[f])
			d.rows.accs[f] = extend(d.rows.accs[f], window)
		}
		if need := len(d.b) + size + (4*n+5)*len(columns) + window; need > cap(d.b) {
			// While it is copied what there was is held, too.
			want := 2 * cap(d.b)
			if from == 0 {
				want = size / n * groups / 8 * 9 // about what all take
			}
			room := min(int64(max(need, want)), most-d.bytes())
			if room < int64(need) {
				*d = bodies{}
				return
			}
			d.b = append(make([]byte, 0, room), d.b...)
		}
		for i := range n {
			d.add(i)
		}
	}
	d.b = extend(d.b, window)
}

// add adds the body of row i of d.rows.
func (d *bodies) add(i int) {
	fns := len(d.rows.accs)
	at := len(d.b)
	size := 5 * fns
	for f := range d.rows.ends {
		size += d.rows.ends[f][i] - from(d.rows.ends[f], i)
	}
	b := extend(d.b, size+window)
	to := at + fns
	for f, ends := range d.rows.ends {
		n := ends[i] - from(ends, i)
		if n < long {
			b[at+f] = byte(n)
			continue
		}
		b[at+f] = long
		binary.LittleEndian.PutUint32(b[to:], uint32(n))
		to += 4
	}
	for f, ends := range d.rows.ends {
		from := from(ends, i)
		if n := ends[i] - from; n <= window {
			*(*[window]byte)(b[to:]) = *(*[window]byte)(d.rows.accs[f][from:])
			to += n
		} else {
			to += copy(b[to:], d.rows.accs[f][from:ends[i]])
		}
	}
	d.b = b[:to]
	d.at = append(d.at, to)
}

// appendTo appends the accumulators of the groups to r.
func (d *bodies) appendTo(r *rows, groups []uint32) {
	touched := byte(0)
	d.rest = d.rest[:0]
	for _, g := range groups {
		d.rest = append(d.rest, d.at[g])
	}
	for i, g := range groups {
		for at := d.rest[i]; at < d.at[g+1]; at += 64 {
			touched ^= d.b[at]
		}
	}
	d.touched = touched
	fns := len(r.accs)
	for i, at := range d.rest {
		d.rest[i] += fns
		if bytes.IndexByte(d.b[at:at+fns], long) >= 0 {
			d.rest[i] += 4 * bytes.Count(d.b[at:at+fns], []byte{long})
		}
	}
	for f := range r.accs {
		r.accs[f], r.ends[f] = d.column(r.accs[f], r.ends[f], f, groups)
	}
}

// column appends the accumulators of fn f, the next in the bodies.
func (d *bodies) column(dst []byte, ends []int, f int, groups []uint32) ([]byte, []int) {
	at := len(dst)
	dst = extend(dst, window*len(groups))
	for i, g := range groups {
		from := d.rest[i]
		n := int(d.b[d.at[g]+f])
		if n == long {
			n = d.long(g, f)
		}
		if n <= window && len(dst)-at >= window {
			*(*[window]byte)(dst[at:]) = *(*[window]byte)(d.b[from:])
		} else {
			if len(dst)-at < n {
				dst = extend(dst[:at], n+window*len(groups))
			}
			copy(dst[at:], d.b[from:from+n])
		}
		d.rest[i] = from + n
		at += n
		ends = append(ends, at)
	}
	return dst[:at], ends
}

// long is the length of a long accumulator.
func (d *bodies) long(g uint32, f int) int {
	body := d.b[d.at[g]:]
	at := d.fns()
	for _, n := range body[:f] {
		if n == long {
			at += 4
		}
	}
	return int(binary.LittleEndian.Uint32(body[at:]))
}

func (d *bodies) fns() int { return len(d.rows.accs) }
