package index

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/expr-lang/expr/ast"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

var conditionColumns = []struct {
	name string
	typ  column.Type
}{
	{"s", column.Of(column.String)}, {"i", column.Of(column.Int64)}, {"n", column.Of(column.Int32)}, {"f", column.Of(column.Float64)}, {"b", column.Of(column.Bool)},
	{"o.s", column.Of(column.String)}, {"d", column.DecimalOf(5, 1)}, {"u", column.Of(column.Null)},
}

// drawCondition draws the source of a filter.
func drawCondition(rt *rapid.T, depth int) string {
	if depth > 0 && rapid.IntRange(0, 2).Draw(rt, "deeper") > 0 {
		l, r := drawCondition(rt, depth-1), drawCondition(rt, depth-1)
		return rapid.SampledFrom([]string{
			fmt.Sprintf("(%s) and (%s)", l, r), fmt.Sprintf("(%s) or (%s)", l, r), fmt.Sprintf("(%s) && (%s)", l, r), fmt.Sprintf("(%s) || (%s)", l, r),
			fmt.Sprintf("not (%s)", l), fmt.Sprintf("!(%s)", l),
		}).Draw(rt, "junction")
	}
	operand := rapid.SampledFrom([]string{"s", "i", "n", "f", "b", "o.s", "d", "u"}).Draw(rt, "operand")
	literals := map[string][]string{
		"s": {"'a'", `"b"`, "''"}, "o.s": {"'a'", "'b'"}, "b": {"true", "false"},
		"i": {"0", "-1", "2", "0.5", "9007199254740993", "9007199254740992.0"}, "n": {"1", "1.0"}, "f": {"0", "-0.0", "1", "1.5"}, "d": {"1", "0.5"}, "u": {"1"},
	}[operand]
	operators := []string{"==", "!=", "<", "<=", ">", ">="}
	if operand == "b" {
		if rapid.Bool().Draw(rt, "alone") {
			return "b"
		}
		operators = operators[:2]
	}
	literal, operator := rapid.SampledFrom(literals).Draw(rt, "literal"), rapid.SampledFrom(operators).Draw(rt, "operator")
	if rapid.Bool().Draw(rt, "exchanged") {
		operand, literal = literal, operand
	}
	return operand + " " + operator + " " + literal
}

func drawBatch(rt *rapid.T) *column.Batch {
	batch := &column.Batch{Len: rapid.IntRange(1, 20).Draw(rt, "records")}
	for _, c := range conditionColumns {
		v, dict := column.New(c.typ), column.New(c.typ)
		for _, s := range []string{"", "a", "b", "c"} {
			if c.typ.Kind == column.String {
				dict.AppendString(s)
			}
		}
		nulls, coded := rapid.Bool().Draw(rt, "nulls"), rapid.Bool().Draw(rt, "coded") && c.typ.Kind == column.String
		for range batch.Len {
			code := uint32(0)
			switch x := rapid.IntRange(0, 3).Draw(rt, "value"); {
			case nulls && rapid.IntRange(0, 2).Draw(rt, "null") == 0 || c.typ.Kind == column.Null:
				v.AppendNull()
			case c.typ.Kind == column.String:
				v.AppendString(dict.Strings[x])
				code = uint32(x)
			case c.typ.Kind == column.Bool:
				v.AppendBool(x > 1)
			case c.typ.IsFloat():
				v.AppendFloat([]float64{0, math.NaN(), 1.5, -1}[x])
			case c.typ.Kind == column.Decimal:
				v.AppendDecimal(column.Int128From(int64(5 * x)))
			case c.typ.Kind == column.Int64:
				v.AppendInt([]int64{0, 2, 9007199254740993, -1}[x])
			default:
				v.AppendInt(int64(x - 1))
			}
			if coded {
				v.Codes, v.Dict = append(v.Codes, code), dict
			}
		}
		batch.Columns = append(batch.Columns, v)
	}
	return batch
}

// TestConditionsAreTheExpressions: a filter evaluated over columns says of each
// record what the expression does, null included.
func TestConditionsAreTheExpressions(t *testing.T) {
	find := func(path string) int {
		for i, c := range conditionColumns {
			if c.name == path {
				return i
			}
		}
		return -1
	}
	typeOf := func(path string) column.Type { return conditionColumns[find(path)].typ }
	quick, slow := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		source := drawCondition(rt, 3)
		e, err := parseExpression(source)
		if err != nil {
			rt.Fatal(err)
		}
		c, err := e.bind(typeOf, true)
		if err != nil {
			if strings.Contains(source, "u") || strings.Contains(source, "d") {
				return
			}
			rt.Fatal(err)
		}
		c.quick = newCondition(e, find, typeOf)
		if c.quick == nil {
			slow++
			return
		}
		quick++
		for range 2 {
			batch := drawBatch(rt)
			says := c.all(batch)
			for i := range batch.Len {
				for s, slot := range c.slots {
					c.set(s, batch.Columns[find(slot.path)], i)
				}
				yes, known, err := c.truth()
				if err != nil {
					rt.Fatal(err)
				}
				want := unsaid
				switch {
				case known && yes:
					want = removes
				case known:
					want = keeps
				}
				if says[i] != want {
					rt.Fatalf("%s of record %d: %v over columns, %v by the machine", source, i, says[i], want)
				}
			}
		}
	})
	if quick < 20 || slow == 0 {
		t.Errorf("%d conditions were compared, %d expressions are none", quick, slow)
	}
}

// TestConditionOverAPartOfAColumn is none: the column is the whole.
func TestConditionOverAPartOfAColumn(t *testing.T) {
	e, err := parseExpression("o != nil and o.s == 'a'")
	if err != nil {
		t.Fatal(err)
	}
	of := conditions{paths: e.paths, at: func(string) int { return 0 }, typeOf: func(string) column.Type { return column.Of(column.String) }}
	if c := of.of(&ast.BinaryNode{Operator: "==", Left: &ast.MemberNode{Node: &ast.IdentifierNode{Value: "o"}, Property: &ast.StringNode{Value: "s"}}, Right: &ast.StringNode{Value: "a"}}); c != nil {
		t.Errorf("%v", c)
	}
}
