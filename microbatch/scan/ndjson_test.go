package scan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

func TestNDJSON(t *testing.T) {
	for _, tt := range []struct {
		name  string
		text  string
		cols  []Column
		path  map[string]string
		want  string // rows joined by newlines
		types string
	}{
		{"kinds", `{"a":1,"b":1.5,"c":"x","d":true,"e":null}`, paths("a", "b", "c", "d", "e"), nil, `1|1.5f|"x"|true|null`, "int64 double string bool null"},
		{"int then double", "{\"a\":1}\n{\"a\":2.5}\n", paths("a"), nil, "1f\n2.5f", "double"},
		{"null first", "{\"a\":null}\n{}\n{\"a\":\"x\"}", paths("a"), nil, "null\nnull\n\"x\"", "string"},
		{"crlf blank bom", "\ufeff{\"a\":1}\r\n\r\n  \n{\"a\":2}\r\n", paths("a"), nil, "1\n2", "int64"},
		{"nested", `{"offer":{"price":3,"x":[1]}}` + "\n" + `{"offer":null}` + "\n" + `{}`, paths("offer.price"), nil, "3\nnull\nnull", "int64"},
		{"own name with dots first", `{"a.b":1,"a":{"b":2}}`, paths("a.b"), nil, "1", "int64"},
		{"prefix with dots", `{"a.b":{"c":1},"a":{"b":{"c":2}}}`, paths("a.b.c"), nil, "1", "int64"},
		{"falls back to the shorter name", `{"a.b":{"x":1},"a":{"b":{"c":2}}}`, paths("a.b.c"), nil, "2", "int64"},
		{"lists", "{\"a\":[]}\n{\"a\":[null]}\n{\"a\":null}\n{\"a\":[1,2]}\n{\"a\":[0.5]}", paths("a"), nil, "[]\n[null]\nnull\n[1f 2f]\n[0.5f]", "list<double>"},
		{"structs", "{\"a\":{\"x\":1}}\n{\"a\":{\"y\":\"s\",\"x\":null}}", paths("a"), nil, "{x:1 y:null}\n{x:null y:\"s\"}", "struct<x:int64,y:string>"},
		{"list of structs", `{"a":[{"x":1},{"x":2.5},null]}`, paths("a"), nil, "[{x:1f} {x:2.5f} null]", "list<struct<x:double>>"},
		{"extremes", `{"a":9223372036854775807,"b":-9223372036854775808,"c":-0,"d":-0.0,"e":5e-324}`, paths("a", "b", "c", "d", "e"), nil, "9223372036854775807|-9223372036854775808|0|-0f|5e-324f", "int64 int64 int64 double double"},
		{"escapes", `{"a":"\u00e9\n\"\ud83d\ude00"}`, paths("a"), nil, `"é\n\"😀"`, "string"},
		{"escaped key", `{"\u0061":1}`, paths("a"), nil, "1", "int64"},
		{"path value", "{\"a\":1}\n{\"a\":2,\"country\":\"fr\"}\n{\"a\":2,\"country\":null}", paths("a", "country"), map[string]string{"country": "de"}, "1|\"de\"\n2|\"fr\"\n2|null", "int64 string"},
		{"optional", `{"a":1}`, paths("a", "?z"), nil, "1|null", "int64 null"},
		{"unwanted duplicates", `{"a":1,"z":1,"z":2}`, paths("a"), nil, "1", "int64"},
		{"case neighbour", `{"k":1,"K":2}`, paths("K"), nil, "2", "int64"},
		{"no columns", "{}\n{}", nil, nil, "\n", ""},
		{"same column twice", `{"a":1}`, paths("a", "a"), nil, "1|1", "int64 int64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := Request{Format: NDJSON, Columns: tt.cols, PathValues: tt.path}
			got, res := mustRows(t, textBlob("f.json", tt.text), req)
			if g := strings.Join(got, "\n"); g != tt.want {
				t.Errorf("rows\n%s\nwant\n%s", g, tt.want)
			}
			if g := types(res.Observed); g != tt.types {
				t.Errorf("types %s, want %s", g, tt.types)
			}
			obs, err := Observe(context.Background(), textBlob("f.json", tt.text), req)
			if err != nil || types(obs) != tt.types {
				t.Errorf("observe %s, %v; want %s", types(obs), err, tt.types)
			}
		})
	}
}

