package window

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// kept is a column of kept documents, by group.
type kept struct {
	// v has a row for each group. Of nested types, which cannot be overwritten,
	// it has those that were set, one after the other, and at says where.
	v  *column.Vector
	at []uint32 // by group: its row in v plus one
	// Texts share allocations of which all stays while one of them does: held is
	// what was taken in since they were last copied, live what is in use.
	held, live int64
}

// textSlack is how much of texts that are no longer in use is always let be.
const textSlack = 64 << 10

func newKept(t column.Type) *kept { return &kept{v: column.New(t)} }

func nested(t column.Type) bool { return t.Kind == column.List || t.Kind == column.Struct }

// lengthen adds zeros up to n.
func lengthen[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n > cap(s) {
		s = slices.Grow(s, max(n, len(s)+len(s)/4)-len(s))
	}
	from := len(s)
	s = s[:n]
	clear(s[from:])
	return s
}

// grow makes room for n groups.
func (k *kept) grow(n int) {
	v := k.v
	if nested(v.Type) {
		k.at = lengthen(k.at, n)
		return
	}
	if n <= v.Len() {
		return
	}
	switch v.Type.Kind {
	case column.Bool:
		v.Bools = lengthen(v.Bools, n)
	case column.Int32, column.Int64, column.Date, column.Time:
		v.Ints = lengthen(v.Ints, n)
	case column.Timestamp:
		v.Ints, v.Nanos = lengthen(v.Ints, n), lengthen(v.Nanos, n)
	case column.Float32, column.Float64:
		v.Floats = lengthen(v.Floats, n)
	case column.Decimal:
		v.Decimals = lengthen(v.Decimals, n)
	case column.String, column.Bytes:
		v.Strings = lengthen(v.Strings, n)
	}
	if v.Valid != nil {
		v.Valid = lengthen(v.Valid, n)
	}
	v.SetLen(n)
}

// set makes row i of src that of groups[i].
func (k *kept) set(groups []uint32, src *column.Vector) error {
	v := k.v
	switch v.Type.Kind {
	case column.Null:
		return nil
	case column.List, column.Struct:
		return k.setNested(groups, src)
	case column.Bool:
		scatter(v.Bools, groups, src.Bools)
	case column.Int32, column.Int64, column.Date, column.Time:
		scatter(v.Ints, groups, src.Ints)
	case column.Timestamp:
		scatter(v.Ints, groups, src.Ints)
		scatter(v.Nanos, groups, src.Nanos)
	case column.Float32, column.Float64:
		scatter(v.Floats, groups, src.Floats)
	case column.Decimal:
		scatter(v.Decimals, groups, src.Decimals)
	case column.String, column.Bytes:
		k.setTexts(groups, src)
	}
	if src.Valid != nil && v.Valid == nil {
		v.Valid = slices.Repeat([]bool{true}, v.Len())
	}
	if v.Valid != nil {
		for i, g := range groups {
			v.Valid[g] = src.Valid == nil || src.Valid[i]
		}
	}
	return nil
}

func scatter[T any](dst []T, groups []uint32, src []T) {
	for i, g := range groups {
		dst[g] = src[i]
	}
}

func (k *kept) setTexts(groups []uint32, src *column.Vector) {
	for i, g := range groups {
		s := src.Strings[i]
		k.live += int64(len(s) - len(k.v.Strings[g]))
		k.held += int64(len(s))
		k.v.Strings[g] = s
	}
}

func (k *kept) setNested(groups []uint32, src *column.Vector) error {
	for i, g := range groups {
		if err := k.v.AppendFrom(src, i); err != nil {
			return fmt.Errorf("keep a value: %w", err)
		}
		k.at[g] = uint32(k.v.Len())
	}
	k.held += textBytes(src)
	return nil
}

