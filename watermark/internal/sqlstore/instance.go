package sqlstore

import (
	"context"
	"time"

	"github.com/deltad/deltad/watermark"
)

type instances struct{ c *core }

// Heartbeat enters an instance as seen now. See [watermark.Instances].
func (s instances) Heartbeat(ctx context.Context, i watermark.Instance) error {
	var c checks
	c.name("instance id", i.ID)
	c.text("host", i.Host)
	c.text("build", i.Build)
	c.text("role", i.Role)
	details := c.document("details", i.Details)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "heartbeat of "+i.ID, func(q *query) error {
		_, err := q.exec(`INSERT INTO deltad_instance (id, host, pid, build, role, details, started_at, seen_at)
			VALUES ($1, $2, $3, $4, $5, $6, @now, @now)
			ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, build = excluded.build,
			role = excluded.role, details = excluded.details, seen_at = excluded.seen_at`,
			i.ID, i.Host, i.PID, i.Build, i.Role, details)
		return err
	})
}

// Instances are those seen lately. See [watermark.Instances].
func (s instances) Instances(ctx context.Context, within time.Duration) ([]watermark.Instance, error) {
	var out []watermark.Instance
	err := s.c.view(ctx, "read instances", func(q *query) error {
		out = nil
		rows, err := q.rows(`SELECT id, host, pid, build, role, CAST(details AS text) AS details, started_at, seen_at,
			@now AS now FROM deltad_instance ORDER BY id`)
		if err != nil {
			return err
		}
		for _, r := range rows {
			d := decode(r, "deltad_instance", "")
			i := watermark.Instance{
				ID: d.named("id"), Host: d.text("host"), PID: int(d.number("pid", 0)), Build: d.text("build"),
				Role: d.text("role"), Details: d.object("details"), StartedAt: d.instant("started_at"), SeenAt: d.instant("seen_at"),
			}
			now := d.instant("now")
			if d.err != nil {
				return d.err
			}
			if now.Sub(i.SeenAt) <= within {
				out = append(out, i)
			}
		}
		return nil
	})
	return out, err
}

// ForgetInstance removes an instance. See [watermark.Instances].
func (s instances) ForgetInstance(ctx context.Context, id string) error {
	return s.c.update(ctx, "forget instance "+id, func(q *query) error {
		_, err := q.exec(`DELETE FROM deltad_instance WHERE id = $1`, id)
		return err
	})
}
