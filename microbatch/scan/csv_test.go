package scan

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"pgregory.net/rapid"
)

func TestCSV(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		cols       []Column
		path       map[string]string
		want       string
		types      string
	}{
		{"kinds", "a,b,c,d,e\n1,1.5,x,true,\n", paths("a", "b", "c", "d", "e"), nil, `1|1.5f|"x"|true|null`, "int64 double string bool null"},
		{"order and projection", "a,b,c\n1,2,3\n", paths("c", "a"), nil, "3|1", "int64 int64"},
		{"null and empty", "a,b\n,\"\"\nx,y\n", paths("a", "b"), nil, "null|\"\"\n\"x\"|\"y\"", "string string"},
		{"int then double", "a\n1\n2.50\n", paths("a"), nil, "1f\n2.5f", "double"},
		{"int then text keeps the text", "a\n1\n1.50\nx\ntrue\n", paths("a"), nil, "\"1\"\n\"1.50\"\n\"x\"\n\"true\"", "string"},
		{"identifiers", "a,b,c,d\n007,12345678901234567890,+5,-0\n", paths("a", "b", "c", "d"), nil, `"007"|"12345678901234567890"|"+5"|"-0"`, "string string string string"},
		{"numeric forms", "a,b,c,d,e\n007,+5,-0,1e3,-007.5\n", paths("#a", "#b", "#c", "#d", "#e"), nil, "7|5|0|1000f|-7.5f", "int64 int64 int64 double double"},
		{"numeric nulls", "a\n1\n\"\"\n2\n", paths("#a"), nil, "1\nnull\n2", "int64"},
		{"quotes", "a,b\n\"x,\"\"y\"\"\",\"line\r\nnext\"\n", paths("a", "b"), nil, `"x,\"y\""|"line\nnext"`, "string string"},
		{"quoted number", "a\n\"12\"\n", paths("a"), nil, "12", "int64"},
		{"crlf bom no last newline", "\ufeffa,b\r\n1,2\r\n\r\n3,4", paths("a", "b"), nil, "1|2\n3|4", "int64 int64"},
		{"no numbers", "a,b,c,d\nNaN,inf,0x10,1_000\n", paths("a", "b", "c", "d"), nil, `"NaN"|"inf"|"0x10"|"1_000"`, "string string string string"},
		{"dots in names", "a.b\n1\n", paths("a.b"), nil, "1", "int64"},
		{"path value", "a\n1\n", paths("a", "dt"), map[string]string{"dt": "2026"}, `1|"2026"`, "int64 string"},
		{"numeric path value", "a\n1\n", paths("#dt"), map[string]string{"dt": "2026"}, "2026", "int64"},
		{"optional", "a\n1\n", paths("?z"), nil, "null", "null"},
		{"unwanted duplicate", "a,z,z\n1,2,3\n", paths("a"), nil, "1", "int64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := Request{Format: CSV, Columns: tt.cols, PathValues: tt.path}
			got, res := mustRows(t, textBlob("f.csv", tt.text), req)
			if g := strings.Join(got, "\n"); g != tt.want {
				t.Errorf("rows\n%s\nwant\n%s", g, tt.want)
			}
			if g := types(res.Observed); g != tt.types {
				t.Errorf("types %s, want %s", g, tt.types)
			}
		})
	}
}