// append adds the rows of the groups to dst.
func (k *kept) append(dst *column.Vector, groups []uint32) error {
	v := k.v
	switch v.Type.Kind {
	case column.Null:
		for range groups {
			dst.AppendNull()
		}
		return nil
	case column.List, column.Struct:
		for _, g := range groups {
			if err := dst.AppendFrom(v, int(k.at[g])-1); err != nil {
				return fmt.Errorf("use a kept value: %w", err)
			}
		}
		return nil
	case column.Bool:
		dst.Bools = gather(dst.Bools, v.Bools, groups)
	case column.Int32, column.Int64, column.Date, column.Time:
		dst.Ints = gather(dst.Ints, v.Ints, groups)
	case column.Timestamp:
		dst.Ints, dst.Nanos = gather(dst.Ints, v.Ints, groups), gather(dst.Nanos, v.Nanos, groups)
	case column.Float32, column.Float64:
		dst.Floats = gather(dst.Floats, v.Floats, groups)
	case column.Decimal:
		dst.Decimals = gather(dst.Decimals, v.Decimals, groups)
	case column.String, column.Bytes:
		dst.Strings = gather(dst.Strings, v.Strings, groups)
	}
	n := dst.Len()
	if v.Valid != nil && dst.Valid == nil {
		dst.Valid = slices.Repeat([]bool{true}, n)
	}
	switch {
	case v.Valid != nil:
		dst.Valid = gather(dst.Valid, v.Valid, groups)
	case dst.Valid != nil:
		dst.Valid = append(dst.Valid, slices.Repeat([]bool{true}, len(groups))...)
	}
	dst.SetLen(n + len(groups))
	return nil
}

func gather[T any](dst, src []T, groups []uint32) []T {
	n := len(dst)
	dst = slices.Grow(dst, len(groups))[:n+len(groups)]
	out := dst[n:]
	for i, g := range groups {
		out[i] = src[g]
	}
	return dst
}

// compact gives back what values that were replaced take, once it is more than
// what is in use takes.
func (k *kept) compact() error {
	if nested(k.v.Type) {
		if k.v.Len() <= 2*len(k.at)+foldBlock {
			return nil
		}
		v := column.New(k.v.Type)
		for g, at := range k.at {
			if at == 0 {
				continue
			}
			if err := v.AppendFrom(k.v, int(at)-1); err != nil {
				return fmt.Errorf("keep a value: %w", err)
			}
			k.at[g] = uint32(v.Len())
		}
		cloneTexts(v)
		k.v, k.held = v, textBytes(v)
		return nil
	}
	if k.held > 2*k.live+textSlack {
		cloneTexts(k.v)
		k.held = k.live
	}
	return nil
}

// cloneTexts copies the texts of a vector into allocations that hold nothing
// else.
func cloneTexts(v *column.Vector) {
	const together = 1 << 20
	for from := 0; from < len(v.Strings); {
		to, n := from, 0
		for to < len(v.Strings) && n < together {
			n += len(v.Strings[to])
			to++
		}
		var b strings.Builder
		b.Grow(n)
		for _, s := range v.Strings[from:to] {
			b.WriteString(s)
		}
		all := b.String()
		for i, s := range v.Strings[from:to] {
			v.Strings[from+i], all = all[:len(s)], all[len(s):]
		}
		from = to
	}
	if v.Elem != nil {
		cloneTexts(v.Elem)
	}
	for _, f := range v.Fields {
		cloneTexts(f)
	}
}

// textBytes is how long the texts of a vector are.
func textBytes(v *column.Vector) (n int64) {
	for _, s := range v.Strings {
		n += int64(len(s))
	}
	if v.Elem != nil {
		n += textBytes(v.Elem)
	}
	for _, f := range v.Fields {
		n += textBytes(f)
	}
	return n
}

// bytes is the memory held.
func (k *kept) bytes() int64 { return int64(4*cap(k.at)) + vectorBytes(k.v) + k.held }

// vectorBytes is the memory that the rows of a vector take but for the texts.
func vectorBytes(v *column.Vector) int64 {
	n := int64(cap(v.Valid) + cap(v.Bools) + 8*cap(v.Ints) + 4*cap(v.Nanos) + 8*cap(v.Floats) + 16*cap(v.Decimals) + 16*cap(v.Strings) + 4*cap(v.Offsets))
	if v.Elem != nil {
		n += vectorBytes(v.Elem)
	}
	for _, f := range v.Fields {
		n += vectorBytes(f)
	}
	return n
}