// Each bad row stands as the third line, fails a scan with its line and is
// left out under Reject, without a trace in any column.
func TestNDJSONBadRows(t *testing.T) {
	for _, tt := range []struct{ name, row, reason string }{
		{"not json", `{"a":1`, "not JSON"},
		{"tail", `{"a":1}{"a":2}`, "not JSON"},
		{"array", `[1]`, "not an object"},
		{"number form", `{"a":01,"b":"x"}`, "not JSON"},
		{"nan", `{"a":nan}`, "not JSON"},
		{"beyond int64", `{"a":9223372036854775808}`, "out of range"},
		{"beyond double", `{"a":1e999}`, "out of range"},
		{"beyond int64 in a list", `{"l":[9223372036854775808]}`, "out of range"},
		{"mixed kinds", `{"a":"x","b":"x"}`, "column a: string after int64"},
		{"mixed in second column", `{"a":5,"b":7}`, "column b: int64 after string"},
		{"mixed list", `{"l":[1,"x"]}`, "column l"},
		{"rounded beside fractions", `{"f":9007199254740993}`, "column f: 9007199254740993 has no exact double"},
		{"rounded beside fractions, negative", `{"f":-9223372036854775807}`, "column f: -9223372036854775807"},
		{"rounded in a list with fractions", `{"l":[1,0.5,9007199254740993]}`, "column l: list element: 9007199254740993"},
		{"rounded in a struct with fractions", `{"s":{"f":9007199254740993}}`, "column s: field f: 9007199254740993"},
		{"duplicate key", `{"a":1,"a":2}`, `"a" occurs twice`},
		{"duplicate nested key", `{"o":{"p":1,"p":2}}`, `"p" occurs twice`},
		{"duplicate key in a struct", `{"s":{"p":1,"p":2}}`, `"p" occurs twice`},
		{"scalar for object", `{"o":1}`, "number where an object"},
		{"invalid utf-8", "{\"b\":\"\xff\"}", "UTF-8"},
		{"surrogate", `{"b":"\ud800"}`, "surrogate"},
		{"low surrogate", `{"b":"\udc00"}`, "surrogate"},
		{"control character", "{\"b\":\"\x01\"}", "control"},
		{"bad escape", `{"b":"\x"}`, "not JSON"},
		{"deep", strings.Repeat(`{"a":`, 400) + "1" + strings.Repeat("}", 400), "depth"},
		{"nested deeply", `{"l":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + "}", "column l: nested more than 63 levels deep"},
		{"nested deeply in a struct", `{"s":` + strings.Repeat(`{"p":`, 200) + "1" + strings.Repeat("}", 200) + "}", "column s: nested more than 63 levels deep"},
		{"long", `{"b":"` + strings.Repeat("x", 5000) + `"}`, "longer than 4096"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := `{"a":1,"b":"x","f":0.5,"l":[1],"o":{"p":1},"s":{"p":1,"f":0.5}}` + "\n"
			text := good + good + tt.row + "\n" + good
			req := Request{Format: NDJSON, Columns: paths("a", "b", "f", "l", "o.p", "s"), Limits: Limits{Line: 4096}}
			_, _, err := rows(textBlob("dir/f.json", text), req)
			wantError(t, err, "dir/f.json", "line 3", tt.reason)

			var got []RejectedRow
			req.Row, req.Reject = Reject, func(r RejectedRow) { r.Text = append([]byte(nil), r.Text...); got = append(got, r) }
			out, res := mustRows(t, textBlob("dir/f.json", text), req)
			if len(out) != 3 || res.Rejected != 1 || len(got) != 1 || got[0].Line != 3 || !strings.Contains(got[0].Reason, tt.reason) {
				t.Errorf("rows %q, result %+v, rejected %.300q", out, res, fmt.Sprint(got))
			}
			if !strings.HasPrefix(tt.row, string(got[0].Text)) {
				t.Errorf("text %q is not the row's", got[0].Text)
			}
		})
	}
}

func TestNDJSONMissing(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		cols       []Column
		want       []string
	}{
		{"missing", `{"a":1}`, paths("a", "z"), []string{"f.json", "column z", "missing"}},
		{"case", `{"k":1}`, paths("K"), []string{"f.json", "column K", `"k"`}},
		{"case of an optional one", `{"k":1}`, paths("?K"), []string{"column K", `"k"`}},
		{"nested", `{"o":{"x":1}}`, paths("o.p"), []string{"column o.p", "missing"}},
		{"nested case", `{"o":{"P":1}}`, paths("o.p"), []string{"column o.p", `"P"`}},
		{"parent case", `{"O":{"p":1}}`, paths("o.p"), []string{"column o.p", `"O"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rows(textBlob("f.json", tt.text), Request{Format: NDJSON, Columns: tt.cols})
			wantError(t, err, tt.want...)
		})
	}
}

// Of rows of one object some have a column and some a name that differs only by
// case: an error with the first such line, at any depth and behind any batch. A
// row that has both shows that they are two columns.
func TestB22MisspeltInSomeRows(t *testing.T) {
	many := strings.Repeat(`{"k":1,"o":{"p":1}}`+"\n", 2*batchRows)
	for _, tt := range []struct {
		name, text string
		cols       []Column
		want       []string // of the error; none where the object is right
	}{
		{"first", `{"K":1}` + "\n" + `{"k":2}`, paths("k"), []string{"f.json", "column k", "line 1", `"K"`}},
		{"last", `{"k":1}` + "\n\n" + `{"K":2}`, paths("k"), []string{"column k", "line 3", `"K"`}},
		{"the first of several is named", "{}\n" + `{"k":1}` + "\n" + `{"a":0,"K":2}` + "\n" + `{"K":2}`, paths("k"), []string{"line 3"}},
		{"optional", `{"k":1}` + "\n" + `{"K":2}`, paths("?k"), []string{"column k", "line 2", `"K"`}},
		{"behind other keys", `{"x":0,"k":1}` + "\n" + `{"K":2,"x":0}`, paths("k"), []string{"line 2"}},
		{"nested", `{"o":{"p":1}}` + "\n" + `{"o":{"P":1}}`, paths("o.p"), []string{"column o.p", "line 2", `"P"`}},
		{"parent", `{"o":{"p":1}}` + "\n" + `{"O":{"p":1}}`, paths("o.p"), []string{"column o.p", "line 2", `"O"`}},
		{"name with a dot", `{"o.p":1}` + "\n" + `{"O.p":1}`, paths("o.p"), []string{"column o.p", "line 2", `"O.p"`}},
		{"behind some batches", many + `{"K":1,"o":{"p":1}}`, paths("k"), []string{"column k", `"K"`, fmt.Sprint("line ", 2*batchRows+1)}},
		{"nested behind some batches", many + `{"k":1,"o":{"P":1}}`, paths("o.p"), []string{"column o.p", `"P"`}},
		{"null in its place is a value", `{"k":1}` + "\n" + `{"K":2,"k":null}`, paths("k"), nil},
		{"only missing", `{"k":1}` + "\n" + `{"x":2}`, paths("k"), nil},
		{"two columns", `{"k":1,"K":5}` + "\n" + `{"K":2}`, paths("k"), nil},
		{"two columns, seen late", `{"K":2}` + "\n" + `{"k":1,"K":5}`, paths("k"), nil},
		{"two nested columns", `{"o":{"P":1}}` + "\n" + `{"o":{"p":1,"P":2}}`, paths("o.p"), nil},
		{"both are wanted", `{"k":1}` + "\n" + `{"K":2}`, paths("k", "K"), nil},
		{"found in another way", `{"o":{"p":1},"O.p":2}` + "\n" + `{"o":{"p":3}}`, paths("o.p"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := Request{Format: NDJSON, Columns: tt.cols}
			_, _, err := rows(textBlob("f.json", tt.text), req)
			_, seen := Observe(context.Background(), textBlob("f.json", tt.text), req)
			if fmt.Sprint(err) != fmt.Sprint(seen) {
				t.Errorf("scanned %v, observed %v", err, seen)
			}
			if tt.want != nil {
				wantError(t, err, tt.want...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A type that changes behind the first batch is an error that the caller
// heals by scanning again with the observed types.
func TestRetype(t *testing.T) {
	var b strings.Builder
	for i := range 3 * batchRows {
		fmt.Fprintf(&b, "{\"a\":%d,\"b\":[]}\n", i)
	}
	b.WriteString(`{"a":0.5,"b":["x"]}` + "\n")
	blob := textBlob("f.json", b.String())
	req := Request{Format: NDJSON, Columns: paths("a", "b")}
	_, res, err := rows(blob, req)
	if !errors.Is(err, ErrRetype) {
		t.Fatalf("err %v, want ErrRetype", err)
	}
	wantError(t, err, "f.json", "column a")
	if got := types(res.Observed); got != "double list<string>" {
		t.Fatalf("observed %s", got)
	}
	for i := range req.Columns {
		req.Columns[i].As = res.Observed[i]
	}
	out, res := mustRows(t, blob, req)
	if len(out) != 3*batchRows+1 || out[1] != "1f|[]" || out[3*batchRows] != `0.5f|["x"]` {
		t.Fatalf("%d rows, second %q, last %q", len(out), out[1], out[len(out)-1])
	}
	if got := types(res.Observed); got != "double list<string>" {
		t.Fatalf("observed %s with As", got)
	}
}

// Inside the first batch a change of type costs nothing but a second pass, and
// rejected rows are reported once.
func TestRetypeWithinFirstBatch(t *testing.T) {
	text := "{\"a\":1}\nnonsense\n{\"a\":2}\n{\"a\":2.5}\n"
	n := 0
	req := Request{Format: NDJSON, Columns: paths("a"), Row: Reject, Reject: func(RejectedRow) { n++ }}
	out, res := mustRows(t, textBlob("f.json", text), req)
	if strings.Join(out, " ") != "1f 2f 2.5f" || res.Rejected != 1 || n != 1 {
		t.Fatalf("rows %q, result %+v, %d callbacks", out, res, n)
	}
}

// Null columns settle on a type in any batch.
func TestNullsForManyBatches(t *testing.T) {
	text := strings.Repeat("{\"a\":null}\n", 2*batchRows+5) + `{"a":"x"}`
	var kinds []string
	_, err := Scan(context.Background(), textBlob("f.json", text), Request{Format: NDJSON, Columns: paths("a")}, func(b *column.Batch) error {
		kinds = append(kinds, b.Columns[0].Type.String())
		return nil
	})
	if err != nil || strings.Join(kinds, " ") != "null null string" {
		t.Fatalf("types %q, %v", kinds, err)
	}
}

func TestNDJSONAs(t *testing.T) {
	double := column.Of(column.Float64)
	for _, tt := range []struct {
		name, text string
		as         column.Type
		want       string
		err        string
	}{
		{"int as double", `{"a":9007199254740992}`, double, "9.007199254740992e+15f", ""},
		{"int that no double holds as double", `{"a":9007199254740993}`, double, "", "line 1: column a: 9007199254740993 has no exact double"},
		{"null as double", `{"a":null}`, double, "null", ""},
		{"struct with more fields", `{"a":{"y":1}}`, column.StructOf(column.Field{Name: "x", Type: column.Of(column.String)}, column.Field{Name: "y", Type: double}), "{x:null y:1f}", ""},
		{"double as int", `{"a":1.5}`, column.Of(column.Int64), "", "line 1: column a: is double"},
		{"int as string", `{"a":1}`, column.Of(column.String), "", "line 1: column a: is int64"},
		{"decimal", `{"a":1}`, column.DecimalOf(5, 2), "", "column a: ndjson has no decimal(5,2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := rows(textBlob("f.json", tt.text), Request{Format: NDJSON, Columns: []Column{{Path: "a", As: tt.as}}})
			if tt.err != "" {
				wantError(t, err, "f.json", tt.err)
				return
			}
			if err != nil || strings.Join(out, "\n") != tt.want {
				t.Fatalf("rows %q, %v; want %s", out, err, tt.want)
			}
		})
	}
}

// Objects whose keys are data end as bad rows and not as an endless type.
func TestNDJSONTooManyFields(t *testing.T) {
	var b strings.Builder
	for i := range maxFields + 10 {
		fmt.Fprintf(&b, "{\"a\":{\"k%d\":1}}\n", i)
	}
	_, err := Observe(context.Background(), textBlob("f.json", b.String()), Request{Format: NDJSON, Columns: paths("a")})
	wantError(t, err, "f.json", fmt.Sprintf("line %d", maxFields+1), "more than 4096 fields")
	var one strings.Builder
	for i := range maxFields + 1 {
		fmt.Fprintf(&one, ",\"k%d\":1", i)
	}
	_, _, err = rows(textBlob("f.json", `{"a":{`+one.String()[1:]+"}}"), Request{Format: NDJSON, Columns: paths("a")})
	wantError(t, err, "line 1", "more than 4096 fields")
}
