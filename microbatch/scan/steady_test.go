package scan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// What is done for every value is done fast: here it is held to what is slow
// and plain, and to taking no memory.

func TestBitsAreUnpackedEightAtATimeAsOneByOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		width := uint(rapid.IntRange(0, 32).Draw(rt, "width"))
		bits := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(rt, "bits")
		behind := rapid.IntRange(0, len(bits)).Draw(rt, "behind") // in memory, not in the run
		bits = bits[:len(bits)-behind]
		fast, slow := hybrid{width: width, bits: bits}, hybrid{width: width, bits: slices.Clip(slices.Clone(bits))}
		for left := len(bits) * 8; left > 0; {
			n := rapid.IntRange(0, 70).Draw(rt, "values")
			if n*int(width) > left {
				break
			}
			got, want := make([]uint32, n), make([]uint32, n)
			fast.unpack(got)
			slow.unpackEach(want)
			if !slices.Equal(got, want) || fast.bit != slow.bit {
				rt.Fatalf("%d bits each: %v to bit %d, one by one %v to bit %d", width, got, fast.bit, want, slow.bit)
			}
			left -= max(1, n*int(width))
		}
	})
}

func TestPlainWordsAreCopied(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "page")
		from := rapid.IntRange(0, len(b)).Draw(rt, "from") // at any alignment
		ints, floats := &plain64{b: b[from:]}, &plain64{b: b[from:]}
		for at := from; ; {
			n := rapid.IntRange(0, 9).Draw(rt, "values")
			i, f := make([]int64, n), make([]float64, n)
			errInts, errFloats := ints.ints(i), floats.floats(f)
			if short := (len(b)-at)/8 < n; (errInts != nil) != short || (errFloats != nil) != short {
				rt.Fatalf("%d values of %d bytes: %v, %v", n, len(b)-at, errInts, errFloats)
			} else if short {
				return
			}
			for k := range n {
				want := binary.LittleEndian.Uint64(b[at:])
				if uint64(i[k]) != want || math.Float64bits(f[k]) != want {
					rt.Fatalf("%#x is read as %#x and %#x", want, i[k], math.Float64bits(f[k]))
				}
				at += 8
			}
			if n == 0 && rapid.Bool().Draw(rt, "enough") {
				return
			}
		}
	})
}

func TestFixedDecimalsAreReadByWordsAsOneByOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(rt, "size")
		b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "page")
		if size > 16 { // beyond 128 bits is an error
			for i := range b {
				b[i] = byte(int8(b[i]) >> 7)
			}
		}
		lt := leafType{typ: column.DecimalOf(38, 2), conv: toDecimal}
		src, err := newSource(&node{schemaElement: &schemaElement{phys: physFixed, length: int32(size)}}, lt, encPlain, b, nil, 1<<20, &work{})
		if err != nil {
			rt.Fatal(err)
		}
		v := column.New(lt.typ)
		var want []column.Int128
		for at := 0; ; {
			n := rapid.IntRange(0, 9).Draw(rt, "values")
			err := src.appendTo(v, n)
			if short := (len(b)-at)/size < n; short {
				if err == nil {
					rt.Fatalf("%d values of %d bytes in %d", n, size, len(b)-at)
				}
				return
			}
			for range n {
				d, wrong := decimalOf(string(b[at : at+size]))
				if wrong != nil {
					if err == nil {
						rt.Fatalf("%x is read: %v", b[at:at+size], wrong)
					}
					return
				}
				want, at = append(want, d), at+size
			}
			if err != nil || !slices.Equal(v.Decimals, want) || v.Len() != len(want) {
				rt.Fatalf("%x is read as %v, which is %v (%v)", b[:at], v.Decimals, want, err)
			}
			if n == 0 && rapid.Bool().Draw(rt, "enough") {
				return
			}
		}
	})
}

