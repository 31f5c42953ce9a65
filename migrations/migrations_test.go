package migrations

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestStepsAreTheSameInBothDialects(t *testing.T) {
	pg, err := Postgres()
	if err != nil {
		t.Fatal(err)
	}
	lite, err := SQLite()
	if err != nil {
		t.Fatal(err)
	}
	names := func(steps []Migration) (out []string) {
		for _, s := range steps {
			out = append(out, s.Name)
		}
		return out
	}
	if !slices.Equal(names(pg), names(lite)) {
		t.Fatalf("steps differ: postgres %v, sqlite %v", names(pg), names(lite))
	}
	for i := range pg {
		a, b := columns(pg[i].SQL), columns(lite[i].SQL)
		if len(a) == 0 && strings.Contains(pg[i].SQL+lite[i].SQL, "CREATE TABLE") {
			t.Errorf("%s: no columns found", pg[i].Name)
		}
		if !slices.Equal(a, b) {
			t.Errorf("%s: columns differ:\npostgres %v\nsqlite   %v", pg[i].Name, a, b)
		}
	}
}

var (
	table  = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \(\n(.*?)\n\)`)
	column = regexp.MustCompile(`^    ([a-z_0-9]+) `)
)

func columns(sql string) (out []string) {
	for _, m := range table.FindAllStringSubmatch(sql, -1) {
		for line := range strings.Lines(m[2]) {
			if c := column.FindStringSubmatch(line); c != nil {
				out = append(out, m[1]+"."+c[1])
			}
		}
	}
	return out
}

func TestLoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  string
	}{
		{name: "contiguous", files: []string{"0001_create_a.sql", "0002_alter_a.sql"}},
		{name: "gap", files: []string{"0001_create_a.sql", "0003_alter_a.sql"}, want: "0003_alter_a: want number 0002"},
		{name: "repeated", files: []string{"0001_create_a.sql", "0001_create_b.sql"}, want: "want number 0002"},
		{name: "from zero", files: []string{"0000_create_a.sql"}, want: "0000_create_a: want number 0001"},
		{name: "noun missing", files: []string{"0001_create.sql"}, want: "0001_create.sql: want a name like"},
		{name: "other file", files: []string{"0001_create_a.sql", "readme.txt"}, want: "readme.txt: want a name like"},
		{name: "none", want: "none found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := fstest.MapFS{"d/sub/x": {}}
			for _, f := range c.files {
				fsys["d/"+f] = &fstest.MapFile{Data: []byte("select 1;")}
			}
			steps, err := Load(fsys, "d")
			switch {
			case c.want == "" && (err != nil || len(steps) != len(c.files)):
				t.Fatalf("got %v, %v", steps, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got error %v, want %q", err, c.want)
			}
		})
	}
}
