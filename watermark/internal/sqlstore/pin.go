package sqlstore

import (
	"context"
	"strings"

	"github.com/deltad/deltad/watermark"
	"github.com/oklog/ulid/v2"
)

type bars struct{ c *core }

func readBars(q *query, where string, args ...any) ([]watermark.Bar, error) {
	rows, err := q.rows(`SELECT pipeline, generation, intent, actor, reason, at FROM deltad_bar`+where, args...)
	if err != nil {
		return nil, err
	}
	var out []watermark.Bar
	for _, r := range rows {
		d := decode(r, "deltad_bar", "")
		b := watermark.Bar{Pipeline: d.named("pipeline")}
		d.pipeline = b.Pipeline
		b.Generation = d.named("generation")
		b.Intent = d.text("intent")
		b.Actor = d.text("actor")
		b.Reason = d.text("reason")
		b.At = d.instant("at")
		if d.err != nil {
			return nil, d.err
		}
		out = append(out, b)
	}
	return out, nil
}

// Bars are those of a pipeline. See [watermark.Bars].
func (s bars) Bars(ctx context.Context, pipeline string) ([]watermark.Bar, error) {
	var out []watermark.Bar
	err := s.c.view(ctx, "read bars of "+pipeline, func(q *query) (err error) {
		out, err = readBars(q, ` WHERE pipeline = $1 ORDER BY generation`, pipeline)
		return err
	})
	return out, err
}

type pins struct{ c *core }

// rebuildOwners begin the owners that are rebuilds; the others are persons.
var rebuildOwners = watermark.RebuildOwner("")

func checkPin(p watermark.Pin) error {
	var c checks
	c.name("pipeline", p.Pipeline)
	c.that(p.Kind == watermark.PinPane || p.Kind == watermark.PinBase, "pin kind %q is neither pane nor base", p.Kind)
	c.name("pin id", p.ID)
	c.name("owner", p.Owner)
	if id, ok := strings.CutPrefix(p.Owner, rebuildOwners); ok {
		c.ulid("rebuild id", id)
	}
	return c.err
}

// Pin keeps a pane or a base. See [watermark.Pins].
func (s pins) Pin(ctx context.Context, p watermark.Pin) error {
	if err := checkPin(p); err != nil {
		return err
	}
	entry := ulid.Make().String()
	return s.c.update(ctx, "pin "+p.Kind+" "+p.ID, func(q *query) error {
		n, err := q.exec(`INSERT INTO deltad_pin (pipeline, kind, id, owner, reason, at) VALUES ($1, $2, $3, $4, $5, @now)
			ON CONFLICT (pipeline, kind, id, owner) DO NOTHING`, p.Pipeline, p.Kind, p.ID, p.Owner, free(p.Reason))
		if err != nil || n == 0 {
			return err
		}
		return auditPin(q, "pin", entry, p)
	})
}

// Unpin lets go of one. See [watermark.Pins].
func (s pins) Unpin(ctx context.Context, pipeline, kind, id, owner string) error {
	p := watermark.Pin{Pipeline: pipeline, Kind: kind, ID: id, Owner: owner}
	if err := checkPin(p); err != nil {
		return err
	}
	entry := ulid.Make().String()
	return s.c.update(ctx, "unpin "+kind+" "+id, func(q *query) error {
		n, err := q.exec(`DELETE FROM deltad_pin WHERE pipeline = $1 AND kind = $2 AND id = $3 AND owner = $4`,
			pipeline, kind, id, owner)
		if err != nil || n == 0 {
			return err
		}
		return auditPin(q, "unpin", entry, p)
	})
}

// auditPin enters a change of a person's pin, in the transaction that makes
// it: that is what tells a repetition, so the entry's id need not.
func auditPin(q *query, action, entry string, p watermark.Pin) error {
	if strings.HasPrefix(p.Owner, rebuildOwners) {
		return nil
	}
	_, err := appendAudit(q, watermark.AuditEntry{
		ID: entry, Actor: p.Owner, Action: action, Pipeline: p.Pipeline, Reason: p.Reason,
		Details: detail("kind", p.Kind, "id", p.ID),
	})
	return err
}

// releasePins lets go of what a rebuild holds, with its end.
func releasePins(q *query, pipeline, rebuild string) error {
	_, err := q.exec(`DELETE FROM deltad_pin WHERE pipeline = $1 AND owner = $2`, pipeline, watermark.RebuildOwner(rebuild))
	return err
}

// Pins are those of a pipeline. See [watermark.Pins].
func (s pins) Pins(ctx context.Context, pipeline string) ([]watermark.Pin, error) {
	var out []watermark.Pin
	err := s.c.view(ctx, "read pins of "+pipeline, func(q *query) error {
		out = nil
		rows, err := q.rows(`SELECT kind, id, owner, reason, at FROM deltad_pin WHERE pipeline = $1
			ORDER BY kind, id, owner`, pipeline)
		if err != nil {
			return err
		}
		for _, r := range rows {
			d := decode(r, "deltad_pin", pipeline)
			p := watermark.Pin{
				Pipeline: pipeline, Kind: oneOf(d, "kind", watermark.PinPane, watermark.PinBase), ID: d.named("id"),
				Owner: d.named("owner"), Reason: d.text("reason"), At: d.instant("at"),
			}
			if d.err != nil {
				return d.err
			}
			out = append(out, p)
		}
		return nil
	})
	return out, err
}
