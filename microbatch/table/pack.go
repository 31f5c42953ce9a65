package table

import (
	"encoding/binary"
	"fmt"
)

// packer writes blocks.
type packer struct {
	same, rest []uint32
	plain      []bool // of the fns before
}

// pack appends the block of the first n rows to dst. Keys that do not ascend are
// an error.
func (p *packer) pack(dst []byte, r *rows, n int) ([]byte, error) {
	p.same, p.rest, p.plain = sized(p.same, n), sized(p.rest, n), p.plain[:0]
	base := len(dst)
	dst = extend(dst, 4*(2+len(r.accs)))
	binary.LittleEndian.PutUint32(dst[base:], uint32(n))
	begin := len(dst)
	dst, err := p.keys(dst, r, n)
	if err != nil {
		return nil, err
	}
	for f := range r.accs {
		binary.LittleEndian.PutUint32(dst[base+4*(1+f):], uint32(len(dst)-begin))
		begin = len(dst)
		dst = p.accs(dst, r, f, n)
	}
	binary.LittleEndian.PutUint32(dst[base+4*(1+len(r.accs)):], uint32(len(dst)-begin))
	return dst, nil
}

// sized is s with n entries of any content.
func sized(s []uint32, n int) []uint32 {
	if n > cap(s) {
		return make([]uint32, n)
	}
	return s[:n]
}

func (p *packer) keys(dst []byte, r *rows, n int) ([]byte, error) {
	var last []byte
	for i := range n {
		key := r.key(i)
		same := shared(last, key)
		if i > 0 && (same == len(key) || same < len(last) && key[same] < last[same]) {
			return nil, unordered(key, last)
		}
		p.same[i], p.rest[i] = uint32(same), uint32(len(key)-same)
		last = key
	}
	dst = appendLengths(appendLengths(dst, p.same), p.rest)
	for i, same := range p.same {
		dst = append(dst, r.key(i)[same:]...)
	}
	return dst, nil
}

func unordered(key, last []byte) error { return fmt.Errorf("key %x does not come after %x", key, last) }

func (p *packer) accs(dst []byte, r *rows, f, n int) []byte {
	accs, ends := r.accs[f], r.ends[f][:n]
	of := p.beside(r, f, n)
	p.plain = append(p.plain, of < 0)
	at := 0
	if of >= 0 {
		dst = binary.AppendUvarint(append(dst, formBeside), uint64(of))
		dst = appendLengths(appendLengths(dst, p.same), p.rest)
		for i, same := range p.same {
			dst = append(dst, accs[at+int(same):ends[i]]...)
			at = ends[i]
		}
		return dst
	}
	for i, end := range ends {
		p.rest[i] = uint32(end - at)
		at = end
	}
	return append(appendLengths(append(dst, formPlain), p.rest), accs[:at]...)
}

// Accumulators of ranks begin with what the others of their row begin with.
const (
	besideLeast  = 8  // bytes of an accumulator, on average
	besideGain   = 4  // bytes that one must share, on average
	besideSample = 16 // rows
)

// beside is the fn that fn f stands beside in the block of the first n rows, and
// sets the lengths of what is shared; it is negative where f stands as it is. Of
// the fns before f that stand as they are it is the one with which f shares most
// in the first rows, the first of equals, if that is anything at all. Both have
// no less than besideLeast bytes a row, and f shares no less than besideGain.
func (p *packer) beside(r *rows, f, n int) int {
	if r.ends[f][n-1] < besideLeast*n {
		return -1
	}
	of, most := -1, 0
	for g, plain := range p.plain {
		if !plain || r.ends[g][n-1] < besideLeast*n {
			continue
		}
		if same := p.share(r, g, f, min(n, besideSample)); same > most {
			of, most = g, same
		}
	}
	if of >= 0 && p.share(r, of, f, n) < besideGain*n {
		return -1
	}
	return of
}

// share sets the lengths of what fn f shares with fn g in the first n rows, and
// returns the sum of what it shares.
func (p *packer) share(r *rows, g, f, n int) (sum int) {
	was, at := 0, 0
	for i := range n {
		acc := r.accs[f][at:r.ends[f][i]]
		same := shared(r.accs[g][was:r.ends[g][i]], acc)
		p.same[i], p.rest[i] = uint32(same), uint32(len(acc)-same)
		sum += same
		was, at = r.ends[g][i], r.ends[f][i]
	}
	return sum
}
