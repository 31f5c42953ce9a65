package parquet

import "encoding/binary"

// appendIDs appends numbers of width bits in the hybrid encoding: eights that are all one number as runs, others packed, and what is left
// of less than eight as runs. The library's encoder cuts packed stretches where the two halves of an eight are each of one number, but
// only with AVX2: files would depend on the processor.
func appendIDs(dst []byte, ids []int32, width int) []byte {
	eights := len(ids) / 8
	for i := 0; i < eights; {
		j := i
		for j < eights && alike(ids[8*j:8*j+8], ids[8*i]) {
			j++
		}
		if j > i {
			dst = appendRun(dst, 8*(j-i), ids[8*i], width)
			i = j
			continue
		}
		for j++; j < eights && !alike(ids[8*j:8*j+8], ids[8*j]); {
			j++
		}
		dst = binary.AppendUvarint(dst, uint64(j-i)<<1|1)
		dst = appendPacked(dst, ids[8*i:8*j], width)
		i = j
	}
	for rest := ids[8*eights:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n] == rest[0] {
			n++
		}
		dst = appendRun(dst, n, rest[0], width)
		rest = rest[n:]
	}
	return dst
}

func alike(ids []int32, as int32) bool {
	for _, id := range ids {
		if id != as {
			return false
		}
	}
	return true
}

func appendRun(dst []byte, n int, id int32, width int) []byte {
	dst = binary.AppendUvarint(dst, uint64(n)<<1)
	for ; width > 0; width -= 8 {
		dst = append(dst, byte(id))
		id >>= 8
	}
	return dst
}

// appendPacked appends a whole number of eights, the least bit first.
func appendPacked(dst []byte, ids []int32, width int) []byte {
	var held uint64
	n := 0
	for _, id := range ids {
		held |= uint64(uint32(id)) << n
		for n += width; n >= 8; n -= 8 {
			dst = append(dst, byte(held))
			held >>= 8
		}
	}
	return dst
}
