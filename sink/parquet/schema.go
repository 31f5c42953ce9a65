package parquet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	pq "github.com/parquet-go/parquet-go"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
)

// SchemaFields is the schema as a manifest lists it.
func SchemaFields(fields []column.Field) sink.Schema {
	s := sink.Schema{Hash: SchemaHash(fields), Fields: make([]sink.SchemaField, len(fields))}
	for i, f := range fields {
		s.Fields[i] = sink.SchemaField{Name: f.Name, Type: f.Type.String(), Key: f.Key}
	}
	return s
}

// Fields reads back what SchemaFields wrote, or says which column has an unknown type or that the hash is another.
func Fields(s sink.Schema) ([]column.Field, error) {
	fields := make([]column.Field, len(s.Fields))
	for i, f := range s.Fields {
		t, err := ParseType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("schema column %s: %w", f.Name, err)
		}
		fields[i] = column.Field{Name: f.Name, Type: t, Key: f.Key}
	}
	if got := SchemaHash(fields); got != s.Hash {
		return nil, fmt.Errorf("schema hash %s, its columns hash to %s", s.Hash, got)
	}
	return fields, nil
}

// SchemaHash is the lower-case hexadecimal SHA-256 over names, types and key marks, in order.
func SchemaHash(fields []column.Field) string {
	h := sha256.New()
	for _, f := range fields {
		_, _ = fmt.Fprintf(h, "%d:%s %s %t\n", len(f.Name), f.Name, f.Type, f.Key)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// KeyFields are the key columns of a schema, in order: the schema of a tombstones file.
func KeyFields(fields []column.Field) []column.Field {
	var out []column.Field
	for _, f := range fields {
		if f.Key {
			out = append(out, f)
		}
	}
	return out
}

// ParseType reads the name a type has in manifests, the inverse of column.Type.String. Field names of structs must be free of the
// characters : , < and >.
func ParseType(s string) (column.Type, error) {
	t, rest, err := parseType(s, 0)
	if err == nil && rest != "" {
		err = fmt.Errorf("%q follows a complete type", rest)
	}
	if err != nil {
		return column.Type{}, fmt.Errorf("parse type %q: %w", s, err)
	}
	return t, nil
}

const maxTypeDepth = 32

func parseType(s string, depth int) (column.Type, string, error) {
	if depth > maxTypeDepth {
		return column.Type{}, "", fmt.Errorf("nested more than %d deep", maxTypeDepth)
	}
	if rest, ok := strings.CutPrefix(s, "list<"); ok {
		elem, rest, err := parseType(rest, depth+1)
		if err != nil {
			return column.Type{}, "", err
		}
		if rest, ok = strings.CutPrefix(rest, ">"); !ok {
			return column.Type{}, "", fmt.Errorf("list is not closed")
		}
		return column.ListOf(elem), rest, nil
	}
	if rest, ok := strings.CutPrefix(s, "struct<"); ok {
		return parseStruct(rest, depth)
	}
	end := strings.IndexAny(s, ",>(")
	if end >= 0 && s[end] == '(' {
		return parseDecimal(s)
	}
	if end < 0 {
		end = len(s)
	}
	for k := column.Null; k <= column.Timestamp; k++ {
		if k != column.Decimal && k.String() == s[:end] {
			return column.Of(k), s[end:], nil
		}
	}
	return column.Type{}, "", fmt.Errorf("unknown type %q", s[:end])
}

func parseStruct(s string, depth int) (column.Type, string, error) {
	var fields []column.Field
	for {
		if rest, ok := strings.CutPrefix(s, ">"); ok && len(fields) == 0 {
			return column.StructOf(), rest, nil
		}
		name, rest, ok := strings.Cut(s, ":")
		if !ok || name == "" || strings.ContainsAny(name, ",<>") {
			return column.Type{}, "", fmt.Errorf("struct field without a name at %q", s)
		}
		t, rest, err := parseType(rest, depth+1)
		if err != nil {
			return column.Type{}, "", err
		}
		fields = append(fields, column.Field{Name: name, Type: t})
		if rest == "" || rest[0] != ',' && rest[0] != '>' {
			return column.Type{}, "", fmt.Errorf("struct is not closed")
		}
		if s = rest[1:]; rest[0] == '>' {
			return column.StructOf(fields...), s, nil
		}
	}
}

func parseDecimal(s string) (column.Type, string, error) {
	args, ok := strings.CutPrefix(s, "decimal(")
	body, rest, closed := strings.Cut(args, ")")
	p, q, two := strings.Cut(body, ",")
	precision, err1 := strconv.ParseUint(p, 10, 8)
	scale, err2 := strconv.ParseUint(q, 10, 8)
	if !ok || !closed || !two || err1 != nil || err2 != nil || precision < 1 || precision > 38 || scale > precision {
		return column.Type{}, "", fmt.Errorf("not a decimal of at most 38 digits: %q", s)
	}
	return column.DecimalOf(int(precision), int(scale)), rest, nil
}

// CheckFields says why documents of this schema cannot be written: no key, a key that is a list, struct or of unknown type, a name twice
// or empty, names that ParseType could not read back.
func CheckFields(fields []column.Field) error {
	names, keys := map[string]bool{}, 0
	for i, f := range fields {
		if f.Name == "" || names[f.Name] {
			return fmt.Errorf("column %d: name %q is empty or taken", i, f.Name)
		}
		names[f.Name] = true
		if f.Key {
			keys++
			if k := f.Type.Kind; k == column.Null || k == column.List || k == column.Struct {
				return fmt.Errorf("key column %s: a %s cannot be a key", f.Name, f.Type)
			}
		}
		if err := checkStructs(f.Type); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
		if back, err := ParseType(f.Type.String()); err != nil || !back.Equal(f.Type) {
			return fmt.Errorf("column %s: type %s cannot be written", f.Name, f.Type)
		}
	}
	if keys == 0 {
		return fmt.Errorf("no key column among %d", len(fields))
	}
	return nil
}

// checkStructs refuses structs that Parquet cannot hold: without fields, or with one name twice.
func checkStructs(t column.Type) error {
	switch t.Kind {
	case column.List:
		return checkStructs(*t.Elem)
	case column.Struct:
		if len(t.Fields) == 0 {
			return fmt.Errorf("a struct without fields cannot be written")
		}
		names := map[string]bool{}
		for _, f := range t.Fields {
			if names[f.Name] {
				return fmt.Errorf("a struct has two fields named %q", f.Name)
			}
			names[f.Name] = true
			if err := checkStructs(f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// group is a pq.Group that keeps the order of its fields.
type group struct {
	pq.Group
	fields []pq.Field
}

func (g group) Fields() []pq.Field { return g.fields }

type field struct {
	pq.Node
	name string
}

func (f field) Name() string { return f.name }

// Value is for rows that are Go values, which there are none of here.
func (f field) Value(reflect.Value) reflect.Value { return reflect.Value{} }

func groupOf(fields []column.Field) pq.Node {
	g := group{Group: pq.Group{}}
	for _, f := range fields {
		n := nodeOf(f.Type)
		if !f.Key {
			n = pq.Optional(n)
		}
		g.Group[f.Name] = n
		g.fields = append(g.fields, field{n, f.Name})
	}
	return g
}

func nodeOf(t column.Type) pq.Node {
	switch t.Kind {
	case column.Bool:
		return pq.Leaf(pq.BooleanType)
	case column.Int32:
		return pq.Encoded(pq.Leaf(pq.Int32Type), &pq.DeltaBinaryPacked)
	case column.Int64:
		return pq.Encoded(pq.Leaf(pq.Int64Type), &pq.DeltaBinaryPacked)
	case column.Float32:
		return pq.Leaf(pq.FloatType)
	case column.Float64:
		return pq.Leaf(pq.DoubleType)
	case column.Decimal:
		return decimalNode(int(t.Precision), int(t.Scale))
	case column.Bytes:
		return pq.Encoded(pq.Leaf(pq.ByteArrayType), &pq.DeltaLengthByteArray)
	case column.Date:
		return pq.Encoded(pq.Date(), &pq.DeltaBinaryPacked)
	case column.Time:
		return pq.Encoded(pq.TimeAdjusted(pq.Microsecond, false), &pq.DeltaBinaryPacked)
	case column.Timestamp:
		return pq.Encoded(pq.Timestamp(pq.Microsecond), &pq.DeltaBinaryPacked)
	case column.List:
		return pq.List(pq.Optional(nodeOf(*t.Elem)))
	case column.Struct:
		return groupOf(t.Fields)
	}
	return pq.Encoded(pq.String(), &pq.DeltaLengthByteArray) // string, and null for want of a better
}

func decimalNode(precision, scale int) pq.Node {
	switch {
	case precision <= 9:
		return pq.Encoded(pq.Decimal(scale, precision, pq.Int32Type), &pq.DeltaBinaryPacked)
	case precision <= 18:
		return pq.Encoded(pq.Decimal(scale, precision, pq.Int64Type), &pq.DeltaBinaryPacked)
	}
	return pq.Decimal(scale, precision, pq.FixedLenByteArrayType(wide))
}
