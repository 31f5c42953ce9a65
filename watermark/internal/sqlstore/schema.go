package sqlstore

import (
	"context"
	"fmt"

	"github.com/deltad/deltad/watermark"
)

type schema struct{ c *core }

const createHistory = `CREATE TABLE IF NOT EXISTS deltad_migration (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    sha256     text        NOT NULL
)`

// Migrate applies what is pending. See [watermark.Schema].
func (s schema) Migrate(ctx context.Context) ([]string, error) {
	const what = "migrate state store"
	// Looking first needs no rights to create tables and takes no lock.
	ready := false
	err := s.c.view(ctx, what, func(q *query) error {
		ready = false
		applied, err := s.applied(q)
		if err != nil || len(applied) < len(s.c.d.Steps) {
			return err
		}
		ready = true
		return s.matches(applied)
	})
	if err != nil || ready {
		return nil, err
	}
	var names []string
	id := nonce()
	err = s.c.run(ctx, what, s.c.db.Migrate, func(q *query) error {
		var fresh []string
		if s.c.d.MigrationLock != "" {
			if err := q.tx.Script(q.ctx, s.c.d.MigrationLock); err != nil {
				return err
			}
		}
		if err := q.tx.Script(q.ctx, createHistory); err != nil {
			return err
		}
		applied, err := s.applied(q)
		if err != nil {
			return err
		}
		if err := s.matches(applied); err != nil {
			return err
		}
		for _, step := range s.c.d.Steps[len(applied):] {
			if err := q.tx.Script(q.ctx, step.SQL); err != nil {
				return fmt.Errorf("apply migration %s: %w", step.Name, err)
			}
			if _, err := q.exec(`INSERT INTO deltad_migration (version, name, sha256) VALUES ($1, $2, $3)`,
				step.Version, step.Name, step.SHA256); err != nil {
				return fmt.Errorf("record migration %s: %w", step.Name, err)
			}
			fresh = append(fresh, step.Name)
		}
		if len(fresh) > 0 { // else an earlier run of this call may have done it
			names = fresh
		}
		_, err = q.exec(`INSERT INTO deltad_identity (one, id, created_at) VALUES ($1, $2, @now)
			ON CONFLICT (one) DO NOTHING`, true, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// Check changes nothing. See [watermark.Schema].
func (s schema) Check(ctx context.Context) error {
	return s.c.view(ctx, "check state store schema", func(q *query) error {
		applied, err := s.applied(q)
		if err != nil {
			return err
		}
		if err := s.matches(applied); err != nil {
			return err
		}
		if pending := s.c.d.Steps[len(applied):]; len(pending) > 0 {
			return fmt.Errorf("%w: %d of %d, from %s; run `deltad migrate`",
				watermark.ErrSchemaPending, len(pending), len(s.c.d.Steps), pending[0].Name)
		}
		return nil
	})
}

// SchemaVersion is the newest step applied. See [watermark.Schema].
func (s schema) SchemaVersion(ctx context.Context) (int, error) {
	version := 0
	err := s.c.view(ctx, "read schema version", func(q *query) error {
		applied, err := s.applied(q)
		version = len(applied)
		return err
	})
	return version, err
}

// StateID is this database's identity. See [watermark.Schema].
func (s schema) StateID(ctx context.Context) (string, error) {
	var id string
	err := s.c.view(ctx, "read state id", func(q *query) error {
		r, found, err := q.one(`SELECT id FROM deltad_identity`)
		if err != nil {
			return err
		}
		if !found {
			return &watermark.CorruptError{Table: "deltad_identity", Column: "id", Detail: "the row is missing"}
		}
		d := decode(r, "deltad_identity", "")
		id = d.named("id")
		return d.err
	})
	return id, err
}

type appliedStep struct{ name, sha256 string }

// applied reads the history, which must be contiguous; nil for an empty
// database.
func (s schema) applied(q *query) ([]appliedStep, error) {
	r, found, err := q.one(s.c.d.HasTable, "deltad_migration")
	if err != nil {
		return nil, err
	}
	d := decode(r, "deltad_migration", "")
	if !found || d.number("n", 0) == 0 {
		return nil, d.err
	}
	rows, err := q.rows(`SELECT CAST(version AS bigint) AS version, name, sha256 FROM deltad_migration ORDER BY version`)
	if err != nil {
		return nil, err
	}
	var out []appliedStep
	for i, r := range rows {
		d := decode(r, "deltad_migration", "")
		if v := d.number("version", 1); d.err == nil && v != int64(i+1) {
			d.fail("version", "%d follows %d", v, i)
		}
		out = append(out, appliedStep{name: d.text("name"), sha256: d.text("sha256")})
		if d.err != nil {
			return nil, d.err
		}
	}
	return out, nil
}

// matches refuses a history that this binary does not know.
func (s schema) matches(applied []appliedStep) error {
	steps := s.c.d.Steps
	if len(applied) > len(steps) {
		return fmt.Errorf("%w: it is at %d (%s), this binary knows %d: install the newer deltad again, schemas only go forward",
			watermark.ErrSchemaTooNew, len(applied), applied[len(applied)-1].name, len(steps))
	}
	for i, a := range applied {
		if a.sha256 != steps[i].SHA256 {
			return fmt.Errorf("%w: migration %s was applied with other contents than this binary's %s",
				watermark.ErrSchemaTooNew, a.name, steps[i].Name)
		}
	}
	return nil
}
