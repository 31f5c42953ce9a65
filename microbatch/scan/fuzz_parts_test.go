package scan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go"
)

// The parts of a Parquet file, each by itself: a mutated whole file fails at
// its first checksum and seldom gets this far.

// FuzzFooter: any metadata is an error or a schema and row groups, and what it
// holds stands in its bytes.
func FuzzFooter(f *testing.F) {
	for _, data := range [][]byte{small(f), small(f, parquet.MaxRowsPerRowGroup(7)), writeAll(f, 1, 3, &parquet.Uncompressed, 2, 0.5).data} {
		n := int(uint32(data[len(data)-8]) | uint32(data[len(data)-7])<<8 | uint32(data[len(data)-6])<<16)
		f.Add(data[len(data)-8-n : len(data)-8])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		foot, err := parseFooter(raw)
		if err != nil {
			return
		}
		if len(foot.elements) > len(raw) {
			t.Fatalf("%d schema elements in %d bytes", len(foot.elements), len(raw))
		}
		_, leaves, err := parseSchema(foot.elements)
		if err != nil {
			return
		}
		wanted := map[int]bool{}
		for i := range min(leaves, 16) {
			wanted[i] = true
		}
		groups := 0
		err = foot.groups(leaves, wanted, func(_ int, g rowGroup) error {
			if groups++; g.rows < 0 || len(g.chunks) > len(wanted) {
				t.Fatalf("a group of %d rows with %d chunks of %d", g.rows, len(g.chunks), len(wanted))
			}
			return nil
		})
		if err == nil && groups > len(raw) {
			t.Fatalf("%d groups in %d bytes", groups, len(raw))
		}
	})
}

// FuzzPages: any chunk is an error or pages that lie in it and together have
// its values.
func FuzzPages(f *testing.F) {
	body := append(rleLevels(1, 1), le32(1, 2)...)
	p := dataPage(2, body)
	f.Add(append(marshal(f, &p.header), body...), int64(2))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, chunk []byte, values int64) {
		_, pages, err := walkPages(chunk, &chunkMeta{values: values}, 1<<20)
		if err != nil {
			return
		}
		var sum int64
		size := 0
		for _, p := range pages {
			sum += int64(p.values)
			size += len(p.body)
		}
		if sum != values || size > len(chunk) {
			t.Fatalf("pages with %d values in %d bytes, the chunk has %d in %d", sum, size, values, len(chunk))
		}
	})
}

