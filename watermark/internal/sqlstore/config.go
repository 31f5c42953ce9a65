package sqlstore

import (
	"context"
	"fmt"

	"github.com/deltad/deltad/watermark"
)

type configs struct{ c *core }

func readConfig(q *query, where string, args ...any) (watermark.ConfigRegistration, bool, error) {
	r, found, err := q.one(`SELECT seq, pipeline, replica, hash, at FROM deltad_config`+where, args...)
	if err != nil || !found {
		return watermark.ConfigRegistration{}, false, err
	}
	d := decode(r, "deltad_config", "")
	d.pipeline = d.named("pipeline")
	g := watermark.ConfigRegistration{
		Seq: d.number("seq", 1), Replica: d.named("replica"), Hash: d.named("hash"), At: d.instant("at"),
	}
	return g, true, d.err
}

const newestConfig = ` WHERE pipeline = $1 ORDER BY seq DESC LIMIT 1`

func checkConfig(pipeline, replica, hash string) error {
	var c checks
	c.name("pipeline", pipeline)
	c.name("replica", replica)
	c.name("config hash", hash)
	return c.err
}

// RegisterConfig enters what a replica runs. See [watermark.ConfigOrder].
func (s configs) RegisterConfig(ctx context.Context, pipeline, replica, hash string) (mine, newest watermark.ConfigRegistration, err error) {
	if err := checkConfig(pipeline, replica, hash); err != nil {
		return mine, newest, err
	}
	err = s.c.update(ctx, "register configuration of "+pipeline, func(q *query) error {
		// The lock makes the order of the numbers that of the commits: a
		// number is drawn by one caller at a time.
		if _, err := ensurePipeline(q, pipeline); err != nil {
			return err
		}
		var found bool
		var err error
		if mine, found, err = readConfig(q, ` WHERE pipeline = $1 AND replica = $2`, pipeline, replica); err != nil {
			return err
		}
		if !found || mine.Hash != hash {
			if _, err := q.exec(`DELETE FROM deltad_config WHERE pipeline = $1 AND replica = $2`, pipeline, replica); err != nil {
				return err
			}
			if _, err := q.exec(`INSERT INTO deltad_config (pipeline, replica, hash, at) VALUES ($1, $2, $3, @now)`,
				pipeline, replica, hash); err != nil {
				return err
			}
			if mine, found, err = readConfig(q, ` WHERE pipeline = $1 AND replica = $2`, pipeline, replica); err != nil {
				return err
			}
			if !found {
				return fmt.Errorf("configuration of replica %s vanished", replica)
			}
		}
		newest, _, err = readConfig(q, newestConfig, pipeline)
		return err
	})
	return mine, newest, err
}

// NewestConfig is the newest registration. See [watermark.ConfigOrder].
func (s configs) NewestConfig(ctx context.Context, pipeline string) (watermark.ConfigRegistration, error) {
	var newest watermark.ConfigRegistration
	err := s.c.view(ctx, "read newest configuration of "+pipeline, func(q *query) error {
		var found bool
		var err error
		newest, found, err = readConfig(q, newestConfig, pipeline)
		if err == nil && !found {
			err = watermark.ErrNotFound
		}
		return err
	})
	return newest, err
}

// UnregisterConfig forgets a replica. See [watermark.ConfigOrder].
func (s configs) UnregisterConfig(ctx context.Context, pipeline, replica, hash string) error {
	if err := checkConfig(pipeline, replica, hash); err != nil {
		return err
	}
	return s.c.update(ctx, "unregister configuration of "+pipeline, func(q *query) error {
		_, err := q.exec(`DELETE FROM deltad_config WHERE pipeline = $1 AND replica = $2 AND hash = $3`, pipeline, replica, hash)
		return err
	})
}