func TestInt96IsReadValueByValue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "page")
		lt := leafType{typ: column.Of(column.Timestamp), conv: fromInt96}
		src, err := newSource(&node{schemaElement: &schemaElement{phys: physInt96}}, lt, encPlain, b, nil, 1<<20, &work{})
		if err != nil {
			rt.Fatal(err)
		}
		v := column.New(lt.typ)
		for range 5 {
			n := rapid.IntRange(0, 9).Draw(rt, "values")
			before := v.Len()
			err := src.appendTo(v, n)
			if short := len(b)/12-before < n; short != (err != nil) {
				rt.Fatalf("%d values of %d bytes after %d: %v", n, len(b), before, err)
			} else if short {
				break
			}
		}
		for i := range v.Len() {
			day, nanos := int64(int32(binary.LittleEndian.Uint32(b[12*i+8:]))), big.NewInt(int64(binary.LittleEndian.Uint64(b[12*i:])))
			want := nanos.Add(nanos, new(big.Int).Mul(big.NewInt(day-2440588), big.NewInt(86400e9)))
			got := new(big.Int).Mul(big.NewInt(v.Ints[i]), big.NewInt(1e9))
			if got.Add(got, big.NewInt(int64(v.Nanos[i]))); got.Cmp(want) != 0 || v.Nanos[i] < 0 || v.Nanos[i] >= 1e9 {
				rt.Fatalf("%x is %d s and %d ns, which is not %s ns", b[12*i:12*i+12], v.Ints[i], v.Nanos[i], want)
			}
		}
	})
}

func TestTextIsValidWhereverItStands(t *testing.T) {
	texts := rapid.SliceOf(rapid.OneOf(rapid.StringN(0, 300, -1), rapid.StringMatching(`[a-z]{0,9}`),
		rapid.Just("\xc3"), rapid.Just("a\xff"), rapid.Just("\xed\xa0\x80")))
	rapid.Check(t, func(rt *rapid.T) {
		values := texts.Draw(rt, "values")
		lt := leafType{typ: column.Of(column.String), conv: toText}
		src, err := newSource(&node{schemaElement: &schemaElement{phys: physBytes}}, lt, encPlain, byteArrays(values...), nil, 1<<20, &work{})
		if err != nil {
			rt.Fatal(err)
		}
		v := column.New(lt.typ)
		for at := 0; at < len(values); {
			n := rapid.IntRange(1, len(values)-at).Draw(rt, "values")
			err := src.appendTo(v, n)
			valid := !slices.ContainsFunc(values[at:at+n], func(s string) bool { return !utf8.ValidString(s) })
			if valid != (err == nil) {
				rt.Fatalf("%q: %v", values[at:at+n], err)
			}
			if at += n; !valid {
				return
			}
			if !slices.Equal(v.Strings, values[:at]) {
				rt.Fatalf("%q is read as %q", values[:at], v.Strings)
			}
		}
	})
}

