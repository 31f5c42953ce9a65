package reader

import (
	"fmt"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
)

// Files are the keys of the live data files relative to the output: the delta's documents, its tombstones, the base's documents. Of a delta
// of several layers these are the files of all; see sink.Manifest.Layers.
func (s *Snapshot) Files() (delta, tombstones, base []string) {
	delta, tombstones = keys(s.Manifest.Files), keys(s.Manifest.Tombstones)
	if s.BaseManifest != nil {
		base = keys(s.BaseManifest.Files)
	}
	return delta, tombstones, base
}

func keys(files []sink.File) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.Key
	}
	return out
}

// SQL is a DuckDB table expression over exactly the live files below root: read_parquet([…]), or a subquery where one thing hides another: a
// higher layer of the delta what lower ones say of its keys, the delta's documents and tombstones the base's.
func (s *Snapshot) SQL(root string) string {
	q := query{root: root, fields: s.delta.fields, keyFields: s.delta.keyFields, layers: s.Manifest.Layers()}
	docs := q.resolved(func(l sink.Layer) []sink.File { return l.Files }, q.fields)
	if s.base == nil || len(s.BaseManifest.Files) == 0 {
		return docs
	}
	hide := "SELECT " + q.key() + " FROM " + docs
	if len(s.Manifest.Tombstones) > 0 {
		hide += " UNION ALL BY NAME SELECT * FROM " + q.resolved(func(l sink.Layer) []sink.File { return l.Tombstones }, q.keyFields)
	}
	return fmt.Sprintf("(SELECT * FROM %s UNION ALL BY NAME SELECT * FROM %s b WHERE NOT EXISTS (SELECT 1 FROM (%s) h WHERE %s))",
		docs, q.read(s.BaseManifest.Files, s.base.fields), hide, q.same("h", "b"))
}

// query writes SQL over the files of a pane.
type query struct {
	root              string
	fields, keyFields []column.Field
	layers            []sink.Layer // from 0 up
}

// resolved are the rows of one kind of which no higher layer says anything: those whose layer is the highest that has their key.
func (q query) resolved(of func(sink.Layer) []sink.File, fields []column.Field) string {
	if len(q.layers) == 1 {
		return q.read(of(q.layers[0]), fields)
	}
	n := q.unused()
	var rows, said []string
	for _, l := range q.layers {
		if files := of(l); len(files) > 0 || l.N == 0 {
			rows = append(rows, fmt.Sprintf("SELECT *, %d AS %s FROM %s", l.N, n, q.read(files, fields)))
		}
		if l.N == 0 {
			continue
		}
		for _, files := range [][]sink.File{l.Files, l.Tombstones, l.Left} {
			if len(files) > 0 {
				said = append(said, fmt.Sprintf("SELECT %s, %d AS %s FROM %s", q.key(), l.N, n, q.read(files, q.keyFields)))
			}
		}
	}
	return fmt.Sprintf("(SELECT d.* EXCLUDE (%[1]s) FROM (%[2]s) d LEFT JOIN (SELECT %[3]s, max(%[1]s) AS %[1]s FROM (%[4]s) GROUP BY %[3]s) h ON %[5]s "+
		"WHERE d.%[1]s = coalesce(h.%[1]s, 0))", n, strings.Join(rows, " UNION ALL BY NAME "), q.key(), strings.Join(said, " UNION ALL "), q.same("h", "d"))
}

// unused is a name for the number of a layer that no column has.
func (q query) unused() string {
	name := "_layer"
	for taken := true; taken; {
		taken = false
		for _, f := range q.fields {
			taken = taken || strings.EqualFold(f.Name, name)
		}
		if taken {
			name = "_" + name
		}
	}
	return name
}

// key are the key columns.
func (q query) key() string {
	cols := make([]string, len(q.keyFields))
	for i, f := range q.keyFields {
		cols[i] = quoted(f.Name)
	}
	return strings.Join(cols, ", ")
}

// same says that two tables have the same key. No key column is ever null.
func (q query) same(a, b string) string {
	on := make([]string, len(q.keyFields))
	for i, f := range q.keyFields {
		on[i] = fmt.Sprintf("%s.%s = %s.%[2]s", a, quoted(f.Name), b)
	}
	return strings.Join(on, " AND ")
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// read is a table of the rows of some files, with the columns given where there are none.
func (q query) read(files []sink.File, fields []column.Field) string {
	if len(files) == 0 {
		cols := make([]string, len(fields))
		for i, f := range fields {
			cols[i] = "NULL AS " + quoted(f.Name)
		}
		return "(SELECT " + strings.Join(cols, ", ") + " WHERE false)"
	}
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = "'" + strings.ReplaceAll(strings.TrimSuffix(q.root, "/")+"/"+f.Key, "'", "''") + "'"
	}
	return "read_parquet([" + strings.Join(list, ", ") + "])"
}
