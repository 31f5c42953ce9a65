package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/deltad/deltad/microbatch/combine"
)

// unpacked is a block in memory. What its accumulators consist of lies in the
// block's bytes as far as it stands there as it is.
type unpacked struct {
	n      int
	keys   []byte
	at     []uint32 // where each key ends
	same   []uint32 // what each shares with the key before
	accs   []combine.Accs
	beside [][]byte // room for the accumulators of each fn that stands beside another
	plain  []bool   // of the fns before: which stand as they are
	shared []uint32 // scratch
	room   int      // what the rows but for the last may still take
	last   int      // what the last row takes
}

var (
	errKeys   = errors.New("keys are out of order or a prefix is not maximal")
	errPrefix = errors.New("a prefix is not maximal")
	errLarge  = errors.New("rows are larger than a block's")
	errEarly  = errors.New("it ends where none does")
)

// unpack reads a block of so many fns. Its lengths are checked before memory is
// taken; the rows are no more than a block may have.
func (u *unpacked) unpack(b []byte, fns int) error {
	u.n = 0
	dir := 4 * (2 + fns)
	if len(b) < dir {
		return errCut
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > blockRows {
		return errLarge
	}
	rest := b[dir:]
	if len(u.accs) != fns {
		u.accs, u.beside = make([]combine.Accs, fns), make([][]byte, fns)
	}
	u.room, u.last, u.plain = blockBytes-1, 0, u.plain[:0]
	for i := range 1 + fns {
		size := binary.LittleEndian.Uint32(b[4*(1+i):])
		if uint64(size) > uint64(len(rest)) {
			return errCut
		}
		in := bytesReader{b: rest[:size:size]}
		rest = rest[size:]
		var err error
		if i == 0 {
			err = u.unpackKeys(&in, int(n))
		} else {
			err = u.unpackAccs(&in, i-1, int(n))
		}
		if err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return errLeft
	}
	for i := range int(n) {
		if u.identity(i) {
			return errors.New("row has no accumulator")
		}
	}
	u.n = int(n)
	return nil
}

var errLeft = errors.New("bytes are left over")

// identity says whether row i has no accumulator.
func (u *unpacked) identity(i int) bool {
	for f := range u.accs {
		if len(u.accs[f].At(i)) > 0 {
			return false
		}
	}
	return true
}

// take counts rows of a section, of sum bytes together and of last the last.
func (u *unpacked) take(sum uint64, last uint32) error {
	if sum > MaxBlock || sum-uint64(last) > uint64(u.room) || u.last+int(last) > MaxBlock/2 {
		return errLarge
	}
	u.room -= int(sum) - int(last)
	u.last += int(last)
	return nil
}

// bytes is the memory that it holds; accumulators that stand as they are have none.
func (u *unpacked) bytes() int64 {
	n := cap(u.keys) + 4*(cap(u.at)+cap(u.same)+cap(u.shared)) + cap(u.plain)
	for f := range u.accs {
		n += 4*cap(u.accs[f].Ends) + cap(u.beside[f])
	}
	return int64(n)
}

// full says whether the block ends where one must if rows follow: its last row is
// the one that fills it. That none before does take has seen to.
func (u *unpacked) full() bool { return u.n == blockRows || u.last > u.room }

func (u *unpacked) unpackKeys(in *bytesReader, n int) error {
	u.same, u.at = sized(u.same, n), sized(u.at, n)
	sum := in.lengths(u.same)
	sum += in.lengths(u.at)
	if in.err != nil {
		return in.err
	}
	if err := u.take(sum, u.same[n-1]+u.at[n-1]); err != nil {
		return err
	}
	keys := slices.Grow(u.keys[:0], int(sum))[:sum]
	var last []byte
	at := 0
	for i, same := range u.same {
		rest := in.take(uint64(u.at[i]))
		if in.err != nil {
			return in.err
		}
		// The prefix is maximal and the key greater exactly if the next byte is
		// greater.
		if int(same) > len(last) || i > 0 && (len(rest) == 0 || int(same) < len(last) && rest[0] <= last[same]) {
			return errKeys
		}
		key := keys[at : at+int(same)+len(rest)]
		copy(key[copy(key, last[:same]):], rest)
		at += len(key)
		u.at[i], last = uint32(at), key
	}
	u.keys = keys
	if len(in.b) > 0 {
		return errLeft
	}
	return nil
}

// key is that of row i.
func (u *unpacked) key(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = u.at[i-1]
	}
	return u.keys[from:u.at[i]:u.at[i]]
}

func (u *unpacked) unpackAccs(in *bytesReader, f, n int) error {
	a := &u.accs[f]
	a.Ends = sized(a.Ends, n)
	form := in.take(1)
	if in.err != nil {
		return in.err
	}
	u.plain = append(u.plain, form[0] == formPlain)
	switch form[0] {
	case formPlain:
	case formBeside:
		return u.unpackBeside(in, f, n)
	default:
		return fmt.Errorf("form %d of fn %d is unknown", form[0], f)
	}
	sum := in.lengths(a.Ends)
	if in.err != nil {
		return in.err
	}
	if err := u.take(sum, a.Ends[n-1]); err != nil {
		return err
	}
	if sum != uint64(len(in.b)) {
		return errCut
	}
	a.Bytes = in.b
	at := uint32(0)
	for i, l := range a.Ends {
		at += l
		a.Ends[i] = at
	}
	return nil
}

func (u *unpacked) unpackBeside(in *bytesReader, f, n int) error {
	of := in.uvarint()
	if in.err != nil {
		return in.err
	}
	if of >= uint64(f) || !u.plain[of] {
		return fmt.Errorf("fn %d does not stand beside fn %d", f, of)
	}
	a, beside := &u.accs[f], &u.accs[of]
	u.shared = sized(u.shared, n)
	sum := in.lengths(u.shared)
	sum += in.lengths(a.Ends)
	if in.err != nil {
		return in.err
	}
	if err := u.take(sum, u.shared[n-1]+a.Ends[n-1]); err != nil {
		return err
	}
	// Before it is known that what is claimed is there, no more is taken than a
	// block has.
	out := slices.Grow(u.beside[f][:0], int(sum))[:sum]
	at := 0
	for i, same := range u.shared {
		first, rest := beside.At(i), in.take(uint64(a.Ends[i]))
		if in.err != nil || int(same) > len(first) {
			return errCut
		}
		if int(same) < len(first) && len(rest) > 0 && first[same] == rest[0] {
			return errPrefix
		}
		acc := out[at : at+int(same)+len(rest)]
		copy(acc[copy(acc, first[:same]):], rest)
		at += len(acc)
		a.Ends[i] = uint32(at)
	}
	if len(in.b) > 0 {
		return errLeft
	}
	a.Bytes, u.beside[f] = out, out
	return nil
}

// rows are those of the block, to be packed again.
func (u *unpacked) rows() rows {
	ends := func(from []uint32) (out []int) {
		for _, e := range from {
			out = append(out, int(e))
		}
		return out
	}
	r := newRows(len(u.accs))
	r.keys, r.at = u.keys, ends(u.at)
	for f, a := range u.accs {
		r.accs[f], r.ends[f] = a.Bytes, ends(a.Ends)
	}
	return r
}