func TestShortDecimalsAreRoundedAsLongOnes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,16})\.[0-9]{1,17}`).Draw(rt, "literal")
		i, f, kind := parseNumber([]byte(s))
		want, err := strconv.ParseFloat(s, 64)
		if err != nil || kind != isFloat || i != 0 || math.Float64bits(f) != math.Float64bits(want) {
			rt.Fatalf("%s is read as %v (%v), which is %v", s, f, kind, want)
		}
	})
}

// TestTextWithScratchIsTheSame: memory that was used for texts before shows
// nowhere, whether the scans before it ended or not.
func TestTextWithScratchIsTheSame(t *testing.T) {
	scratch := &Scratch{}
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		lengths := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 7, 40, 3000, 9000, 40_000}), 0, 60).Draw(rt, "texts")
		for i, n := range lengths {
			line := fmt.Sprintf(`{"s":%q,"n":%d,"x":[%q]}`+"\n", strings.Repeat(string(rune('a'+i%26)), n), i, fmt.Sprint("item ", i))
			b.WriteString(strings.Repeat(line, 1+3000/(n+10)))
			if rapid.IntRange(0, 40).Draw(rt, "bad") == 0 {
				b.WriteString("{\n")
			}
		}
		req := Request{Format: NDJSON, Columns: paths("s", "n", "x"), Row: rapid.SampledFrom([]RowPolicy{Fail, Reject}).Draw(rt, "row")}
		data := []byte(b.String())
		switch rapid.IntRange(0, 2).Draw(rt, "compressed") {
		case 1:
			data = gz(t, b.String())
		case 2:
			data = zst(t, b.String())
		}
		if len(data) > 0 && rapid.IntRange(0, 5).Draw(rt, "damaged") == 0 {
			data = data[:rapid.IntRange(0, len(data)-1).Draw(rt, "bytes")]
		}
		want, _, wrong := rows(&memBlob{key: "f", data: data}, req)
		req.Scratch = scratch
		got, _, err := rows(&memBlob{key: "f", data: data}, req)
		if fmt.Sprint(err) != fmt.Sprint(wrong) || !slices.Equal(got, want) {
			rt.Fatalf("%d rows, %v, without scratch memory %d, %v", len(got), err, len(want), wrong)
		}
	})
}

// steadyRow has a column of every kind of decoder that ordinary files need.
type steadyRow struct {
	Wide    int64   `parquet:"wide"`
	Narrow  int32   `parquet:"narrow"`
	Coded   int64   `parquet:"coded,dict"`
	Price   float64 `parquet:"price"`
	Cost    int64   `parquet:"cost,decimal(2:18)"`
	At      int64   `parquet:"at,timestamp(microsecond)"`
	Title   string  `parquet:"title,plain"`
	Status  string  `parquet:"status,dict"`
	Maybe   *int64  `parquet:"maybe,optional"`
	Perhaps *string `parquet:"perhaps,optional,dict"`
	Delta   int64   `parquet:"delta,delta"`
	Split   float64 `parquet:"split,split"`
}

func steadyFile(t testing.TB, rows int) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[steadyRow](&buf, parquet.PageBufferSize(16<<20), parquet.Compression(&parquet.Zstd))
	for i := range rows {
		n := int64(i)
		r := steadyRow{Wide: n * 7919, Narrow: int32(i), Coded: n % 11, Price: float64(i) / 4, Cost: n, At: n * 1001, Title: fmt.Sprint("é"[:i%2*2], i),
			Status: fmt.Sprint(i % 9), Delta: n * n, Split: float64(i)}
		if s := fmt.Sprint(i % 7); i%3 > 0 {
			r.Maybe, r.Perhaps = &n, &s
		}
		if _, err := w.Write([]steadyRow{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSteadyBatchesTakeNoMemory(t *testing.T) {
	f, err := openParquet(t.Context(), &memBlob{key: "f", data: steadyFile(t, 40*batchRows)}, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Limits: f.lim, Scratch: &Scratch{},
		Columns: paths("wide", "narrow", "coded", "price", "cost", "at", "title", "status", "maybe", "perhaps", "delta", "split")}
	sources, _, err := f.plan(req)
	if err != nil {
		t.Fatal(err)
	}
	r := &groupReader{parquetFile: f, ctx: t.Context(), sources: sources, scratch: req.Scratch, batch: &column.Batch{}}
	defer r.close(req)
	if err := r.columns(req); err != nil {
		t.Fatal(err)
	}
	groups := 0
	err = f.groups(f.leaves, r.wanted, func(_ int, g rowGroup) error {
		groups++
		chunks := r.chunks(g, nil)
		for _, l := range r.readers {
			if err := l.open(chunks[l.node.leaf], g.chunks[l.node.leaf]); err != nil {
				return err
			}
			if len(l.pages) != 1 {
				t.Fatalf("column %s has %d pages: a steady state has one", joinPath(l.node.path), len(l.pages))
			}
		}
		for range 2 { // the first makes the memory
			if err := r.fill(batchRows); err != nil {
				return err
			}
		}
		for i, s := range r.sources {
			v := r.batch.Columns[i]
			if n := testing.AllocsPerRun(2, func() {
				v.Reset()
				if err := s.fill(v, batchRows); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("column %s: %v allocations a batch", joinPath(s.leaf.node.path), n)
			}
		}
		return nil
	})
	if err != nil || groups != 1 {
		t.Fatal(groups, err)
	}
}

// TestScansLeaveTheirMemory: the second scan of a file takes next to nothing.
func TestScansLeaveTheirMemory(t *testing.T) {
	blob := &memBlob{key: "f", data: steadyFile(t, 3*batchRows)}
	req := Request{Format: Parquet, Scratch: &Scratch{}, Columns: paths("wide", "narrow", "price", "cost", "at", "title", "maybe")}
	scan := func() {
		if res, err := Scan(t.Context(), blob, req, func(*column.Batch) error { return nil }); err != nil || res.Rows != 3*batchRows {
			t.Fatal(res, err)
		}
	}
	scan()
	const scans = 4
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range scans {
		scan()
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / scans; n > 128<<10 { // the vectors alone are more
		t.Errorf("%d bytes a scan", n)
	}
}
