// Package migrations is the schema of the state store, one file a step.
//
// The steps are forward-only, numbered from 0001 without a gap and never
// edited once released: the store records the hash of each it applied. The
// files beside this one are for Postgres, those under sqlite/ are the same
// steps in SQLite's words, under the same names.
package migrations

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
)

//go:embed *.sql
var postgres embed.FS

//go:embed sqlite/*.sql
var sqlite embed.FS

// Migration is one step.
type Migration struct {
	// Version is 1 for the first.
	Version int
	// Name is the file's, without .sql: 0001_create_pipelines.
	Name string
	SQL  string
	// SHA256 of SQL, lower-case hex.
	SHA256 string
}

// Postgres returns the steps for Postgres, in order.
func Postgres() ([]Migration, error) { return Load(postgres, ".") }

// SQLite returns the steps for SQLite, in order.
func SQLite() ([]Migration, error) { return Load(sqlite, "sqlite") }

var fileName = regexp.MustCompile(`^(\d{4})_[a-z]+(_[a-z]+)+\.sql$`)

// Load reads the steps of a directory. A file whose name is not
// 0001_verb_noun.sql, a gap and a repeated number are errors that name the
// file.
func Load(fsys fs.FS, dir string) ([]Migration, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var steps []Migration
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %s: want a name like 0001_verb_noun.sql", e.Name())
		}
		version, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", e.Name(), err)
		}
		path := e.Name()
		if dir != "." {
			path = dir + "/" + path
		}
		text, err := fs.ReadFile(fsys, path)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(text)
		steps = append(steps, Migration{
			Version: version,
			Name:    e.Name()[:len(e.Name())-len(".sql")],
			SQL:     string(text),
			SHA256:  hex.EncodeToString(sum[:]),
		})
	}
	slices.SortFunc(steps, func(a, b Migration) int { return a.Version - b.Version })
	for i, s := range steps {
		if s.Version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d, numbers are contiguous from 0001", s.Name, i+1)
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("read migrations: none found in %q", dir)
	}
	return steps, nil
}
