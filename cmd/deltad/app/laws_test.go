package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/deltad/deltad/cmd/deltad/app"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// lawsRig is a pipeline with the index, over files by their minute.
func lawsRig(t *testing.T, format, index string) *rig {
	t.Helper()
	r := newRig(t)
	r.replace("format: ndjson", "format: "+format)
	r.replace("index: {key: [item], fields: {clicks: {sum: clicks, over: 10m}}}", "index: "+index)
	return r
}

// file drops an object into the partition of a minute.
func (r *rig) file(minute int, name string, content []byte) {
	r.t.Helper()
	dir := filepath.Join(r.dir, "raw", r.base.Add(time.Duration(minute)*time.Minute).Format("2006/01/02/15/04"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// lawsFound is what check --laws -o json prints.
type lawsFound struct {
	OK   bool
	Laws []struct {
		Pipeline string
		From, To *string
		Objects  []string
		Records  int
		Cut      bool
		Error    string
		Fields   []struct {
			Field, Fn, Class   string
			TypeID             string `json:"type_id"`
			Records, Multisets int
			Held               []string `json:"laws_held"`
			Violation          *struct {
				Law, Detail, Got, Want string
				Records                []string
			}
		}
	}
}

// laws runs check --laws and returns what it found, in text and decoded.
func (r *rig) laws(want int, fns []app.Combiner) (string, lawsFound) {
	r.t.Helper()
	config := filepath.Join(r.dir, "deltad.yaml")
	code, text, errs := run(r.t, fns, "check", "--laws", "-c", config)
	if code != want {
		r.t.Fatalf("exit %d, want %d: %s%s", code, want, text, errs)
	}
	_, out, _ := run(r.t, fns, "check", "--laws", "-o", "json", "-c", config)
	var found lawsFound
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Laws) != 1 {
		r.t.Fatalf("%v: %s", err, out)
	}
	if found.OK != (want == 0) {
		r.t.Errorf("ok is %t with exit %d", found.OK, code)
	}
	return text, found
}

// TestLawsOnRealRecords: every field is checked on the records that a run
// would give it.
func TestLawsOnRealRecords(t *testing.T) {
	r := lawsRig(t, "ndjson", `
      key: [item]
      event_time: at
      where: "op != 'test'"
      delete_when: "op == 'D'"
      fields:
        n: {count: "*"}
        paid: {sum: price, where: "price > 1"}
        title: {latest: title, optional: true}
        users: {distinct: user}
        ads: {collect: {by: ad, delete_when: "op == 'off'", fields: {bid: {max: price}, cheap: {count: "*", where: "price < 2"}}}}
        ratio: {expr: "n > 0 ? paid / n : nil"}
        never: {count: "*", where: "price > 100"}`)
	line := func(minute int, item, op, user, ad string, price float64) string {
		return fmt.Sprintf(`{"item":%q,"at":%q,"op":%q,"user":%q,"ad":%q,"price":%v,"title":"t"}`, item, r.minute(minute), op, user, ad, price)
	}
	r.file(1, "a.ndjson", []byte(strings.Join([]string{
		line(1, "x", "U", "u1", "a1", 1), line(1, "x", "U", "u2", "a1", 2.5), line(1, "y", "test", "u3", "a2", 3),
	}, "\n")))
	r.file(2, "b.ndjson", []byte(strings.Join([]string{
		line(2, "x", "D", "u1", "a1", 4), line(2, "y", "U", "u1", "a3", 5), line(2, "y", "off", "u1", "a3", 6),
		`{"item":"z","at":null,"op":"U","user":null,"ad":null,"price":null}`,
	}, "\n")))
	text, found := r.laws(0, nil)
	got := found.Laws[0]
	if got.Records != 7 || len(got.Objects) != 2 || *got.From != r.minute(1) || *got.To != r.minute(2) {
		t.Errorf("sampled: %+v", got)
	}
	type row struct {
		field, fn, id, class string
		records              int
	}
	want := []row{
		{"n", "count", "count(*)/1", "group", 5},
		{"paid", "sum", "sum(float)/1", "group", 3},
		{"title", "latest", "latest(string,nulls=skip)/1", "semilattice", 5},
		{"users", "distinct", "distinct(string,precision=12,hash=murmur3/9001)/1", "semilattice", 5},
		{"ads", "collect", `collect(by=string,deletes,"bid":max(float)/1,"cheap":count(*)/1)/1`, "monoid", 5},
		{"ads.bid", "max", "max(float)/1", "semilattice", 3},
		{"ads.cheap", "count", "count(*)/1", "group", 1},
		{"never", "count", "count(*)/1", "group", 0},
	}
	var rows []row
	for _, f := range got.Fields {
		rows = append(rows, row{f.Field, f.Fn, f.TypeID, f.Class, f.Records})
		if f.Violation != nil || (len(f.Held) == len(combinetest.Laws())) != (f.Records > 0) {
			t.Errorf("%s: %v held, %v", f.Field, f.Held, f.Violation)
		}
	}
	if !slices.Equal(rows, want) {
		t.Errorf("fields:\n%v\nwant\n%v", rows, want)
	}
	for _, want := range []string{
		"laws: ads: 7 records of 2 objects, partitions " + r.minute(1) + " to " + r.minute(2) + "\n",
		"sum(float)/1", fmt.Sprintf("all %d held", len(combinetest.Laws())), "not checked: no record has a part in it", "\nok\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if code, text, _ := run(t, nil, "check", "-o", "json", "-c", filepath.Join(r.dir, "deltad.yaml")); code != 0 || strings.Contains(text, `"laws"`) {
		t.Errorf("without --laws: %d: %s", code, text)
	}
}

// touchy keeps the greatest text. It is lawful on everything that the battery
// draws, and not on long ones.
func touchy() simple {
	f := shortest()
	f.name = "touchy"
	f.merge = func(a, b []byte) []byte {
		if len(a) > 20 && len(b) > 20 || bytes.Compare(a, b) > 0 {
			return a
		}
		return b
	}
	return f
}

// TestLawsBrokenByRealRecords: what no generated case showed is found, among
// many records, and told by two of them.
func TestLawsBrokenByRealRecords(t *testing.T) {
	r := lawsRig(t, "ndjson", `{key: [item], fields: {n: {count: "*"}, words: {collect: {by: item, fields: {word: {touchy: word}}}}, word: {touchy: word}}}`)
	var b bytes.Buffer
	for i := range 3000 {
		word := fmt.Sprintf("word %d", i%7)
		if i%1000 == 900 {
			word = fmt.Sprintf("z word that nobody generates, number %d", i)
		}
		fmt.Fprintf(&b, `{"item":"i%d","word":%q}`+"\n", i%50, word)
	}
	r.file(1, "a.ndjson", b.Bytes())
	text, found := r.laws(1, own(touchy()))
	broken := 0
	for _, f := range found.Laws[0].Fields {
		v := f.Violation
		if (v != nil) != (f.Field != "n") {
			t.Errorf("%s: %+v", f.Field, v)
		}
		if v == nil {
			continue
		}
		broken++
		if len(v.Records) != 2 || v.Law != "order" || v.Got == v.Want || len(f.Held) > 0 {
			t.Errorf("%s: law %s, records %q, %s and %s", f.Field, v.Law, v.Records, v.Got, v.Want)
		}
	}
	if broken != 3 {
		t.Errorf("%d fields are broken, want words, words.word and word", broken)
	}
	for _, want := range []string{"order BROKEN", "error: pipelines.ads.index.fields.word: touchy(string)/1 breaks the law \"order\"", "  of 2 records", "nobody generates"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\nok\n") {
		t.Error("ok all the same")
	}
}

// TestLawsWithoutData says that nothing was checked.
func TestLawsWithoutData(t *testing.T) {
	r := lawsRig(t, "ndjson", `{key: [item], fields: {n: {count: "*"}}}`)
	text, found := r.laws(0, nil)
	if !strings.Contains(text, "laws: ads: no data: there is no visible eligible partition, nothing was checked") {
		t.Errorf("text: %s", text)
	}
	if l := found.Laws[0]; l.From != nil || l.To != nil || l.Records != 0 || len(l.Fields) != 0 || l.Objects == nil {
		t.Errorf("json: %+v", l)
	}
}

// TestLawsOfWhatCannotBeRead name the object and are no success.
func TestLawsOfWhatCannotBeRead(t *testing.T) {
	r := lawsRig(t, "ndjson", `{key: [item], fields: {s: {sum: clicks}}}`)
	r.file(1, "broken.ndjson", []byte(`{"item":"x","clicks":`))
	if text, found := r.laws(1, nil); !strings.Contains(text, "nothing could be checked") || !strings.Contains(found.Laws[0].Error, "broken.ndjson") {
		t.Errorf("%s, %+v", text, found)
	}
	r.file(1, "broken.ndjson", []byte(`{"item":"x","clicks":"many"}`))
	if _, found := r.laws(1, nil); !strings.Contains(found.Laws[0].Error, "index.fields.s") {
		t.Errorf("%+v", found)
	}
}

// TestLawsSampleIsBounded in objects and records, and the same every time.
func TestLawsSampleIsBounded(t *testing.T) {
	r := lawsRig(t, "csv", `{key: [item], fields: {n: {count: "*"}, s: {sum: clicks}}}`)
	var b bytes.Buffer
	b.WriteString("item,clicks\n")
	for i := range 2500 {
		fmt.Fprintf(&b, "i%d,%d\n", i%10, i)
	}
	r.file(1, "x.csv", []byte("item,clicks\na,1.5\n")) // older than those that are taken
	for i := range 16 {
		content := b.Bytes()
		if i == 13 {
			content = []byte("item,clicks\nsmall,1.5\n") // its share goes to others
		}
		r.file(2+i/4, fmt.Sprintf("%d.csv", i), content)
	}
	text, found := r.laws(0, nil)
	l := found.Laws[0]
	if l.Records != 10_000 || len(l.Objects) != 16 || *l.From != r.minute(2) || *l.To != r.minute(5) {
		t.Errorf("%d records of %d objects, %s to %s", l.Records, len(l.Objects), *l.From, *l.To)
	}
	if !strings.HasSuffix(l.Objects[0], "/12.csv") || !strings.HasSuffix(l.Objects[15], "/3.csv") {
		t.Errorf("not the newest partition first: %q", l.Objects)
	}
	for _, f := range l.Fields {
		if f.Records != 10_000 || f.Multisets != 1+10_000/64+1 {
			t.Errorf("%s: %d records in %d multisets", f.Field, f.Records, f.Multisets)
		}
		if f.Field == "s" && f.TypeID != "sum(float)/1" {
			t.Errorf("not at the types of all: %s", f.TypeID)
		}
	}
	if again, _ := r.laws(0, nil); again != text {
		t.Errorf("%s\nthen\n%s", text, again)
	}
}

// TestLawsReadAsRunsDo: rows that a run would leave out are left out, a column
// that becomes fractional in mid-object is one of floats, and Parquet is read.
func TestLawsReadAsRunsDo(t *testing.T) {
	t.Run("rejected and retyped", func(t *testing.T) {
		r := lawsRig(t, "ndjson", `{key: [item], fields: {s: {sum: clicks}}}`)
		r.replace("    trigger:", "    errors: {row: reject}\n    trigger:")
		var b bytes.Buffer
		for i := range 3000 {
			fmt.Fprintf(&b, `{"item":"i","clicks":%d}`+"\n", i)
		}
		b.WriteString(`{"item":null,"clicks":7}` + "\nnonsense\n" + `{"item":"i","clicks":0.5}` + "\n")
		r.file(1, "a.ndjson", b.Bytes())
		_, found := r.laws(0, nil)
		if l := found.Laws[0]; l.Fields[0].Records != 3001 || l.Fields[0].TypeID != "sum(float)/1" {
			t.Errorf("%+v", l)
		}
	})
	t.Run("parquet", func(t *testing.T) {
		type record struct {
			Item  string   `parquet:"item"`
			Price *float64 `parquet:"price,optional"`
		}
		r := lawsRig(t, "parquet", `{key: [item], fields: {m: {mean: price}, v: {variance: price}}}`)
		half := 0.1
		var b bytes.Buffer
		if err := parquet.Write(&b, []record{{"a", &half}, {"a", nil}, {"b", &half}}); err != nil {
			t.Fatal(err)
		}
		r.file(1, "a.parquet", b.Bytes())
		_, found := r.laws(0, nil)
		if l := found.Laws[0]; l.Records != 3 || l.Fields[0].TypeID != "mean(float)/1" || l.Fields[1].TypeID != "variance(float,sample)/1" || l.Fields[0].Records != 3 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("column without values", func(t *testing.T) {
		f := shortest()
		f.kind = column.String
		r := lawsRig(t, "ndjson", `{key: [item], fields: {s: {shortest: word, optional: true}}}`)
		r.file(1, "a.ndjson", []byte(`{"item":"i"}`))
		if _, found := r.laws(0, own(f)); found.Laws[0].Fields[0].Records != 1 {
			t.Errorf("%+v", found)
		}
	})
}

// TestLawsNeedNoStateStore: only sources are asked, and nothing is made on this
// machine either.
func TestLawsNeedNoStateStore(t *testing.T) {
	for name, state := range map[string]string{
		"one that does not answer": `state: {url: "postgres://deltad@127.0.0.1:1/deltad?sslmode=disable"}`,
		"a file in no directory":   `state: {url: "sqlite:///nowhere/below/state.db"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			cache := filepath.Join(r.dir, "cache")
			r.replace(fmt.Sprintf(`state: {url: "sqlite://%s/state.db"}`, r.dir), state+fmt.Sprintf("\ncache: {dir: %q}", cache))
			r.put(1, 2)
			before, err := filepath.Glob(filepath.Join(r.dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			if _, found := r.laws(0, nil); found.Laws[0].Records != 2 {
				t.Errorf("%+v", found)
			}
			if after, err := filepath.Glob(filepath.Join(r.dir, "*")); err != nil || !slices.Equal(after, before) {
				t.Errorf("there is %q now, %v; there was %q", after, err, before)
			}
		})
	}
}