func TestCSVBadRows(t *testing.T) {
	for _, tt := range []struct{ name, row, reason string }{
		{"short", "1", "1 fields where the header has 2"},
		{"long row", "1,2,3", "3 fields where the header has 2"},
		{"bare quote", `1,x"y`, "quote inside"},
		{"text behind a quote", `1,"x"y`, "after the closing quote"},
		{"not a number", "x,y", `column n: "x" is not a number`},
		{"beyond int64", "9223372036854775808,y", "out of range"},
		{"invalid utf-8", "1,\xff", "UTF-8"},
		{"too many bytes", "1," + strings.Repeat("x", 200), "longer than 100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "n,s\n1,a\n" + tt.row + "\n2,b\n"
			req := Request{Format: CSV, Columns: paths("#n", "s"), Limits: Limits{Line: 100}}
			_, _, err := rows(textBlob("dir/f.csv", text), req)
			wantError(t, err, "dir/f.csv", "line 3", tt.reason)
			req.Row = Reject
			out, res := mustRows(t, textBlob("dir/f.csv", text), req)
			if strings.Join(out, " ") != `1|"a" 2|"b"` || res.Rejected != 1 {
				t.Errorf("rows %q, %+v", out, res)
			}
		})
	}
}

// What makes the rest of the file unreadable fails the object under any policy.
func TestCSVBrokenFiles(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"open quote", "a\n1\n\"x\n2\n3\n", []string{"line 3", "never closed"}},
		{"open quote in the header", "a,\"b\n1,2\n", []string{"line 1", "never closed"}},
		{"quote open beyond the limit", "a\n\"" + strings.Repeat("x\n", 100), []string{"line 2", "never closed within 100 bytes"}},
		{"bad header", "a,b\"c\n", []string{"header", "line 1"}},
		{"missing", "a\n1\n", []string{"column z", "missing"}},
		{"case", "a,Z\n1,2\n", []string{"column z", `"Z"`, "case"}},
		{"twice", "z,z\n1,2\n", []string{"column z", "twice"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rows(textBlob("f.csv", tt.text), Request{Format: CSV, Columns: paths("?z"), Row: Reject, Limits: Limits{Line: 100}})
			if tt.name == "missing" {
				_, _, err = rows(textBlob("f.csv", tt.text), Request{Format: CSV, Columns: paths("z"), Row: Reject})
			}
			wantError(t, err, append(tt.want, "f.csv")...)
		})
	}
}

func TestCSVAs(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		as         column.Type
		want, err  string
	}{
		{"int as string", "a\n1\n002\n", column.Of(column.String), "\"1\" \"002\"", ""},
		{"bool as string", "a\ntrue\n", column.Of(column.String), "\"true\"", ""},
		{"int as double", "a\n1\n", column.Of(column.Float64), "1f", ""},
		{"string as int", "a\nx\n", column.Of(column.Int64), "", "line 2: column a: is string"},
		{"list", "a\nx\n", column.ListOf(column.Of(column.Int64)), "", "csv has no list<int64>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := rows(textBlob("f.csv", tt.text), Request{Format: CSV, Columns: []Column{{Path: "a", As: tt.as}}})
			if tt.err != "" {
				wantError(t, err, tt.err)
				return
			}
			if err != nil || strings.Join(out, " ") != tt.want {
				t.Fatalf("%q, %v", out, err)
			}
		})
	}
}

// sameAsPeer compares the records of a text with encoding/csv's, up to the
// first that either refuses.
func sameAsPeer(t interface {
	Fatalf(string, ...any)
}, text string) {
	peer := csv.NewReader(strings.NewReader(text))
	peer.FieldsPerRecord = -1
	p := &csvParser{lines: newLineReader(strings.NewReader(text), nil, 1<<20)}
	for {
		want, peerErr := peer.Read()
		err := p.read()
		if peerErr == io.EOF && errors.Is(err, io.EOF) {
			return
		}
		if (peerErr != nil) != (err != nil) {
			t.Fatalf("%q: %v, the peer %v", text, err, peerErr)
		}
		if err != nil {
			return
		}
		var got []string
		for _, f := range p.fields {
			got = append(got, string(f.text))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q, the peer %q", text, got, want)
		}
	}
}

func TestCSVAgreesWithEncodingCSV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", ",", "\"", "\"\"", "\n", "\r\n", "x\"", "\",\""})).Draw(t, "parts")
		sameAsPeer(t, strings.Join(parts, ""))
	})
}