// FuzzValues: a page of any encoding and type is an error or values, and they
// do not depend on how many are asked for at a time.
func FuzzValues(f *testing.F) {
	for encoding := range byte(10) {
		for phys := range byte(8) {
			f.Add(phys, byte(0), encoding, byte(3), byte(4), []byte{128, 1, 4, 7, 2, 1, 1, 1, 1, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 4})
		}
	}
	f.Add(byte(physFixed), byte(convDecimal+1), byte(encPlain), byte(4), byte(2), []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(byte(physInt64), byte(convStampMillis+1), byte(encDeltaBinary), byte(0), byte(9), []byte{128, 1, 4, 9, 2, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, phys, converted, encoding, length, count byte, body []byte) {
		e := &schemaElement{phys: int32(phys % 8), length: int32(length), converted: int32(converted%23) - 1, precision: 9, scale: 2}
		lt, err := e.leafType()
		if err != nil {
			return
		}
		n := &node{schemaElement: e}
		var dict *column.Vector
		if encoding == encDictionary || encoding == encPlainDictionary {
			if dict = column.New(lt.typ); lt.conv == nothing {
				return
			}
			for range 1 + int(length)%7 {
				dict.AppendNull() // its storage has a value
			}
			dict.Valid = nil
		}
		all, err := inSteps(n, lt, int32(encoding), body, dict, []int{int(count)})
		some, errSome := inSteps(n, lt, int32(encoding), body, dict, []int{int(count) / 3, 0, int(count) - int(count)/3})
		if (err == nil) != (errSome == nil) {
			t.Fatalf("at once %v, in steps %v", err, errSome)
		}
		if err == nil && (len(all) != int(count) || !slices.Equal(all, some)) {
			t.Fatalf("%d values at once %v, in steps %v", count, all, some)
		}
	})
}

// inSteps reads a page's values, so many at a time.
func inSteps(n *node, lt leafType, encoding int32, body []byte, dict *column.Vector, steps []int) ([]string, error) {
	src, err := newSource(n, lt, encoding, body, dict, 1<<16, &work{})
	if err != nil {
		return nil, err
	}
	v := column.New(lt.typ)
	for _, s := range steps {
		if err := src.appendTo(v, s); err != nil {
			return nil, err
		}
	}
	var out []string
	for i := range v.Len() {
		out = append(out, show(v, i))
	}
	return out, nil
}

// FuzzLevels: runs are an error or levels within bounds, and they do not
// depend on how many are asked for at a time.
func FuzzLevels(f *testing.F) {
	f.Add(byte(3), uint16(9), []byte{6, 2, 3, 0x1b, 0x1b})
	f.Add(byte(1), uint16(2000), []byte{0xa1, 0x1f, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, most byte, count uint16, in []byte) {
		most %= maxLevels + 1
		width := uint(0)
		for most>>width > 0 {
			width++
		}
		read := func(steps ...int) ([]uint8, error) {
			l := levels{h: newHybrid(in, width), most: most}
			var out []uint8
			for _, s := range steps {
				part := make([]uint8, s)
				if err := l.read(part); err != nil {
					return nil, err
				}
				out = append(out, part...)
			}
			return out, nil
		}
		n := int(count)
		all, err := read(n)
		some, errSome := read(n/5, n/5, n-2*(n/5))
		if (err == nil) != (errSome == nil) || !slices.Equal(all, some) {
			t.Fatalf("at once %v %v, in steps %v %v", all, err, some, errSome)
		}
		if len(all) > 0 && slices.Max(all) > most {
			t.Fatalf("level %d above %d", slices.Max(all), most)
		}
	})
}

// FuzzInflate: any bytes are an error or a page of the size asked for, in the
// memory given.
func FuzzInflate(f *testing.F) {
	for codec := range byte(8) {
		f.Add(codec, uint16(8), []byte{8, 28, 1, 2, 3, 4, 5, 6, 7, 8})
	}
	f.Add(byte(codecGzip), uint16(3), gz(f, "abc"))
	f.Add(byte(codecZstd), uint16(3), zst(f, "abc"))
	f.Add(byte(codecLZ4Raw), uint16(3), []byte{0x30, 'a', 'b', 'c'})
	f.Fuzz(func(t *testing.T, codec byte, size uint16, src []byte) {
		i := inflater{limit: 1 << 16}
		defer i.close()
		const guard = "behind the page"
		room := append(make([]byte, size), guard...)
		err := i.inflate(int32(codec%9), room[:size:size], src)
		if string(room[size:]) != guard {
			t.Fatalf("codec %d wrote beyond its page", codec%9)
		}
		again := make([]byte, size)
		if errAgain := i.inflate(int32(codec%9), again, src); fmt.Sprint(errAgain) != fmt.Sprint(err) || err == nil && !slices.Equal(again, room[:size]) {
			t.Fatalf("codec %d: %q, %v, and a second time %q, %v", codec%9, room[:size], err, again, errAgain)
		}
		ample := append(make([]byte, int(size)+slack), guard...)
		if errAmple := i.inflate(int32(codec%9), ample[:size:int(size)+slack], src); (errAmple == nil) != (err == nil) || err == nil && !slices.Equal(again, ample[:size]) {
			t.Fatalf("codec %d: %q, %v, and with slack %q, %v", codec%9, room[:size], err, ample[:size], errAmple)
		}
		if string(ample[int(size)+slack:]) != guard {
			t.Fatalf("codec %d wrote beyond its slack", codec%9)
		}
	})
}
